"""What results of an earlier version come to: as it was recorded then, and as it is found now."""

from __future__ import annotations

import math
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imitation import Client
from iotrial.cli.output import json_text
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_on
from iotrial.hosts.fake import FakeHost
from iotrial.judgement import Judged, judge
from iotrial.model.event import Tell, ignore
from iotrial.model.host import Host
from iotrial.model.study import Study, StudyHost
from iotrial.report.document import whole
from iotrial.report.junit import junit
from iotrial.report.study import html, markdown
from iotrial.report.trials import csv, parquet
from iotrial.report.view import ReportView, view
from iotrial.report.xlsx import xlsx
from iotrial.store import open_results
from iotrial_suites.session.session import HEADER, checked

DATA = Path(__file__).parent / "data"
Verb = Callable[..., dict[str, Any]]
"""Does what the words say, and gives back the one JSON document."""
COUNTS = ("planned", "valid", "invalid", "failed", "missing", "at_most")
WORDS = {
    "advice",
    "at",
    "method",
    "question",
    "recommendation",
    "said",
    "says",
    "text",
    "told",
    "tools",
    "what",
    "why",
    "words",
}
"""Keys of sentences, which may be put better, and of what is no finding."""


Shape = Callable[[ReportView, Judged], str | bytes]
SHAPES: dict[str, Shape] = {
    "html": lambda seen, _: html(seen),
    "md": lambda seen, _: markdown(seen),
    "json": lambda _, judged: json_text(whole(judged)),
    "junit": lambda seen, _: junit(seen),
    "csv": lambda _, judged: csv(judged.results),
    "parquet": lambda _, judged: parquet(judged.results),
    "xlsx": lambda seen, judged: xlsx(seen, judged.results),
}
"""All shapes of a report; each of them once judged, where the verb judges for each."""


def recordings(ends: str) -> Iterator[tuple[str, Path]]:
    """Name and path of each recording of this kind, of every version."""
    for path in sorted(DATA.glob(f"results-*/*{ends}")):
        yield f"{path.parent.name}/{path.name.removesuffix(ends)}", path


def unpacked(path: Path, folder: Path) -> Path:
    """The results folder of a recording, in a folder that may be changed."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder / "results"


def seen_in(folder: Path) -> tuple[ReportView, Judged]:
    judged = judge(open_results(folder))
    return view(judged), judged


def pretended(study: Study, folder: Path, tell: Tell = ignore) -> None:
    """Execute what is missing of a study on pretended machines, as ``run --pretend`` does; they
    know the daemon that recorded studies set."""

    @contextmanager
    def reach(place: StudyHost) -> Iterator[Host]:
        several = len(study.places) > 1
        host = FakeHost(seed=zlib.crc32(place.name.encode()) if several else 1, parts=[Client])
        host.name = place.name if several else host.name
        yield host

    with Interruption() as stop:
        execute_on(study, reach, folder, tell=tell, interruption=stop, in_turn=True)


def expected_of(folder: Path, do: Verb) -> dict[str, Any]:
    """The verdicts and numbers of a results folder."""
    if (folder / HEADER).is_file():
        return {"kind": "checks", "checks": list(checks_of(folder))}
    said = do("status", str(folder))
    found: dict[str, Any] = {"kind": "study", "status": {name: said[name] for name in COUNTS}}
    return {**found, "compare": essence(do("compare", str(folder)))}


def checks_of(folder: Path) -> Iterator[list[Any]]:
    session = checked(folder)
    for each in session.results:
        commands = session.commands.get(each.key, ())
        yield [*each.key, each.state, len(commands), each.key in session.logs]


def essence(said: Any) -> Any:  # noqa: ANN401 (JSON)
    """A document without its sentences."""
    if isinstance(said, dict):
        return {name: essence(value) for name, value in said.items() if name not in WORDS}
    return [essence(each) for each in said] if isinstance(said, list) else said


def differing(then: Any, now: Any, at: str = "") -> Iterator[str]:  # noqa: ANN401 (JSON)
    """Where something is no longer as it was.  What is new in a document is no difference."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name, value in then.items():
            if name in now:
                yield from differing(value, now[name], f"{at}.{name}")
            else:
                yield f"{at}.{name}: missing"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differing(one, other, f"{at}[{number}]")
    elif isinstance(then, float) and isinstance(now, float | int):
        # Libraries of mathematics differ in the last digits, more so where they integrate.
        if not math.isclose(then, now, rel_tol=1e-4, abs_tol=1e-12):
            yield f"{at}: {then} is {now}"
    elif then != now:
        yield f"{at}: {then!r} is {now!r}"
