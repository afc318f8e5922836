"""The picture: events go in, one JSON document comes out.  No clock, no file, no network.

Whatever hosts and targets the samples name have a row each; totals are those rows added up.

Rates: what a device and its host did between two samples.  Pure.

The device's own counters are the truth: what the kernel completed, whoever asked for it.

Sources: Documentation/admin-guide/iostats.rst (sectors are 512 bytes; times are those of completed
I/O, in ms, so that time over count is the mean latency), Documentation/accounting/psi.rst
(stall totals in µs), proc(5) (jiffies; interfaces).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iotrial.live.pace import RunProgress
from iotrial.model.event import (
    CountersSampled,
    Event,
    Message,
    PersonAsked,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting
from iotrial.plan.ahead import open_ended
from iotrial.plan.boots import boot_factors
from iotrial.plan.design import abreast
from iotrial.tunables import written

SECTOR = 512
SHORTEST = 0.2
"""Seconds between two samples below which a difference is mostly rounding."""
OPERATIONS = (
    ("read", "reads", "sectors_read", "read_ms"),
    ("write", "writes", "sectors_written", "write_ms"),
)
PRESSURES = ("io", "cpu", "memory")

Values = Mapping[str, Any]
Rates = dict[str, float]
"""By dotted name, in base units.  ``busy`` and ``cpu.*`` are shares of the time, ``pressure.*``
the share in which something waited; a name that is not there is not known."""


def device_rates(before: Values, after: Values) -> Rates:
    """``read.iops`` ``read.bw`` ``read.lat`` (only where something was read), the same of
    ``write``, ``busy`` and ``in_flight``; of a remote target ``received.bw`` and ``sent.bw``."""
    span = _span(before, after)
    if not span:
        return {}
    if "network" in after:
        return _network(before, after, span)
    old, new = before.get("disk", {}), after.get("disk", {})
    found: Rates = {}
    for name, count, sectors, waited in OPERATIONS:
        done = _grown(old, new, count)
        if done is None:
            continue
        found[f"{name}.iops"] = done / span
        found[f"{name}.bw"] = (_grown(old, new, sectors) or 0) * SECTOR / span
        if done:
            found[f"{name}.lat"] = (_grown(old, new, waited) or 0) / done / 1000
    if (busy := _grown(old, new, "io_ms")) is not None:
        found["busy"] = min(busy / 1000 / span, 1.0)
    if "in_flight" in new:
        found["in_flight"] = float(new["in_flight"])
    return found


def path_rates(before: Values, after: Values) -> dict[str, Rates]:
    """The same of each disk that the device is built on, and ``share``, its share of their I/O."""
    old, new = before.get("paths", {}), after.get("paths", {})
    found = {
        name: device_rates(
            {"t": before["t"], "disk": old[name]}, {"t": after["t"], "disk": new[name]}
        )
        for name in new
        if name in old
    }
    done = {
        name: rates.get("read.iops", 0.0) + rates.get("write.iops", 0.0)
        for name, rates in found.items()
    }
    if whole := sum(done.values()):
        for name, rates in found.items():
            rates["share"] = done[name] / whole
    return found


def host_rates(before: Values, after: Values) -> Rates:
    """``cpu.busy`` ``cpu.system`` ``cpu.iowait`` ``cpu.steal`` and ``pressure.io`` and so on."""
    span = _span(before, after)
    if not span:
        return {}
    found: Rates = {}
    old, new = before.get("cpu", {}), after.get("cpu", {})
    spent = {name: max(new[name] - old.get(name, 0), 0) for name in new} if old else {}
    if whole := sum(spent.values()):
        idle = spent.get("idle", 0) + spent.get("iowait", 0)
        found["cpu.busy"] = 1 - idle / whole
        for name in ("system", "iowait", "steal"):
            found[f"cpu.{name}"] = spent.get(name, 0) / whole
    for what in PRESSURES:
        stalled = _grown(
            before.get("pressure", {}).get(what, {}),
            after.get("pressure", {}).get(what, {}),
            "some",
        )
        if stalled is not None:
            found[f"pressure.{what}"] = min(stalled / 1e6 / span, 1.0)
    return found


def total(rows: Iterable[Rates]) -> Rates:
    """Of several devices: counts and bytes added, latencies weighed by what was done, shares
    left out."""
    found: Rates = {}
    waited: Rates = {}
    for row in rows:
        for name, value in row.items():
            if name.endswith((".iops", ".bw")) or name == "in_flight":
                found[name] = found.get(name, 0.0) + value
            elif name.endswith(".lat"):
                done = row[name.replace(".lat", ".iops")]
                waited[name] = waited.get(name, 0.0) + value * done
    for name, seconds in waited.items():
        found[name] = seconds / found[name.replace(".lat", ".iops")]
    return found


def _span(before: Values, after: Values) -> float:
    """Seconds between them; 0 where they are too near, or of two loads."""
    span = float(after["t"]) - float(before["t"])
    return span if span >= SHORTEST else 0.0


def _grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """By how much a counter grew; None where it is not there, or began anew."""
    if name not in before or name not in after:
        return None
    grown = after[name] - before[name]
    return grown if grown >= 0 else None


def _network(before: Values, after: Values, span: float) -> Rates:
    names = ("received.bw", "sent.bw")
    old, new = (interfaces(each["network"].get("/proc/net/dev", "")) for each in (before, after))
    found = [
        sum(max(new[name][way] - old[name][way], 0) for name in new if name in old) / span
        for way in range(2)
    ]
    return dict(zip(names, found, strict=True)) if new else {}


def interfaces(text: str) -> dict[str, tuple[int, int]]:
    """/proc/net/dev → bytes received and sent, by interface, but for the loopback."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) > 8 and name.strip() != "lo":  # noqa: PLR2004 (the ninth is bytes sent)
            found[name.strip()] = (int(words[0]), int(words[8]))
    return found


