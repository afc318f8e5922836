"""Studies and results folders made to do harm: each is answered by an exit code and words.

No traceback, no raw escape on a terminal, nothing started, nothing written anywhere else.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import signal
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from openpyxl import load_workbook

import foreign
from iotrial.cli.main import status
from iotrial.plan.template import beside, template, templates

pytestmark = [pytest.mark.charts, pytest.mark.usefixtures("state")]

STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 32, ioengine = "libaio", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "bfq"]
[design]
blocks = 3
settle = "0s"
"""
CODES = {0, 1, 2, 3, 5}
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STARTS = {
    "subprocess.Popen", "os.exec", "os.system", "os.posix_spawn", "os.fork", "os.forkpty",
    "pty.spawn",
}  # fmt: skip
BYTECODE = re.compile(r"/__pycache__/[^/]+\.pyc(\.\d+)?$")
"""What Python itself writes where a module is imported for the first time, renamed or not yet."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FOLDERS, PARTS, STUDIES = 750, 10, 400
WITHIN = 20
"""Seconds in which each command line ends, on a machine that is busy with others."""
RECORDINGS = Path(__file__).parents[1] / "data" / "results-0.1.0"
RECORDED = ("imported-table", "imported-fio", "race", "staged", "hosts")


class Canary:
    """What the process does that a reader of results has no business to do."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.home: Path | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.home is None:
            return
        if event in STARTS:
            self.seen.append(f"{event} {arguments!r}")
        elif event == "open":
            name, mode, flags = (*arguments, 0)[:3]
            way = isinstance(flags, int) and flags & WRITES
            # A name without a folder is one below an open folder, which `files` opened.
            text = os.fsdecode(name) if isinstance(name, str | bytes) else ""
            known = text.startswith((str(self.home), "/dev/null")) or "/" not in text
            if way and not known and not BYTECODE.search(text):
                self.seen.append(f"open {text} {mode}")


CANARY = Canary()
sys.addaudithook(CANARY)


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    """Sings where something is started, or written outside of the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    CANARY.seen, CANARY.home = [], tmp_path
    yield CANARY
    CANARY.home = None


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of a run on the pretended machine."""
    here = tmp_path_factory.mktemp("real")
    (here / "study.toml").write_text(STUDY)
    assert (
        status(["run", str(here / "study.toml"), "--pretend", "-q", "--out", str(here / "r")]) == 0
    )
    return here / "r"


class TooLongError(Exception):
    """It hangs."""


def _too_long(number: int, frame: object) -> None:
    del number, frame
    raise TooLongError


