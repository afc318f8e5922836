"""Files → runs: which format reads a file, and what it finds.  Reads only.

Results may stand within something else: what a mail quotes, what stands below many warnings.  Lines
stay where they are in what is read, so that an error's line is that of the file.  Of a file that
lies beside results and is none that iotrial takes, it is said whose output it is.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import mmap
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from iotrial import plugins
from iotrial.errors import FormatError, UsageError
from iotrial.files import parse_line, read_bytes
from iotrial.formats import formats, plain
from iotrial.formats.fio import jobfile as fio_jobfile
from iotrial.formats.fio.log import log_name
from iotrial.model.recording import Buffer, RecordingFormat
from iotrial.model.trial import Doubt
from iotrial_import.copies import FileDigest
from iotrial_import.formats.table_columns import TableFormat
from iotrial_import.legend import ImportMap, OriginalFile

_QUOTES = re.compile(rb"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_QUOTE = re.compile(rb"^>(?![=\d])", re.MULTILINE)  # ">16712" is a number that was cut off
_FEW = 3
"""Lines that begin with ``>``: fewer are prompts of a shell, or parts of something else."""

HEAD = 64 * 1024
"""Bytes that a format is recognised by."""
FAR, END = 8 * 2**20, 2**20
"""Bytes of the beginning and of the end of a file that are looked through."""
_AGAIN = 20
"""Lines of one shape that are kept: of a result, enough to know it."""
_SHAPED = 60
"""Bytes of a line that are its shape: warnings end in whatever they warn of."""
_NUMBERED = re.compile(rb"\S*\d\S*")  # node012, 0x7f3a1c, 10:00:01
_MOST = 32  # pieces


def unquoted(data: Buffer) -> Buffer:
    """The text without the ``> `` that a mail puts before each line it quotes; as it is where
    there are no such lines."""
    if len(data) > FAR:
        return data  # no mail
    content = bytes(data[:])
    if b"\0" in content[:HEAD]:
        return data  # no text
    if sum(1 for _ in zip(_QUOTE.finditer(content), range(_FEW), strict=False)) < _FEW:
        return data
    return _QUOTES.sub(b"", content)


def pieces(data: Buffer) -> Iterator[bytes]:
    """Parts of a file, of up to 64 KiB, that say more than its first 64 KiB: what is left of it
    without the lines that come again and again with other numbers (warnings of every rank, of
    every job), each part beginning with a line and half of it in the next one.

    Of a large file the first 8 MiB and the last one are looked through."""
    found = b"\n".join(line[:HEAD] for line in _unlike(data))
    starts = [0]
    while (next_line := found.find(b"\n", starts[-1] + HEAD // 2) + 1) > 0:
        starts.append(next_line)
    if len(starts) > _MOST:
        starts = starts[: _MOST // 2] + starts[-_MOST // 2 :]
    yield from (found[at : at + HEAD] for at in starts)


def _unlike(data: Buffer) -> Iterator[bytes]:
    parts = [data[:FAR], data[max(FAR, len(data) - END) :]]
    seen: Counter[bytes] = Counter()
    for line in b"\n".join(map(bytes, parts)).split(b"\n"):
        shape = _NUMBERED.sub(b"#", line[:_SHAPED])
        seen[shape] += 1
        if seen[shape] <= _AGAIN:
            yield line


_TOOLS: tuple[tuple[str, str], ...] = (
    ("ioping", r"^--- .+ ioping statistics ---|\d [KMG]iB <<< |\d [KMG]iB >>> "),
    ("hdparm -t", r"^ ?Timing (?:buffered disk|cached|O_DIRECT disk|O_DIRECT cached) reads:"),
    ("diskspd", r"^Command Line: .*diskspd|^Input parameters:\s+timespan: "),
    ("iperf 2", r"^(?:Client connecting to .+,|Server listening on) (?:TCP|UDP) port \d"),
    ("vmstat", r"^procs -+memory-+ -+swap-+ -+io-+|^ *r +b +swpd +free +(?:buff|inact) +"),
    ("mpstat", r"^(?:\d\d:\d\d:\d\d.*|Average:) +CPU +%usr +%nice +%sys +%iowait"),
    ("pidstat", r"^#? ?(?:\d\d:\d\d:\d\d.*|Time|Average:) +UID +(?:TGID +)?PID +"),
    ("sysbench", r"^sysbench \d+\.\d+"),
    ("CrystalDiskMark", r"^CrystalDiskMark \d"),
    ("smartctl", r"^smartctl \d+\.\d+ "),
    ("blktrace", r"^=+ All Devices =+\s*$|^Total \([^)\n]+\):\s*$\s{1,9}Reads Queued:"),
    ("pfind", r"^rank, errors, unknown, found, total, checked, job steal "),
    ("perf", r"^ ?Performance counter stats for "),
)
_KNOWN = tuple((tool, re.compile(each.encode(), re.MULTILINE)) for tool, each in _TOOLS)
_SECTION = re.compile(rb"^\[[^\]\n]{1,200}\][ \t\r]*$", re.MULTILINE)
_OPTION = re.compile(
    rb"^[ \t]*(?:rw|readwrite|ioengine|blocksize|bs|iodepth|numjobs|filename|directory)[ \t]*=",
    re.MULTILINE,
)
_INSTEAD = {
    "iperf 2": "Measure with iperf3: its JSON and text are read.",
    "pfind": "This lists its processes; IO500's result list has the rate of its phase find.",
    "vmstat": "iostat -x and sar -d tell of each device what vmstat tells of all: they are read.",
    "mpstat": "sar -u tells of the CPUs: it is read.",
    "pidstat": "sar -u tells of the CPUs: it is read.",
}
_LOOKED = 64 * 1024


def whose(head: bytes) -> str:
    """The tool that wrote a file which begins with ``head``; '' unknown."""
    return next((tool for tool, each in _KNOWN if each.search(head[:_LOOKED])), "")


def refusal(head: bytes, name: str) -> FormatError | None:
    """Why a file is no result for iotrial, where that is known; None where it is not."""
    if tool := whose(head):
        return FormatError(
            f"{name}: this is the output of {tool}, which iotrial does not read",
            advice=_INSTEAD.get(
                tool,
                "Write its numbers into a table (CSV): a line of names with units, a row a run.",
            ),
        )
    if _SECTION.search(head[:_LOOKED]) and _OPTION.search(head[:_LOOKED]):
        return FormatError(
            f"{name}: this is a job file of fio: it says what was to be run, and has no result",
            advice="Name it *.fio and import it with fio's results: it tells what is in flight.",
        )
    return None


LARGEST_UNPACKED = 2**30
"""Bytes a packed file may come to: it is unpacked in memory."""
Packed = gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
_PACKED: dict[bytes, Callable[[Path], Packed]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
JOBFILE = "fio-jobfile"
_WORDS = 2
"""Points of a format that finds words which only its tool writes."""
_QUOTED = (
    "The text is quoted (> ), as in a mail; mail programs break long lines, and what is broken"
    " cannot be read. Take the file that the tool wrote, or join the lines."
)
__all__ = ["HEAD", "JOBFILE", "GivenFile", "given", "in_flight", "opened", "read", "recognised"]


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file, the ``name`` it is kept by, and whether a person named it: what lies in a folder
    beside results may be something else."""

    name: str
    path: Path
    named: bool


