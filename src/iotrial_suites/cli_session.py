"""Acting for ``iotrial check``: hosts are reached and locked, cases played, reports written."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.text import Text

from iotrial.called import as_root
from iotrial.cli.machine import HERE, machines, place_of
from iotrial.cli.output import Output, writing
from iotrial.errors import HostUnreachable, Interrupted, OwedError, TargetRefused, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.settings.guard import locked
from iotrial.execute.settings.restore import settle
from iotrial.hosts.at_once import Pool
from iotrial.hosts.login import login
from iotrial.hosts.via import is_via, need_chosen
from iotrial.model.event import Message
from iotrial.model.host import Connect, Host
from iotrial.model.hostlist import expanded
from iotrial.model.study import StudyHost
from iotrial.model.target import PreparedTarget, Target
from iotrial.plan.inventory import check_ways
from iotrial_suites import report
from iotrial_suites.case import Case, CaseResult, CheckResults, Suite
from iotrial_suites.session.case import CaseEnvironment, CaseHosts, machine_of
from iotrial_suites.session.evidence import swept
from iotrial_suites.session.session import (
    CaseBegan,
    CaseEnded,
    CheckEvent,
    CheckSession,
    SessionHeader,
    Turn,
    begin,
    checked,
    execute_checks,
    header_of,
    in_order,
    last_before,
    new_folder,
)
from iotrial_suites.session.stage import armed as ready_to_write
from iotrial_suites.suites import chosen
from iotrial_suites.suites.known import false_alarms, known_here

STYLE = {"pass": "green", "fail": "bold red", "known failure": "yellow", "not run": "dim"}


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What is asked for: cases with their suites, how often, in which order, on which hosts (as
    ssh takes them; none: this machine)."""

    cases: tuple[tuple[Suite, Case], ...]
    rounds: int = 1
    seed: int | None = None
    hosts: tuple[str, ...] = ()

    @property
    def suites(self) -> tuple[Suite, ...]:
        return tuple({suite.name: suite for suite, _ in self.cases}.values())

    @property
    def ids(self) -> tuple[tuple[str, Case], ...]:
        return tuple((suite.id_of(case), case) for suite, case in self.cases)


@dataclass(frozen=True, slots=True)
class ScratchResources:
    """What cases may do harm to: these disks, and these hosts (by name)."""

    targets: tuple[Target, ...] = ()
    losable: frozenset[str] = frozenset()


def resumed(folder: Path, *, anew: bool) -> SessionRequest:
    """What the session in a folder was asked for.  Raises UsageError where it is said ``anew``, or
    where its results cannot be written, and StudyError where the folder, which may be a stranger's,
    names an ssh configuration that does more than reach its hosts."""
    header = header_of(folder)
    if anew:
        raise UsageError(
            f"what is to be done stands in {folder}",
            advice="Say --resume without SUITE, --on, --out, --repeat and --shuffle.",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{folder} cannot be written",
            advice="Check its owner and mode, or resume as the user that started it, for"
            f" example root: {as_root()} check --resume {folder}",
        )
    check_ways((way, place_of(way).ssh) for way in header.ways)
    advice = "Begin a session of your own: iotrial check SUITE --on HOST"
    need_chosen((place_of(way).via for way in header.ways), str(folder), advice)
    return SessionRequest(chosen(header.cases), header.rounds, header.seed, header.ways)


def armed(
    devices: Sequence[str], destroys: Sequence[str], hosts: Sequence[str]
) -> tuple[Target, ...]:
    """The disks that cases may write to.  Raises UsageError."""
    if len(devices) != len(destroys):
        raise UsageError(
            f"{len(devices)} of --devices, {len(destroys)} of --destroy",
            advice="Each disk that is written to is armed by its serial or WWN, in their order: "
            "`lsblk -o NAME,SIZE,SERIAL,WWN` shows them.",
        )
    names = {place.name for place in _places(hosts)}
    return tuple(_target(*pair, names) for pair in zip(devices, destroys, strict=True))


