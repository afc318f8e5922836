"""What checks of validity want read, read; and their decision.  The deciding is in
:mod:`iotrial.validity`, the writing down in :mod:`iotrial.validity.written`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iotrial import validity
from iotrial.execute.session import HostSession
from iotrial.model.host import Host
from iotrial.model.step import Look
from iotrial.model.target import Aim, Topology
from iotrial.model.tool import Caching, Parsed, Queueing
from iotrial.model.trial import Doubt, Trial
from iotrial.model.validity import Case, Scene, Snapshot
from iotrial.model.workload import Workload
from iotrial.plan.design import workload_of
from iotrial.plan.placement import spread, ways
from iotrial.tools import tool
from iotrial.units import parse_bytes
from iotrial.validity import written


def scene_of(session: HostSession, trial: Trial, facts: Mapping[str, float]) -> Scene:
    """What the checks need to know of a trial before its load begins."""
    aim, workload = session.aims[trial.target], workload_of(session.study, trial)
    driver = tool(workload.tool)
    reach = driver.reach(workload)
    buffered = driver.buffered(workload) if isinstance(driver, Caching) else ""
    topology = session.topologies.get(trial.target) if reach.storage else None
    return Scene(
        device=aim.device if reach.storage else "",
        disks=topology.names("disk") if topology else (),
        kind=aim.target.under_load,
        reads=reach.reads,
        writes=reach.writes,
        direct=isinstance(driver, Caching) and not buffered,
        buffered=buffered,
        cache=workload.cache,
        size=_size(aim, workload),
        memory=facts.get("memory", 0.0),
        cpus=max(1, int(facts.get("cpus", 1))),
        depth=driver.depth(workload, facts) if isinstance(driver, Queueing) else 0,
        ways=_ways(topology) if topology else (),
        below=tuple(node.name for node in topology.nodes) if topology else (),
    )


def _ways(topology: Topology) -> tuple[tuple[str, str, str], ...]:
    return tuple((w.disk, w.hub, w.numa) for w in ways(topology)) if spread(topology) else ()


def _size(aim: Aim, workload: Workload) -> int:
    """Bytes that a load may use, 0 unknown: of all files where it has a folder."""
    if aim.target.under_load != "directory":
        return aim.target.size or (aim.identity.size if aim.identity else 0)
    try:
        size = parse_bytes(str(workload.option("size", "0")))
        return size * int(str(workload.option("numjobs", 1)))
    except ValueError:
        return 0


def take(host: Host, scene: Scene) -> Snapshot:
    """Everything that any check wants read, now: one round trip."""
    wanted = validity.readings(scene)
    answers = host.batch([Look(reading.probe) for reading in wanted])
    said = {
        reading.probe.place: reading.keep(answer.raw.decode("utf-8", "replace"))
        for reading, answer in zip(wanted, answers, strict=True)
        if not answer.errno
    }
    return Snapshot(host.clock(), said)


def decide(
    folder: Path, scene: Scene, seen: tuple[Snapshot, Snapshot], load: tuple[float, Parsed]
) -> tuple[Doubt, ...]:
    """Write down what was ``seen`` before and after a load in the trial's folder, and judge it.
    ``load`` is how many seconds it lived and what it said."""
    seconds, parsed = load
    samples = written.samples(folder / written.TELEMETRY)
    pauses = written.pauses(folder / written.PAUSES)
    case = Case(scene, *seen, seconds, parsed.measurements, samples, pauses, parsed.disks)
    written.save(folder, case)
    if not parsed.measurements:
        return ()  # it failed: there is nothing to doubt
    said = {doubt.check for doubt in parsed.doubts}
    return validity.judged(case, said | ({"cached"} if "page-cache" in said else set()))
