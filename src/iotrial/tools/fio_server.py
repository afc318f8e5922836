"""fio by its own client and server: `fio --server` where the load is, `fio --client` here.  Pure.

A client takes a job file and nothing else that describes a job (fio 3.33), so what a command says
becomes one: its options a ``[global]`` in front of the study's job file, or the one job.  A line
of a job file ends at a ``;`` or ``#``, ``${X}`` in it is replaced, and a client knows nothing of
the line's meaning: what cannot be said in one is refused before.

What was seen with fio 3.33, and is met here:

* the client ends with 0 where the server has dropped every job, and with 1 and no reason on
  stderr where it went away; why stands before the report, each line behind ``<HOST>``;
* logs come back through the client, with the name of the socket, or the address, behind theirs;
* a server binds a port beside another that holds it (SO_REUSEPORT), and shares its clients;
* client and server of two versions do not talk to each other.

Sources: fio(1), "Client / Server"; client.c, server.c and server.h (FIO_SERVER_VER) of fio.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from iotrial.errors import FormatError
from iotrial.formats.fio import json_output
from iotrial.formats.fio.jobfile import JobSection, unwritable
from iotrial.formats.fio.json_output import MARK, messages
from iotrial.model.listen import ListenAddress
from iotrial.model.tool import Load

SOCKET = "fio.sock"
"""The client's name for the server: a link in its folder.  Logs have it in their names."""
FOLDER = "socket"
"""A folder of the server's own that nobody else can look into, with its socket."""
JOBS = "job.fio"
_LONGEST = 4000
"""Bytes of a line: fio reads 4096 at most."""
_NAME = re.compile(r"[\w.+@%=:,-]+", re.ASCII)
_CUT = re.compile(r"[;#\n]|\$\{")
_WAITS = "exec_prerun"
_COMMENT = " #"
_GONE = "disconnected"
_FROM_THERE = re.compile(r"<[^<>\s]+> ")
_NEVER_THERE = (
    "the client did not get through to the server: does sshd there have AllowStreamLocalForwarding"
    " no, with listen: is its port closed on the way, or is it another version of fio?"
)
_START_DELAY = "it counts from fio's own start, and the server's jobs wait for the common moment"


def serving(listen: ListenAddress | None = None) -> tuple[str, ...]:
    """The command of a server, in the folder that it is started in, or that is to ``listen``."""
    if listen:
        return ("fio", f"--server={_spelled(listen)}")
    script = f'mkdir -m 700 {FOLDER} && exec "$@"'
    return ("sh", "-c", script, "iotrial-serve", "fio", f"--server=sock:{FOLDER}/{SOCKET}")


def _spelled(listen: ListenAddress) -> str:
    return f"{'ip6' if listen.six else 'ip'}:{listen.address},{listen.port}"


def through_client(load: Load, common: Sequence[str], listen: ListenAddress | None = None) -> Load:
    """The same load by a client.  ``common`` are the words that begin its command, and stay."""
    said = [word.removeprefix("--").partition("=") for word in load.argv[len(common) :]]
    options = [(name, value) for name, equals, value in said if equals]
    name = dict(options).get("name")
    lines = [f"[{name or 'global'}]"]
    lines += [f"{option}={_line(option, value)}" for option, value in options if option != "name"]
    own = dict(load.files).get(JOBS, b"")
    text = "\n".join(lines).encode("utf-8", "surrogateescape") + b"\n" + own
    server = _spelled(listen) if listen else f"sock:{SOCKET}"
    argv = (*common, f"--client={server}", JOBS)
    others = tuple(each for each in load.files if each[0] != JOBS)
    return Load(argv, ((JOBS, text), *others))


def _line(option: str, value: str) -> str:
    """Of a job file.  fio appends a redirection to the command that waits, and a ``#`` is not
    there to hide it: behind ``||`` it is done only where the wait was in vain."""
    if option == _WAITS and value.endswith(_COMMENT):
        return f"{value.removesuffix(_COMMENT)} || false"
    return value


def problems(sections: Sequence[JobSection], options: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Why the client and server cannot do these jobs; ``options`` are the study's own."""
    for name, value in options:
        if _CUT.search(value):
            yield f"{name}: fio's client takes job files alone, and these end a line at ; and #"
        elif len(value) > _LONGEST:
            yield f"{name}: fio's client takes job files alone, and these have shorter lines"
    for each in sections:
        if each.values("startdelay"):
            yield f"startdelay: {_START_DELAY}"
        for name in (each.name, *each.values("name")):
            if not _NAME.fullmatch(name):
                yield f"job {name!r}: give it a name of letters, digits and . _ + - only"


def unfit(path: str) -> str:
    """Why a target at ``path`` cannot be loaded this way; '' it can."""
    found = unwritable(path)
    if not found:
        return ""
    return f"a job file of fio, which its client takes, cannot name {path!r}: {found!r} is in it"


def version_problem(here: str, there: str) -> str:
    """Why these two versions (what ``fio --version`` printed) do not talk to each other, or ''.

    The protocol has a number of its own, which rises with nearly every version, and which nobody
    can ask for.
    """
    if here.strip() == there.strip():
        return ""
    return f"it has {there.strip()}, but this host has {here.strip()}: they are not compatible"


def failure(folder: Path, output: str) -> str:
    """Why a client that has ended came to no result, from its ``output`` in ``folder``; '' it has
    one, and every job of it is without an error."""
    try:
        text = (folder / output).read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""  # then it said why itself
    lines = text[: text.find(MARK)].splitlines() if MARK in text else text.splitlines()
    told = list(messages("\n".join(lines)))
    try:
        parsed = json_output.parse(text.encode("utf-8", "surrogateescape"), output)
    except FormatError:
        if not any(map(_FROM_THERE.match, lines)):
            return _NEVER_THERE
        if any(line.endswith(_GONE) for line in lines):
            return "the server went away before its jobs were done"
        return told[-1] if told else "the server gave no result"
    errors = [doubt.what for doubt in parsed.doubts if doubt.check == "fio-error"]
    return (told or errors)[-1] if errors else ""


def own_name(name: str, server: str = SOCKET) -> str:
    """What a file that came through the client of ``server`` is called where there is none."""
    return name.removesuffix(f".{server}")
