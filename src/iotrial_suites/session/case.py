"""One case, played: its steps are done one by one, and what it left is undone, whatever happens.

Read :func:`play` first.  What a case needs is looked at before: every reason why it cannot be done
is said, not only the first.

The kernel's log is looked at before and afterwards.  Records of ``/dev/kmsg`` have sequence
numbers, so that what is new is known exactly, also where the log has wrapped round.  Trouble is
what the kernel itself marks as a defect, and I/O that failed.

Sources: Documentation/ABI/testing/dev-kmsg; the lists of the test suites of others (blktests
``_check_dmesg``, xfstests ``_check_dmesg``, Documentation/admin-guide/tainted-kernels.rst).
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from iotrial.look.facts import version
from iotrial.look.machine import distribution
from iotrial.look.reading import status, text
from iotrial.model.host import Host
from iotrial.model.step import spoken
from iotrial.model.target import Target
from iotrial_suites.case import (
    MIB,
    AddNote,
    AwaitHost,
    Case,
    CaseContext,
    CaseFailed,
    CaseHost,
    CaseNeeds,
    CaseNotRun,
    CommandResult,
    HostVersions,
    JoinCommand,
    KnownFailure,
    LoseHost,
    MountDevice,
    OweUndo,
    RunCommand,
    StartCommand,
    StartedCommand,
    State,
    Step,
    WaitSeconds,
    numbers,
)
from iotrial_suites.session.evidence import CaseEvidence
from iotrial_suites.session.stage import CaseStage, open_stages

# -- the kernel's log -----------------------------------------------------------------------------

READ = (
    "sh",
    "-c",
    'exec 2>/dev/null; dd if=/dev/kmsg iflag=nonblock bs=16k status=none | tail -c "$1"',
    "iotrial-kmsg",
    str(1 << 20),
)
"""Prints the records that the kernel still has, the newest MiB of them."""
READABLE = ("dd", "if=/dev/kmsg", "of=/dev/null", "iflag=nonblock", "bs=16k", "count=1")

_RECORD = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
_SIGNS = (
    r"\bkernel BUG at\b",
    r"\bBUG: ",
    r"^WARNING: ",
    r"\bOops\b",
    r"\bgeneral protection fault\b",
    r"\bunable to handle\b",
    r"\b[Kk]ernel panic\b",
    r"^INFO: task .* blocked for more than",
    r"^INFO: rcu_\w+ (self-)?detected stall",
    r"\bsoft lockup\b",
    r"\bhard LOCKUP\b",
    r"\bDEADLOCK\b",
    r"\bpossible (circular|recursive) locking\b",
    r"\bKASAN: ",
    r"\bUBSAN: ",
    r"\bkmemleak: \d+ new",
    r"\bslab .* corruption\b",
    r"\bOut of memory: ",
    r"\bI/O error\b",
    r"\bMedium [Ee]rror\b",
    r"\blost (async )?page write\b",
    r"\bEXT4-fs (error|.*: error)",
    r"\bXFS \(.*\): .*([Cc]orrupt|shutdown|Internal error)",
    r"\bBTRFS (error|critical)",
    r"\bDisk failure\b",
    r"\buncorrectable\b",
)
_TROUBLE = re.compile("|".join(_SIGNS))


@dataclass(frozen=True, slots=True)
class KernelLogRecord:
    """A line of the log: sequence number, seconds since the boot, text."""

    number: int
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"[{self.seconds:.6f}] {self.text}"


def records(text: str) -> tuple[KernelLogRecord, ...]:
    """What was read of /dev/kmsg; a record cut off at the front, and lines that continue one
    (they begin with a blank), are left out."""
    found = (_RECORD.fullmatch(line) for line in text.split("\n"))
    return tuple(
        KernelLogRecord(int(match[2]), int(match[3]) / 1e6, match[4])
        for match in found
        if match is not None
    )


def newest(seen: Sequence[KernelLogRecord]) -> int:
    """The number of the last record, -1 without any."""
    return seen[-1].number if seen else -1


def since(seen: Iterable[KernelLogRecord], number: int) -> tuple[KernelLogRecord, ...]:
    """The records after this one.  A reboot counts anew."""
    found = tuple(seen)
    if found and found[-1].number < number:
        return found
    return tuple(each for each in found if each.number > number)


def trouble(new: Iterable[KernelLogRecord], announced: Sequence[str]) -> tuple[str, ...]:
    """The lines that are trouble, and that no expression of ``announced`` is found in."""
    known = [re.compile(each) for each in announced]
    return tuple(
        str(each)
        for each in new
        if _TROUBLE.search(each.text) and not any(one.search(each.text) for one in known)
    )


# -- what a case needs ----------------------------------------------------------------------------

LOOK = """\
for word; do
    case $word in
        c:*) command -v -- "${word#?:}" >/dev/null 2>&1 ;;
        p:*) [ -e "${word#?:}" ] ;;
        m:*)
            plain=${word#?:}
            [ -d "/sys/module/$plain" ] || modprobe -n -q -- "$plain" 2>/dev/null ||
                case " $(tr '\\t\\n' '  ' </proc/filesystems) " in *" $plain "*) ;; *) false ;; esac
            ;;
    esac || printf '%s\\n' "$word"
