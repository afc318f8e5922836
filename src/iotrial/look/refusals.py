"""Depths: cells whose ``nr_requests`` is more than the device takes with their scheduler.

Each level may be fine by itself, and the kernel still refuse two of them together
(block/blk-sysfs.c queue_requests_store(), block/blk-mq.c blk_mq_update_nr_requests(); tried on a
loop device with 6.18): without a scheduler a request needs a tag of the device, and there are
``mq/0/nr_tags`` of them, which stay as many whatever is written; a scheduler takes 2048 at most.
Only reads.

Which control files can be written at all: asked of a host in one round trip.

A parameter that a driver reads only when it is loaded has a file without permission to write
(mode 0444), for root too: kernfs looks at the mode itself (fs/kernfs/file.c).  So a look at the
mode tells, before anything is changed, that a level can never be in force.

Whether a configuration file can be given back as it was: content, owner and mode can, what
else a name is tied to cannot.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath

from iotrial.errors import SettingRefused
from iotrial.hosts.steps import reads
from iotrial.look.offer import Domains, RequestedValue, wants
from iotrial.model.host import Reader
from iotrial.model.step import Probe, Read, spoken
from iotrial.model.study import Study
from iotrial.model.target import Topology
from iotrial.model.trial import Treatment, treatment_text
from iotrial.model.tunable import Tunable
from iotrial.plan.ahead import each_study
from iotrial.plan.design import cells, levels_of, nodes
from iotrial.tunables import Catalogue, catalogue_of, tunable

_SCHEDULER, _REQUESTS = "queue.scheduler", "queue.nr_requests"
_BOTH = (_SCHEDULER, _REQUESTS)
_MOST = 2048
"""Requests that any scheduler takes: MAX_SCHED_RQ of block/blk-mq.h, and the same number by
another name in every kernel that has ``mq/``."""
_NONE = ("none", "noop")
_LOOPS = "/sys/module/loop/parameters/hw_queue_depth"


@dataclass(frozen=True, slots=True)
class _Queue:
    """What a device says: its name for people, the scheduler in force ('': not known), its tags
    (0: not known), and where they are read."""

    name: str
    scheduler: str
    tags: int
    place: str


def too_deep(host: Reader, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every cell that asks for more requests than its device takes with its scheduler, in words.

    Nothing is said of a device that does not tell its tags: it has one queue, or none of its own.
    """
    asked = list(_asked(study, topologies))
    queues = _queues(host, study, list(dict.fromkeys((at, device) for _, at, device, _ in asked)))
    for cell, target, device, held in asked:
        queue = queues[target, device]
        if why := _problem(held.get(_SCHEDULER, queue.scheduler), held[_REQUESTS], queue):
            yield f"cell {treatment_text(cell)}: {_REQUESTS}: {why}"


def _problem(scheduler: str, value: str, queue: _Queue) -> str:
    """Why the kernel refuses ``value`` requests, or ''."""
    if not queue.tags or not scheduler or not value.isdecimal():
        return ""
    requests = int(value)
    if scheduler in _NONE and requests > queue.tags:
        return (
            f"{requests} on {queue.name} is above its {queue.tags} tags ({queue.place}), and"
            f" without a scheduler (`{scheduler}`) each request needs one. Use {queue.tags} or"
            f" less, or a scheduler, which accepts {_MOST}."
        )
    if scheduler not in _NONE and requests > _MOST:
        return (
            f"{requests} on {queue.name} is above {_MOST}, the limit with a scheduler"
            f" (`{scheduler}`). Use {_MOST} or less."
        )
    return ""


_Asked = tuple[Treatment, str, str, Mapping[str, str]]


def _asked(study: Study, topologies: Mapping[str, Topology]) -> Iterator[_Asked]:
    """Of each cell that sets nr_requests, as far as it says something of queues: target, device,
    and what both tunables are set to there."""
    seen: dict[tuple[Treatment, str, str], None] = {}
    for cell in dict.fromkeys(_cells(study)):
        held: dict[tuple[str, str], dict[str, str]] = {}
        for factor, level in levels_of(study, cell):
            for target in [factor.target] if factor.target else topologies:
                for name, value in level.settings if target in topologies else ():
                    below = topologies[target]
                    for device in nodes(factor, tunable(name), below) if name in _BOTH else ():
                        held.setdefault((target, device), {})[name] = value
        for (target, device), values in held.items():
            if _REQUESTS in values and (cell, target, device) not in seen:
                seen[cell, target, device] = None
                yield cell, target, device, values


