"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.s ?? cell.textContent;
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return a - b || (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : 0);
  };
  for (const head of table.tHead.rows[0].cells) {
    if (head.classList.contains("unsorted")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, head.cellIndex), row]);
      rows.sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
      body.append(...rows.map(([, row]) => row));
    });
  }
}
