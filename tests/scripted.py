"""A host whose commands are answered by a function: for cases of checks, and for their runner.

The sentry's words are understood here, so that a case sees what its command is said to have said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from iotrial.errors import HostUnreachable
from iotrial.hosts.fake import FakeHost
from iotrial.model.host import CompletedCommand
from iotrial_suites.case import (
    AwaitHost,
    Case,
    CaseContext,
    CaseFailed,
    CaseHost,
    CommandResult,
    JoinCommand,
    LoseHost,
    RunCommand,
    StartCommand,
    StartedCommand,
    Step,
)
from iotrial_suites.session.case import READ
from iotrial_suites.session.evidence import NAME

FIO = (
    'fio: terminating on signal 15\n{"jobs": [{"error": 0, "read": {"total_ios": 9}, "write": '
    '{"total_ios": 9, "clat_ns": {"max": 7e9}}}]}'
)
"""What fio says of a load that went well, and was told to end."""

RETURNS = "iotrial-returns"
"""What a host that was lost is told in a rehearsal when it is to come back."""


class Says(NamedTuple):
    """What a command comes to.  ``hangs``: it never ends; ``lost``: the host is gone with it."""

    stdout: str = ""
    exit: int = 0
    stderr: str = ""
    hangs: bool = False
    lost: bool = False


Answer = Callable[[tuple[str, ...], str], Says | None]
"""(argv, stdin) → what it says; None: success, without a word."""


class ScriptedHost(FakeHost):
    """The fake host, but commands of cases get the answers of a function.  ``log`` (the kernel's)
    is what /dev/kmsg holds; ``asked`` are the commands so far."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[tuple[str, ...]] = []
        self.kernel: list[str] = []
        self.lost = False

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        if self.lost:
            raise HostUnreachable(f"{self.name} does not answer any more")
        words = tuple(argv)
        if words[:2] != ("sh", "-c") or words[3] not in (NAME, "iotrial-needs"):
            return super().run(argv, stdin=stdin, timeout=timeout)
        if words[3] == "iotrial-needs" or words[4] == "close":
            return CompletedCommand(words, 0, b"", b"")
        verb, sign, command = words[4], words[9], words[11:]
        if verb in ("look", "end"):
            self.machine.pass_time(1.0)
            text = "running 0 0 0" if verb == "look" else f"done 137 0 9\n{sign}{sign}7 x: state D"
            return CompletedCommand(words, 0, f"{text}\n".encode(), b"")
        if command == READ:
            log = "".join(f"6,{n},{n}000000,-;{line}\n" for n, line in enumerate(self.kernel))
            return CompletedCommand(words, 0, f"done 0 1 1\n{log}{sign}{sign}".encode(), b"")
        self.asked.append(command)
        said = self._answer(command, stdin.decode()) or Says()
        if said.lost:
            self.lost = True
            raise HostUnreachable(f"{self.name} does not answer any more")
        if said.hangs:
            return CompletedCommand(words, 0, b"running 0 0 0\n", b"")
        text = f"done {said.exit} 1 1.5\n{said.stdout}{sign}{said.stderr}{sign}"
        return CompletedCommand(words, 0, text.encode(), b"")


def rehearse(
    case: Case, answer: Answer | Sequence[Answer], *, devices: int = 0, hosts: int = 1
) -> list[RunCommand]:
    """Play the steps of a case against answers (of all hosts, or for each), without a host; gives
    back its commands.

    Raises Failed and NotHere as the case does, and Failed where a command fails that may not.
    """
    count = devices or case.needs.devices
    nodes = tuple(
        CaseHost(f"n{host}", (6, 1), tuple(f"/dev/loop{host}{n}" for n in range(count)))
        for host in range(max(hosts, case.needs.hosts))
    )
    answers = answer if isinstance(answer, Sequence) else [answer] * len(nodes)
    script = case.steps(CaseContext(nodes, "abc"))
    done: list[RunCommand] = []
    try:
        step: Step = next(script)
        while True:
            if isinstance(step, RunCommand):
                done.append(step)
                said = answers[step.on](step.argv, step.stdin) or Says()
                if said.hangs or (step.exits is not None and said.exit not in step.exits):
                    step = script.throw(CaseFailed(f"{step.argv}: {said.stderr}"))
                else:
                    step = script.send(
                        CommandResult(step.argv, said.exit, said.stdout, said.stderr)
                    )
            elif isinstance(step, StartCommand):
                step = script.send(StartedCommand(1, step.argv, step.on))
            elif isinstance(step, JoinCommand):
                said = answers[step.started.on](step.started.argv, "") or Says()
                step = script.send(
                    CommandResult(step.started.argv, said.exit, said.stdout, said.stderr)
                )
            else:
                if isinstance(step, LoseHost | AwaitHost):
                    argv = step.argv if isinstance(step, LoseHost) else (RETURNS,)
                    answers[step.on](argv, "")
                step = script.send("/mnt" if hasattr(step, "device") else CommandResult((), 0))
    except StopIteration:
        return done
