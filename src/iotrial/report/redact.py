"""Results without what says whose machines they are of: for a report that is passed on.

Host names, addresses, serial numbers, WWNs, machine ids and the like become placeholders
(``host-03``, ``mac-1``, ``id-2``), one thing the same everywhere: who reads it still sees which
numbers are of one host, or of one disk.  It is done to the results, before they are judged and
drawn, so that no shape of a report can hold what the results do not; and what is written is looked
through once more (:func:`left`).

Not taken out: models, sizes, kernel, versions, settings, names that the study gives its workloads,
factors, targets and files.
"""

from __future__ import annotations

import functools
import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.hostlist import expanded, folded
from iotrial.model.results import DevicePoint, ResourceUsage, Results, TrialTraces
from iotrial.model.tool import RateSeries
from iotrial.model.trial import TrialRecord

HERE = frozenset({"", "local", "localhost"})
"""Names of hosts that say nothing."""
_SECRET = re.compile(
    r"serial|wwid|wwn|wwpn|wwnn|uuid|nguid|eui|guid|machine_id|boot_id|port_name|node_name|unique_id"
    r"|sas_address|mac_address|nqn|iqn|initiator|asset_tag|vpd",
    re.IGNORECASE,
)
"""Names of facts whose values are nobody's but one machine's or disk's."""
_HOSTS = re.compile(r"(?:host|node)_?name|hostname|fqdn|domain", re.IGNORECASE)
_OF_LOADS = frozenset({"client", "server", "host", "hostname", "address", "listen"})
_NO_IDS = frozenset({"backing_file", "backing_inode"})
_LEAST = 4
"""Characters of a serial number that is one: ``0`` and ``n/a`` are not."""
_PATTERNS = (
    ("mac", r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"),
    ("mac", r"(?<![0-9a-fA-F-])(?:[0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}(?![0-9a-fA-F-])"),
    ("id", r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),
    ("id", r"(?:[0-9a-fA-F]{8}:){3}[0-9a-fA-F]{8}"),  # md
    ("id", r"(?<![0-9a-fA-F])[0-9a-fA-F]{32}(?![0-9a-fA-F])"),
    ("id", r"(?:iqn|nqn)\.[0-9]{4}-[0-9]{2}\.[^\s\"',;)\]]+"),
    ("wwn", r"(?:naa|eui|t10|uuid)\.[0-9A-Za-z_.-]{6,}"),
    ("wwn", r"(?:wwn-|fc-|nvme-|scsi-)?0x[0-9a-fA-F]{16,32}"),
    ("disk", r"(?<=/by-id/)[^\s\"',;:)\]]+"),
    ("disk", r"(?<=/by-uuid/)[^\s\"',;:)\]]+"),
    ("disk", r"(?<=/by-partuuid/)[^\s\"',;:)\]]+"),
    ("disk", r"(?<=/by-label/)[^\s\"',;:)\]]+"),
    ("disk", r"(?<=/by-partlabel/)[^\s\"',;:)\]]+"),
    ("host", r"(?<=@)(?=\S*[A-Za-z])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"),
    ("host", r"(?<=//)[A-Za-z0-9][A-Za-z0-9.-]+(?=/)"),  # cifs, URLs
    ("host", r"(?<=from )[A-Za-z0-9][A-Za-z0-9.-]+(?=:/)"),  # NFS
    ("address", r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.]*[0-9])"),
    ("address", r"(?<![0-9A-Za-z:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![0-9A-Za-z:])"),
    (
        "address",
        r"(?<![0-9A-Za-z:])(?:[0-9a-fA-F]{1,4}:)+:(?:[0-9a-fA-F]{1,4}:)*[0-9a-fA-F]{0,4}(?![\w:])",
    ),
)
"""What is recognised by its shape, wherever it stands.  ``host`` are places where only one can."""
_PCI = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?")
_ANY = re.compile("|".join(f"(?P<p{at}>{pattern})" for at, (_, pattern) in enumerate(_PATTERNS)))