done
"""
"""Arguments: c:COMMAND, p:PATH, m:MODULE.  Prints those that are missing."""

LOOP_CONTROL = "/dev/loop-control"
_OWN_WAY = {"lvm": "version", "multipath": "-h"}
"""What is asked for a version, in place of ``--version``."""


@dataclass(frozen=True, slots=True)
class CaseHosts:
    """The hosts that take part, each with the devices that were handed over for it, and how large
    those are in bytes (by path); the names of those that may be ``lost``."""

    hosts: Sequence[Host]
    machines: Sequence[HostVersions]
    given: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()

    def devices(self, host: str, needs: CaseNeeds) -> tuple[Target, ...]:
        """Those that are large enough for a case."""
        return tuple(
            target
            for target in self.given.get(host, ())
            if self.sizes.get((host, target.path), 0) >= needs.size
        )


def machine_of(host: Host, tools: Sequence[str]) -> HostVersions:
    """Kernel, distribution and versions of tools."""
    kernel = host.run(["uname", "-r"]).text.strip()
    release = distribution(text(host, "/etc/os-release"))
    return HostVersions(
        host.name, kernel, release, {name: version_of(host, name) for name in tools}
    )


def version_of(host: Host, tool: str) -> str:
    """What a tool calls itself; some have their own way of saying it."""
    words = "-V" if tool.startswith("mkfs.") else _OWN_WAY.get(tool)
    if words:
        try:
            said = host.run([tool, words], timeout=10.0)
        except HostError:
            return ""
        lines = (said.stdout + said.stderr).decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip() if lines and said.exit != 127 else ""  # noqa: PLR2004
    return version(host, tool)


def missing(case: Case, party: CaseHosts) -> tuple[str, ...]:
    """Every reason why a case cannot be done; none: it can."""
    needs = case.needs
    found: list[str] = []
    if len(party.hosts) < needs.hosts:
        there = "is one" if len(party.hosts) == 1 else f"are {len(party.hosts)}"
        found.append(f"needs {needs.hosts} hosts, and there {there} (--on)")
    elif needs.loses and (name := party.hosts[1].name) not in party.lost:
        found.append(f"crashes {name}, or takes a link of it down: allow it by --lose {name}")
    several = len(party.hosts) > 1
    for host, machine in list(zip(party.hosts, party.machines, strict=True))[: needs.hosts]:
        reasons = _on(host, machine, needs, party)
        found += [f"{host.name}: {reason}" if several else reason for reason in reasons]
    return tuple(found)


def _on(host: Host, machine: HostVersions, needs: CaseNeeds, party: CaseHosts) -> list[str]:
    found = []
    if needs.root and host.unprivileged:
        found.append(f"needs root: {host.unprivileged}")
    if needs.root and host.unguarded:
        found.append(f"needs a guard that would outlive it: {host.unguarded}")
    if needs.kernel and numbers(machine.kernel) < needs.kernel:
        wanted = ".".join(map(str, needs.kernel))
        found.append(f"needs Linux {wanted}, and this is {machine.kernel}")
    asked = [
        *(f"c:{each}" for each in needs.commands),
        *(f"m:{each}" for each in needs.modules),
        *(f"p:{each}" for each in needs.paths),
    ]
    lacking = host.run(["sh", "-c", LOOK, "iotrial-needs", *asked]).text.splitlines()
    found += [_WORDS[each[0]].format(each[2:]) for each in asked if each in lacking]
    return found + _devices(host, needs, party)


_WORDS = {
    "c": "the command {} is not installed",
    "m": "the module {} is neither in this kernel nor to be loaded",
    "p": "there is no {}",
}


def _devices(host: Host, needs: CaseNeeds, party: CaseHosts) -> list[str]:
    if not needs.devices:
        return []
    there = party.devices(host.name, needs)
    if len(there) >= needs.devices:
        return []
    if needs.disks or needs.shared:
        kind = f"{'shared ' if needs.shared else ''}disk{'s' if needs.devices > 1 else ''}"
        wanted = f"{needs.devices} {kind} of at least {needs.size // MIB} MiB"
        given = "1 was" if len(there) == 1 else f"{len(there) or 'none'} were"
        return [f"needs {wanted}, and {given} given (--devices)"]
    if status(host, LOOP_CONTROL) is None:  # where it is, opening it loads what is a module
        return [f"there is no {LOOP_CONTROL} (modprobe loop), and too few disks were given"]
    return []


def room(needs: CaseNeeds) -> int:
    """Bytes of a scratch device."""
    return max(needs.size, MIB)


# -- a case played --------------------------------------------------------------------------------

_LOG_WITHIN = 20.0
_SHOWN = 5
"""Lines of trouble in the kernel's log that stand in the result; all of them are in the log."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What a case came to once: its state, why, and what its clean-up could not do."""

    state: State
    reasons: tuple[str, ...]
    owed: tuple[str, ...]
    commands: int


