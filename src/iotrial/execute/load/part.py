"""A part of a trial: one load on one target of one host, and what is done for it before, during
and after.

Most trials have one part; one that loads several targets has a part for each.  The checks of
validity say what is to be read around a load (:mod:`iotrial.validity`); it is read here.  What each
host, link, adapter, device and path bore meanwhile is kept as ``strain.json`` in the trial's
folder; what it means is decided when it is read (:mod:`iotrial.stats.scaling`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iotrial import validity
from iotrial.errors import FormatError, TrialError
from iotrial.execute.hosts import Hosts
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.cache import meet_cache
from iotrial.execute.load.chores import clear, gather_evidence, lefts, own
from iotrial.execute.load.load import LoadExit, last_words
from iotrial.execute.load.sealed import DEV, Sandbox
from iotrial.execute.load.served import ToolClient
from iotrial.execute.session import HostSession
from iotrial.files import write_bytes, write_text
from iotrial.formats.telemetry import DiskAdapter, TelemetryRange, between, limits, strains
from iotrial.look.inodes import folders_of, settled
from iotrial.model.host import Host
from iotrial.model.listen import ListenAddress
from iotrial.model.results import ResourceUsage
from iotrial.model.step import Read
from iotrial.model.target import PreparedTarget, Topology
from iotrial.model.tool import (
    Leftover,
    Load,
    LoadBarrier,
    ParsedOutput,
    SupportsBarrier,
    SupportsCaching,
    SupportsQueueing,
    SupportsServer,
    SupportsTrace,
    Tool,
    aimed_at,
    inside,
)
from iotrial.model.trial import Doubt, Trial, TrialState
from iotrial.model.validity import CheckContext, LoadEvidence, Snapshot
from iotrial.model.workload import Workload
from iotrial.plan.design import workload_of
from iotrial.plan.placement import nics, spread, ways
from iotrial.tools import tool
from iotrial.trial_files import STRAIN, STRAIN_FORMAT
from iotrial.units import parse_bytes
from iotrial.validity import written
from iotrial.validity.disk import measured
from iotrial.validity.written import TELEMETRY


def scene_of(session: HostSession, trial: Trial, facts: Mapping[str, float]) -> CheckContext:
    """What the checks need to know of a trial before its load begins."""
    aim, workload = session.aims[trial.target], workload_of(session.study, trial)
    driver = tool(workload.tool)
    reach = driver.reach(workload)
    buffered = driver.buffered(workload) if isinstance(driver, SupportsCaching) else ""
    topology = session.topologies.get(trial.target) if reach.storage else None
    return CheckContext(
        device=aim.device if reach.storage else "",
        disks=topology.names("disk") if topology else (),
        kind=aim.target.under_load,
        reads=reach.reads,
        writes=reach.writes,
        direct=isinstance(driver, SupportsCaching) and not buffered,
        buffered=buffered,
        cache=workload.cache,
        size=_size(aim, workload),
        memory=facts.get("memory", 0.0),
        cpus=max(1, int(facts.get("cpus", 1))),
        depth=driver.depth(workload, facts) if isinstance(driver, SupportsQueueing) else 0,
        ways=_ways(topology) if topology else (),
        below=tuple(node.name for node in topology.nodes) if topology else (),
    )


def _ways(topology: Topology) -> tuple[tuple[str, str, str], ...]:
    return tuple((w.disk, w.hub, w.numa) for w in ways(topology)) if spread(topology) else ()


def _size(aim: PreparedTarget, workload: Workload) -> int:
    """Bytes that a load may use, 0 unknown: of all files where it has a folder."""
    if aim.target.under_load != "directory":
        return aim.target.size or (aim.identity.size if aim.identity else 0)
    try:
        size = parse_bytes(str(workload.option("size", "0")))
        return size * int(str(workload.option("numjobs", 1)))
    except ValueError:
        return 0


def take(host: Host, scene: CheckContext) -> Snapshot:
    """Everything that any check wants read, now: one round trip."""
    wanted = validity.readings(scene)
    answers = host.batch([Read(reading.probe) for reading in wanted])
    said = {
        reading.probe.place: reading.keep(answer.raw.decode("utf-8", "replace"))
        for reading, answer in zip(wanted, answers, strict=True)
        if not answer.errno
    }
    return Snapshot(host.clock(), said)


def decide(
    folder: Path,
    scene: CheckContext,
    seen: tuple[Snapshot, Snapshot],
    load: tuple[float, ParsedOutput],
) -> tuple[Doubt, ...]:
    """Write down what was ``seen`` before and after a load in the trial's folder, and judge it.
    ``load`` is how many seconds it lived and what it said."""
    seconds, parsed = load
    samples = written.samples(folder / written.TELEMETRY)
    pauses = written.pauses(folder / written.PAUSES)
    case = LoadEvidence(scene, *seen, seconds, parsed.measurements, samples, pauses, parsed.disks)
    written.save(folder, case)
    if not parsed.measurements:
        return ()  # it failed: there is nothing to doubt
    said = {doubt.check for doubt in parsed.doubts}
    return validity.judged(case, said | ({"cached"} if "page-cache" in said else set()))


@dataclass
class TrialPart:
    """``trial`` is the trial with this part as its target; ``name`` tells it from the others ('':
    there are none).  ``folder`` is where everything of it is kept, ``load`` what is written down
    there; ``listen`` where its server is reached, if that is on the network.  ``beside`` is the
    name of a workload that only runs beside the one that is judged ('': it is that one), and
    ``shared`` that there is such a one.  ``sampled`` of a host's first part are
    :attr:`iotrial.execute.load.sampler.Sampler.values`."""

    session: HostSession
    trial: Trial
    folder: Path
    name: str = ""
    load: Load = field(default_factory=lambda: Load(()))
    ended: LoadExit = field(default_factory=lambda: LoadExit(-1, 0.0))
    leaves: tuple[Leftover, ...] = ()
    doubts: list[Doubt] = field(default_factory=list)
    scene: CheckContext | None = None
    seen: list[Snapshot] = field(default_factory=list)
    sampled: Mapping[tuple[str, str], Sequence[tuple[float, str]]] = field(default_factory=dict)
    listen: ListenAddress | None = None
    beside: str = ""
    shared: bool = False
    _plain: Load = field(default_factory=lambda: Load(()))

    @property
    def aim(self) -> PreparedTarget:
        return self.session.aims[self.trial.target]

    @property
    def topology(self) -> Topology:
        return self.session.topologies.get(self.trial.target, Topology())

    @property
    def workload(self) -> Workload:
        return workload_of(self.session.study, self.trial)

    @property
    def driver(self) -> Tool:
        return tool(self.session.study.workload(self.trial.workload).tool)

    def words(self, what: str) -> str:
        """What happened, and where."""
        return f"{self.name}: {what}" if self.name and what else what

    # -- before -----------------------------------------------------------------------------------

    def ready(self) -> str:
        """What is done right before the settings are read; gives back what is wrong, or ''."""
        session = self.session
        aimed = aimed_at(self.aim)
        self.leaves = lefts(self.driver, self.workload, aimed, self.session.numbers)
        try:
            own(session, self.aim, self.leaves)
            folders_of(session.host, self.aim.target, self.leaves, session.inodes)
            self.doubts += meet_cache(session, self.trial)
        except TrialError as refused:
            return self.words(refused.message)
        return ""

    def look(self) -> None:
        """Read what the checks of validity want."""
        session = self.session
        scene = self.scene or scene_of(session, self.trial, self.session.numbers)
        self.scene = replace(scene, shared=self.shared)
        self.seen.append(take(session.host, self.scene))

    def command(self) -> tuple[str, ...]:
        """What is executed on the host; what does the load is written down, with the files it
        needs, in the folder."""
        study = self.session.study
        load = self.driver.command(self.workload, aimed_at(self.aim), self.session.numbers)
        if study.aa and isinstance(self.driver, SupportsTrace):
            load = self.driver.traced(load, self.workload)
        self.load = self._through(load)
        for name, content in self.load.files:
            write_bytes(self.folder / name, content)
        text = shlex.join(self.load.argv) + "\n"
        write_text(self.folder / "command", text)
        self._plain = load
        return self.served.serving(self.listen)[0] if self.served else load.argv

    def gated(self, gate: LoadBarrier) -> Load | None:
        """The same, waiting at ``gate`` when it is ready; None where the tool cannot."""
        if isinstance(self.driver, SupportsBarrier):
            return self.driver.gated(self._plain, self.workload, gate)
        return None

    def client(self, gate: LoadBarrier | None) -> ToolClient:
        """What tells the server what to do; its jobs wait at ``gate`` when they are ready."""
        driver = self.served
        assert driver is not None  # noqa: S101 (for the type checker: only asked where it is)
        waiting = self.gated(gate) if gate else None
        load, link = driver.client(waiting or self._plain, self.listen)
        return ToolClient(
            driver, self.folder, load, link, driver.serving(self.listen)[1], self.listen
        )

    @property
    def served(self) -> SupportsServer | None:
        """The tool, where its own client and server do the load."""
        driver = self.driver
        if self.workload.start == "server" and isinstance(driver, SupportsServer):
            return driver
        return None

    def _through(self, load: Load) -> Load:
        return self.served.client(load, self.listen)[0] if self.served else load

    def seconds(self) -> float:
        """How long the load is expected to take."""
        return self.driver.seconds(self.workload, aimed_at(self.aim))

    # -- after ------------------------------------------------------------------------------------

    def gather(self, interruption: Interruption) -> None:
        """What is done while the settings still hold."""
        session = self.session
        path = aimed_at(self.aim).path
        self.doubts += gather_evidence(
            session.host,
            [tuple(w.replace("{target}", path) for w in argv) for argv in self.workload.evidence],
            self.folder,
            token=session.journal.token,
            interruption=interruption,
        )
        clear(session, self.leaves)

    def settle(self) -> None:
        """Take down what lies at the target now: a load, or a chore after it, may have made its
        file anew.  Raises TargetRefused."""
        aims = self.session.aims
        aims[self.trial.target] = settled(self.session.host, self.aim)

    def read(self) -> tuple[TrialState, str, ParsedOutput]:
        """What the load came to by itself."""
        nothing, driver = ParsedOutput(()), self.driver
        if self.ended.timed_out:
            limit = "together with the other loads" if self.name else "within its limit"
            what = f"{driver.name} did not end {limit} and was stopped"
            return "failed", self.words(what), nothing
        if self.ended.exit != 0:
            what = f"{driver.name}: {last_words(self.folder, self.ended)}"
            return "failed", self.words(what), nothing
        try:
            return "valid", "", driver.parse(self.folder)
        except FormatError as error:
            return "failed", self.words(error.message), nothing

    def measured(self, parsed: ParsedOutput) -> float:
        """Seconds at the end of the load that it measured, as it says; 0 unknown."""
        before, after = self.seen
        seconds = self.ended.seconds
        return measured(
            LoadEvidence(self.scene or CheckContext(), before, after, seconds, parsed.measurements)
        )

    def decide(self, parsed: ParsedOutput) -> tuple[Doubt, ...]:
        """What the checks of validity say."""
        assert self.scene is not None  # noqa: S101 (for the type checker: looked before)
        before, after = self.seen
        return decide(self.folder, self.scene, (before, after), (self.ended.seconds, parsed))


def trial_parts(hosts: Hosts, trial: Trial, folder: Path) -> tuple[TrialPart, ...]:
    """The parts of a trial, each with its folder.  Of a study with one part the trial's own; where
    another load runs beside it, that one is the last."""
    beside = workload_of(hosts.study, trial).beside
    if not hosts.several and not beside:
        return (TrialPart(hosts.first, trial, folder),)
    parts = []
    for part in hosts.parts(trial):
        own = folder / part.host / part.target.name
        own.mkdir(parents=True)
        alone = replace(trial, target=part.target.name)
        parts.append(
            TrialPart(hosts.sessions[part.host], alone, own, part.name, shared=bool(beside))
        )
    if beside:
        parts.append(_neighbour(hosts, trial, parts[0], beside))
    return tuple(parts)


def _neighbour(hosts: Hosts, trial: Trial, first: TrialPart, name: str) -> TrialPart:
    """The load that runs beside the ``first`` part: as the study has it, whatever is varied."""
    workload = hosts.study.workload(name)
    target = workload.target or first.trial.target
    own = first.folder.parent / ("beside" if first.folder.name != "beside" else "beside-it")
    own.mkdir()
    return TrialPart(
        first.session,
        replace(trial, workload=name, target=target, treatment=()),
        own,
        f"{first.session.name}/{own.name}",
        beside=name,
        shared=True,
    )


def by_host(parts: Sequence[TrialPart]) -> Mapping[str, list[TrialPart]]:
    """The parts of each host, in their order."""
    found: dict[str, list[TrialPart]] = {}
    for part in parts:
        found.setdefault(part.session.name, []).append(part)
    return found


def gathered(doubts: Sequence[tuple[str, Doubt]], most: int = 4) -> tuple[Doubt, ...]:
    """Doubts of several parts, by their names, those of one kind as one; of a part without a name,
    the only one, as they are."""
    if not any(name for name, _ in doubts):
        return tuple(doubt for _, doubt in doubts)
    kinds: dict[tuple[str, str, bool], dict[str, None]] = {}
    for name, doubt in doubts:
        what = f"{name}: {doubt.what}" if name else doubt.what
        kinds.setdefault((doubt.check, doubt.advice, doubt.invalid), {})[what] = None
    found = []
    for (check, advice, invalid), whats in kinds.items():
        shown = [*whats][:most]
        more = f" (and {len(whats) - most} more)" if len(whats) > most else ""
        found.append(Doubt(check, "; ".join(shown) + more, advice, invalid=invalid))
    return tuple(found)


def seal_of(part: TrialPart) -> Sandbox:
    """What the load of a part may not write.  Of its target, what iotrial made or the study arms
    is nobody's loss; disks beside it are, whatever the load."""
    aim, session = part.aim, part.session
    reach = part.driver.reach(part.workload)
    if not reach.storage:
        return Sandbox()
    if aim.target.under_load == "device":
        nodes = (aim.path, f"{DEV}/{aim.device}")
        if reach.writes:
            return Sandbox(free=nodes, disks=reach.opaque)
        elsewhere = () if aim.path.startswith(f"{DEV}/") else (aim.path,)
        return Sandbox(disks=True, nodes=elsewhere)
    # A path that leads to everything leaves nothing to close.
    disks = Sandbox(disks=aim.path != "/")
    ours = {aim.path, aim.device} & session.gone_with or aim.target.name in session.laid
    if ours or aim.target.destroy:
        return disks
    directory = aim.target.kind == "directory"
    disks = replace(disks, nodeless=(aim.path,) if directory else ())
    folders = tuple(inside(left.path) for left in part.leaves if left.kind == "folder")
    there_alone = bool(folders) and len(folders) == len(part.leaves) and not reach.paths
    if reach.writes and not (directory and there_alone):
        return disks
    return replace(disks, shut=(aim.path,), free=folders)