def given(paths: Sequence[Path]) -> list[GivenFile]:
    """Every file, its name relative to the deepest folder that holds them all.  A folder stands
    for the files in it; links in it are left out, for what they lead to is not the folder's.
    Raises UsageError for what is not there, or is none, and for iotrial's own results."""
    files: dict[Path, bool] = {}
    for path in paths:
        if path.is_dir():
            found = [p for p in path.rglob("*") if p.is_file() and not _hidden(p, path)]
            inside = sorted(p for p in found if not p.is_symlink())
            if not inside:
                advice = "Links in a folder are left out: name what they lead to." if found else ""
                raise UsageError(f"{path}: the folder contains no file", advice=advice)
            files.update(dict.fromkeys((Path.cwd() / p for p in inside), False))
        elif path.is_file():
            files[Path.cwd() / path] = True
        else:
            what = "is not an ordinary file" if path.exists() else "the file does not exist"
            raise UsageError(f"{path}: {what}")
    for own in (path.parent for path in files if path.name == "plan.jsonl"):
        if (own / "study.toml").is_file():
            raise UsageError(
                f"{own} is a results folder of iotrial: there is nothing to import in it",
                advice="Its findings: iotrial compare, or iotrial report, with this folder.",
            )
    _refuse_pretended(files)
    top = Path(os.path.commonpath([path.parent for path in files]))
    return [GivenFile(_name(path.relative_to(top)), path, files[path]) for path in files]