def _target(word: str, destroy: str, names: Collection[str]) -> Target:
    """``box7:ID`` is the disk of the host ``box7``; else every host has it.  A disk's own name may
    have a colon too (``eui.…:…``, a path of PCI): only what stands before it as a host's counts."""
    host, colon, device = word.partition(":")
    if colon and host in names:
        return Target(word, "device", path=device, destroy=destroy, hosts=(host,))
    return Target(word, "device", path=word, destroy=destroy)


def named(losable: Sequence[str], hosts: Sequence[str]) -> frozenset[str]:
    """The names of hosts that may be lost, each given as in ``hosts``.  Raises UsageError."""
    names = {place.name for place in _places(hosts) if place is not HERE}
    lost = _places(losable) if losable else ()
    if HERE in lost:
        raise UsageError(
            "--lose: the machine that iotrial runs on cannot be lost",
            advice="Name a host of --on that ssh reaches.",
        )
    found = frozenset(place.name for place in lost)
    if strangers := sorted(found - names):
        raise UsageError(
            f"--lose {strangers[0]}: not one of the hosts",
            advice=f"Name a host of --on: {', '.join(sorted(names)) or 'there is none'}.",
        )
    return found


def execute(
    output: Output,
    wish: SessionRequest,
    given: ScratchResources,
    *,
    out: Path | None,
    resume: Path | None,
) -> int:
    """Play what is wished for; the exit code."""
    places = _places(wish.hosts)
    purpose = f"check {' '.join(suite.name for suite in wish.suites)}"
    stopped = ""
    failure: Interrupted | OwedError | None = None
    with ExitStack() as stack:
        reach = stack.enter_context(
            machines(pretend=False, purpose=purpose, several=len(places) > 1)
        )
        pool = stack.enter_context(Pool(places, partial(_entered, output, reach)))
        hosts = [*pool.open_all().values()]
        party = _party(wish, hosts, given)

        def renewed(number: int) -> Host:
            hosts[number] = pool.renew(places[number].name)
            return hosts[number]

        header = SessionHeader(
            tuple((suite.name, suite.title) for suite in wish.suites),
            tuple(name for name, _ in wish.ids),
            tuple(party.machines),
            time.time(),
            wish.rounds,
            wish.seed,
            wish.hosts,
        )
        folder = resume or out or new_folder(Path("results"), *_named(header))
        if resume is None:
            with writing(folder):
                begin(folder, header)
        interruption = stack.enter_context(Interruption())
        last_from, last = last_before(folder.absolute(), header_of(folder))
        session = CheckSession(
            CaseEnvironment(party, interruption, renewed, false_alarms()),
            folder,
            _Terminal(output, CheckResults((), (), (), last=last, last_from=last_from)),
            known_here(party.machines),
        )
        try:
            turns = in_order(wish.ids, wish.rounds, wish.seed)
            stopped = execute_checks(session, turns)
        except (Interrupted, OwedError) as error:
            failure, stopped = error, error.message
        found = checked(folder, stopped=stopped)
        paths = report.written(found, folder)
        _say(output, found, paths)
        if isinstance(failure, OwedError):
            raise failure
        if failure is not None:
            raise Interrupted(
                failure.message,
                advice=(
                    f"Changes made by cases are undone. To resume: iotrial check --resume {folder}"
                ),
            )
        return _code(found, session)


def _named(header: SessionHeader) -> tuple[tuple[str, ...], float]:
    return tuple(name for name, _ in header.suites), header.started


def _places(hosts: Sequence[str]) -> tuple[StudyHost, ...]:
    """One host each; a word with brackets means several.  Raises UsageError."""
    if not hosts:
        return (HERE,)
    found = []
    try:
        ways = expanded(list(hosts))
    except ValueError as error:
        raise UsageError(f"--on: {error}", advice="For example --on 'box[1-3]'") from error
    for way in ways:
        if way in ("local", "localhost"):
            found.append(HERE)
        elif is_via(way):
            found.append(place_of(way))
        else:
            _, name = login(way)
            found.append(StudyHost(name.rpartition("@")[2], way))
    names_of = [place.name for place in found]
    for name in names_of:
        if names_of.count(name) > 1:
            raise UsageError(f"--on: {name} occurs twice", advice="Name each host once.")
    return tuple(found)


