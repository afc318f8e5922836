"""A static site of a store: all of it is there, nothing of it leads elsewhere."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from browsing import Browser
from iotrial.cli.main import status
from iotrial.errors import FormatError, UsageError
from iotrial_store.folder import made_again
from iotrial_store.model import ResultStore
from iotrial_store.site import check_site_folder
from nightly import PlantedChange, first, nights
from old_results import DATA, unpacked

OLD = ("race", "hosts", "staged", "imported-table", "troubled")
LINK = re.compile(r'\b(?:href|src)="?([^">\s]*)')


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of two weeks of two studies that change, of one whose name and tag are markup,
    and of old results of other kinds."""
    top = tmp_path_factory.mktemp("fortnight")
    small = PlantedChange(10, 0.85, setting=("queue.nr_requests", "64"), level="none")
    kernel = PlantedChange(10, 0.9, kernel="6.12.1")
    both = (*nights(first(top, "setting"), top, 14, (small,), seed=1),
            *nights(first(top, "kernel"), top, 14, (kernel,), seed=2))  # fmt: skip
    (odd,) = nights(first(top, "<script>alert(1)<"), top, 1)
    store = f"file:{top}/store"
    assert status(["push", *map(str, both), "--store", store]) == 0
    assert status(["push", str(odd), "--store", store, "--tag", "<script>tag"]) == 0
    old = [unpacked(DATA / f"results-0.1.0/{name}.tar.xz", top / name) for name in OLD]
    assert status(["push", *map(str, old), "--store", store]) == 0
    return store


@pytest.fixture(scope="module")
def site(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "a site"
    assert status(["site", "--store", url, "--out", str(out)]) == 0
    return out


def test_every_link_leads_to_a_page_and_nothing_leads_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(list((site / "results").iterdir())) == 29 + len(OLD)
    reached = {site / "index.html"}
    for page in pages:
        text = page.read_text()
        assert not re.search(r"(?:src|href|url)[=(]\W*(?:https?:|//)", text), page
        assert "<script>alert" not in text
        assert "<script>tag" not in text
        for link in map(unescape, LINK.findall(text)):
            path, _, place = link.partition("#")
            there = (page.parent / unquote(path)).resolve() if path else page
            assert there in pages, f"{page.name}: {link}"
            reached.add(there)
            ids = re.findall(r'\bid="?([\w.-]+)', there.read_text() if place else "")
            assert not place or place in ids, f"{page.name}: {link}"
    assert reached == set(pages)


def test_changes_are_on_the_page_of_their_study(site: Path) -> None:
    setting, kernel = (
        (site / f"studies/{name}.html").read_text() for name in ("setting", "kernel")
    )
    assert "settings: queue.nr_requests was 128, is 64" in re.sub(r" on loop\d+", "", setting)
    assert "<li>kernel was 6.18.0-fake, is 6.12.1 (fake)</li>" in kernel
    assert (setting.count('class="verdict worse"'), kernel.count('class="verdict worse"')) == (1, 2)
    index = (site / "index.html").read_text()
    assert index.count('<span class="verdict worse">worse ') == 2
    assert "&lt;script&gt;alert(1)&lt;" in index


def test_a_site_is_replaced_and_nothing_else_is(url: str, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / "mine").touch()
    assert status(["site", "--store", url, "--out", str(out)]) == 2
    (out / "mine").unlink()
    assert status(["site", "--store", url, "--out", str(out)]) == 0
    pages = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.html")}
    assert pages == {path.relative_to(site): path.read_bytes() for path in site.rglob("*.html")}
    assert status(["site", "--store", url, "--out", str(out), "--study", "kernel"]) == 0
    assert [path.name for path in (out / "studies").iterdir()] == ["kernel.html"]
    assert status(["site", "--store", url, "--out", str(out), "--study", "none"]) == 2
    assert (out / "index.html").is_file(), "what was there stays"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_folder_that_is_damaged_leaves_the_others_readable(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def damaged(store: ResultStore, result: str, into: Path) -> None:
        made.append(result)
        if len(made) == 1:
            raise FormatError(f"{into}/plan.jsonl: line 1: <b>")
        made_again(store, result, into)
        if len(made) == 2:
            (into / "measurements.jsonl").write_text("<b>\n")

    monkeypatch.setattr("iotrial_store.site.made_again", damaged)
    assert status(["site", "--store", url, "--out", str(tmp_path / "s"), "--study", "kernel"]) == 0
    pages = [(tmp_path / f"s/results/{name}.html").read_text() for name in made]
    assert len(pages) == 14
    assert re.search("<p>[0-9a-f]{16}/plan.jsonl: line 1: &lt;b&gt;</p>", pages[0])
    assert re.search("<p>[0-9a-f]{16}/", pages[1])
    assert ["No report" in page for page in pages] == [True, True] + 12 * [False]


def test_a_mount_point_is_refused_with_a_folder_in_it_named() -> None:
    with pytest.raises(UsageError, match="is a mount point") as found:
        check_site_folder(Path("/proc"))
    assert "--out /proc/site" in found.value.advice


def test_it_tells_on_stderr_how_many_reports_there_are(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iotrial_store.cli.site._EVERY", 0.0)
    words = ["site", "--store", url, "--out", str(tmp_path / "s"), "--study", "kernel"]
    assert status(words) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == [f"{number}/14" for number in range(1, 15)]
    assert all("ETA" in line for line in lines[1:-1])
    assert re.search("kernel 2026-(09|10)-[0-9]{2}$", lines[0])
    assert status([*words, "--quiet"]) == 0
    assert not capfd.readouterr().err


@pytest.mark.browser
def test_in_a_browser_the_search_filters_and_a_phone_shows_all_of_it(
    site: Path, browser: str, tmp_path: Path
) -> None:
    with Browser(browser, tmp_path / "profile") as opened:
        tab = opened.tab(390, 800)
        pages = [site / "index.html", *sorted((site / "studies").iterdir())]
        for page in [*pages, next((site / "results").iterdir())]:
            tab.go(page.as_uri())
            assert tab.see("document.documentElement.scrollWidth") <= 390, page
        tab.go(pages[0].as_uri())
        shown = "[...document.querySelectorAll('tbody tr')].filter(r => r.offsetHeight).length"
        assert tab.see(shown) == len(pages) - 1
        typed = (
            "f = document.querySelector('input'); f.value = %r; f.dispatchEvent(new Event('input'))"
        )
        tab.see(typed % "KERNEL fake")
        assert tab.see(shown) == 1
        tab.see(typed % "")
        assert tab.see(shown) == len(pages) - 1
        assert not [each for each in opened.events if each.get("method") == "Log.entryAdded"]