def strained(came: Sequence[tuple[TrialPart, ParsedOutput]]) -> tuple[ResourceUsage, ...]:
    """Everything of every host that took part."""
    parsed = {id(part): told for part, told in came}
    found: list[ResourceUsage] = []
    for host, parts in by_host([part for part, _ in came]).items():
        told = [each for part in parts if (each := _told(part, parsed[id(part)]))]
        found += strains(host, told)
    return tuple(found)


def keep_strain(folder: Path, found: Sequence[ResourceUsage]) -> None:
    """Write it down; nothing where there is nothing."""
    if found:
        rows = [each.as_dict() for each in found]
        text = json.dumps({"format": STRAIN_FORMAT, "strains": rows}, separators=(",", ":"))
        (folder / STRAIN).write_text(text + "\n", encoding="utf-8")


def _told(part: TrialPart, parsed: ParsedOutput) -> TelemetryRange | None:
    path = part.folder / TELEMETRY
    data = path.read_bytes() if path.is_file() else b""
    span = between(data, part.measured(parsed), part.ended.seconds)
    if span is None:
        return None
    known = ways(part.topology)
    return TelemetryRange(
        part=part.name,
        device=part.aim.device,
        first=span[0],
        last=span[1],
        ways={way.disk: DiskAdapter(way.hub, way.speed) for way in known},
        limits=limits(data, {way.disk: way.queues for way in known}),
        nics=nics(part.topology),
    )
