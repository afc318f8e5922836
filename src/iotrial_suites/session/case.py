"""One case, played: its steps are done one by one, and what it left is undone, whatever happens.

Read :func:`play` first.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from iotrial.errors import (
    HostError,
    HostUnreachable,
    Interrupted,
    IotrialError,
    OwedError,
    TargetRefused,
)
from iotrial.execute.interruption import Interruption
from iotrial.model.host import Host
from iotrial.model.step import spoken
from iotrial_suites.case import (
    Case,
    Failed,
    Join,
    Known,
    Lose,
    Mount,
    Node,
    Note,
    NotHere,
    Pause,
    Return,
    Run,
    Said,
    Scene,
    Start,
    Started,
    Step,
    Undo,
)
from iotrial_suites.result import State, numbers
from iotrial_suites.session.evidence import Evidence
from iotrial_suites.session.kernel_log import READ, Record, newest, records, since, trouble
from iotrial_suites.session.needs import Party, missing, room
from iotrial_suites.session.stage import Stage, open_stages

_LOG_WITHIN = 20.0
_SHOWN = 5
"""Lines of trouble in the kernel's log that stand in the result; all of them are in the log."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a case came to once: its state, why, and what its clean-up could not do."""

    state: State
    reasons: tuple[str, ...]
    owed: tuple[str, ...]
    commands: int


Renew = Callable[[int], Host]
"""Reach the host of this number anew.  Raises HostUnreachable."""


@dataclass(frozen=True, slots=True)
class Venue:
    """Where cases are played, who may stop them, how a host that was lost is reached anew, and
    which lines of a kernel's log are known for false alarms."""

    party: Party
    interruption: Interruption
    renew: Renew | None = None
    alarms: Sequence[Known] = ()


def play(name: str, case: Case, venue: Venue, folder: Path) -> Played:
    """Play a case and keep its evidence in ``folder``.

    Raises Interrupted, and OSError where the evidence cannot be written, after what it left was
    undone; OwedError where that could not all be.
    """
    if reasons := missing(case, venue.party):
        return Played("not run", reasons, (), 0)
    evidence = Evidence(folder)
    hosts = list(venue.party.hosts[: case.needs.hosts])
    owed: list[str] = []
    token = f"check-{secrets.token_hex(4)}"
    header = {"token": token, "study": f"check {name}", "results": str(folder)}
    play_of = _Play(case, venue, evidence, header)
    try:
        play_of.on(hosts, owed)
        play_of.look_at_logs()
    except (Interrupted, OSError) as stopped:
        if owed:
            why = stopped.message if isinstance(stopped, Interrupted) else str(stopped)
            raise OwedError(
                f"{why}, and what case {name} left could not all be undone:",
                owed=owed,
                advice="Mend what is named above, then run: iotrial restore",
            ) from stopped
        raise
    finally:
        play_of.leave()
    if owed:
        play_of.found("fail", *(f"clean-up: {line}" for line in owed))
    return Played(play_of.state, tuple(play_of.reasons), tuple(owed), evidence.count)