class Redaction:
    """What is taken out of these results, and what stands in its place."""

    def __init__(self, results: Results, also: Iterable[str] = ()) -> None:
        """``also`` are more names of hosts, such as this machine's own.  Raises UsageError where a
        host has the name of something else."""
        self._results = results
        self._places: dict[str, str] = {}
        self._counts: dict[str, int] = defaultdict(int)
        hosts = _hosts(results)
        words = {"all", "valid", "invalid", "failed", *(w.tool for w in results.study.workloads)}
        measured = {each.metric for record in results.records for each in record.measurements}
        words |= {part for each in measured for part in each.split(".")}  # a host called "read"
        if clash := [name for name in hosts if name.lower() in words]:
            raise UsageError(
                f"the host name {clash[0]} is also a word that results use",
                advice="Give the host another name in a copy of the results folder.",
            )
        wide = len(str(len(hosts)))
        for at, name in enumerate(hosts, 1):
            self._places[name.lower()] = f"host-{at:0{wide}}"
        self._counts["host"] = len(hosts)
        for kind, value in _known(results):
            if kind != "host" or value.lower() not in HERE:
                self._place(kind, value)
        for name in also:
            if name.lower() not in HERE:
                self._place("host", name)
        self._stems = {
            match[1].lower() for each in hosts if (match := re.fullmatch(r"(.*?)(\d+)(\D*)", each))
        } - {""}
        self._named = _either(
            hosts, r"(?<![A-Za-z0-9_]){}(?:\.[A-Za-z][A-Za-z0-9-]*)+"
        )  # a domain's
        self._words = _either(self._places, r"(?<![A-Za-z0-9_]){}(?![A-Za-z0-9_])")
        self._within = _either(self._long(), "{}")
        self.text = functools.lru_cache(maxsize=1 << 16)(self._text)

    def _place(self, kind: str, value: str) -> str:
        """The placeholder of a thing; a new one where it is seen for the first time."""
        key = value.lower()
        if key not in self._places:
            self._counts[kind] += 1
            self._places[key] = f"{kind}-{self._counts[kind]}"
        return self._places[key]

    def _text(self, text: str) -> str:
        """``text`` with placeholders."""
        text = self._lists(text)
        for known in (self._named, self._words, self._within):
            text = known.sub(lambda found: self._places[found[1].lower()], text)
        return _ANY.sub(self._shaped, text)

    def _long(self) -> Iterator[str]:
        """What is long enough to be found within a word too (``ata-DISK_S3Z9NB0K``)."""
        for value in self._places:
            if len(value) >= _WITHIN and any(map(str.isdigit, value)):
                yield value

    def _shaped(self, found: re.Match[str]) -> str:
        kind, whole = _PATTERNS[int(str(found.lastgroup)[1:])][0], found[0]
        if whole.lower() in HERE or _PCI.fullmatch(whole) or _OURS.fullmatch(whole):
            return whole
        return self._place(kind, whole)

    def _lists(self, text: str) -> str:
        """``node[01-50]`` as ``host-[01-50]``."""
        if not self._stems or "[" not in text:
            return text
        either = "|".join(map(re.escape, sorted(self._stems, key=len, reverse=True)))
        pattern = rf"(?<![A-Za-z0-9_])(?:{either})\[[0-9, -]+\][A-Za-z0-9.-]*"
        return re.sub(pattern, self._list, text, flags=re.IGNORECASE)

    def _list(self, found: re.Match[str]) -> str:
        try:
            return folded([self._places.get(name.lower(), "host") for name in expanded(found[0])])
        except ValueError:
            return "hosts"

    def results(self) -> Results:
        """The results with placeholders, to be judged and drawn as any other."""
        given = self._results
        made = replace(given, traces=_Traces(given, self))
        kept = {
            each.name: self.value(getattr(given, each.name))
            for each in fields(given)
            if each.init and each.name not in ("folder", "traces")
        }
        kept["study"] = replace(kept["study"], digest="")
        return replace(made, folder=Path("results", self.text(given.folder.name)), **kept)

    def value(self, value: Any) -> Any:  # noqa: ANN401 (whatever results are made of)
        """The same with placeholders in every text of it."""
        match value:
            case str():
                return self.text(value) if value else value
            case PurePath():
                return type(value)(self.text(str(value)))
            case Mapping():
                return {self.value(key): self.value(each) for key, each in value.items()}
            case tuple() | list() | set() | frozenset():
                made = map(self.value, value)
                return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
        return self._noun(value) if is_dataclass(value) and not isinstance(value, type) else value

    def _noun(self, value: Any) -> Any:  # noqa: ANN401 (any dataclass)
        told = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        changed = {name: self.value(each) for name, each in told.items()}
        new = {name: each for name, each in changed.items() if each is not told[name]}
        return replace(value, **new) if new else value

    def left(self, content: bytes) -> tuple[str, ...]:
        """What is still there, of all that was to be taken out: also in the files of a workbook."""
        found = dict.fromkeys(
            value
            for value in self._long()
            for part in _parts(content)
            if value.encode() in part.lower()
        )
        return tuple(found)


