"""What is said to the agent on the far side of an SSH host, and what its answers mean.

Pure: text and bytes.  The agent (``agent.sh``, behind ``picks.sh``) is a POSIX shell that reads
requests from its stdin.  A :class:`AgentRequest` is a few calls of its functions.  Every word in
one is quoted by ``shlex.quote`` or is base64.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Generic, Protocol, TypeVar

from iotrial.errors import FileRefused
from iotrial.hosts import bounds
from iotrial.hosts.bounds import ANSWER_MOST
from iotrial.hosts.steps import code_of
from iotrial.model.host import CompletedCommand
from iotrial.model.step import Change, Ensure, Read, Step, StepResult, spoken

T = TypeVar("T")

PATIENCE = 600.0
"""Seconds that an answer may take where nothing says otherwise: a sync behind a full page cache
takes minutes.  A link that is cut is noticed by ssh(1) long before."""

LOOKS_WITHIN = 120.0
"""Seconds that reading the kernel's files may take: no I/O is waited for.  Only so is a shell
noticed that has gone mute and is not ssh's: a job's step whose node is gone, a paused container."""

ACT_WITHIN = 60
"""Seconds that a command of a step may take."""

_SIGNALS = range(129, 193)
"""What a shell makes of a command that a signal ended: 128 and its number."""

_PLAIN = re.compile(r"/[A-Za-z0-9_@%+=:,./-]*")
_AT_ONCE = 1000
"""Files that one process is told to read: the names must fit into its arguments."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ResponseReader(Protocol):
    """Where answers are read from."""

    def line(self) -> bytes:
        """Up to the next line end, without it."""
        ...

    def exactly(self, count: int) -> bytes: ...

    def until(self, mark: bytes) -> bytes:
        """Up to the next ``mark``, without it."""
        ...


@dataclass(frozen=True, slots=True)
class AgentRequest(Generic[T]):
    """One round trip: ``text`` for the agent, and what makes a value of its answer, which comes
    ``within`` so many seconds or not at all."""

    text: str
    parse: Callable[[ResponseReader], T]
    within: float = PATIENCE


def prelude() -> str:
    """What a shell is told first, to become the agent."""
    folder = resources.files("iotrial.hosts")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in ("picks.sh", "agent.sh"))


def encoded(text: str) -> bytes:
    """One compound command: a shell that gets only half of it does nothing at all."""
    return f"{{\n{text}\n}}\n".encode("utf-8", "surrogateescape")


def said(verb: str, *words: object) -> str:
    """A call of one of the agent's functions."""
    return " ".join([verb, *(_quoted(str(word)) for word in words)])


def _quoted(word: str) -> str:
    if "\0" in word:
        raise ValueError("a NUL cannot be part of a path, a word or a value")
    return shlex.quote(word)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def text_of(answers: ResponseReader) -> tuple[int, bytes]:
    """One text: its status and its words."""
    status, length = answers.line().split()
    words = answers.exactly(int(length))
    answers.line()
    return int(status), words


def bytes_of(answers: ResponseReader) -> bytes:
    return base64.b64decode(answers.line())


def exit_of(status: int) -> int:
    """The exit status, or minus the signal.  A shell cannot tell a signal from a program that
    chose the status of one."""
    return 128 - status if status in _SIGNALS else status


# -- files and commands ---------------------------------------------------------------------------


def read(host: str, path: str) -> AgentRequest[bytes]:
    def parse(answers: ResponseReader) -> bytes:
        found = answers.line()
        _check(host, "read", path, answers)
        return base64.b64decode(found)

    return AgentRequest(said("show", path), parse)


def names(host: str, path: str) -> AgentRequest[list[str]]:
    def parse(answers: ResponseReader) -> list[str]:
        _check(host, "list", path, answers)
        found = answers.until(b"//\n").removeprefix(b"/")
        if found.count(b"/") >= bounds.NAMES_MOST:
            raise bounds.too_many(host, path)
        return sorted(map(os.fsdecode, found.split(b"/"))) if found else []

    return AgentRequest(said("names", path), parse)