def _name(path: Path) -> str:
    """A relative path as text: bytes of it that are no UTF-8 as ``\\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse_pretended(paths: Iterable[Path]) -> None:
    """Raises UsageError for what a made-up machine said: imported, nobody could tell it from a
    measurement."""
    for folder in dict.fromkeys(parent for path in paths for parent in path.parents):
        plan = folder / "plan.jsonl"
        if not plan.is_file():
            continue
        with suppress(FormatError):
            head, _, _ = read_bytes(plan, folder).partition(b"\n")
            if parse_line(plan, 1, head).get("pretended"):
                raise UsageError(
                    f"{folder} holds pretended results: what lies in it was never measured",
                    advice="Import what tools wrote on a real machine.",
                )


def by_plugins(originals: Iterable[OriginalFile]) -> list[Doubt]:
    """A doubt for each format that iotrial does not bring, and the files that it read."""
    read_by = Counter(original.format for original in originals)
    return [
        Doubt(
            "plugin",
            f"the format {plugin.name}, which read {read_by[plugin.name]} of the files, is a"
            f" plugin: {plugin.origin}",
            "Compare some numbers with the files; `iotrial plugins` lists the plugins.",
        )
        for plugin in plugins.added("formats")
        if read_by[plugin.name]
    ]


def prints(found: Sequence[GivenFile]) -> dict[str, FileDigest]:
    """What tells copies: by name, of each file.  Only files of one size are read for it."""
    stats = {each.name: each.path.stat() for each in found}
    sizes = Counter(each.st_size for each in stats.values())
    made: dict[str, FileDigest] = {}
    for each in found:
        size, modified = stats[each.name].st_size, stats[each.name].st_mtime
        digest = ""
        if size and sizes[size] > 1:
            with each.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        made[each.name] = FileDigest(digest, modified)
    return made


def _hidden(path: Path, top: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(top).parts)


def read(name: str, path: Path, legend: ImportMap, wanted: str = "") -> OriginalFile:
    """The runs in one file, by the format ``wanted`` or the one that is surest of it.

    Raises FormatError where no format knows the file, or the format finds it damaged.
    """
    if not path.stat().st_size and log_name(name):
        return OriginalFile(name, "fio-log", ())  # of slat, where the engine submits nothing
    with opened(path) as original:
        data = plain(original, name)
        if not wanted and _is_jobfile(bytes(data[:HEAD]), name):
            return OriginalFile(name, JOBFILE, ())
        if wanted:
            return _read(formats()[wanted], unquoted(data), name, legend)
        chosen, bare = _chosen(data, name)
        try:
            return _beside(_read(chosen, bare, name, legend), bare)
        except FormatError as error:
            if bare is data:
                raise
            raise FormatError(error.message, advice=_QUOTED) from None


def _read(chosen: RecordingFormat, data: Buffer, name: str, legend: ImportMap) -> OriginalFile:
    if isinstance(chosen, TableFormat):
        found = chosen.read(data, name, legend.columns)
        told = chosen.columns(data, name, legend.columns)
        gaps = chosen.gaps(data, name, legend.columns)
        return OriginalFile(name, chosen.name, found, columns=told, doubts=gaps)
    return OriginalFile(name, chosen.name, chosen.read(data, name))


def _beside(read: OriginalFile, data: Buffer) -> OriginalFile:
    """With a doubt where there are results of other tools in the file too: one format reads it."""
    if len(data) > FAR or not read.recordings:
        return read
    head = _telling(data, read.file)
    tools = {each.tool for each in read.recordings}
    others = []
    for each in formats().values():
        if each.name == read.format or isinstance(each, TableFormat):
            continue
        if _sure(head, read.file)[each.name]:
            with suppress(FormatError):
                found = {recording.tool for recording in each.read(data, read.file)}
                others += [each.name] * bool(found - tools)
    if not others:
        return read
    first, *rest = read.recordings
    what = f"there are results of {', '.join(others)} in this file too; they are not read"
    doubt = Doubt("others", what, f"Import it again with --format {others[0]} for those.")
    with_doubt = replace(first, doubts=(*first.doubts, doubt))
    return replace(read, recordings=(with_doubt, *rest))


def _chosen(data: Buffer, name: str) -> tuple[RecordingFormat, Buffer]:
    """The format that is surest of a file, and what it is to read: the text, or what a mail quotes
    in it.  Raises FormatError."""
    bare = unquoted(data)
    if bare is not data:
        quoted, head = _telling(data, name), _telling(bare, name)
        if _points(head, name) >= _points(quoted, name):
            return recognised(head, name), bare
    try:
        return recognised(_telling(data, name), name), data
    except FormatError as error:
        if len(data) <= FAR + END:
            raise
        where = f"its first {FAR >> 20} MiB and its last {END >> 20} were looked through"
        raise FormatError(f"{error.message} ({where})", advice=error.advice) from None


def _telling(data: Buffer, name: str) -> bytes:
    """The part of a file that tells best what it is: its first 64 KiB, unless they have no words
    of any tool and there is something below them that tells more."""
    head = bytes(data[:HEAD])
    best = _points(head, name)
    if best >= _WORDS or len(data) <= HEAD:
        return head
    for piece in pieces(data):
        points = _points(piece, name)
        if points > best:
            head, best = piece, points
    return head


@lru_cache(maxsize=8)  # a head is looked at to find it, to read it, and for what is beside it
def _sure(head: bytes, name: str) -> Mapping[str, int]:
    """How sure each format is of a file that begins so."""
    return {called: each.recognises(head, name) for called, each in formats().items()}


def _points(head: bytes, name: str) -> int:
    return max(_sure(head, name).values())


def recognised(head: bytes, name: str) -> RecordingFormat:
    """The format that is surest of a file.  Raises FormatError: naming the formats there are, or
    whose output it is where iotrial reads none of it."""
    head = bytes(plain(head, name)[:])
    sure = _sure(head, name)
    best = max(sure.values())
    surest = [formats()[each] for each, points in sure.items() if points == best]
    if best < _WORDS and (refused := refusal(head, name)):
        raise refused
    if not best:
        raise FormatError(
            f"{name}: no format knows this file",
            advice=f"Name one with --format: {', '.join(formats())}.",
        )
    if len(surest) > 1:
        both = " or ".join(each.name for each in surest)
        what = f"{name}: it may be {both}"
        advice = (
            "Select one with --format; where it holds results of both, import it once for each."
        )
        raise FormatError(what, advice=advice)
    return surest[0]


@contextmanager
def opened(path: Path) -> Iterator[Buffer]:
    """A file's bytes: mapped, or unpacked (gzip, bzip2, xz).  Raises FormatError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise FormatError(f"{path.name}: the file is empty")
        head = file.read(8)
        for magic, unpack in _PACKED.items():
            if head.startswith(magic):
                yield _unpacked(path, unpack)
                return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _unpacked(
    path: Path, unpack: Callable[..., gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]
) -> bytes:
    try:
        with unpack(path) as file:
            data = file.read(LARGEST_UNPACKED + 1)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise FormatError(f"{path.name}: cannot be unpacked: {error}") from None
    if len(data) > LARGEST_UNPACKED:
        raise FormatError(
            f"{path.name}: more than {LARGEST_UNPACKED} bytes unpacked", advice="Unpack it first."
        )
    if not data:
        raise FormatError(f"{path.name}: the file is empty")
    return data


def _is_jobfile(head: bytes, name: str) -> bool:
    return name.endswith((".fio", ".job", ".ini")) and b"[" in head and b"fio-" not in head


def in_flight(path: Path) -> float:
    """The most I/Os that a fio job file allows on one host: the largest of its jobs' numjobs x
    iodepth.  Raises FormatError."""
    with opened(path) as data:
        text = bytes(data[:]).decode("utf-8", "replace")
    file = fio_jobfile.parse(text, path.name)
    return max((_product(dict(job.options)) for job in file.sections), default=0.0)


def _product(options: dict[str, str]) -> float:
    try:
        return float(options.get("numjobs", 1)) * float(options.get("iodepth", 1))
    except ValueError:
        return 0.0