Renew = Callable[[int], Host]
"""Reach the host of this number anew.  Raises HostUnreachable."""


@dataclass(frozen=True, slots=True)
class CaseEnvironment:
    """Where cases are played, who may stop them, how a host that was lost is reached anew, and
    which lines of a kernel's log are known for false alarms."""

    party: CaseHosts
    interruption: Interruption
    renew: Renew | None = None
    alarms: Sequence[KnownFailure] = ()


def play(name: str, case: Case, venue: CaseEnvironment, folder: Path) -> CaseOutcome:
    """Play a case and keep its evidence in ``folder``.

    Raises Interrupted, and OSError where the evidence cannot be written, after what it left was
    undone; OwedError where that could not all be.
    """
    if reasons := missing(case, venue.party):
        return CaseOutcome("not run", reasons, (), 0)
    evidence = CaseEvidence(folder)
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
                advice="Fix what is named above, then run: iotrial restore",
            ) from stopped
        raise
    finally:
        play_of.leave()
    if owed:
        play_of.found("fail", *(f"clean-up: {line}" for line in owed))
    return CaseOutcome(play_of.state, tuple(play_of.reasons), tuple(owed), evidence.count)


class _Play:
    """A case while it is played.  ``state`` and ``reasons`` are what is known so far."""

    def __init__(
        self,
        case: Case,
        venue: CaseEnvironment,
        evidence: CaseEvidence,
        header: Mapping[str, object],
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
        self._stages: Sequence[CaseStage] = ()
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

    def through(self, stages: Sequence[CaseStage]) -> None:
        """All steps, and what becomes of them."""
        self._stages = stages
        try:
            scene = self._set()
            self._evidence.phase = "steps"
            self._steps(scene)
        except CaseNotRun as reason:
            self.found("not run", str(reason))
        except CaseFailed as reason:
            self.found("fail", str(reason))
        except TargetRefused as refused:
            self.found("not run", refused.message)
        except HostUnreachable as lost:
            self.found("fail", f"{lost.message} (the last command in the evidence was running)")
        except HostError as error:
            self.found("fail", error.message)

    def _set(self) -> CaseContext:
        """Modules, devices, the mark in the kernel's log."""
        needs, nodes = self._case.needs, []
        for number, stage in enumerate(self._stages):
            self._marks[number] = newest(records(self._log(stage)))
            if needs.modules:
                stage.witness.do(("modprobe", "-a", *needs.modules), within=60.0)
            devices = self._devices(number, stage)
            kernel = numbers(self._party.machines[number].kernel)
            nodes.append(CaseHost(stage.host.name, kernel, devices))
        return CaseContext(tuple(nodes), secrets.token_hex(3))

    def _devices(self, number: int, stage: CaseStage) -> tuple[str, ...]:
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

    def _steps(self, scene: CaseContext) -> None:
        script = self._case.steps(scene)
        try:
            step = next(script)
            while True:
                self._interruption.check()
                try:
                    answer = self._do(step)
                except CaseFailed as failed:
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
            raise CaseFailed(f"it is not done after {self._case.limit:g} s, its limit")
        match step:
            case RunCommand():
                return self._run(step)
            case StartCommand():
                self._started += 1
                return self._stages[step.on].start(step, self._started)
            case JoinCommand():
                return self._join(step)
            case MountDevice():
                return self._mount(step)
            case _:
                self._answerless(step)
        return None

    def _answerless(self, step: WaitSeconds | OweUndo | LoseHost | AwaitHost | AddNote) -> None:
        match step:
            case WaitSeconds():
                self._pause(step.seconds)
            case OweUndo():
                self._stages[step.on].undo(step)
            case LoseHost():
                self._lose(step)
            case AwaitHost():
                self._return(step)
            case AddNote():
                self._evidence.note(step.text)

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _run(self, step: RunCommand) -> CommandResult:
        within = min(step.within, self._left())
        said = self._stages[step.on].witness.do(step.argv, within=within, stdin=step.stdin)
        return self._judged(said, step.exits, within)

    def _join(self, step: JoinCommand) -> CommandResult:
        started: StartedCommand = step.started
        within = min(step.within, self._left())
        said = self._stages[started.on].join(started, within)
        return self._judged(said, step.exits, within)

    @staticmethod
    def _judged(said: CommandResult, exits: tuple[int, ...] | None, within: float) -> CommandResult:
        words = spoken(said.argv)
        if said.late:
            raise CaseFailed(f"`{words}` did not end within {within:.0f} s")
        if exits is not None and said.exit not in exits:
            raise CaseFailed(f"`{words}`: {said.complaint} (exit status {said.exit})")
        return said

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._interruption.check()
            self._stages[0].host.sleep(min(left, 1.0))

    def _mount(self, step: MountDevice) -> str:
        try:
            return self._stages[step.on].mount(step)
        except HostUnreachable:
            raise
        except IotrialError as error:
            raise CaseFailed(error.message) from error

    def _lose(self, step: LoseHost) -> None:
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
        raise CaseFailed(f"{stage.host.name} still answers after `{spoken(step.argv)}`")

    def _return(self, step: AwaitHost) -> None:
        if self._renew is None:
            raise CaseFailed("no host can be reconnected here")
        stage = self._stages[step.on]
        until = time.monotonic() + min(step.within, self._left())
        while True:
            try:
                host = self._renew(step.on)
                break
            except HostError as error:
                if time.monotonic() > until:
                    raise CaseFailed(
                        f"{stage.host.name} does not return: {error.message}"
                    ) from error
            self._pause(1.0)
        stage.moved_to(host, self._header)
        self._lost.discard(step.on)
        self._marks[step.on] = -1

    # -- the kernel's log ----------------------------------------------------------------------

    def _log(self, stage: CaseStage) -> str:
        """The log as it is now; '' where it cannot be read (a container, no root)."""
        return stage.witness.sentry.run(READ, within=_LOG_WITHIN).stdout

    def leave(self) -> None:
        """Leave nothing on the hosts, however it ended."""
        for number, stage in enumerate(self._stages):
            if number not in self._lost:
                with suppress(HostError):
                    stage.witness.sentry.close()

    def _trouble(self, number: int, new: Sequence[KernelLogRecord]) -> list[str]:
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