def change(host: str, act: str, path: str, call: str) -> AgentRequest[None]:
    """``call`` (:func:`written`, :func:`saved` …) as a request of its own."""

    def parse(answers: ResponseReader) -> None:
        _check(host, act, path, answers)

    return AgentRequest(f"did {call}", parse)


def _check(host: str, act: str, path: str, answers: ResponseReader) -> None:
    status, words = text_of(answers)
    if status:
        raise FileRefused(host, act, path, code_of(os.fsdecode(words)))


def written(path: str, data: bytes) -> str:
    if b"\0" in data:
        return said("put_bytes", path, len(data), _base64(data))
    return said("put", path, data.decode("utf-8", "surrogateescape"))


def saved(path: str, data: bytes, *, private: bool) -> str:
    return said("keep", path, "private" if private else "public", _base64(data))


def appended(path: str, data: bytes) -> str:
    return said("add", path, len(data), _base64(data))


def removed(path: str) -> str:
    return said("drop", path)


def run(
    argv: Sequence[str], stdin: bytes, timeout: float
) -> AgentRequest[tuple[CompletedCommand, int]]:
    """What the command said; or how many bytes it said, where that is more than is taken."""

    def parse(answers: ResponseReader) -> tuple[CompletedCommand, int]:
        status, length = text_of(answers)
        done = CompletedCommand(tuple(argv), exit_of(status), bytes_of(answers), bytes_of(answers))
        return done, int(length or 0)

    # timeout(1) takes 0 for never.
    within = f"{max(timeout, 0.001):.3f}"
    text = said("ran", _base64(stdin), ANSWER_MOST, within, *argv)
    return AgentRequest(text, parse, timeout + PATIENCE)


def marks(former: Iterable[str], environment: Mapping[str, str]) -> str:
    """``environment`` for everything that is run from now on, in the place of ``former``."""
    for name in environment:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a name in the environment")
    gone = [f"unset {name}" for name in former]
    new = [f"{name}={_quoted(value)}\nexport {name}" for name, value in environment.items()]
    return "\n".join([*gone, *new])


# -- steps ----------------------------------------------------------------------------------------


def batch(host: str, steps: Sequence[Step], sign: bytes) -> AgentRequest[tuple[StepResult, ...]]:
    """As :meth:`~iotrial.model.host.Host.batch` says.  ``sign`` parts one file from the next."""
    runs = [list(run) for _, run in itertools.groupby(steps, _is_plain)]
    parts = [run[i : i + _AT_ONCE] for run in runs for i in range(0, len(run), _AT_ONCE)]

    def parse(answers: ResponseReader) -> tuple[StepResult, ...]:
        found: list[StepResult] = []
        for part in parts:
            if _is_plain(part[0]):
                found += _looked(host, [step.probe.path for step in part], sign, answers)
            else:
                found += (_answer(host, step, answers) for step in part)
        return tuple(found)

    commands = sum(
        bool(step.probe.argv) + (len(step.acts) if isinstance(step, Ensure) else 0)
        for step in steps
    )
    text = "\n".join(_looks(part) if _is_plain(part[0]) else _steps(part) for part in parts)
    looks = all(map(_is_plain, steps))
    return AgentRequest(text, parse, LOOKS_WITHIN if looks else PATIENCE + ACT_WITHIN * commands)


def _is_plain(step: Step) -> bool:
    """A look at a file that cat(1) would name as it is: many of them are one process."""
    return isinstance(step, Read) and bool(_PLAIN.fullmatch(step.probe.path))


def _looks(steps: Sequence[Step]) -> str:
    return " ".join(["looks", *(f'{step.probe.path} "$SIGN"' for step in steps)])


