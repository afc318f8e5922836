"""bonnie++: one large file written, rewritten, read and sought in; many small files.

Options, by bonnie++'s letters or by name: s ``size`` (``64M``, ``2G:16k``, ``2*memory``; plain
numbers are MiB), n ``files`` (``16:4096:1024:10``, in multiples of 1024), r ``ram`` (MiB), f
``fast`` (no per-character tests), b ``sync`` (fsync after every write), D ``direct``, c
``concurrency``, z ``seed``, u ``user``.  ``x`` is 1, and not passed (with it there is no
table on stderr): a study repeats by itself, at random.

It works in a folder that iotrial makes for each trial, ``iotrial-bonnie``, and removes after it.

bonnie++ as root wants ``-u``, and as anybody else refuses ``-u root``: ``user`` is root unless
the study says otherwise, and ``user = ""`` leaves it out.  bonnie++ refuses a size below twice
the RAM; here it is told not to (``-r 0``) and a doubt says so, unless ``direct`` or ``ram`` is
given.  No ``--version`` exists: a line of CSV says by which version it was written.

Sources: bonnie++(8) of 2.00a; and seen with 2.00a: ``-D`` fails with the per-character tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from iotrial.errors import IotrialError, UsageError
from iotrial.formats import bonnie
from iotrial.model.tool import (
    LIKELY,
    SLOW,
    AssumedSpeed,
    Leftover,
    Load,
    LoadAccess,
    ParsedOutput,
    ToolTarget,
    inside,
)
from iotrial.model.trial import Doubt
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.expression import evaluate
from iotrial.tools.results import result
from iotrial.units import parse_bytes

_LETTERS = {
    "size": "s", "files": "n", "ram": "r", "fast": "f", "sync": "b", "direct": "D",
    "concurrency": "c", "seed": "z", "user": "u", "x": "x",
}  # fmt: skip
_SWITCHES = frozenset("fbD")
_SHAPES = {
    "n": (r"\d{1,6}(:-?\d{1,10}){0,4}", "a number of files such as 16, or 16:4096:1024:10"),
    "r": (r"\d{1,9}", "a number of MiB"),
    "c": (r"[1-9]\d{0,3}", "a number of processes from 1"),
    "z": (r"\d{1,10}", "a number"),
    "u": (r"([A-Za-z_0-9][\w.-]*(:[A-Za-z_0-9][\w.-]*)?)?", "a user such as root, or user:group"),
    "x": (r"1", "1: a study repeats a load by itself, in random order (blocks)"),
}
_MIB = 2**20
_SMALLEST_CACHE = 2  # times the RAM, as bonnie++ has it
_NOTE = "page-cache"
_SLOW_CHARACTERS = 0.5e6  # bytes/s
_PASSES, _SEEKS, _CHARACTERS, _STARTUP = 4, 8192, 40 * _MIB, 5.0
# Seconds; with 2.00a, whatever the size: the seeks wait so long before they begin, and the tests by
# character last so long.
_LIKELY_PAUSE = 4.0
_CHUNK = 8192  # bytes; with O_DIRECT each is an I/O of its own
_LIKELY_CHANGES = 60_000.0  # 1/s; empty files made, asked for and removed, on a loop device
_SOME_HOST = {"cpus": 4.0, "memory": 64.0 * 2**30}


class Bonnie:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "bonnie++"
    summary = "one large file and many small ones, as old results have them"
    program = "bonnie++"
    package = "bonnie++"
    usual = "bw"
    measures = re.compile(r"[a-z]+(\.seq|\.random)?\.(bw|rate|cpu|lat\.max)")

    def check(self, workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        seen: dict[str, str] = {}
        for name, value in workload.options:
            letter = _LETTERS.get(name, name)
            if letter not in _LETTERS.values():
                known = ", ".join(_LETTERS)
                found.append((name, f"bonnie++ has no option {name!r} here; there are {known}"))
            elif letter in seen:
                found.append((name, f"it is {seen[letter]}, which is already given: keep one"))
            else:
                found.extend((name, what) for what in _problem(letter, value, facts))
            seen[letter] = name
        if workload.jobfile:
            found.append(("jobfile", "bonnie++ takes no job file"))
        return found or _together(_said(workload), facts)

    def reach(self, workload: Workload) -> LoadAccess:
        del workload
        return LoadAccess(reads=True, writes=True)

    def family(self, workload: Workload) -> list[str]:
        """See :class:`iotrial.model.tool.SupportsFamily`: the columns of its table."""
        said = _said(workload)
        large = str(said.get("s", "")).partition(":")[0] != "0"
        left = {"putc.bw", "getc.bw"} if said.get("f") else set()
        many = str(said.get("n", 16)).partition(":")[0].strip("0")
        return [
            *(name for name in bonnie.IO if large and name not in left),
            *(bonnie.FILES if many else ()),
        ]

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem, and for a target that is no directory."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if aimed.kind != "directory":
            advice = "aim it at a directory, or let the target have a filesystem"
            raise UsageError(f"bonnie++ works in a directory; {aimed.path} is none", advice=advice)
        said = _said(workload)
        size, chunks = _size(said["s"], facts)
        argv = ["bonnie++", "-d", inside(_folder(aimed)), "-q", "-m", "iotrial"]
        argv += ["-s", f"{size // _MIB}{chunks}", "-n", str(said.get("n", 16))]
        argv += ["-r", str(said.get("r", 0))]
        argv += [f"-{letter}" for letter in "fbD" if said.get(letter)]
        for letter in "cz":
            argv += [f"-{letter}", str(said[letter])] if letter in said else []
        user = str(said.get("u", "root"))
        argv += ["-u", user] if user else []
        memory = facts.get("memory", 0.0)
        cached = size and size < _SMALLEST_CACHE * memory and not (said.get("D") or "r" in said)
        note = f"{size} bytes, {memory:.0f} bytes of memory\n".encode()
        return Load(tuple(argv), ((_NOTE, note),) if cached else ())

    def leaves(
        self,
        workload: Workload,  # noqa: ARG002 (whatever it does, it does it in there)
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`.  A bonnie++ that is killed leaves
        files whose names (its process id) nobody can know before."""
        return (Leftover(_folder(aimed), "folder", "trial"),)

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow disk needs."""
        del aimed
        return _STARTUP + _lasting(workload, SLOW, _SLOW_CHARACTERS)

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """See :class:`iotrial.model.tool.SupportsSizedLoads`."""
        del aimed
        return _lasting(workload, LIKELY, _CHARACTERS / _LIKELY_PAUSE)

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`.  Its many small files go through it
        always."""
        said = _said(workload)
        if not said.get("D"):
            return "no direct = true"
        files = str(said.get("n", 16)).partition(":")[0]
        return f"files = {files}" if files.strip("0") else ""

    def version_problem(self, version: str) -> str:
        """bonnie++ has no ``--version``: it complains of the option, and names itself."""
        if not version or "bonnie++" in version or version.startswith("Version:"):
            return ""
        return f"{version.strip()[:60]!r} is not bonnie++: is another program named so?"

    def parse(self, folder: Path) -> ParsedOutput:
        data = result(folder, "stdout", "bonnie++")
        found = bonnie.parse(data, "stdout")
        note = folder / _NOTE
        if not note.exists():
            return found
        what = f"the file fits into the page cache: {note.read_text('utf-8').strip()}"
        advice = 'Take a size of "2*memory", or direct = true.'
        return ParsedOutput(found.measurements, (*found.doubts, Doubt("page-cache", what, advice)))


