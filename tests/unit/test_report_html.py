"""The page: whole in one file, safe against what names may hold, fast for ten thousand trials."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import factories
from iotrial.judgement import completed
from iotrial.model.finding import Comparison
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.report.study import html as page
from iotrial.report.verdicts import STRIP, strip_scale
from iotrial.report.view import view
from iotrial.report.words import IntervalScale, headline, scale

pytestmark = pytest.mark.charts

RESULTS = factories.results()
VIEW = view(completed(RESULTS, factories.comparison(RESULTS)))
PAGE = ""
VOID = {"meta", "br", "img", "link", "hr", "input"}
OPTIONAL = {"td", "tr", "th", "li", "p"}
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><script>alert(2)</script>",
    "</script><img src=http://192.0.2.1/x onerror=alert(3)>",
    '"onmouseover="alert(4)',
    "'><svg onload=alert(5)>",
    "javascript:alert(6)",
    "{{ 7*7 }}{% raw %}",
    "--><!--",
    "größe \u202e gnp \x1b[2J \x00 \udc80 ✓",
)


@pytest.fixture(scope="module", autouse=True)
def _drawn() -> None:
    """It is drawn for these tests alone, not by each process that only collects them."""
    globals()["PAGE"] = page(VIEW)


class Page(html.parser.HTMLParser):
    """Every tag with its attributes, and the text outside style and script, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag:
            assert self.open.pop() in OPTIONAL, f"</{tag}> closes what is not open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1] not in ("style", "script"):
            self.texts.append((self.open[-1], data.strip()))


def attributes(text: str) -> Iterator[tuple[str, str, str]]:
    for tag, found in Page(text).tags:
        for name, value in found.items():
            yield tag, name, value


def test_the_page_is_well_formed() -> None:
    assert Page(PAGE).open == []


def test_ids_are_unique() -> None:
    ids = [value for _, name, value in attributes(PAGE) if name == "id"]
    assert len(set(ids)) == len(ids)


def test_the_metrics_of_one_workload_are_told_apart() -> None:
    part = VIEW.parts[0]
    both = (part, dataclasses.replace(part, metric=metric("read.bw")))
    found = Page(page(dataclasses.replace(VIEW, parts=both))).texts
    names = [f"{part.workload}: {each.metric.title}" for each in both]
    assert len(set(names)) == len(names)
    for tag in ("a", "h2"):
        told = [text for where, text in found if where == tag and text.startswith(part.workload)]
        assert told == names, tag


def test_every_link_within_the_page_arrives() -> None:
    ids = {value for _, name, value in attributes(PAGE) if name == "id"}
    inner = {v[1:] for _, n, v in attributes(PAGE) if n == "href" and v.startswith("#")}
    assert inner
    assert inner <= ids


def test_the_answer_is_the_first_thing_in_the_body() -> None:
    texts = Page(PAGE).texts
    first = next(place for place, (tag, _) in enumerate(texts) if tag != "title")
    assert texts[first] == ("h1", headline(VIEW.answer)[0].replace(" %", "\u00a0%"))


def test_nothing_is_fetched_from_anywhere() -> None:
    for tag, name, value in attributes(PAGE):
        assert name not in ("src", "srcset", "data", "poster", "action", "background"), tag
        if name in ("href", "xlink:href"):
            assert value.startswith(("#", "trials/"))
    assert not re.search(r"@import|url\(", PAGE)
    assert re.findall(r"https?://[^\s\"<]+", PAGE.replace("http://www.w3.org/2000/svg", "")) == []


def policy(text: str) -> dict[str, str]:
    meta = next(found["content"] for tag, found in Page(text).tags if found.get("http-equiv"))
    return {part.split()[0]: " ".join(part.split()[1:]) for part in meta.split(";")}