def _looked(
    host: str, paths: Sequence[str], sign: bytes, answers: ResponseReader
) -> list[StepResult]:
    contents = [answers.until(sign) for _ in paths]
    _, words = text_of(answers)
    refused = {}
    for line in words.decode("utf-8", "replace").splitlines():
        name, _, why = line.removeprefix("cat: ").rpartition(": ")
        refused[name.strip("'")] = why.encode()
    return [
        _refusal(host, "read", path, (), refused[path]) if path in refused else StepResult(content)
        for path, content in zip(paths, contents, strict=True)
    ]


def _steps(steps: Sequence[Step]) -> str:
    return "\n".join(map(_step, steps))


def _step(step: Step) -> str:
    head = f"FAILED=0 WHY=\n{_taken(step)}"
    if isinstance(step, Read) or not step.acts:
        return f"{head}\ntell"
    acts = " && ".join(
        f"FAILED={number} && {_act(act)}" for number, act in enumerate(step.acts, start=1)
    )
    return f"{head}\nif {_differs(step)}; then\n{acts} && FAILED=0\nfi\ntell"


def _is_exact(step: Step) -> bool:
    """Whether what is read comes as base64, so that a NUL stays one.  Where the shell itself must
    pick, only ``whole`` needs that."""
    return isinstance(step, Read) or step.probe.pick == "whole"


def _taken(step: Step) -> str:
    how, probe = "exact" if _is_exact(step) else "take", step.probe
    if probe.argv:
        return said("taken", how, ACT_WITHIN, *probe.argv)
    return said(how, probe.path)


def _differs(step: Ensure) -> str:
    probe = step.probe
    absent, value = probe.absent, step.value
    if probe.pick == "whole":
        absent, value = (
            _base64(word.encode("utf-8", "surrogateescape")) for word in (absent, value)
        )
    return said("differs", probe.pick, probe.key, absent, value)


def _act(act: Change) -> str:
    data = act.data.encode("utf-8", "surrogateescape")
    match act.kind:
        case "write":
            return written(act.path, data)
        case "save":
            return saved(act.path, data, private=False)
        case "remove":
            return removed(act.path)
        case "run":
            return said("perform", ACT_WITHIN, *act.argv)


def _answer(host: str, step: Step, answers: ResponseReader) -> StepResult:
    refused, raw = text_of(answers)
    failed, why = text_of(answers)
    probe = step.probe
    if not refused and _is_exact(step):
        raw = base64.b64decode(raw)
    if isinstance(step, Read) and refused:
        return _refusal(host, "read", probe.path, probe.argv, raw)
    if isinstance(step, Ensure) and failed:
        act = step.acts[failed - 1]
        answer = _refusal(host, act.kind, act.path, act.argv, why)
        return StepResult(b"" if refused else raw, answer.errno, answer.complaint)
    return StepResult(b"" if refused else raw)


def _refusal(host: str, act: str, path: str, argv: Sequence[str], words: bytes) -> StepResult:
    """The last words of a command, or the errno of a file, as LocalHost says it."""
    complaint = words.decode("utf-8", "replace").strip()
    code = code_of(complaint)
    if argv:
        return StepResult(b"", code, f"`{spoken(argv)}`: {complaint}")
    return StepResult(b"", code, str(FileRefused(host, act, path, code)))


# -- loads ----------------------------------------------------------------------------------------


def load(
    folder: str, files: Mapping[str, bytes], environment: Mapping[str, str], argv: Sequence[str]
) -> str:
    """What the shell of a load is told behind the prelude: it makes a folder of its own below
    ``folder``, puts ``files`` there, and starts ``argv`` in it."""
    supplies = "".join(f" &&\n{said('supply', name, _base64(files[name]))}" for name in files)
    return (
        f"{marks((), environment)}\n"
        f"if {said('begin', folder)}{supplies}; then\n"
        f'{said("load", *argv)}\nelse\ntext 1 "$WHY"\nfi'
    )