def _party(wish: SessionRequest, hosts: list[Host], given: ScratchResources) -> CaseHosts:
    """The hosts with the disks of each.  Raises TargetRefused: nothing has been written then."""
    tools = tuple(dict.fromkeys(tool for suite in wish.suites for tool in suite.tools))
    held: dict[str, tuple[Target, ...]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for host in hosts:
        for target in (each for each in given.targets if host.name in (each.hosts or (host.name,))):
            aim = _ready(host, target)
            held[host.name] = (*held.get(host.name, ()), target)
            sizes[host.name, target.path] = aim.identity.size if aim.identity else 0
    machines = [machine_of(host, tools) for host in hosts]
    return CaseHosts(hosts, machines, held, sizes, given.losable)


def _ready(host: Host, target: Target) -> PreparedTarget:
    """Raises TargetRefused, with advice for checks: they have no targets but disks."""
    try:
        return ready_to_write(host, target)
    except TargetRefused as refused:
        raise TargetRefused(
            refused.message,
            advice="Use another disk (`lsblk -o NAME,SIZE,SERIAL,WWN,MOUNTPOINTS`); where a"
            " case needs no real one, remove --devices: loop devices are made.",
        ) from refused


@contextmanager
def _entered(output: Output, reach: Connect, place: StudyHost) -> Iterator[Host]:
    """A host, locked, and paid what it is owed.  Raises HostUnreachable, LockedError, OwedError."""
    with reach(place) as host, locked(host):
        for line in settle(host, lambda line: output.note(f"{host.name}: {line}")).done:
            output.note(f"{host.name}: left from an earlier session: {line}")
        swept(host)
        yield host


@dataclass
class _Terminal:
    """A line a case, with how it went the last time."""

    output: Output
    past: CheckResults

    def __call__(self, event: CheckEvent) -> None:
        match event:
            case Message():
                self.output.note(event.text)
            case CaseBegan():
                self._began(event.turn, event.number, event.of)
            case CaseEnded():
                self._ended(event.result)

    def _began(self, turn: Turn, number: int, of: int) -> None:
        name, _, round_ = turn
        again = f" (round {round_})" if round_ > 1 else ""
        if self.output.verbose:
            self.output.note(f"{number}/{of}  {name}{again} …")

    def _ended(self, result: CaseResult) -> None:
        line = Text(f"{report.SIGNS[result.state]:5} ", STYLE[result.state])
        line.append(f"{result.name:<36} ", "")
        line.append(f"{report.seconds(result.seconds):>8}", "")
        if last := report.last_time(self.past, result):
            style = "yellow" if report.changed(self.past, result) else "dim"
            line.append(f"  ({last})", style)
        self.output.answer(line)
        for why in report.lines(result):
            self.output.answer(Text(f"      {why}", "bold green" if result.mended else ""))


def _say(output: Output, found: CheckResults, paths: Sequence[Path]) -> None:
    files = {path.suffix.removeprefix("."): str(path) for path in paths}
    output.document({**found.as_dict(), "results_folder": str(paths[0].parent), "reports": files})
    output.answer(Text(report.summary(found), "bold"))
    for each in found.mended:
        text = f"{each.name} was known to fail, and passes: take it off the list, or see why"
        output.answer(Text(text, "bold green"))
    if found.stopped:
        output.answer(Text(f"ended early: {found.stopped}"))
    output.note(f"report: {paths[0]}")


def _code(found: CheckResults, session: CheckSession) -> int:
    """The gravest wins, what is owed before all; where no case could be run it is no success.
    Raises OwedError, HostUnreachable."""
    if found.stopped:
        raise OwedError(
            found.stopped,
            owed=found.owed,
            advice="Fix what is named above, then run: iotrial restore",
        )
    if session.lost:
        raise HostUnreachable(
            "; ".join(session.lost.values()),
            advice=f"When it is back: iotrial check --resume {session.folder}",
        )
    if found.counts["fail"]:
        return 1
    return 5 if found.counts["not run"] == len(found.results) else 0
