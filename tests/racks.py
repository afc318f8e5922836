"""Several boxes of :mod:`lab`, and studies that run on them: for tests of many hosts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from lab import Box

LEASE = 5
"""Seconds that a box waits for a controller of which nothing is heard."""
JOURNALS = "/var/lib/iotrial/journal.d"


@dataclass
class Rack:
    """Boxes, the folder of the controller, and what it ran."""

    boxes: tuple[Box, ...]
    folder: Path
    runs: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def of(cls, boxes: tuple[Box, ...], folder: Path) -> Iterator[Self]:
        """A rack whose runs are ended, and whose links are mended, at the end."""
        made = cls(boxes, folder)
        yield made
        for run in made.runs:
            if run.poll() is None:
                run.terminate()
            run.communicate(timeout=200)
        for box in boxes:
            box.mend()

    @property
    def out(self) -> Path:
        return self.folder / "results"

    def hosts(self, count: int | None = None) -> str:
        """What a study says of the first so many boxes."""
        return "".join(
            f'[hosts.{box.name}]\nssh = "{box.where}"\nlease = "{LEASE}s"\n{self.more(box)}'
            for box in self.boxes[:count]
        )

    def more(self, box: Box) -> str:  # noqa: ARG002 - for those who have more to say of a box
        """More keys of a box in a study."""
        return ""

    def run(self, study: Path) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(self.out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.runs.append(run)
        return run

    def trials(self) -> list[dict[str, Any]]:
        """The records of all trials that have ended."""
        files = sorted((self.out / "trials").glob("*[!l]/trial.json"))
        return [json.loads(file.read_text()) for file in files]

    def owing(self) -> dict[str, str]:
        """What journals are left, by box; none where nothing is owed."""
        found = {
            box.name: box.run("sh", "-c", f"ls -A {JOURNALS} 2>/dev/null || :")
            for box in self.boxes
        }
        return {name: said for name, said in found.items() if ".journal" in said}

    def loops(self) -> list[str]:
        """Loop devices over files of the rack's; others may come and go."""
        files = Path("/sys/block").glob("loop*/loop/backing_file")
        return [str(file) for file in files if _said(file).startswith(str(self.folder))]

    def loads(self, box: Box) -> list[int]:
        """fio processes in a box that read at random."""
        return [
            pid
            for pid in box.processes()
            if words(pid)[:1] == [b"fio"] and b"--rw=randread" in words(pid)
        ]


def words(pid: int) -> list[bytes]:
    """The command line of a process; empty where it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _said(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def until(
    happened: Callable[[], Any], run: subprocess.Popen[str] | None = None, within: float = 200
) -> Any:  # noqa: ANN401
    """What ``happened``, as soon as it has, while the ``run`` goes on."""
    deadline = time.monotonic() + within
    while not (found := happened()):
        if run is not None and run.poll() is not None:
            pytest.fail(f"the run has ended: {run.communicate()}")
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and all that it said, when it has come to its end."""
    said, complaint = process.communicate(timeout=200)
    return process.returncode, f"{said}\n{complaint}"