def test_the_policy_forbids_everything_but_the_pages_own_style_and_script() -> None:
    rules = policy(PAGE)
    assert rules["default-src"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not [n for _, n, _ in attributes(PAGE) if n == "style" or n.startswith("on")]


def test_each_number_of_the_trial_table_links_to_its_raw_file() -> None:
    for record in RESULTS.records:
        href = f'href="trials/{record.trial.folder}/fio.json"'
        assert PAGE.count(href) == (0 if record.state == "failed" else 2)
        assert f'href="trials/{record.trial.folder}/stdout"' in PAGE
        assert f'href="trials/{record.trial.folder}/command"' in PAGE


@pytest.mark.parametrize(
    ("parts", "leads"),
    [
        (("box1/d \udcff",), ("box1/d%20%FF/command", "box1/d%20%FF/stdout")),
        (("box1/disk", "box2/disk"), ("",)),
    ],
)
def test_a_trial_of_parts_links_to_where_their_files_are(
    parts: tuple[str, ...], leads: tuple[str, ...]
) -> None:
    first, *rest = RESULTS.records
    records = (dataclasses.replace(first, parts=parts), *rest)
    results = dataclasses.replace(RESULTS, records=records)
    shown = page(view(completed(results, factories.comparison(results))))
    folder = f"trials/{first.trial.folder}/"
    links = [v for _, n, v in attributes(shown) if n == "href" and v.startswith(folder)]
    assert [link for link in links if not link.endswith(".json")] == [
        f"{folder}{lead}" for lead in leads
    ]


def test_links_follow_the_results_folder() -> None:
    moved = page(VIEW, folder="../a b/javascript:x")
    links = {v for _, n, v in attributes(moved) if n == "href" and not v.startswith("#")}
    assert all(link.startswith("../a%20b/javascript%3Ax/trials/") for link in links)


def test_what_a_reader_needs_to_believe_it_is_there() -> None:
    texts = "\n".join(text for _, text in Page(PAGE).texts)
    for said in (
        "6.18.4-amd64", "AMD EPYC 7R13 Processor", "fio-3.39", "loop117",
        "/var/tmp/iotrial/disk.img", "fio --output=fio.json", "before the study",
        "queue.nr_requests", "EXCLUDED", "smallest detectable difference 1.2 %", "Question: ",
        "Randomised complete blocks", "io_uring_queue_init", 'question = "Which',
    ):  # fmt: skip
        assert said in texts, said


def hostile(name: str) -> tuple[Results, Comparison]:
    """A study in which everything that a person, a host or a file can name is ``name``."""

    def records() -> Iterator[Any]:
        for record in RESULTS.records:
            trial = dataclasses.replace(
                record.trial, workload=name, treatment=((name, name),), target=name, id=name
            )
            yield dataclasses.replace(
                record,
                trial=trial,
                command=(name, name),
                before=((name, name, name),),
                error=name if record.error else "",
                doubts=(Doubt(name, name, name),),
                measurements=tuple(dataclasses.replace(m, raw=name) for m in record.measurements),
            )

    study = dataclasses.replace(
        RESULTS.study,
        name=name,
        workloads=(dataclasses.replace(RESULTS.study.workloads[0], name=name),),
        decide=dataclasses.replace(RESULTS.study.decide, primary=((name, "read.iops"),)),
        text=name,
        digest=name,
    )
    devices = {name: {name: name, "queue": {name: name}, "legs": [name]}}
    facts = {name: {name: name, "programs": {name: name}, "devices": devices}}
    comparison = factories.comparison(RESULTS)
    finding = dataclasses.replace(
        comparison.findings[0], workload=name, factor=name, level=name, baseline=name
    )
    other = dataclasses.replace(finding, primary=False, metric="read.clat.p99")
    results = Results(
        RESULTS.folder, study, (), tuple(records()), facts, {}, (Doubt(name, name, name),)
    )
    second = dataclasses.replace(finding, primary=False, secondary=True, metric=name)
    told = Comparison(name, (finding, other), name, name, ((name, 0.01),), secondary=(second,))
    return results, told


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name: str) -> None:
    made = page(view(completed(*hostile(name))))
    made.encode()
    found = Page(made)
    assert found.open == []
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 1
    assert len([tag for tag, _ in found.tags if tag == "style"]) == 1
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in Page(PAGE).tags} | {"tspan"}
    for _, attribute, value in attributes(made):
        assert not attribute.startswith("on")
        assert attribute != "href" or value.startswith(("#", "trials/"))
    assert "\x1b" not in made
    assert "\x00" not in made
    assert "\u202e" not in made


def test_template_text_in_a_name_is_not_a_template() -> None:
    assert "{{ 7*7 }}" in page(view(completed(*hostile("{{ 7*7 }}"))))


def test_a_study_without_findings_is_a_page_too() -> None:
    empty = dataclasses.replace(RESULTS, planned=(), records=(), facts={}, doubts=())
    made = page(view(completed(empty, Comparison("", (), "", ""))))
    assert Page(made).open == []
    assert "No findings" in made
    assert "No facts recorded" in made


SPEED = """
import sys, time, json
import factories
results = factories.many()
comparison = factories.comparison(results)
began = time.process_time()
from iotrial.judgement import completed
from iotrial.report.view import view
from iotrial.report.words import headline
from iotrial.report.study import html
page = html(view(completed(results, comparison)))
print(json.dumps({
    "cpu": time.process_time() - began,
    "bytes": len(page.encode()),
    "rows": page.count("<tr id=t"),
    # Not getrusage: its peak begins with that of the parent, which execve(2) hands on.
    "peak": next(
        int(line.split()[1]) * 1024 for line in open("/proc/self/status") if "VmHWM" in line
    ),
}))
"""


def test_ten_thousand_trials_cost_seconds_and_not_much_memory() -> None:
    """3 s of wall time where nothing else runs (``./dev bench``); here CPU time, with room for
    a busy machine."""
    tests = Path(factories.__file__).parent
    said = subprocess.run(
        [sys.executable, "-c", SPEED], cwd=tests, check=True, capture_output=True, timeout=120
    ).stdout
    cost = json.loads(said)
    assert cost["rows"] == 10_000
    assert cost["cpu"] < 6
    assert cost["peak"] < 400e6
    assert cost["bytes"] < 8e6


def test_the_strips_have_an_axis() -> None:
    (axis,) = re.findall(r'<svg class="strip axis".*?</svg>', PAGE)
    told = re.findall(r'<text x="([0-9.]+)" y="11">([^<]+)</text>', axis)
    places = {name.removesuffix(" %"): float(x) for x, name in told}
    on = scale((each for each in VIEW.findings if each.primary), VIEW.margin, STRIP)
    assert 2 <= len(places) <= 3
    assert "0" in places
    for name, x in places.items():
        ratio = 1 + float(name.replace("−", "-")) / 100
        assert x == pytest.approx(6 + on.place(ratio) * (STRIP - 12), abs=0.1)
    assert told[-1][1].endswith(" %")
    wide = IntervalScale(0.0001, 1e9, STRIP)
    assert 1 <= strip_scale(wide).count("<text") <= 3