def _cells(study: Study) -> Iterator[Treatment]:
    """Every cell of every stage, without the factors that do not touch the two tunables."""
    factors = [factor for factor in study.factors if factor.levels]
    touching = {
        factor.name
        for factor in factors
        if any(name in _BOTH for level in factor.levels for name, _ in level.settings)
    }
    if not any(_REQUESTS in dict(level.settings) for f in factors for level in f.levels):
        return
    for each in each_study(study):
        for workload in each.judged:
            for cell in cells(each, workload.name):
                yield tuple(pair for pair in cell if pair[0] in touching)


def _queues(
    host: Reader, study: Study, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], _Queue]:
    """What every device of a target says, asked in one batch."""
    loops = {target.name for target in study.targets if target.kind == "loop"}
    # Before a loop device is made, another disk stands in for it, whose queue is its own.
    other = [at in loops and not device.startswith("loop") for at, device in wanted]
    probes = [
        each
        for (_, device), is_other in zip(wanted, other, strict=True)
        for each in (
            tunable(_SCHEDULER).probe(device),
            Probe(_LOOPS if is_other else f"/sys/block/{device}/mq/0/nr_tags"),
        )
    ]
    answers = host.batch([Read(probe) for probe in probes]) if probes else ()
    said = [reads(probe, answer) or "" for probe, answer in zip(probes, answers, strict=True)]
    return {
        (at, device): _Queue(
            "a new loop device" if is_other else device,
            "none" if is_other else scheduler,
            int(tags) if tags.isdecimal() else 0,
            probe.path,
        )
        for (at, device), is_other, scheduler, tags, probe in zip(
            wanted, other, said[::2], said[1::2], probes[1::2], strict=True
        )
    }


_WRITE = 0o222
_AT_ONCE = 500
"""Paths in one command: far below what a command line holds."""


def control_file(knob: Tunable, device: str) -> str:
    """The file that setting the knob writes into, or '' where it is set in another way."""
    special = knob.how is not None or knob.change or knob.read
    return "" if special else knob.probe(device).path


def modes(host: Reader, paths: Iterable[str]) -> dict[str, int]:
    """The permissions of those of the files that are there."""
    asked = list(dict.fromkeys(filter(None, paths)))
    found: dict[str, int] = {}
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        found |= understood(host.run(["stat", "-L", "-c", "%a %n", *some]).text)
    return found


def understood(said: str) -> dict[str, int]:
    """What ``stat -c '%a %n'`` said.  Lines that are no such pair are left out.

    >>> understood("644 /sys/block/sda/queue/scheduler\\n")
    {'/sys/block/sda/queue/scheduler': 420}
    """
    pairs = (line.partition(" ") for line in said.splitlines())
    return {path: int(mode, 8) for mode, _, path in pairs if path and mode.isdigit()}


def obstacle(knob: Tunable, device: str, known: Mapping[str, int]) -> str:
    """Why the knob can be no factor of a trial, or ''.  A file of unknown mode is no obstacle:
    it may come with another setting."""
    path = control_file(knob, device)
    mode = known.get(path, _WRITE)
    if mode & _WRITE:
        return ""
    known_why = dict(knob.means).get(errno.EPERM)
    if known_why:
        return f"{path} is read-only (mode {mode:04o}): {known_why}"
    return (
        f"{path} is read-only (mode {mode:04o}): it can be set at driver load or boot only, not"
        " between trials. Set it permanently in /etc/modprobe.d or on the kernel command line"
    )


def cannot_restore(host: Reader, path: str) -> str:
    """Why the file cannot be a knob's, or ''.

    It is replaced by a new file of the same name.  A symbolic link would become a file, and one
    of several hard links would part from the others; a folder that is made for it would stay.
    """
    folder = str(PurePosixPath(path).parent)
    if host.run(["stat", "-L", "-c", "%F", folder]).text.strip() != "directory":
        return f"folder {folder} does not exist"
    seen = host.run(["stat", "-c", "%F|%h", path])
    kind, _, links = seen.text.strip().partition("|")
    if seen.exit != 0:
        return ""  # it is made, and removed again
    if kind == "symbolic link":
        real = host.run(["readlink", "-e", path]).text.strip() or "a file that is not there"
        return f"{path} is a symbolic link: write file = the path it leads to, {real}"
    if not kind.startswith("regular"):
        return f"{path} is a {kind}, not a file"
    if links.isdigit() and int(links) > 1:
        return f"{path} has {links} hard links; iotrial would replace this one only"
    return ""


