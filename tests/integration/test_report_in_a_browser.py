"""The report where it is read: a browser, light and dark, a phone, a printer.

The page is served by a server of the test's own, so that every request it would make is seen.
Beside it lies a probe: a page of the same origin that holds the report in a frame of the wanted
width, looks into it, uses it, and says what it saw as JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import http.server
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import factories
from iotrial.judgement import completed
from iotrial.report.study import html as page
from iotrial.report.view import ReportView, view

pytestmark = [pytest.mark.charts, pytest.mark.browser]

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=4000", "--enable-logging=stderr", "--v=0",
)  # fmt: skip
PROBE = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>body { margin: 0 }</style>
<iframe id="frame" src="report.html" style="width:%dpx;height:800px;border:0"></iframe>
<pre id="seen"></pre>
<script>
document.getElementById("frame").addEventListener("load", (event) => {
  const page = event.target.contentDocument, look = event.target.contentWindow.getComputedStyle;
  const table = page.querySelector("table.sortable");
  const first = () => table.tBodies[0].rows[0].id;
  const button = (column) => table.tHead.rows[0].cells[column].querySelector("button");
  const unsorted = first();
  button(0).click(); button(0).click();
  const last = first();
  button(0).focus();
  document.getElementById("seen").textContent = JSON.stringify({
    width: page.documentElement.clientWidth,
    scroll: page.documentElement.scrollWidth,
    wide: [...page.querySelectorAll("figure, table, pre")].filter((box) =>
      !box.closest(".scroll") && box.getBoundingClientRect().right > page.body.clientWidth + 1
    ).length,
    intervals: [...page.querySelectorAll("#verdicts tbody tr:not(:has(th))")].map((row) => {
      const box = [...row.cells].find((cell) => cell.textContent.includes("…"));
      const { left, right, height } = (box || row.cells[2]).getBoundingClientRect();
      return [left, right, height].map(Math.round);
    }),
    answer: page.querySelector("h1").getBoundingClientRect().top,
    ground: look(page.body).backgroundColor,
    ink: look(page.body).color,
    label: look(page.querySelector("svg.chart text")).fill,
    charts: page.querySelectorAll("svg.chart[role=img]").length,
    sorted: [unsorted, last],
    focus: page.activeElement.tagName,
    scripts: page.scripts.length,
    title: page.title,
  });
});
</script>
"""
LEAKY = "<!doctype html><img src='data:image/png;base64,x'><script>console.error('leak')</script>"


class Requests(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and remembers what was asked for."""

    seen: list[str]

    def do_GET(self) -> None:
        self.server.seen.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@dataclasses.dataclass
class Site:
    folder: Path
    address: str
    seen: list[str]
    view: ReportView

    def look(self, width: int, browser: str, *flags: str) -> tuple[dict[str, Any], str]:
        """What the probe saw of the report in a frame ``width`` wide, and the console."""
        (self.folder / "probe.html").write_text(PROBE % width, "utf-8")
        dom, said = run(browser, "--dump-dom", *flags, f"{self.address}/probe.html")
        seen = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
        assert seen, f"the probe saw nothing: {said[-2000:]}"
        return json.loads(html.unescape(seen[1])), said


def run(browser: str, *arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [browser, *FLAGS, *arguments], check=True, capture_output=True, timeout=200
    )
    return done.stdout.decode(), done.stderr.decode("utf-8", "replace")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The report in a folder, served; ``--user-data-dir`` lies beside it."""
    folder = tmp_path / "site"
    folder.mkdir()
    results = factories.results()
    compared = factories.comparison(results)
    long = tuple(  # a name that is as wide as the screen
        dataclasses.replace(each, level=f"{each.level}-with-readahead=4096k-nr_requests=1024")
        for each in compared.findings
    )
    told = view(completed(results, dataclasses.replace(compared, findings=long)))
    (folder / "report.html").write_text(page(told), "utf-8")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Requests, directory=str(folder))
    )
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Site(folder, f"http://127.0.0.1:{server.server_port}", server.seen, told)  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return f"--user-data-dir={tmp_path / 'profile'}"


def complaints(console: str) -> list[str]:
    return [line for line in console.splitlines() if ":CONSOLE:" in line]


def test_it_renders_sorts_and_complains_of_nothing(site: Site, browser: str, profile: str) -> None:
    seen, console = site.look(1100, browser, profile)
    assert complaints(console) == []
    assert seen["title"] == factories.QUESTION
    assert seen["charts"] == 15
    assert seen["sorted"] == ["t1", "t63"]
    assert seen["focus"] == "BUTTON"
    assert seen["answer"] < 100
    assert {path for path in site.seen if path != "/favicon.ico"} == {
        "/probe.html", "/report.html",
    }  # fmt: skip


def test_a_page_that_complains_is_seen_to_complain(site: Site, browser: str, profile: str) -> None:
    (site.folder / "leaky.html").write_text(LEAKY, "utf-8")
    _, console = run(browser, profile, "--dump-dom", f"{site.address}/leaky.html")
    assert complaints(console)


def test_its_policy_stops_what_would_leave_even_if_a_name_got_through(
    site: Site, browser: str, profile: str
) -> None:
    report = site.folder / "report.html"
    smuggled = f"<img src='{site.address}/leak.png'><script src='{site.address}/leak.js'></script>"
    smuggled += "<script>fetch('/leak')</script><style>@import url(/leak.css);</style>"
    report.write_text(report.read_text("utf-8").replace("</header>", smuggled), "utf-8")
    seen, console = site.look(1100, browser, profile)
    assert seen["charts"] == 15
    assert not [path for path in site.seen if "leak" in path]
    assert len(complaints(console)) >= 3


def test_on_a_phone_nothing_scrolls_sideways_but_tables_in_their_boxes(
    site: Site, browser: str, profile: str
) -> None:
    seen, _ = site.look(360, browser, profile)
    assert seen["width"] == 360
    assert seen["scroll"] == 360
    assert seen["wide"] == 0


def test_on_a_phone_every_interval_is_in_sight(site: Site, browser: str, profile: str) -> None:
    seen, _ = site.look(390, browser, profile)
    assert len(seen["intervals"]) == sum(len(part.findings) for part in site.view.parts) > 0
    for left, right, height in seen["intervals"]:
        assert 0 <= left < right <= 390, "without scrolling sideways"
        assert height > 0


def test_it_is_dark_where_the_reader_is(site: Site, browser: str, profile: str) -> None:
    dark, _ = site.look(1100, browser, profile, "--force-dark-mode")
    light, _ = site.look(1100, browser, profile)
    assert (light["ground"], light["ink"]) == ("rgb(255, 255, 255)", "rgb(27, 32, 39)")
    assert (dark["ground"], dark["ink"]) == ("rgb(20, 24, 29)", "rgb(230, 233, 237)")
    assert light["label"] != dark["label"]


def test_it_prints(site: Site, browser: str, profile: str, tmp_path: Path) -> None:
    printed, shot = tmp_path / "report.pdf", tmp_path / "report.png"
    address = f"{site.address}/report.html"
    run(browser, profile, "--no-pdf-header-footer", f"--print-to-pdf={printed}", address)
    run(browser, profile, f"--screenshot={shot}", "--window-size=1100,1500", address)
    pages = re.findall(rb"/Type\s*/Page\b", printed.read_bytes())
    assert printed.read_bytes().startswith(b"%PDF")
    assert 4 <= len(pages) <= 14
    assert shot.stat().st_size > 30_000
