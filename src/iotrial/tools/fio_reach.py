"""What a load will touch, read from its options before anything is armed."""

from __future__ import annotations

from collections.abc import Iterable

from iotrial.formats.fio.jobfile import Section, filenames
from iotrial.model.tool import Reach
from iotrial.tools import fio_rules as rules


def reach_of(sections: Iterable[Section]) -> Reach:
    """The union over all jobs.  What cannot be told counts as written to.

    ``paths`` are what the jobs name beside the target, in order, each once; a log or iolog
    counts only when it leaves the trial's folder.
    """
    every = tuple(sections)
    paths = [path for each in every for path in _paths(each)]
    runs = [command for each in every for command in _commands(each)]
    return Reach(
        reads=any(map(_reads, every)),
        writes=any(map(_writes, every)),
        paths=tuple(dict.fromkeys(paths)),
        runs=tuple(dict.fromkeys(runs)),
    )


def _last(section: Section, option: str, default: str) -> str:
    values = section.values(option)
    return values[-1].partition(":")[0] if values else default


def _writes(section: Section) -> bool:
    changes = _last(section, "ioengine", "") in rules.CHANGING_ENGINES
    replays = bool(section.values("read_iolog") or section.values("profile"))
    return changes or replays or _last(section, "rw", "read") not in rules.READS


def _reads(section: Section) -> bool:
    return _last(section, "rw", "read") not in rules.WRITES or bool(section.values("verify"))


def _paths(section: Section) -> list[str]:
    """Files as fio will open them: ``filename`` lies in ``directory`` where there is one."""
    names = [name for value in section.values("filename") for name in filenames(value)]
    folders = [name for value in section.values("directory")[-1:] for name in filenames(value)]
    found = names or folders
    if names and folders:
        found = [f"{folder}/{name}" for folder in folders for name in names]
    for option, value in section.options:
        if option in rules.PATH_OPTIONS and "/" in value:
            found.extend(filenames(value))
        elif option == "mem" and ":" in value:
            found.append(value.partition(":")[2])
    return found


def _commands(section: Section) -> list[str]:
    found = [value for name, value in section.options if name in rules.COMMAND_OPTIONS]
    engines = section.values("ioengine")
    found.extend(each for each in engines if each.startswith(("exec", "external:")))
    return found
