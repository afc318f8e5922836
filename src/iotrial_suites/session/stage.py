"""Stage: a host made ready for one case, and struck afterwards.

What is made is in the host's journal before it is made, under a guard, as everything of a run is:
a case whose controller is killed is undone by the host itself, or by ``iotrial restore``.  What a
case asks to be undone holds for this boot only: after a reboot an array of that name may be
somebody else's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from iotrial.errors import HostError, HostUnreachable, IotrialError, OwedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.load import TOKEN
from iotrial.execute.settings.guard import guarded, lease_of
from iotrial.execute.settings.journal import (
    Journal,
    ResourceUndo,
    journal_path,
    numbered,
    open_journal,
)
from iotrial.execute.settings.restore import RestoreReport, boot_id, pay
from iotrial.execute.targets.loops import free_number
from iotrial.execute.targets.making import TargetSite, mount_at_new
from iotrial.hosts.places import journal_folder, lock_path, state_places
from iotrial.hosts.steps import reads
from iotrial.look.identity import witness_probes
from iotrial.look.targets import ready
from iotrial.model.host import Host
from iotrial.model.step import Read
from iotrial.model.target import MountSpec, PreparedTarget, Target
from iotrial.model.tool import LoadAccess
from iotrial_suites.case import CommandResult, MountDevice, OweUndo, StartCommand, StartedCommand
from iotrial_suites.session.evidence import (
    CLEAN_UP,
    CaseEvidence,
    RecordingHost,
    Supervisor,
    _SupervisorTask,
    base_of,
)

LEASE = 30.0
"""Seconds after which a host that is out of reach puts everything back."""
CLEANS_WITHIN = 30.0
"""Seconds that one command of the clean-up may take."""

LOOPS_WITHIN = 60.0
LOOP = """\
folder=$1 size=$2
shift 2
mkdir -p -m 700 -- "$folder" || exit
while [ "$#" -gt 0 ]; do
    truncate -s "$size" -- "$2" || exit
    losetup --direct-io=on "/dev/loop$1" "$2" 2>/dev/null || losetup "/dev/loop$1" "$2" || exit
    read -r file <"/sys/block/loop$1/loop/backing_file" && [ "$file" = "$2" ] || exit 1
    shift 2