def _either(words: Iterable[str], around: str) -> re.Pattern[str]:
    """Any of the words, the longest first."""
    either = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
    return re.compile(around.format(f"({either})"), re.IGNORECASE)


_WITHIN = 5
_OURS = re.compile(r"(?:host|mac|id|wwn|disk|address)-[0-9]+")


def _parts(content: bytes) -> Iterator[bytes]:
    if not content.startswith(b"PK"):
        yield content
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            yield name.encode()
            yield archive.read(name)


@dataclass(frozen=True, slots=True)
class _Traces:
    """What trials noted, read by their own names."""

    of: Results
    by: Redaction

    def _own(self, record: TrialRecord) -> TrialRecord:
        own = (each for each in self.of.records if each.trial.folder == record.trial.folder)
        return next(own, record)

    @property
    def _traces(self) -> TrialTraces:
        return self.of.traces

    def of_device(self, record: TrialRecord) -> RateSeries | None:
        return self._traces.of_device(self._own(record))

    def samples(self, record: TrialRecord) -> tuple[DevicePoint, ...]:
        return self._traces.samples(self._own(record))

    def of_load(self, record: TrialRecord, metric: str) -> RateSeries | None:
        return self._traces.of_load(self._own(record), metric)

    def strains(self, record: TrialRecord) -> tuple[ResourceUsage, ...]:
        told: tuple[ResourceUsage, ...] = self.by.value(self._traces.strains(self._own(record)))
        return told


# -- what is known to say whose it is -------------------------------------------------------------


def _hosts(results: Results) -> list[str]:
    """By the names that the study and the results folder have for them."""
    named = [place.name for place in results.study.hosts]
    named += [*results.facts, *(record.trial.host for record in results.records)]
    named += [str(facts.get("name", "")) for facts in results.facts.values()]
    return [name for name in dict.fromkeys(named) if name.lower() not in HERE]


def _known(results: Results) -> Iterator[tuple[str, str]]:
    """Kind and text of what facts and the study call by its name."""
    for place in results.study.hosts:
        yield from (("host", each) for each in _reached(place.ssh))
        if place.listen is not None:
            yield "address", place.listen.address
    for target in results.study.targets:
        for each in (target.destroy, *target.armed):
            if each and "/" not in each and len(each) >= _LEAST:
                yield "id", each
    for workload in results.study.workloads:
        for name, value in workload.options:
            if name in _OF_LOADS and isinstance(value, str) and re.search("[A-Za-z]", value):
                yield "host", value
    for facts in results.facts.values():
        yield from _of_facts(facts, "")


def _reached(ssh: str) -> Iterator[str]:
    """The machines that an ``ssh`` key names: its own, and those on the way (``-J``)."""
    for word in re.split(r"[\s,=]+", ssh):
        if word.startswith("-") or "/" in word:
            continue
        host = re.sub(r"^.*@|:[0-9]+$", "", word)
        if re.search("[A-Za-z]", host) and host.lower() not in ("yes", "no", "port"):
            yield host
            short = host.partition(".")[0]
            if short != host:
                yield short
                yield host.partition(".")[2]


def _of_facts(value: object, name: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            for key, each in value.items():
                within = name == "ids" and key not in _NO_IDS
                yield from _of_facts(each, "serial" if within else str(key))
        case list() | tuple():
            for each in value:
                yield from _of_facts(each, name)
        case str() if len(value) >= _LEAST:
            if _HOSTS.fullmatch(name):
                yield "host", value
            elif _SECRET.search(name):
                yield from _spelled(value)


def _spelled(value: str) -> Iterator[tuple[str, str]]:
    """An id, and its number by itself: other tools write it with another beginning."""
    kind = "wwn" if re.match(r"naa|eui|t10|0x|wwn", value) else "id"
    yield kind, value
    for each in re.findall(r"[0-9A-Za-z]{8,}", value):
        if each != value and any(map(str.isdigit, each)):
            yield kind, each