def refusals(host: Reader, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every level, and every two together, that this kernel is known to refuse, in words.  Only
    reads."""
    catalogue = catalogue_of(study)
    domains = Domains(host, catalogue)
    wanted = list(wants(study, topologies))
    own = [each for each in wanted if each.name.startswith(("command.", "file."))]
    if study.pretended and own:
        for name in dict.fromkeys(each.factor.name for each in own):
            yield (
                f"factor {name}: the simulated host does not execute the commands of [knobs]:"
                " try it without --pretend, on a loop device"
            )
        return
    domains.ask([(each.name, device) for each in wanted for device in each.devices])
    files = [control_file(catalogue.tunable(each.name), d) for each in wanted for d in each.devices]
    known = modes(host, files)
    for name in dict.fromkeys(each.name for each in wanted if each.name.startswith("file.")):
        if why := cannot_restore(host, catalogue.tunable(f"{name}.content").path):
            yield f"{name}: {why}"
    for each in wanted:
        if not each.devices and not each.coming:
            scope = catalogue.tunable(each.name).scope
            yield (
                f"{_level(each)}: {each.name} belongs to a {scope}, which the target does not have"
            )
        for device in each.devices:
            knob = catalogue.tunable(each.name)
            problem = obstacle(knob, device, known) or _refusal(domains, each, device)
            if problem:
                yield f"{_level(each)}: {each.name}: {problem}"
    yield from _undrained(study, topologies)
    yield from _alike(wanted, catalogue)
    yield from too_deep(host, study, topologies)


def _undrained(study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Targets whose credits nobody could see being used up."""
    for name, below in topologies.items() if study.design.drain else ():
        if not below.names("device"):
            yield (
                f"design.drain: the target {name} has no block device that counts its I/O:"
                " remove drain, or give it a target on a disk of its host"
            )


def _alike(wanted: Iterable[RequestedValue], known: Catalogue) -> Iterator[str]:
    """Rules of one factor that put everything at the same values here: they would be compared as
    if they differed."""
    wanted = list(wanted)
    ruled = {each.factor.name for each in wanted if known.tunable(each.name).place}
    came: dict[tuple[str, str], set[tuple[str, str, tuple[str, ...]]]] = {}
    for each in wanted:
        if each.factor.name in ruled and not known.tunable(each.name).place:
            level = came.setdefault((each.factor.name, each.level.label), set())
            level.add((each.name, each.value, each.devices))
    for one, other in combinations(came, 2):
        if one[0] == other[0] and came[one] == came[other]:
            yield (
                f"factor {one[0]}: levels {one[1]} and {other[1]} come to the same settings on"
                " this host: remove one of them"
            )


def _level(each: RequestedValue) -> str:
    return f"factor {each.factor.name}, level {each.level.label}"


def _refusal(domains: Domains, each: RequestedValue, device: str) -> str:
    knob = domains.catalogue.tunable(each.name)
    if knob.reload:
        return f"it cannot be a factor of a trial: {knob.reload}"
    if each.coming and not domains.here(each.name, device):
        return ""  # exists only under another setting: the rehearsal tells
    if domains.catalogue.said_by_command(each.name):
        return ""  # only its command tells, which :func:`unread` executes
    try:
        return domains.domain(each.name, device).refusal(each.value)
    except SettingRefused as refused:
        return f"{refused.message}. {refused.advice}"


def unread(host: Reader, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every level whose value only a command of the study's own says, which it does not say now, or
    so that it could not be written back: it is not written then.  Executes these commands, which a
    plan does not."""
    known = catalogue_of(study)
    for each in wants(study, topologies):
        for device in each.devices if known.said_by_command(each.name) else ():
            knob = known.tunable(each.name)
            probe = knob.probe(device)
            (answer,) = host.batch([Read(probe)])
            if reads(probe, answer) is None:
                why = answer.complaint or f"`{spoken(probe.argv)}` does not say it"
                yield f"{_level(each)}: {each.name} cannot be read: {why}"
            elif why := knob.domain(answer.raw).refusal(each.value):
                yield f"{_level(each)}: {each.name}: {why}"