class _Play:
    """A case while it is played.  ``state`` and ``reasons`` are what is known so far."""

    def __init__(
        self, case: Case, venue: Venue, evidence: Evidence, header: Mapping[str, object]
    ) -> None:
        self.state: State = "pass"
        self.reasons: list[str] = []
        self._case = case
        self._party = venue.party
        self._evidence = evidence
        self._interruption = venue.interruption
        self._renew = venue.renew
        self._alarms = venue.alarms
        self._until = time.monotonic() + case.limit
        self._header = header
        self._stages: Sequence[Stage] = ()
        self._lost: set[int] = set()
        self._started = 0
        self._marks: dict[int, int] = {}

    def found(self, state: State, *reasons: str) -> None:
        """A failure is not taken back."""
        self.reasons += reasons
        if self.state != "fail":
            self.state = state

    # -- from beginning to end ----------------------------------------------------------------

    def on(self, hosts: Sequence[Host], owed: list[str]) -> None:
        """All of it, undone whatever comes; what could not be is added to ``owed``.

        Raises Interrupted, and OSError where the evidence cannot be written.
        """
        try:
            with open_stages(
                hosts,
                header=self._header,
                evidence=self._evidence,
                interruption=self._interruption,
                owed=owed,
            ) as stages:
                self.through(stages)
        except Interrupted:
            raise
        except IotrialError as error:  # a host could not be made ready, or was lost
            self.found("fail", error.message)
        if self._evidence.unwritten:
            raise self._evidence.unwritten

    def through(self, stages: Sequence[Stage]) -> None:
        """All steps, and what becomes of them."""
        self._stages = stages
        try:
            scene = self._set()
            self._evidence.phase = "steps"
            self._steps(scene)
        except NotHere as reason:
            self.found("not run", str(reason))
        except Failed as reason:
            self.found("fail", str(reason))
        except TargetRefused as refused:
            self.found("not run", refused.message)
        except HostUnreachable as lost:
            self.found("fail", f"{lost.message} (the last command in the evidence was running)")
        except HostError as error:
            self.found("fail", error.message)

    def _set(self) -> Scene:
        """Modules, devices, the mark in the kernel's log."""
        needs, nodes = self._case.needs, []
        for number, stage in enumerate(self._stages):
            self._marks[number] = newest(records(self._log(stage)))
            if needs.modules:
                stage.witness.do(("modprobe", "-a", *needs.modules), within=60.0)
            devices = self._devices(number, stage)
            kernel = numbers(self._party.machines[number].kernel)
            nodes.append(Node(stage.host.name, kernel, devices))
        return Scene(tuple(nodes), secrets.token_hex(3))

    def _devices(self, number: int, stage: Stage) -> tuple[str, ...]:
        needs = self._case.needs
        given = self._party.devices(stage.host.name, needs)[: needs.devices]
        if not needs.devices:
            return ()
        if len(given) < needs.devices:
            return stage.loops(needs.devices, room(needs))
        aims = stage.given(given)
        # Disks of all hosts are wiped by the first, whose clean-up is the last: a host that comes
        # back from a crash would wipe them while the others use them.
        if number == 0 or not needs.shared:
            stage.wiped(aims)
        return tuple(aim.path for aim in aims)

    def _steps(self, scene: Scene) -> None:
        script = self._case.steps(scene)
        try:
            step = next(script)
            while True:
                self._interruption.check()
                try:
                    answer = self._do(step)
                except Failed as failed:
                    step = script.throw(failed)
                else:
                    step = script.send(answer)
        except StopIteration:
            return
        finally:
            script.close()

    # -- one step ------------------------------------------------------------------------------

    def _do(self, step: Step) -> object:
        if self._left() <= 0:
            raise Failed(f"it is not done after {self._case.limit:g} s, its limit")
        match step:
            case Run():
                return self._run(step)
            case Start():
                self._started += 1
                return self._stages[step.on].start(step, self._started)
            case Join():
                return self._join(step)
            case Mount():
                return self._mount(step)
            case _:
                self._answerless(step)
        return None

    def _answerless(self, step: Pause | Undo | Lose | Return | Note) -> None:
        match step:
            case Pause():
                self._pause(step.seconds)
            case Undo():
                self._stages[step.on].undo(step)
            case Lose():
                self._lose(step)
            case Return():
                self._return(step)
            case Note():
                self._evidence.note(step.text)

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _run(self, step: Run) -> Said:
        within = min(step.within, self._left())
        said = self._stages[step.on].witness.do(step.argv, within=within, stdin=step.stdin)
        return self._judged(said, step.exits, within)

    def _join(self, step: Join) -> Said:
        started: Started = step.started
        within = min(step.within, self._left())
        said = self._stages[started.on].join(started, within)
        return self._judged(said, step.exits, within)

    @staticmethod
    def _judged(said: Said, exits: tuple[int, ...] | None, within: float) -> Said:
        words = spoken(said.argv)
        if said.late:
            raise Failed(f"`{words}` did not end within {within:.0f} s")
        if exits is not None and said.exit not in exits:
            raise Failed(f"`{words}`: {said.complaint} (exit status {said.exit})")
        return said

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._interruption.check()
            self._stages[0].host.sleep(min(left, 1.0))

    def _mount(self, step: Mount) -> str:
        try:
            return self._stages[step.on].mount(step)
        except HostUnreachable:
            raise
        except IotrialError as error:
            raise Failed(error.message) from error

    def _lose(self, step: Lose) -> None:
        stage = self._stages[step.on]
        self._evidence.note(f"{stage.host.name} is to be lost: {spoken(step.argv)}")
        until = time.monotonic() + min(step.within, self._left())
        try:
            stage.witness.begin(step.argv)
            while time.monotonic() < until:
                self._pause(0.5)
                stage.host.run(["true"], timeout=10.0)
        except (HostUnreachable, HostError):
            self._lost.add(step.on)
            return
        raise Failed(f"{stage.host.name} still answers after `{spoken(step.argv)}`")

    def _return(self, step: Return) -> None:
        if self._renew is None:
            raise Failed("no host can be reached anew here")
        stage = self._stages[step.on]
        until = time.monotonic() + min(step.within, self._left())
        while True:
            try:
                host = self._renew(step.on)
                break
            except HostError as error:
                if time.monotonic() > until:
                    raise Failed(f"{stage.host.name} does not return: {error.message}") from error
            self._pause(1.0)
        stage.moved_to(host, self._header)
        self._lost.discard(step.on)
        self._marks[step.on] = -1

    # -- the kernel's log ----------------------------------------------------------------------

    def _log(self, stage: Stage) -> str:
        """The log as it is now; '' where it cannot be read (a container, no root)."""
        return stage.witness.sentry.run(READ, within=_LOG_WITHIN).stdout

    def leave(self) -> None:
        """Leave nothing on the hosts, however it ended."""
        for number, stage in enumerate(self._stages):
            if number not in self._lost:
                with suppress(HostError):
                    stage.witness.sentry.close()

    def _trouble(self, number: int, new: Sequence[Record]) -> list[str]:
        """Lines that fail the case; a false alarm is noted."""
        kernel = numbers(self._party.machines[number].kernel)
        known = [each for each in self._alarms if each.holds(kernel)]
        found = []
        for line in trouble(new, self._case.announces):
            text = line.partition("] ")[2]
            false = next((each for each in known if re.search(each.says, text)), None)
            if false is None:
                found.append(line)
            else:
                self._evidence.note(f"a false alarm: {line}: {false.reason} ({false.source})")
        return found

    def look_at_logs(self) -> None:
        """What the kernels said since the beginning.  A host that was lost has no log to read."""
        for number, stage in enumerate(self._stages):
            if number not in self._marks or number in self._lost:
                continue
            try:
                seen = records(self._log(stage))
            except HostError as error:
                self._evidence.note(f"{stage.host.name}: the kernel's log: {error.message}")
                continue
            new = since(seen, self._marks[number])
            several = len(self._stages) > 1
            head = f"# {stage.host.name}\n" if several and new else ""
            self._evidence.log(head + "".join(f"{each}\n" for each in new))
            bad = self._trouble(number, new)
            where = f" of {stage.host.name}" if several else ""
            if bad:
                self.found("fail", *(f"kernel log{where}: {line}" for line in bad[:_SHOWN]))
            if len(bad) > _SHOWN:
                self.found("fail", f"kernel log{where}: and {len(bad) - _SHOWN} more lines")
