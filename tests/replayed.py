"""Pretended machines whose life is written down, and lived again later.

A *life* is each change that a controller made, as data, up to the moment when it died or ended.
Its journal, profiles and files are among them, byte by byte, as the version of that time wrote
them; so a later version meets the very machine that this one left behind.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from imitation import Client
from iotrial.errors import FileRefused
from iotrial.execute.keep.kept import kept
from iotrial.execute.settings.journal import made_name, sessions
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.commands import changes, meant, program_of
from iotrial.hosts.fake.host import FakeProcess
from iotrial.hosts.fake.parts.mounts import Mounts
from iotrial.hosts.places import journal_folder
from iotrial.model.host import CompletedCommand

OURS = ("/var/lib/iotrial", "/run")
LONGEST_WORD = 400
Step = dict[str, Any]


def text_of(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON: as they are, where they are text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of(text: str | Mapping[str, str]) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])


def _short(word: str) -> str:
    """A pretended machine knows a script by its name, and reads none."""
    return word if len(word) < LONGEST_WORD else "-"


@dataclass
class Life:
    """``before`` is what an administrator had done, ``steps`` what iotrial did.  ``inodes`` are
    those that files had, for journals name them; ``owed`` is what was owed in the end."""

    boot_id: str = ""
    before: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inodes: dict[str, int] = field(default_factory=dict)
    owed: list[list[str]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """One step a line, so that it can be looked at."""
        head = json.dumps({"boot_id": self.boot_id, "inodes": self.inodes, "owed": self.owed})
        lines = [head, *(json.dumps({"before": True, **each}) for each in self.before)]
        lines += [json.dumps(each) for each in self.steps]
        path.write_text("".join(f"{line}\n" for line in lines))

    @classmethod
    def read(cls, path: Path) -> Life:
        head, *rows = map(json.loads, path.read_text().splitlines())
        life = cls(head["boot_id"], inodes=head["inodes"], owed=head["owed"])
        for row in rows:
            (life.before if row.pop("before", False) else life.steps).append(row)
        return life


class Noting(FakeHost):
    """A pretended machine that notes each change asked of it."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 (those of a FakeHost)
        super().__init__(**options)
        self.life = Life(boot_id=self.machine.boot_id)
        self.loads: list[int] = []  # the operations that began one

    def _note(self, do: str, **what: object) -> None:
        if not self._dead:
            self.life.steps.append({"do": do, "at": self.machine.clock, **what})

    def administered(self, path: str, text: str) -> None:
        """An administrator writes a control file, or a file of their own, before all else."""
        row: Step = {"do": "put", "path": path, "data": text}
        self.life.before.append(row)
        _again(self, row, Path())

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        command = meant(argv)
        program = program_of(self.machine, command)
        noted = program and changes(program, command) and not self._dead
        if noted:
            self._note("run", argv=[_short(word) for word in argv], stdin=text_of(stdin))
        done = super().run(argv, stdin=stdin, timeout=timeout)
        if noted:
            self.life.steps[-1]["exit"] = done.exit
        return done

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> FakeProcess:
        self._note("start", argv=list(argv), environment=dict(environment))
        self.loads.append(self.operations + 1)
        return super().start(argv, folder=folder, environment=environment)

    def write(self, path: str, data: bytes) -> None:
        self._note("write", path=path, data=text_of(data))
        with self._refused():
            super().write(path, data)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Note that the kernel refused it."""
        try:
            yield
        except FileRefused as refused:
            self.life.steps[-1]["errno"] = refused.errno
            raise

    def save(self, path: str, data: bytes, *, private: bool = True) -> None:
        self._note("save", path=path, data=text_of(data), private=private)
        super().save(path, data, private=private)

    def append(self, path: str, data: bytes) -> None:
        self._note("append", path=path, data=text_of(data))
        super().append(path, data)

    def remove(self, path: str) -> None:
        self._note("remove", path=path)
        super().remove(path)

    def lived(self) -> Life:
        """All of it, with the inodes of what is there now, and what is owed."""
        self.life.owed = owed_on(self)
        self.life.inodes = {path: file.inode for path, file in self.machine.files.items()}
        return self.life


def owed_on(host: FakeHost) -> list[list[str]]:
    """All debts on a machine: device, tunable and value, or what was made and its name."""
    every = (*sessions(host, journal_folder(host)), *(each.session for each in kept(host)))
    assert not [each.damage for each in every if each.damage]
    settings = (each for session in every for debt in session.settings for each in debt.values)
    rows = [[each.setting.device, each.setting.tunable, each.setting.value] for each in settings]
    made = (each for session in every for each in session.made)
    return [*rows, *([each.what, made_name(each)] for each in made)]


def before(life: Life, folder: Path) -> FakeHost:
    """The machine as it was before iotrial came to it."""
    host = FakeHost(parts=[Client])
    host.machine.boot_id = life.boot_id
    for row in life.before:
        _again(host, row, folder)
    return host


def replayed(life: Life, folder: Path) -> FakeHost:
    """The machine as the controller left it, for another one.  ``folder`` is where its loads
    write."""
    host = before(life, folder)
    for row in life.steps:
        machine = host.machine
        machine.pass_time(row["at"] - machine.clock)
        _again(host, row, folder)
        for path, inode in life.inodes.items():
            if path in machine.files:
                machine.files[path].inode = inode
    host.log.clear()
    return host


def _again(host: FakeHost, row: Step, folder: Path) -> None:
    match row:
        case {"do": "put", "path": path, "data": data}:
            if host.machine.kind(path):
                host.meddle(path, bytes_of(data))
            else:
                host.machine.put(path, bytes_of(data), mode=0o640)
        case {"do": "run", "argv": argv, "stdin": stdin}:
            done = host.run(argv, stdin=bytes_of(stdin))
            # Of the command at which the controller died nobody heard how it ended.
            assert done.exit == row.get("exit", done.exit), f"{argv}: {done.complaint}"
        case {"do": "start", "argv": argv, "environment": environment}:
            host.start(argv, folder=folder, environment=environment)
        case {"do": "write", "path": path, "data": data}:
            with pytest.raises(FileRefused) if "errno" in row else nullcontext():
                host.write(path, bytes_of(data))
        case {"do": "save", "path": path, "data": data, "private": private}:
            host.save(path, bytes_of(data), private=private)
        case {"do": "append", "path": path, "data": data}:
            host.append(path, bytes_of(data))
        case {"do": "remove", "path": path}:
            host.remove(path)
        case _:
            raise ValueError(row)


def behind(host: FakeHost) -> dict[str, object]:
    """All that can be seen of a machine, but for the books of iotrial that owe nothing."""
    there, part = host.machine, host.machine.parts["mount"]
    assert isinstance(part, Mounts)
    kept = (file for file in there.files if not file.startswith(OURS) or "/files/" in file)
    return {
        "settings": host.settings(),
        "folders": sorted(path for path in there.folders if not path.startswith(OURS)),
        "files": {path: (there.files[path].data, there.files[path].mode) for path in sorted(kept)},
        "owing": sorted(path for path in there.files if path.endswith((".journal", ".kept"))),
        "blocks": sorted(there.blocks),
        "mounted": sorted(part.mounted),
        "tasks": sorted(task.argv for task in there.tasks.values()),
    }
