"""What a host says of the knobs that ``iotrial tune`` may vary: their values in force, their
domains, and which of them cannot be set.  Only reads, in a few round trips; the deciding is in
:mod:`iotrial.plan.candidates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from iotrial.hosts.steps import reads
from iotrial.look import reading
from iotrial.look.facts import gather, numbers
from iotrial.look.mounts import parse_swaps
from iotrial.look.refusals import control_file, modes, obstacle
from iotrial.model.host import Reader
from iotrial.model.step import NOT_HERE, Read
from iotrial.model.target import Topology
from iotrial.model.tunable import Tunable
from iotrial.plan.candidate_rules import REQUESTS, SCHEDULER, CandidateFacts
from iotrial.plan.candidates import KnobReading
from iotrial.tunables import tunable

_OF_DISKS = ("device", "disk")
_NEW_QUEUE = {"queue.nomerges": "0", "queue.rq_affinity": "1", "queue.add_random": "0"}
_NEW_LOOP = "/sys/module/loop/parameters/hw_queue_depth"


@dataclass(frozen=True, slots=True)
class CandidateView:
    """What was seen: ``seen`` of each knob what each of its devices says."""

    seen: Mapping[str, tuple[KnobReading, ...]]
    facts: CandidateFacts
    numbers: Mapping[str, float]


def candidates_seen(
    host: Reader, names: Iterable[str], below: Topology, *, made: bool = False
) -> CandidateView:
    """``made``: the target is a loop device that the run will make; what lies ``below`` has another
    device in its place, which is asked what the kernel accepts."""
    knobs = [tunable(name) for name in names]
    pairs = [(knob, device) for knob in knobs for device in below.names(knob.scope)]
    read = dict(zip(pairs, _read(host, pairs), strict=True))
    seen = {
        knob.name: tuple(read[knob, device] for device in below.names(knob.scope)) for knob in knobs
    }
    known = numbers(gather(host, (), ["fio"]))
    facts = CandidateFacts(
        cpus=int(known["cpus"]),
        numa=len({about for each in below.nodes if (about := dict(each.about).get("numa"))}) or 1,
        memory=int(known["memory"]),
        swap=bool(parse_swaps(reading.text(host, "/proc/swaps"))),
        tags=_least(host, [_tags(d, made=made) for d in below.names("disk")]),
        transfer=_least(
            host, [f"/sys/block/{d}/queue/max_hw_sectors_kb" for d in below.names("disk")]
        ),
    )
    return CandidateView(_of_new_loop(seen, facts) if made else seen, facts, known)


def _tags(disk: str, *, made: bool) -> str:
    return _NEW_LOOP if made else f"/sys/block/{disk}/mq/0/nr_tags"


def _least(host: Reader, paths: Sequence[str]) -> int:
    said = reading.texts(host, paths) if paths else {}
    return min((int(text) for text in said.values() if text.isdecimal()), default=0)


def _read(host: Reader, pairs: Sequence[tuple[Tunable, str]]) -> list[KnobReading]:
    probes = [knob.probe(device) for knob, device in pairs]
    answers = host.batch([Read(probe) for probe in probes]) if probes else ()
    files = modes(host, [control_file(knob, device) for knob, device in pairs])
    found = []
    for (knob, device), probe, answer in zip(pairs, probes, answers, strict=True):
        value = reads(probe, answer)
        if value is None:
            gone = answer.errno in NOT_HERE or not answer.complaint
            why = "this host does not have it" if gone else answer.complaint
        else:
            why = knob.reload or obstacle(knob, device, files)
        found.append(KnobReading(device, value or "", knob.domain(answer.raw), why))
    return found


def _of_new_loop(
    seen: Mapping[str, tuple[KnobReading, ...]], facts: CandidateFacts
) -> dict[str, tuple[KnobReading, ...]]:
    """What a new loop device will say, whatever was done to the one that is asked: it begins
    without a scheduler (BLK_MQ_F_NO_SCHED_BY_DEFAULT of drivers/block/loop.c), with as many
    requests as it has tags, and the flags that every queue begins with
    (include/linux/blkdev.h QUEUE_FLAG_MQ_DEFAULT)."""
    foreign = "a loop device does not have it"
    own = {SCHEDULER: "none", REQUESTS: str(facts.tags) if facts.tags else "", **_NEW_QUEUE}
    found = dict(seen)
    for name, said in seen.items():
        if tunable(name).scope not in _OF_DISKS:
            continue
        why = "" if name.startswith("queue.") else foreign
        found[name] = tuple(
            replace(each, value=own.get(name) or each.value, why=each.why or why, likely=True)
            for each in said
        )
    return found