TOOL = Bonnie()
EXAMPLE: dict[str, object] = {"size": "2*memory"}


def _lasting(workload: Workload, pace: AssumedSpeed, characters: float) -> float:
    """Seconds without the start; ``characters`` are bytes per second."""
    said = _said(workload)
    try:
        size, chunk = _size(said.get("s", 0), _SOME_HOST)
    except IotrialError:
        size, chunk = 0, ""
    files = re.match(r"\d+", str(said.get("n", 16)))
    changes = _LIKELY_CHANGES if pace is LIKELY else pace.rate
    total = 6 * 1024 * int(files[0] if files else 0) / changes
    if size:
        total += _LIKELY_PAUSE + _PASSES * size / pace.stream + _SEEKS / pace.rate
        total += 0.0 if said.get("f") else _CHARACTERS / characters
        unit = parse_bytes(chunk.lstrip(":") or _CHUNK) or _CHUNK
        total += _PASSES * size / unit / pace.rate if said.get("D") else 0.0
    return total


def _folder(aimed: ToolTarget) -> str:
    return aimed.own("iotrial-bonnie")


def _said(workload: Workload) -> dict[str, OptionValue]:
    return {_LETTERS.get(name, name): value for name, value in workload.options}


def _problem(letter: str, value: OptionValue, facts: Mapping[str, float]) -> list[str]:
    if letter in _SWITCHES:
        return [] if isinstance(value, bool) else ["it is true or false"]
    if letter == "s":
        try:
            _size(value, facts)
        except IotrialError as error:
            return [str(error).replace("\n ", ";")]
        return []
    shape, wanted = _SHAPES[letter]
    if isinstance(value, bool) or not re.fullmatch(shape, str(value)):
        return [f"{str(value)[:40]!r}: it is {wanted}"]
    return []


def _together(said: Mapping[str, OptionValue], facts: Mapping[str, float]) -> list[tuple[str, str]]:
    if "s" not in said:
        return [("size", 'say it: "2*memory" keeps the page cache out, 0 leaves the test out')]
    size, _ = _size(said["s"], facts)
    if not size and str(said.get("n", 16)).partition(":")[0] in ("0", "00"):
        return [("files", "with size 0 and no files nothing is left to measure")]
    if size and said.get("D") and not said.get("f"):
        return [("direct", "the per-character tests fail with O_DIRECT: add fast = true")]
    if "r" in said and size and size < _SMALLEST_CACHE * int(str(said["r"])) * _MIB:
        return [("ram", "bonnie++ refuses a size below twice this: make it smaller")]
    return []


def _size(value: OptionValue, facts: Mapping[str, float]) -> tuple[int, str]:
    """Bytes, whole MiB, and the chunk size as bonnie++ spells it (``:16k``)."""
    text, colon, chunk = str(value).partition(":")
    if isinstance(value, bool) or (colon and not re.fullmatch(r"\d{1,7}k?", chunk)):
        raise UsageError(f"{str(value)[:40]!r} is not a size such as 64M, 2G:16k or 2*memory")
    plain = re.fullmatch(r"(\d{1,9})([mMgG]?)", text)
    if plain:
        size = int(plain[1]) * _MIB * (1024 if plain[2] in ("g", "G") else 1)
    elif re.search(r"[a-zA-Z]i?B$", text):
        size = parse_bytes(text)
    else:
        size = int(evaluate(text, facts))
    if size < 0 or 0 < size < _MIB:
        raise UsageError(f"{text!r} is less than a MiB")
    return size, colon + chunk