def ends(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is wrong with how a command line ended; '' for nothing."""
    former = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(WITHIN)
    try:
        code = status(list(arguments))
    except Exception as error:  # noqa: BLE001 (that is what is looked for)
        place = error.__traceback__
        while place and place.tb_next:
            place = place.tb_next
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place else ""
        capfd.readouterr()
        return f"{type(error).__name__} {where} {str(error)[:80]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
    said = capfd.readouterr()
    if code not in CODES:
        return f"exit {code}"
    if found := RAW.search(said.out + said.err):
        return f"raw {found[0]!r} in {said.out[:200] + said.err[:200]!r}"
    if "Traceback" in said.err:
        return "a traceback"
    return "" if code in {0, 1} or said.err.startswith("iotrial: ") else f"no words: {said.err!r}"


@pytest.fixture(scope="module")
def kinds(real: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Results folders of every kind: a run here, and recorded ones."""
    here = tmp_path_factory.mktemp("kinds")
    for name in RECORDED:
        with tarfile.open(RECORDINGS / f"{name}.tar.xz") as archive:
            archive.extractall(here / name, filter="data")
    return (real, *(next((here / name).rglob("plan.jsonl")).parent for name in RECORDED))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_broken_results_folder_is_answered(
    kinds: tuple[Path, ...],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    canary: Canary,
    part: int,
    times: Callable[[int], int],
) -> None:
    wrong: Counter[str] = Counter()
    for seed in range(part, times(FOLDERS), PARTS):
        dice = random.Random(seed)
        whole = kinds[seed // PARTS % len(kinds)]
        names = sorted(
            str(path.relative_to(whole)) for path in whole.rglob("*")
            if path.is_file() and path.name not in {"report.html", "findings.json"}
        )  # fmt: skip
        seldom = tuple(name for name in names if name.startswith("trials"))
        often = tuple(name for name in names if not name.startswith("trials"))
        folder = foreign.like(whole, tmp_path / "r")
        chosen = (dice.random() < 0.35 and seldom) or often
        how = foreign.broken(folder, chosen, dice)
        if how.startswith("trials"):
            (folder / "measurements.jsonl").unlink(missing_ok=True)
        verb = dice.choice(("compare", "compare", "status", "report", "keep"))
        kind = (
            ["--as", dice.choice(("csv", "json", "md")), "--out", "-"] if verb == "report" else []
        )
        if found := ends(capfd, verb, str(folder), *kind):
            wrong[f"{verb} of {whole.name}, {how}, seed {seed}: {found}"] += 1
    assert not dict(wrong), "\n".join(wrong)
    assert not canary.seen


def test_a_broken_study_is_answered(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    canary: Canary,
    times: Callable[[int], int],
) -> None:
    studies = [STUDY, *(template(name) for name, _ in templates())]
    for name, _ in templates():
        for other, text in beside(name).items():
            (tmp_path / other).write_text(text)
    wrong: Counter[str] = Counter()
    for seed in range(times(STUDIES)):
        dice = random.Random(seed)
        path = tmp_path / "study.toml"
        data = foreign.flipped(dice.choice(studies).encode(), dice)
        path.write_bytes(data)
        if found := ends(capfd, "plan", str(path), "--pretend"):
            wrong[found] += 1
    assert not dict(wrong), "\n".join(wrong)
    assert not canary.seen


# -- text that does something where it is not escaped ----------------------------------------


def spiteful(real: Path, to: Path, spite: str) -> Path:
    """The folder with this text in every text that is not one of a known set: the question,
    facts, doubts, errors, commands, settings, targets, hosts, raw files' names."""
    folder = foreign.like(real, to)
    study = folder / "study.toml"
    study.write_text(study.read_text().replace('"Which scheduler?"', json.dumps(spite)))
    head, *lines = map(json.loads, (folder / "plan.jsonl").read_text().splitlines())
    write_lines(folder / "plan.jsonl", [head | {"study": spite}, *lines])
    rows = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["trial"] |= {"target": spite, **({"host": spite} if number == 2 else {})}
        row |= {"tool": spite, "command": [spite, spite], "source": f"originals/{spite}"}
        row["doubts"] = [[spite, spite, spite, number == 0]]
        row["writers"] = [[spite], [spite]]
        row["before"] = row["after"] = json.dumps([[spite, spite, spite], [spite, "x", "y"]])
        told = row["values"].items()
        row["values"] = {name: [v, spite, censored, u] for name, (v, _, censored, u) in told}
        row.update({"state": "failed", "error": spite} if number == 1 else {})
    write_lines(folder / "measurements.jsonl", rows)
    for path in (folder / "hosts").glob("*.json"):
        facts = foreign.texts(json.loads(path.read_text()), lambda _: spite)
        facts |= {"memory": 1 << 30, spite: {spite: spite}, "baselines": {"scheduler": "none"}}
        facts["doubts"] = [{"check": spite, "what": spite, "advice": spite}]
        path.write_text(json.dumps(facts))
        path.rename(path.with_name(f"{spite.replace('/', '_').replace(chr(0), '')[:60]}.json"))
    return folder


def imported(here: Path, spite: str) -> Path:
    """Results of others, whose names of factors, levels and loads are this text."""
    table, folder = here / "table.csv", here / "imported"
    with table.open("w", newline="", encoding="utf-8") as file:
        write = csv.writer(file).writerow
        write(["workload", f"f {spite}", "IOPS", "bw MiB/s"])
        for number in range(6):
            write([spite, f"{number % 2}{spite}", 1000 + 10 * number, 5])
            write([spite, spite, 900 + 10 * number, 4])
    code = status(["import", str(table), "--out", str(folder), "-q"])
    return folder if code == 0 else Path()


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Tags(HTMLParser):
    """The elements of a page, each with the names of its attributes; links; what scripts say."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shapes: set[tuple[str, tuple[str, ...]]] = set()
        self.links: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shapes.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.links |= {str(value) for name, value in attrs if name in {"href", "src", "xlink:href"}}
        refreshes = tag == "meta" and ("http-equiv", "refresh") in attrs
        assert not refreshes


def shapes(text: str) -> set[str]:
    """Tag and attributes of every element, in words."""
    found = Tags(text)
    for link in found.links:
        assert not re.match(r"\s*[a-z]+:|//", link, re.IGNORECASE), link
        assert ".." not in link
    return {f"{tag} {' '.join(names)}" for tag, names in found.shapes}


def rendered(text: str) -> set[str]:
    """The elements that Markdown becomes."""
    return shapes(MarkdownIt("commonmark").enable("table").render(text))


def cells_are_inert(path: Path) -> None:
    for sheet in load_workbook(path).worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                assert cell.data_type != "f", cell.value
                if isinstance(cell.value, str) and cell.value.startswith(("=", "+", "-", "@")):
                    assert cell.quotePrefix, cell.value


def fields_are_inert(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for field in row:
            assert not re.match(r"[\s]*[=+@\t\r]|-[^0-9]|-[0-9.]*[^0-9.e+-]", field), field
            assert not RAW.search(field)


_PLAIN = "plain"


@pytest.fixture(scope="module")
def harmless(real: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The elements of the reports of folders whose texts are one harmless word."""
    here = tmp_path_factory.mktemp("harmless")
    found: dict[str, set[str]] = {}
    for kind, folder in (
        ("run", spiteful(real, here / "run", _PLAIN)), ("import", imported(here, _PLAIN)),
    ):  # fmt: skip
        for form, read in (("html", shapes), ("md", rendered)):
            out = here / f"{kind}.{form}"
            assert status(["report", str(folder), "-q", "--out", str(out)]) == 0
            found[f"{kind} {form}"] = read(out.read_text())
    return found


@pytest.mark.parametrize("kind", ["run", "import"])
@pytest.mark.parametrize("spite", foreign.SPITE, ids=range(len(foreign.SPITE)))
def test_no_text_of_a_folder_becomes_anything_else(
    spite: str,
    kind: str,
    real: Path,
    harmless: dict[str, set[str]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    canary: Canary,
) -> None:
    folder = spiteful(real, tmp_path / "r", spite) if kind == "run" else imported(tmp_path, spite)
    capfd.readouterr()
    if not folder.name:
        return  # no name is made of it: said at the import
    said = {
        verb: ends(capfd, *verb.split(), str(folder))
        for verb in ("compare", "status", "keep", "compare --json", "status --json",
                     "report --as html", "report --as xlsx", "report --as junit",
                     "report --as json --out -", "report --as md --out -")
    }  # fmt: skip
    assert {verb: what for verb, what in said.items() if what} == {}
    assert shapes((folder / "report.html").read_text()) <= harmless[f"{kind} html"]
    assert status(["report", str(folder), "--as", "md", "-q"]) == 0
    assert rendered((folder / "report.md").read_text()) <= harmless[f"{kind} md"]
    cells_are_inert(folder / "report.xlsx")
    ET.fromstring((folder / "report.xml").read_text())  # noqa: S314 (ours)
    assert status(["report", str(folder), "--as", "csv", "-q"]) == 0
    fields_are_inert((folder / "report.csv").read_text())
    assert not canary.seen


@pytest.mark.parametrize("spite", foreign.SPITE[:5])
def test_a_state_is_one_of_those_there_are(
    spite: str, real: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = foreign.like(real, tmp_path / "r")
    (folder / "measurements.jsonl").unlink()
    path = next(iter(sorted(folder.glob("trials/*/trial.json"))))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"state": spite}))
    for verb in ("report", "compare", "status"):
        assert status([verb, str(folder)]) == 2
        said = capfd.readouterr().err
        assert f"{path}: state: Input should be 'valid', 'invalid' or 'failed'" in said
