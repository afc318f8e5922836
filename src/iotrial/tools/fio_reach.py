"""What a load will touch, read from its options before anything is armed.

File names are put together as fio does it (3.33: ``str_filename_cb`` in options.c, ``add_file`` in
filesetup.c, ``add_job`` in init.c).  It takes the options of a section sorted, ``directory`` before
``filename``, and opens a name in the directory that is known *then*: one in ``[global]`` does not
lie in the directory that a job names later.  A directory goes before an absolute name as well.  A
job without a name gets one from its own: ``JOB.NUMBER.FILE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from iotrial.errors import UsageError
from iotrial.formats.fio.jobfile import Section, filenames
from iotrial.model.tool import Reach
from iotrial.tools import fio_rules as rules
from iotrial.tools.fio_server import FOLDER

_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,3})%")
_WHOLE = 100
_MOST_FILES = 4096
# What is there where fio is started, and no file: of a job of that name, fio opens that name itself
# (exists_and_not_regfile in init.c).
NO_FILES = (".", "..", FOLDER)


def reach_of(sections: Iterable[Section]) -> Reach:
    """The union over all jobs.  What cannot be told counts as written to.

    ``paths`` are what the jobs name beside the target, in order, each once; a log or iolog
    counts only when it leaves the trial's folder.  Raises UsageError where a job opens thousands
    of files.
    """
    every = tuple(sections)
    paths = [path for each in every for path in (*opened(each), *_others(each))]
    runs = [command for each in every for command in _commands(each)]
    alters = [what for each in every if not _writes(each) for what in _alters(each)]
    extents = [(_extent(each) or 0, _sizes(each)) for each in every]
    extent, sized = max(extents, key=lambda each: each[0], default=(0, ""))
    return Reach(
        reads=any(map(_reads, every)),
        writes=any(map(_writes, every)),
        paths=tuple(dict.fromkeys(paths)),
        runs=tuple(dict.fromkeys(runs)),
        extent=extent,
        sized=sized if extent else "",
        alters=tuple(dict.fromkeys(alters)),
    )


def _last(section: Section, option: str, default: str) -> str:
    values = section.values(option)
    return values[-1].partition(":")[0] if values else default


def _writes(section: Section) -> bool:
    changes = _last(section, "ioengine", "") in rules.CHANGING_ENGINES
    replays = bool(section.values("read_iolog") or section.values("profile"))
    trims = any(not rules.is_off(value) for o in rules.TRIMS for value in section.values(o))
    zones = _last(section, "zonemode", "") == "zbd"
    asked = _last(section, "rw", "read") not in rules.READS
    return changes or replays or trims or zones or asked


def _reads(section: Section) -> bool:
    return _last(section, "rw", "read") not in rules.WRITES or bool(section.values("verify"))


# What happens to a file that is only read.


def spares_all(section: Section) -> bool:
    """Whether a job leaves every file as it is, whatever its size, that it finds by itself."""
    own = (option for option in _alters(section) if not option.startswith("opendir="))
    return not _writes(section) and not any(own) and not _extent(section)


def _alters(section: Section) -> Iterator[str]:
    """Options that are not known to leave a file as it is."""
    for option, value in section.options:
        off = option in rules.HARMLESS_AT_ZERO and rules.is_off(value)
        none = value in rules.HARMLESS_AT.get(option, ())
        if option not in rules.HARMLESS | rules.COMMAND_OPTIONS and not off and not none:
            yield f"{option}={value}"
    if _extent(section) is None:
        yield _sizes(section)


def _sizes(section: Section) -> str:
    return " ".join(f"{o}={value}" for o in _SIZES for value in section.values(o))


_SIZES = ("size", "filesize", "offset", "offset_increment", "numjobs")
_OFFSETS = ("offset", "offset_increment")


def _extent(section: Section) -> int | None:
    """How many bytes a file must have that fio is not to make longer; None: it cannot be told.

    An upper bound: the largest size after the furthest offset.  Per cents are of the file, so that
    nobody knows here how far so many bytes behind a share of it go.
    """
    length = _bytes(section, "size"), _bytes(section, "filesize")
    begin = _bytes(section, "offset")
    apart, jobs = _bytes(section, "offset_increment"), _bytes(section, "numjobs", 1)
    if None in (*length, begin, apart, jobs):
        return None
    if any(length) and any("%" in v for o in _OFFSETS for v in section.values(o)):
        return None
    furthest = (begin or 0) + (apart or 0) * max(0, (jobs or 1) - 1)
    return furthest + max(length[0] or 0, length[1] or 0)


def _bytes(section: Section, option: str, default: int = 0) -> int | None:
    """The largest of a range; None for what only fio, or the machine, can tell."""
    values = section.values(option)
    if not values:
        return default
    found = [_number(part) for part in re.split(r"[-:,]", values[-1])]
    return None if None in found else max(each or 0 for each in found)


def _number(text: str) -> int | None:
    if percent := _PERCENT.fullmatch(text):
        return 0 if int(percent[1]) <= _WHOLE else None
    match = _SIZE.fullmatch(text)
    return int(match[1]) * 1024 ** " kmgtp".index(match[2].lower() or " ") if match else None


# Names.


def opened(section: Section) -> list[str]:
    """The files that fio opens for a job, where it names any itself, or a directory for them.

    Relative ones lie in the folder that fio works in.
    """
    heads = section.heads or (0,) * len(section.options)
    folders: tuple[str, ...] = ()
    found: list[str] = []
    for head in sorted(set(heads)):
        mine = [o for o, at in zip(section.options, heads, strict=True) if at == head]
        for option, value in mine:
            if option == "directory":
                folders = filenames(value)
        names = [n for option, value in mine if option == "filename" for n in filenames(value)]
        found += [_joined(folder, name) for name in names for folder in folders or ("",)]
    found += [folder for value in section.values("opendir") for folder in filenames(value)]
    if found or not folders:
        return found
    return [_joined(folder, name) for folder in folders for name in _derived(section)]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _derived(section: Section) -> list[str]:
    jobs, files = _bytes(section, "numjobs", 1), _bytes(section, "nrfiles", 1)
    if jobs is None or files is None or jobs * files > _MOST_FILES:
        raise UsageError(
            f"[{section.name}] opens too many files in a directory that it names itself",
            advice='Write filename = "target" among the options: the target takes their place.',
        )
    form = _last(section, "filename_format", "")
    if form:
        return [form]
    itself = [section.name] if section.name in NO_FILES else []
    return itself + [f"{section.name}.{job}.{file}" for job in range(jobs) for file in range(files)]


def _others(section: Section) -> Iterator[str]:
    for option, value in section.options:
        if option in rules.PATH_OPTIONS and option != "opendir" and "/" in value:
            yield from filenames(value)
        elif option == "mem" and ":" in value:
            yield value.partition(":")[2]


def _commands(section: Section) -> list[str]:
    found = [value for name, value in section.options if name in rules.COMMAND_OPTIONS]
    engines = section.values("ioengine")
    found.extend(each for each in engines if each.startswith(("exec", "external:")))
    return found
