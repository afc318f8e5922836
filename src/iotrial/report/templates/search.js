{
  const table = document.querySelector("table");
  const label = document.createElement("label"), field = document.createElement("input");
  const count = document.createElement("span");
  label.className = "search";
  count.setAttribute("role", "status");
  field.type = "search";
  label.append("Search ", count, field);
  table.parentNode.before(label);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = field.value ? `(${shown} of ${table.tBodies[0].rows.length})` : "";
  });
}