done
"""
"""Arguments: a folder, bytes, then numbers with files."""

UNLOOP = """\
status=0
free=
while [ "$#" -gt 0 ]; do
    try=0
    while [ -e "/sys/block/loop$1/loop/backing_file" ]; do
        file=
        read -r file 2>/dev/null <"/sys/block/loop$1/loop/backing_file"
        [ "$file" = "$2" ] || [ "$file" = "$2 (deleted)" ] || break
        [ "$try" -lt 100 ] || {
            echo "/dev/loop$1 is still open" >&2
            status=1
            break
        }
        [ "$try" -gt 0 ] && sleep 0.1
        losetup -d "/dev/loop$1" 2>/dev/null
        try=$((try + 1))
    done
    [ "$status" = 1 ] || rm -f -- "$2"
    [ ! -e "/sys/block/loop$1" ] || [ -e "/sys/block/loop$1/loop/backing_file" ] || free="$free $1"
    folder=${2%/*}
    shift 2
done
# Only an ioctl gives a number back (LOOP_CTL_REMOVE of <linux/loop.h>).
[ -z "$free" ] || perl -e 'open(F,"+<","/dev/loop-control");ioctl(F,0x4C81,$_+0) for @ARGV' $free \
    2>/dev/null || python3 -c 'import fcntl,sys
with open("/dev/loop-control", "r+b", buffering=0) as f:
    for n in sys.argv[1:]: fcntl.ioctl(f, 0x4C81, int(n))' $free 2>/dev/null
rmdir -- "$folder" 2>/dev/null
exit "$status"
"""
"""Arguments: numbers of loop devices with the files that are theirs.  Another file's is left."""

UNDO = """\
read -r boot </proc/sys/kernel/random/boot_id
[ "$boot" = "$1" ] || exit 0
at=$2
shift 2
"$@" && exit
status=$?
[ -z "$at" ] || [ -e "$at" ] || exit 0
exit "$status"
"""
"""Arguments: boot id, a path or nothing, a command."""

WIPE = """\
node=$1
shift
[ -b "$node" ] || exit 0
while [ "$#" -gt 0 ]; do
    [ "$(cat "$1" 2>/dev/null)" = "$2" ] || exit 0
    shift 2
done
exec wipefs -q -a "$node"
"""
"""Arguments: a device, then files and what they must read for it to be the same device."""


@dataclass
class CaseStage:
    """A host during one case.  ``witness`` runs what is evidence; ``started`` are commands that
    were started and not yet waited for, by number."""

    host: Host
    journal: Journal
    witness: RecordingHost
    boot: str
    started: dict[int, tuple[_SupervisorTask, float, StartCommand]] = field(default_factory=dict)
    made: int = 0

    @property
    def token(self) -> str:
        """Names what is made next."""
        self.made += 1
        return f"{self.journal.token}-{self.made}"

    # -- what a case asks for -----------------------------------------------------------------

    def undo(self, step: OweUndo) -> None:
        words = ("iotrial-undo", self.boot, step.at, *step.argv)
        plan = {"name": " ".join(step.argv), **numbered(("sh", "-c", UNDO, *words))}
        self.journal.owe_made(ResourceUndo("command", plan))

    def mount(self, step: MountDevice) -> str:
        point = f"{state_places(self.host).files}/iotrial-{self.token}"
        site = TargetSite(self.witness.as_host(), self.journal.owe_made, self.journal.token)
        mount_at_new(site, point, MountSpec(step.device, step.type, step.options))
        return point

    def start(self, step: StartCommand, number: int) -> StartedCommand:
        task, at = self.witness.begin(step.argv)
        self.started[number] = (task, at, step)
        return StartedCommand(number, step.argv, step.on)

    def join(self, started: StartedCommand, within: float) -> CommandResult:
        task, at, step = self.started.pop(started.number)
        left = step.within - (self.host.clock() - task.began)
        return self.witness.wait((task, at), max(0.0, min(within, left)))

    def moved_to(self, host: Host, header: Mapping[str, object]) -> None:
        """Go on with a host that was lost and is back; what it was owed has been paid."""
        self.started.clear()
        self.boot = boot_id(host)
        said = {**header, "boot_id": self.boot, "at": time.time()}
        self.journal = open_journal(host, journal_folder(host), said)
        self.host = self.witness.host = self.witness.sentry.host = host
        host.mark({TOKEN: self.journal.token})

    # -- devices ------------------------------------------------------------------------------

    def loops(self, count: int, size: int) -> tuple[str, ...]:
        """New loop devices with files that hold nothing, each with a number that none has; other
        numbers where somebody else was faster.

        Raises HostError; what was made until then is owed.
        """
        for last in (False, False, True):
            made = self._loops(count, size)
            if not made[1].exit:
                return made[0]
            if last:
                break
        raise HostError(
            f"{self.host.name}: no loop devices can be made: {made[1].complaint}",
            advice="Is there room for their files? In a container, give disks: --devices.",
        )

    def _loops(self, count: int, size: int) -> tuple[tuple[str, ...], CommandResult]:
        folder = state_places(self.host).files
        taken = self.host.list("/sys/block")
        plan: list[str] = []
        for _ in range(count):
            number = free_number(taken)
            taken = [*taken, f"loop{number}"]
            plan += [str(number), f"{folder}/iotrial-{self.token}.img"]
        words = ("sh", "-c", UNLOOP, "iotrial-unloop", *plan)
        self.journal.owe_made(ResourceUndo("command", {"name": "loop devices", **numbered(words)}))
        made = self.witness.do(
            ("sh", "-c", LOOP, "iotrial-loop", folder, str(size), *plan), within=LOOPS_WITHIN
        )
        return tuple(f"/dev/loop{number}" for number in plan[::2]), made

    def given(self, targets: Sequence[Target]) -> tuple[PreparedTarget, ...]:
        """Devices that were handed over, looked at once more: armed, and in nobody's use.

        Raises TargetRefused.
        """
        return tuple(armed(self.host, target) for target in targets)

    def wiped(self, aims: Sequence[PreparedTarget]) -> None:
        """Have what a case leaves on them wiped, as long as it is the same disk."""
        for aim in aims:
            name = f"signatures on {aim.path}"
            words = ("iotrial-wipe", aim.path, *self._witnesses(aim))
            plan = {"name": name, **numbered(("sh", "-c", WIPE, *words))}
            self.journal.owe_made(ResourceUndo("command", plan))

    def _witnesses(self, aim: PreparedTarget) -> Iterator[str]:
        probes = witness_probes("device", aim.device)
        for probe, answer in zip(
            probes, self.host.batch([Read(each) for each in probes]), strict=True
        ):
            if reads(probe, answer):
                yield probe.path
                yield answer.raw.decode("utf-8", "surrogateescape").rstrip("\n")


def armed(host: Host, target: Target) -> PreparedTarget:
    """A device that may be written to.  Raises TargetRefused."""
    return ready(host, target, LoadAccess(reads=True, writes=True))


# -- set and struck ------------------------------------------------------------------------------


@contextmanager
def open_stages(
    hosts: Sequence[Host],
    *,
    header: Mapping[str, object],
    evidence: CaseEvidence,
    interruption: Interruption,
    owed: list[str],
) -> Iterator[tuple[CaseStage, ...]]:
    """The stages of a case, one a host; on the way out all that it left is undone, and what could
    not be is in ``owed``.

    Raises IotrialError where a host cannot be made ready.
    """
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(
                _stage(host, header=header, evidence=evidence, interruption=interruption, owed=owed)
            )
            for host in hosts
        )


@contextmanager
def _stage(
    host: Host,
    *,
    header: Mapping[str, object],
    evidence: CaseEvidence,
    interruption: Interruption,
    owed: list[str],
) -> Iterator[CaseStage]:
    folder, token = journal_folder(host), str(header["token"])
    sentry = Supervisor(host, f"{base_of(host)}/{token}", interruption)
    with guarded(host, journal_path(folder, token), lock_path(host), lease_of(host, LEASE)):
        boot = boot_id(host)
        journal = open_journal(host, folder, {**header, "boot_id": boot, "at": time.time()})
        host.mark({TOKEN: token})
        stage = CaseStage(host, journal, RecordingHost(host, sentry, evidence), boot)
        try:
            yield stage
        finally:
            owed += struck(stage, evidence)


def struck(stage: CaseStage, evidence: CaseEvidence) -> list[str]:
    """End what was started, undo what was made, the last first; gives back what could not be."""
    evidence.phase = CLEAN_UP
    stage.witness.calm(CLEANS_WITHIN)
    owed: list[str] = []
    try:
        for task, at, _ in reversed(stage.started.values()):
            if task.report.state == "running":
                stage.witness.end((task, at))
        stage.host.mark({})
        owed = _paid(stage)
    except HostUnreachable as lost:
        owed = [
            f"{stage.host.name}: {line} (unreachable: its guard undoes it)"
            for line in stage.journal.describe()
        ] or [lost.message]
    except IotrialError as error:
        owed = [f"{stage.host.name}: {error.message}"]
    for line in owed:
        evidence.note(f"clean-up: {line}")
    return owed


def _paid(stage: CaseStage) -> list[str]:
    """Pay what the case owes, from memory; gives back what could not be, and whether the journal
    was not what was written."""
    host, journal, payment = stage.witness.as_host(), stage.journal, RestoreReport()
    lost = ""
    try:
        journal.check(*stage.host.batch([journal.look]))
    except OwedError as error:
        lost = error.message
    pay(host, journal.session(), payment)
    owed = [f"{stage.host.name}: {line}" for line in payment.owed]
    return [*owed, lost] if lost else owed
