"""Record small results of this version, to be read by all later ones (tests/unit/test_old_results).

    cd tests/recording && ../../.venv/bin/python record.py [real] [PATTERN…]

Recordings go into ``tests/data/results-VERSION``.  What is there already is left alone: a recording
is never made again.  Those below ``real`` need root, fio and loop devices.
"""

from __future__ import annotations

import fnmatch
import io
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import lives  # noqa: E402 (tests are no package)
import real  # noqa: E402

from iotrial import __version__  # noqa: E402
from iotrial.cli.main import status  # noqa: E402
from iotrial.execute.interruption import Interruption  # noqa: E402
from iotrial.execute.runner import execute_study  # noqa: E402
from iotrial.hosts.fake import FakeHost  # noqa: E402
from iotrial.model.event import Event, LoadProgress, SettingsInForce, TrialEnded  # noqa: E402
from iotrial.plan.aa import as_aa  # noqa: E402
from iotrial.plan.load import load_study  # noqa: E402
from old_results import expected_of, pretended  # noqa: E402

STUDIES = HERE / "studies"
DATA = HERE.parent / "data"
OUT = DATA / f"results-{__version__}"
FIO = DATA / "fio"
HALF = {
    "full": 7,
    "race": 9,
    "staged": 14,
    "hosts": 5,
    "blocks-over-hosts": 3,
    "knobs": 4,
    "jobfile": 1,
    "inventory": 1,
    "saturate": 20,
    "aa": 3,
    "hard-factor": 5,
}
"""Studies that are also recorded half-done: killed in the trial after so many."""
MORE = {"aa": ["--aa", "--blocks", "4"], "race-of-many": ["--prior", "../race-decided/results"]}


NEEDED = ("race-decided", "saturate")
"""Others begin with what these leave."""


def cli(*words: str) -> dict[str, Any]:
    """The one JSON document of a verb, which must end well."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()) as complaints:
        code = status([*words, "--json"])
    if code not in (0, 1):
        sys.exit(f"iotrial {' '.join(words)}: exit {code}\n{complaints.getvalue()}")
    document: dict[str, Any] = json.loads(said.getvalue())
    return document


class Dying:
    """Kills the controller, as ``kill -9`` does, when so many trials are done and the settings of
    the next one hold."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialEnded):
            self.left -= 1
        elif isinstance(event, SettingsInForce) and self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Meddling:
    """Another program writes to the disk's settings in one trial, and ends the load of another."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host

    def __call__(self, event: Event) -> None:
        if not isinstance(event, LoadProgress):
            return
        trial = event.trial
        if trial.number == 2:
            self.host.meddle("/sys/block/fake0/queue/nr_requests", b"64")
        for pid in list(self.host.machine.tasks) if trial.number == 4 else ():
            self.host.machine.end(pid, -9)


def finished(name: str) -> None:
    if name == "troubled":
        host = FakeHost()
        study = load_study(Path("study.toml"))
        with Interruption() as stop:
            execute_study(study, host, Path("results"), tell=Meddling(host), interruption=stop)
    elif name == "knobs":  # it sets a daemon that `--pretend` does not have
        study = replace(load_study(Path("study.toml")), pretended=True)
        pretended(study, Path("results"))
    elif name == "saturate":
        words = ["--size", "16MiB", "--p99", "50ms", "--engine", "libaio", "--pretend"]
        cli("saturate", "loop", *words, "--out", "results")
        shutil.copy("results/study.toml", "study.toml")
    else:
        cli("run", "study.toml", "--pretend", "--out", "results", *MORE.get(name, ()))


def killed(name: str, after: int) -> None:
    """Begun in another process, which kills itself."""
    study = load_study(Path("study.toml"))
    if name == "aa":
        study = as_aa(study, 2, 4)
    if not (child := os.fork()):
        pretended(study, Path("results"), Dying(after))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        sys.exit(f"{name} came to its end")


def imported(name: str) -> None:
    if name == "imported-fio":
        for case in ("randread", "steady", "mix"):
            shutil.copy(FIO / case / "fio.json", f"{case}.json")
        cli("import", *sorted(path.name for path in Path().glob("*.json")), "--out", "results")
    else:
        Path("table.csv").write_text(
            "scheduler;depth;run;read iops;p99 us\n"
            "none;1;1;10500;120\nnone;1;2;10650;118\nnone;32;1;80100;900\nnone;32;2;79500;930\n"
            "bfq;1;1;9800;130\nbfq;1;2;9950;133\nbfq;32;1;61000;1500\nbfq;32;2;60200;1490\n"
        )
        cli("import", "table.csv", "--baseline", "scheduler=none", "--out", "results")


def pack(name: str) -> None:
    """The folder we are in, as an archive: with its empty folders and modes, which git forgets."""
    expected = json.dumps(expected_of(Path("results"), cli), indent=1, ensure_ascii=False)
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:xz", preset=9) as archive:
        for path in sorted(Path().rglob("*")):
            if path.name not in ("report.html", "report.md"):  # derived, and large
                archive.add(path, recursive=False, filter=_nobodys)
    (OUT / f"{name}.tar.xz").write_bytes(text.getvalue())
    (OUT / f"{name}.json").write_text(f"{expected}\n")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def recordings() -> Iterable[tuple[str, Callable[[], None]]]:
    """Name, and what makes ``results`` in the folder we are in, beside the study."""
    for name in (*sorted(path.name for path in STUDIES.iterdir()), "saturate"):
        yield name, lambda name=name: finished(name)  # type: ignore[misc]
        if name in HALF:
            yield f"{name}-half-done", lambda name=name: killed(name, HALF[name])  # type: ignore[misc]
    for name in ("imported-fio", "imported-table"):
        yield name, lambda name=name: imported(name)  # type: ignore[misc]


class Wanted:
    """Which recordings are asked for, and not there yet."""

    def __init__(self, patterns: list[str]) -> None:
        self.patterns = patterns or ["*"]

    def __contains__(self, name: str) -> bool:
        asked = any(fnmatch.fnmatchcase(name, each) for each in self.patterns)
        return asked and not list(OUT.glob(f"{name}.*"))


def on_this_machine(wanted: Wanted) -> None:
    for name, make in real.recordings():
        if name in wanted:
            with real.folder():
                make()
                pack(name)
    if "real" in wanted:
        with real.folder():
            real.owing(OUT / "real.journal")


def on_pretended_machines(wanted: Wanted) -> None:
    with tempfile.TemporaryDirectory() as top:
        for name, make in recordings():
            place = Path(top, name)
            study = STUDIES / name.removesuffix("-half-done")
            if study.is_dir():
                shutil.copytree(study, place)
            place.mkdir(exist_ok=True)
            os.chdir(place)
            if name == "saturate-half-done":
                shutil.copy("../saturate/study.toml", "study.toml")
            if name in wanted or name in NEEDED:
                make()
            if name in wanted:
                pack(name)
        os.chdir(HERE)
    for name, write in lives.recordings():
        if name in wanted:
            write(OUT / name)


def main(words: list[str]) -> None:
    os.environ.pop("IOTRIAL_STATE", None)
    OUT.mkdir(exist_ok=True)
    if words[:1] == ["real"]:
        on_this_machine(Wanted(words[1:]))
    else:
        on_pretended_machines(Wanted(words))


if __name__ == "__main__":
    main(sys.argv[1:])