FORMAT = 1
POINTS = 600
"""Seconds of the past that are kept for a page that is loaded anew."""
ROW_POINTS = 90
"""The same of each row, and of how many rows."""
DRAWN_ROWS = 64
STALE = 3.5
"""Seconds after which a row that says nothing is no part of the total: its host may be gone."""
LOOKS = 12
TOLD = 12
WORDS = 6

_BETWEEN = ("applying", "settling", "between")

Key = tuple[str, str, str]
"""Host, target, device."""


@dataclass(frozen=True, slots=True)
class InterimFindings:
    """``findings`` so far (:mod:`iotrial.live.live`; None: not reckoned anew); ``counts`` of
    all trials by state, those of earlier sessions too."""

    findings: Sequence[Mapping[str, Any]] | None
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run has ended, with this exit code; ``why`` is what went wrong, if anything did."""

    exit: int
    why: str = ""


@dataclass
class _Row:
    """One target on one host; ``at`` is when it last said something, ``before`` what it said then
    of the load that goes on; ``paths`` are the disks that the device is built on."""

    before: Values | None = None
    at: float = 0.0
    rates: Rates = field(default_factory=dict)
    host: Rates = field(default_factory=dict)
    points: deque[float] = field(default_factory=lambda: deque(maxlen=ROW_POINTS))
    paths: dict[str, Rates] = field(default_factory=dict)


class LiveDocument:
    """Fed by one thread.  ``study`` is what is executed, ``pid`` the process that does it."""

    def __init__(self, study: Study, pid: int = 0) -> None:
        self._study, self._pid = study, pid
        self._pace = RunProgress(
            abreast(study), study.design.budget, boots=bool(boot_factors(study))
        )
        self._under_way: dict[str, Trial] = {}
        self._phase, self._since, self._asked = "preparing", 0.0, ""
        self._trial: Trial | None = None
        self._expected = 0.0
        self._over: RunEnd | None = None
        self.results = ""
        self._rows: dict[Key, _Row] = {}
        self.counters: dict[tuple[str, ...], Values] = {}
        """The kernel's own counters of each device, as they were last seen in any trial; of a path
        with its name behind those of a row."""
        self._settings: dict[str, list[Setting]] = {}
        self._settings_told: list[list[Any]] | None = None
        self._counts: dict[str, int] = {"valid": 0, "invalid": 0, "failed": 0}
        self._findings: list[dict[str, Any]] = []
        self._looks: dict[tuple[Any, ...], list[list[Any]]] = {}
        self._told: deque[dict[str, Any]] = deque(maxlen=TOLD)
        self._words: deque[str] = deque(maxlen=WORDS)
        self._varied = {
            written(name)
            for factor in study.factors
            for level in factor.levels
            for name in (*dict(level.settings), *dict(level.alternatives))
        }
        self._pointed_at = 0.0
        self.points: deque[list[float | None]] = deque(maxlen=POINTS)
        self.pointed = 0
        """How many points there ever were: which of them a reader has not seen."""

    def add(self, event: Event | InterimFindings | RunEnd, at: float) -> None:  # noqa: C901 (one branch each)
        """Fold in what was told ``at`` this time, in seconds since the epoch."""
        match event:
            case Message():
                self._words.append(event.text)
            case TrialsPlanned():
                self._pace = self._pace.planned(event.pending, event.most)
                self.results = str(event.results)
            case TrialBegan():
                self._began(event, at)
            case SettingsInForce():
                self._settings[event.host] = list(event.settings)
                self._settings_told = None
                self._enter("settling", at)
            case CountersSampled():
                self._sampled(event, at)
            case TrialEnded():
                self._pace = self._pace.ended(event.record)
                self._counts[event.record.state] += 1
                self._told.appendleft(self._ended(event.record))
                self._under_way.pop(event.record.trial.host, None)
                self._trial = next(reversed(self._under_way.values()), self._trial)
                self._enter("between", at)
            case PersonAsked():
                self._asked = event.what
                self._enter("waiting", at)
            case InterimFindings():
                self._counts.update(event.counts)
                if event.findings is not None:
                    self._known(event.findings)
            case RunEnd():
                self._over = event
                self._trial = None
                self._enter("over", at)

    def _began(self, event: TrialBegan, at: float) -> None:
        """A trial begins; where blocks are spread over hosts, those of other hosts go on."""
        trial, host = event.trial, event.trial.host
        self._trial, self._expected = trial, event.expected
        self._under_way[host] = trial
        mine = [each for each in self._settings if host in ("", each)]
        self._settings_told = None
        for each in mine:
            del self._settings[each]
        for (of, _, _), row in self._rows.items():  # which stay: a page does not jump
            if host in ("", of):
                row.before, row.rates, row.host = None, {}, {}
                row.paths = {name: {} for name in row.paths}
        self._enter("applying", at)

    def _enter(self, phase: str, at: float) -> None:
        if self._phase == "load" and phase in _BETWEEN and self._loading(at):
            return  # on other hosts
        self._phase, self._since = phase, at
        if phase != "waiting":
            self._asked = ""

    def _sampled(self, event: CountersSampled, at: float) -> None:
        sample = event.sample
        key = (sample.host, sample.target, sample.device)
        if disk := sample.values.get("disk"):
            self.counters[key] = disk
        for name, counted in sample.values.get("paths", {}).items():
            self.counters[(*key, name)] = counted
        if self._phase != "load":
            self._enter("load", at)
        row = self._rows.setdefault(key, _Row())
        if row.before is None or sample.values["t"] <= row.before["t"]:
            row.before, row.at = sample.values, at
            return
        rates = device_rates(row.before, sample.values)
        if not rates:  # too near to the one before: the next one counts for both
            return
        row.rates, row.host = rates, host_rates(row.before, sample.values)
        row.paths = path_rates(row.before, sample.values)
        row.before, row.at = sample.values, at
        row.points.append(round(_operations(rates), 1))

    def tick(self) -> None:
        """To be said once a second: the past gets a point, if any row has said something new."""
        at = max((row.at for row in self._rows.values() if row.rates), default=0.0)
        if at <= self._pointed_at:
            return
        self._pointed_at = at
        now, hosts = total(self._fresh(at)), self._hosts(at)
        names = ("cpu.busy", "pressure.io")
        shares = [
            max((each[n] for each in hosts.values() if n in each), default=None) for n in names
        ]
        values = [now.get(n) for n in POINT[1:-2]]
        self.points.append([round(at, 2), *map(_short, [*values, *shares])])
        self.pointed += 1

    def _fresh(self, now: float) -> list[Rates]:
        return [row.rates for row in self._rows.values() if now - row.at < STALE]

    def _hosts(self, now: float) -> dict[str, Rates]:
        return {
            host: row.host
            for (host, _, _), row in self._rows.items()
            if row.host and now - row.at < STALE
        }

    def _ended(self, record: TrialRecord) -> dict[str, Any]:
        name = self._study.decide.leading.get(record.trial.workload, "")
        value = record.value(name)
        why = [record.error, *(doubt.what for doubt in record.doubts if doubt.invalid)]
        return {
            **_trial(record.trial),
            "state": record.state,
            "metric": name,
            "unit": "" if value is None else self._study.metrics.unit(name),
            "value": value,
            "why": next(filter(None, why), ""),
        }

    def _known(self, findings: Sequence[Mapping[str, Any]]) -> None:
        self._findings = [dict(each) for each in findings]
        seen = {}
        for each in self._findings:
            key = tuple(each[name] for name in ("stage", "workload", "factor", "level", "baseline"))
            looks = self._looks.get(key, [])
            if each["low"] is not None and (not looks or looks[-1][0] != each["n"]):
                looks = [*looks, [each["n"], each["low"], each["ratio"], each["high"]]][-LOOKS:]
            seen[key] = each["looks"] = looks
        self._looks = seen

    def document(self, now: float) -> dict[str, Any]:
        """Everything but the past: base units, times in seconds since the epoch."""
        running = self._phase == "load"
        hosts = self._hosts(now)
        return {
            "format": FORMAT,
            "now": round(now, 3),
            "pid": self._pid,
            "state": "over" if self._over else "running",
            "exit": self._over.exit if self._over else None,
            "why": self._over.why if self._over else "",
            "phase": self._phase,
            "since": round(self._since, 3),
            "asked": self._asked,
            "study": self._study.name,
            "pretended": self._study.pretended,
            "question": self._study.question,
            "results": self.results,
            "margin": self._study.decide.margin,
            "trial": self._now(now),
            **({"abreast": self._abreast()} if self._study.spread else {}),
            "progress": self._progress(now),
            "total": _shortened(total(self._fresh(now))) if running else {},
            "rows": [
                {
                    **dict(zip(("host", "target", "device"), key, strict=True)),
                    "age": round(max(now - row.at, 0.0), 1),
                    "rates": _shortened(row.rates),
                }
                for key, row in self._rows.items()
            ],
            "paths": [
                {
                    **dict(zip(("host", "target", "device"), key, strict=True)),
                    "path": name,
                    "rates": _shortened(rates),
                }
                for key, row in self._rows.items()
                for name, rates in row.paths.items()
            ],
            "hosts": [{"host": name, "rates": _shortened(each)} for name, each in hosts.items()],
            "settings": self._in_force(),
            "findings": self._findings,
            "trials": list(self._told),
            "words": list(self._words),
        }

    def sparks(self) -> list[list[float]]:
        """The past of each row's IOPS, in the order of ``rows``."""
        return [list(row.points) for row in list(self._rows.values())[:DRAWN_ROWS]]

    def _loading(self, now: float) -> bool:
        """Whether another trial than the one that is told of goes on, on a host of its own."""
        rows = [host for (host, _, _), row in self._rows.items() if row.before is not None
                and now - row.at < STALE]  # fmt: skip
        return self._study.spread and any(host in self._under_way for host in rows)

    def _abreast(self) -> list[dict[str, Any]]:
        """The trials that go on, each on its host."""
        return [_trial(trial) for trial in self._under_way.values()]

    def _now(self, now: float) -> dict[str, Any] | None:
        if self._trial is None:
            return None
        elapsed = now - self._since if self._phase == "load" else 0.0
        return {
            **_trial(self._trial),
            "expected": round(self._expected, 3),
            "elapsed": round(max(elapsed, 0.0), 3),
        }

    def _progress(self, now: float) -> dict[str, Any]:
        wait = self._pace.wait(self._expected)
        if self._phase in ("applying", "settling", "load"):
            wait -= min(max(now - self._since, 0.0), self._pace.mean or self._expected)
        return {
            "done": self._pace.done,
            "most": self._pace.most,
            "open_ended": open_ended(self._study),
            "wait": round(max(wait, 0.0), 1) if not self._over else 0.0,
            "spent": round(self._pace.spent, 1),
            "budget": self._study.design.budget,
            **self._counts,
        }

    def _in_force(self) -> list[list[Any]]:
        """Host, device, tunable, value, and whether the study varies it; what it varies first.
        A thousand hosts have tens of thousands: sorted when some have changed, not each second."""
        if self._settings_told is None:
            rows = [
                [host, each.device, each.tunable, each.value, each.tunable in self._varied]
                for host, settings in self._settings.items()
                for each in settings
            ]
            self._settings_told = sorted(rows, key=lambda row: not row[4])
        return self._settings_told


POINT = (
    "at", "read.iops", "write.iops", "read.bw", "write.bw", "received.bw", "sent.bw",
    "read.lat", "write.lat", "cpu.busy", "pressure.io",
)  # fmt: skip
"""What a point of the past is."""


def _operations(rates: Rates) -> float:
    """What a row's small picture shows: operations, or bytes where only those are known."""
    found = [rates[name] for name in ("read.iops", "write.iops") if name in rates]
    return sum(found) if found else rates.get("received.bw", 0.0) + rates.get("sent.bw", 0.0)


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "folder": trial.folder,
        "block": trial.block,
        "stage": trial.stage,
        "workload": trial.workload,
        "treatment": dict(trial.treatment),
        "target": trial.target,
        "attempt": trial.attempt,
        **({"host": trial.host} if trial.host else {}),
    }


def _short(value: float | None) -> float | None:
    """Six digits are more than a look can see, and fewer bytes."""
    return None if value is None else float(f"{value:.6g}")


def _shortened(rates: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in rates.items()}
