"""What a host offers to a study: choices, alternatives, names across kernels, what is missing.

Only reads, in one batch; the deciding is in :mod:`iotrial.plan.available` and below in pure
functions over domains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from iotrial.errors import FileRefused, SettingRefused
from iotrial.hosts.steps import reads
from iotrial.model.host import Reader
from iotrial.model.step import Read, StepResult
from iotrial.model.study import Factor, Level, Study
from iotrial.model.target import Topology
from iotrial.model.tunable import Domain, Tunable
from iotrial.plan.available import HostCapabilities
from iotrial.plan.design import nodes, open_factors
from iotrial.tunables import CATALOGUE, Catalogue, catalogue_of

COMING = ("queue.iosched.", "mount.", "cgroup.")
"""Families whose tunables may exist only under another setting of the study, or once the target
is made: whether they are taken is seen at the rehearsal."""


@dataclass
class Domains:
    """What each tunable takes on each device: asked once.

    What only a command of the study's own can say is not asked: looking executes nothing of a
    study.  A run does, before it changes anything (:func:`~iotrial.look.refusals.unread`)."""

    host: Reader
    catalogue: Catalogue = CATALOGUE
    _known: dict[tuple[str, str], StepResult] = field(default_factory=dict)

    def ask(self, wanted: list[tuple[str, str]]) -> None:
        """Read what is not known yet, in one batch."""
        fresh = [
            pair
            for pair in dict.fromkeys(wanted)
            if pair not in self._known and not self.catalogue.said_by_command(pair[0])
        ]
        if fresh:
            probes = [self.catalogue.tunable(name).probe(device) for name, device in fresh]
            answers = self.host.batch([Read(probe) for probe in probes])
            self._known.update(zip(fresh, answers, strict=True))

    def here(self, name: str, device: str) -> bool:
        """Whether there is such a tunable on the device now."""
        if self.catalogue.said_by_command(name):
            return True
        self.ask([(name, device)])
        return (
            reads(self.catalogue.tunable(name).probe(device), self._known[name, device]) is not None
        )

    def domain(self, name: str, device: str) -> Domain:
        """What it takes.  Raises SettingRefused where it does not exist or cannot be read."""
        if not self.here(name, device):
            raise SettingRefused(
                f"{name} cannot be read on {device or self.host.name}: {self.why(name, device)}",
                tunable=name,
                device=device,
                advice=self.instead(name, device)
                or "Remove the factor, or use a target that has this setting.",
            )
        known = self._known.get((name, device), StepResult())
        return self.catalogue.tunable(name).domain(known.raw)

    def why(self, name: str, device: str) -> str:
        answer = self._known[name, device]
        return answer.complaint or f"{self.catalogue.tunable(name).file(device)} does not show it"

    def instead(self, name: str, device: str) -> str:
        """The nearest names in the folder of a control file that is not there; where none is
        near, the nearest all the same."""
        folder, _, last = self.catalogue.tunable(name).probe(device).path.rpartition("/")
        try:
            there = self.host.list(folder) if folder else []
        except FileRefused:
            return ""
        near = get_close_matches(last, there, n=3)
        if last in near:
            return ""
        if not near and (far := get_close_matches(last, there, n=1, cutoff=0.3)):
            return f"The nearest on this host is {far[0]}"
        return f"Did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True, slots=True)
class RequestedValue:
    """One value that a level asks for, and where."""

    factor: Factor
    level: Level
    name: str
    value: str
    devices: tuple[str, ...]

    @property
    def where(self) -> tuple[str, str, str]:
        return (self.factor.name, self.level.label, self.name)

    @property
    def candidates(self) -> tuple[str, ...]:
        return dict(self.level.alternatives).get(self.name, (self.value,))

    @property
    def coming(self) -> bool:
        return self.name.startswith(COMING)


def wants(study: Study, topologies: Mapping[str, Topology]) -> Iterator[RequestedValue]:
    """Every value of every level, with all the devices it is for; of a rule also what it puts
    where.  Raises SettingRefused for one that the topology has no place for."""
    known = catalogue_of(study)
    for factor in study.factors:
        targets = [factor.target] if factor.target in topologies else []
        targets = targets if factor.target else list(topologies)
        for level in factor.levels:
            for name, value in level.settings:
                knob = known.tunable(name)
                found = [n for each in targets for n in nodes(factor, knob, topologies[each])]
                yield RequestedValue(factor, level, name, value, tuple(dict.fromkeys(found)))
                if knob.place:
                    below = [topologies[each] for each in targets]
                    yield from _by_rule(factor, level, knob, value, below)


def _by_rule(
    factor: Factor, level: Level, knob: Tunable, rule: str, below: Sequence[Topology]
) -> Iterator[RequestedValue]:
    """What a rule asks for, each value with all its devices."""
    found: dict[str, dict[str, None]] = {}
    for each in below:
        for setting in knob.placed(rule, nodes(factor, knob, each), each):
            found.setdefault(setting.value, {})[setting.device] = None
    for value, devices in found.items():
        yield RequestedValue(factor, level, knob.sets, value, tuple(devices))


def offer(host: Reader, study: Study, topologies: Mapping[str, Topology]) -> HostCapabilities:
    """What the study's levels come to on this host.

    Raises SettingRefused where a tunable whose every choice is wanted does not exist.
    """
    domains = Domains(host, catalogue_of(study))
    wanted = list(wants(study, topologies))
    asked = [(each.name, device) for each in wanted for device in each.devices]
    for factor in open_factors(study):
        asked += [
            (factor.subject, device) for device in _open_on(factor, topologies, domains.catalogue)
        ]
    domains.ask(asked)
    return HostCapabilities(
        choices=_choices(study, topologies, domains),
        values=dict(_values(wanted, domains)),
        missing=dict(_missing(wanted, domains)),
    )


def _choices(
    study: Study, topologies: Mapping[str, Topology], domains: Domains
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for factor in open_factors(study):
        devices = _open_on(factor, topologies, domains.catalogue)
        offered = [domains.domain(factor.subject, device).choices for device in devices]
        found[factor.subject] = tuple(
            choice for choice in (offered or [()])[0] if all(choice in each for each in offered)
        )
    return found


def _open_on(factor: Factor, topologies: Mapping[str, Topology], known: Catalogue) -> list[str]:
    """The devices of a factor whose levels are whatever they offer."""
    targets = [factor.target] if factor.target else list(topologies)
    there = [topologies[each] for each in targets if each in topologies]
    knob = known.tunable(factor.subject)
    return [device for below in there for device in nodes(factor, knob, below)]


def _values(
    wanted: list[RequestedValue], domains: Domains
) -> Iterator[tuple[tuple[str, str, str], str]]:
    for each in wanted:
        there = [d for d in each.devices if domains.here(each.name, d)]
        takes = [domains.domain(each.name, device) for device in there]
        for candidate in each.candidates:
            value = settled(candidate, takes)
            if value is not None:
                if value != each.value:
                    yield each.where, value
                break


def settled(candidate: str, takes: list[Domain]) -> str | None:
    """What a value is called where it is taken everywhere; None where it is refused.

    >>> today = Domain(("none", "mq-deadline"), aliases=(("deadline", "mq-deadline"),))
    >>> settled("deadline", [today])
    'mq-deadline'
    """
    if not takes:
        return None
    names = {dict(domain.aliases).get(candidate, candidate) for domain in takes}
    value = candidate if any(candidate in domain.choices for domain in takes) else names.pop()
    return None if names - {value} or any(d.refusal(value) for d in takes) else value


def _missing(
    wanted: list[RequestedValue], domains: Domains
) -> Iterator[tuple[tuple[str, str, str], str]]:
    """A tunable of a group that none of its devices has.  A whole level that has nothing here is
    no level: it is refused later, in the words of its tunables."""
    for each in wanted:
        if len(each.level.settings) > 1 and not each.coming and _absent(each, domains):
            others = [o for o in wanted if o.level is each.level and o.factor is each.factor]
            if all(_absent(other, domains) for other in others):
                continue
            device = each.devices[0] if each.devices else ""
            why = domains.why(each.name, device) if each.devices else "the target has none"
            near = domains.instead(each.name, device) if each.devices else ""
            yield each.where, f"{why}. {near}".rstrip(". ")


def _absent(each: RequestedValue, domains: Domains) -> bool:
    return not any(domains.here(each.name, device) for device in each.devices)
