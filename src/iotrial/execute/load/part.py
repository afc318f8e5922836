"""A post: one part of a trial, and what is done at it before, during and after its load.

A trial has one post, or one for each (host, target) pair that it loads at the same time.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iotrial.errors import FormatError, TrialError
from iotrial.execute.hosts import Hosts
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import validity
from iotrial.execute.load.cache import meet_cache
from iotrial.execute.load.chores import gather_evidence
from iotrial.execute.load.load import Ended, last_words
from iotrial.execute.load.sealed import DEV, Seal
from iotrial.execute.load.served import Client
from iotrial.execute.load.upkeep import clear, lefts, own
from iotrial.execute.session import HostSession
from iotrial.look.inodes import folders_of, settled
from iotrial.model.listen import Listen
from iotrial.model.target import Aim, Topology
from iotrial.model.tool import (
    Gate,
    Gated,
    Left,
    Load,
    Parsed,
    Served,
    Tool,
    Tracing,
    aimed_at,
    inside,
)
from iotrial.model.trial import Doubt, Trial, TrialState
from iotrial.model.validity import Case, Scene, Snapshot
from iotrial.model.workload import Workload
from iotrial.plan.design import workload_of
from iotrial.tools import tool
from iotrial.validity.disk import measured


@dataclass
class TrialPart:
    """``trial`` is the trial with this part as its target; ``name`` tells it from the others ('':
    there are none).  ``folder`` is where everything of it is kept, ``load`` what is written down
    there; ``listen`` where its server is reached, if that is on the network."""

    session: HostSession
    trial: Trial
    folder: Path
    name: str = ""
    load: Load = field(default_factory=lambda: Load(()))
    ended: Ended = field(default_factory=lambda: Ended(-1, 0.0))
    leaves: tuple[Left, ...] = ()
    doubts: list[Doubt] = field(default_factory=list)
    scene: Scene | None = None
    seen: list[Snapshot] = field(default_factory=list)
    listen: Listen | None = None
    _plain: Load = field(default_factory=lambda: Load(()))

    @property
    def aim(self) -> Aim:
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
        self.scene = self.scene or validity.scene_of(session, self.trial, self.session.numbers)
        self.seen.append(validity.take(session.host, self.scene))

    def command(self) -> tuple[str, ...]:
        """What is executed on the host; what does the load is written down, with the files it
        needs, in the folder."""
        study = self.session.study
        load = self.driver.command(self.workload, aimed_at(self.aim), self.session.numbers)
        if study.aa and isinstance(self.driver, Tracing):
            load = self.driver.traced(load, self.workload)
        self.load = self._through(load)
        for name, content in self.load.files:
            (self.folder / name).write_bytes(content)
        text = shlex.join(self.load.argv) + "\n"
        (self.folder / "command").write_text(text, encoding="utf-8")
        self._plain = load
        return self.served.serving(self.listen)[0] if self.served else load.argv

    def gated(self, gate: Gate) -> Load | None:
        """The same, waiting at ``gate`` when it is ready; None where the tool cannot."""
        if isinstance(self.driver, Gated):
            return self.driver.gated(self._plain, self.workload, gate)
        return None

    def client(self, gate: Gate | None) -> Client:
        """What tells the server what to do; its jobs wait at ``gate`` when they are ready."""
        driver = self.served
        assert driver is not None  # noqa: S101 (for the type checker: only asked where it is)
        waiting = self.gated(gate) if gate else None
        load, link = driver.client(waiting or self._plain, self.listen)
        return Client(driver, self.folder, load, link, driver.serving(self.listen)[1], self.listen)

    @property
    def served(self) -> Served | None:
        """The tool, where its own client and server do the load."""
        driver = self.driver
        if self.workload.start == "server" and isinstance(driver, Served):
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

    def read(self) -> tuple[TrialState, str, Parsed]:
        """What the load came to by itself."""
        nothing, driver = Parsed(()), self.driver
        if self.ended.timed_out:
            limit = "with the others" if self.name else "within its limit"
            what = f"{driver.name} did not end {limit} and was ended"
            return "failed", self.words(what), nothing
        if self.ended.exit != 0:
            what = f"{driver.name}: {last_words(self.folder, self.ended)}"
            return "failed", self.words(what), nothing
        try:
            return "valid", "", driver.parse(self.folder)
        except FormatError as error:
            return "failed", self.words(error.message), nothing

    def measured(self, parsed: Parsed) -> float:
        """Seconds at the end of the load that it measured, as it says; 0 unknown."""
        before, after = self.seen
        seconds = self.ended.seconds
        return measured(Case(self.scene or Scene(), before, after, seconds, parsed.measurements))

    def decide(self, parsed: Parsed) -> tuple[Doubt, ...]:
        """What the checks of validity say."""
        assert self.scene is not None  # noqa: S101 (for the type checker: looked before)
        before, after = self.seen
        return validity.decide(
            self.folder, self.scene, (before, after), (self.ended.seconds, parsed)
        )


def trial_parts(hosts: Hosts, trial: Trial, folder: Path) -> tuple[TrialPart, ...]:
    """The posts of a trial, each with its folder.  Of a study with one part the trial's own."""
    if not hosts.several:
        return (TrialPart(hosts.first, trial, folder),)
    parts = []
    for part in hosts.parts(trial):
        own = folder / part.host / part.target.name
        own.mkdir(parents=True)
        alone = replace(trial, target=part.target.name)
        parts.append(TrialPart(hosts.sessions[part.host], alone, own, part.name))
    return tuple(parts)


def by_host(parts: Sequence[TrialPart]) -> Mapping[str, list[TrialPart]]:
    """The posts of each host, in their order."""
    found: dict[str, list[TrialPart]] = {}
    for part in parts:
        found.setdefault(part.session.name, []).append(part)
    return found


def gathered(doubts: Sequence[tuple[str, Doubt]], most: int = 4) -> tuple[Doubt, ...]:
    """Doubts of several posts, by their names, those of one kind as one; of a post without a name,
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
        more = f" (and {len(whats) - most} more like it)" if len(whats) > most else ""
        found.append(Doubt(check, "; ".join(shown) + more, advice, invalid=invalid))
    return tuple(found)


def seal_of(part: TrialPart) -> Seal:
    """What the load of a post may not write.  Of its target, what iotrial made or the study arms
    is nobody's loss; disks beside it are, whatever the load."""
    aim, session = part.aim, part.session
    reach = part.driver.reach(part.workload)
    if not reach.storage:
        return Seal()
    if aim.target.under_load == "device":
        nodes = (aim.path, f"{DEV}/{aim.device}")
        if reach.writes:
            return Seal(free=nodes, disks=reach.opaque)
        elsewhere = () if aim.path.startswith(f"{DEV}/") else (aim.path,)
        return Seal(disks=True, nodes=elsewhere)
    # A path that leads to everything leaves nothing to close.
    disks = Seal(disks=aim.path != "/")
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
