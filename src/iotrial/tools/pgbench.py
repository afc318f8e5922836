"""pgbench: transactions of PostgreSQL, on a cluster of its own that iotrial makes and removes.

In a directory, or on a target with a file system.  The cluster lies in ``iotrial-pgbench`` below
the target, is made before the first trial (``prepare = ["lay out"]``, else by the first trial), is
started and stopped with each trial, and goes at the end of the study.  Nothing listens on the
network.  As root the server runs as the user postgres, for it refuses root.

Options: ``scale`` (10; 15 MB each), ``clients`` (4), ``threads`` (1), ``time`` (10 s), ``rate``
(transactions a second that begin at their times, whether or not earlier ones have ended; 0: as fast
as it goes), ``script`` (``tpcb-like``, ``simple-update``, ``select-only``, or several as
``"tpcb-like@1,select-only@9"``), and settings of the server as ``pg.NAME``
(``"pg.shared_buffers" = "1GB"``).

Latencies are those of pgbench's log of every transaction, in microseconds, percentiles by nearest
rank; with a ``rate`` they count from the time at which a transaction was to begin.  Of several
scripts each is a section.

Source: PostgreSQL 15, "pgbench" (options ``--log``, ``--rate``, "Per-Transaction Logging").
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import Measurement, of_metric, of_section
from iotrial.model.tool import (
    Leftover,
    Load,
    LoadAccess,
    LoadSection,
    ParsedOutput,
    ToolTarget,
    inside,
)
from iotrial.model.trial import Doubt
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.results import result
from iotrial.units import parse_seconds

_SCRIPT = "pgbench.sh"
_DEFAULTS: dict[str, OptionValue] = {
    "scale": 10, "clients": 4, "threads": 1, "time": "10s", "rate": 0, "script": "tpcb-like",
}  # fmt: skip
_MOST = {"scale": 100_000, "clients": 10_000, "threads": 1000, "rate": 10_000_000}
_SCRIPTS = ("tpcb-like", "simple-update", "select-only")
_SETTING = re.compile(r"pg\.([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)?)")
_OURS = ("data_directory", "listen_addresses", "unix_socket_directories", "port", "config_file")
_WEIGHED = re.compile(r"([a-z-]+)(?:@(\d{1,6}))?")
_SLOW_START, _SLOW_SCALE = 60.0, 5.0
"""Seconds until a slow machine has made and started a cluster, and for each unit of scale."""
_LIKELY_START, _LIKELY_SCALE = 4.0, 0.2
_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_BEYOND = 10
"""Transactions beyond a percentile, without which it is none."""
_RATE = re.compile(r"^tps = ([0-9.]+) ", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: (\d+)", re.MULTILINE)
_NAMED = re.compile(r"^SQL script \d+: <builtin: (.+)>$", re.MULTILINE)
_TITLES = {
    "TPC-B (sort of)": "tpcb-like", "simple update": "simple-update", "select only": "select-only",
}  # fmt: skip
_LOG = "transactions.*"
_COLUMNS = 6
EXAMPLE: dict[str, OptionValue] = {"scale": 1, "time": "5s"}


class Pgbench:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "pgbench"
    summary = "transactions of PostgreSQL, on a cluster made for the study"
    program = "pgbench"
    package = "postgresql"
    usual = "transaction.rate"
    measures = re.compile(r"transaction\.(rate|lat\.(mean|max|sd|p(50|90|95|99|99\.9)))")

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        return list(_problems(workload))

    def reach(self, workload: Workload) -> LoadAccess:
        """Reading alone makes the cluster, too."""
        del workload
        return LoadAccess(reads=True, writes=True)

    def sectioned(self, workload: Workload) -> tuple[LoadSection, ...]:
        """See :class:`iotrial.model.tool.SupportsSections`: of several scripts, at the same
        time."""
        names = [name for name, _ in _scripts(workload)]
        if len(names) < 2:  # noqa: PLR2004
            return ()
        return tuple(LoadSection(name, reads=True, writes=True) for name in names)

    def command(
        self,
        workload: Workload,
        aimed: ToolTarget,
        facts: Mapping[str, float],
    ) -> Load:
        """Raises UsageError with the first problem, and for a target that is no directory."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if aimed.kind != "directory":
            advice = "aim it at a directory, or let the target have a filesystem"
            raise UsageError(f"pgbench works in a directory; {aimed.path} is none", advice=advice)
        return _load(workload, aimed, _seconds(workload))

    def lay_out(
        self,
        workload: Workload,
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> Load:
        """See :class:`iotrial.model.tool.SupportsLayout`: the cluster and its tables."""
        return _load(workload, aimed, 0.0)

    def leaves(
        self,
        workload: Workload,  # noqa: ARG002 (one folder, whatever is in it)
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`: the cluster is that of all trials."""
        return (Leftover(_folder(aimed), "folder", "study"),)

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow machine needs, where the cluster is not there yet."""
        del aimed
        return _SLOW_START + _SLOW_SCALE * _whole(workload, "scale") + _seconds(workload)

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """See :class:`iotrial.model.tool.SupportsSizedLoads`."""
        del aimed
        return _LIKELY_START + _LIKELY_SCALE * _whole(workload, "scale") + _seconds(workload)

    def version_problem(self, version: str) -> str:
        found = re.search(r"pgbench \(PostgreSQL\) (\d+)", version)
        if not found:
            return f"{version.strip()[:60]!r} is not a version of pgbench"
        if int(found[1]) < 14:  # noqa: PLR2004 (abstract sockets)
            return f"PostgreSQL {found[1]} is too old: install 14 or newer"
        return ""

    def parse(self, folder: Path) -> ParsedOutput:
        text = result(folder, "stdout", "pgbench").decode("utf-8", "replace")
        return _parsed(text, sorted(folder.glob(_LOG)))


TOOL = Pgbench()


def _folder(aimed: ToolTarget) -> str:
    return aimed.own("iotrial-pgbench")


def _load(workload: Workload, aimed: ToolTarget, seconds: float) -> Load:
    numbers = [str(_whole(workload, name)) for name in ("scale", "clients", "threads")]
    scripts = ",".join(f"{name}@{weight}" for name, weight in _scripts(workload))
    settings = [
        f"{found[1]}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in workload.options
        if (found := _SETTING.fullmatch(name))
    ]
    words = (*numbers, str(math.ceil(seconds)), str(_whole(workload, "rate")), scripts, *settings)
    script = (files(__package__) / _SCRIPT).read_bytes()
    return Load(("sh", _SCRIPT, inside(_folder(aimed)), *words), ((_SCRIPT, script),))


def _whole(workload: Workload, name: str) -> int:
    value = workload.option(name, _DEFAULTS[name])
    return value if isinstance(value, int) else 0


def _seconds(workload: Workload) -> float:
    try:
        return parse_seconds(str(workload.option("time", _DEFAULTS["time"])))
    except ValueError:
        return 0.0


def _scripts(workload: Workload) -> tuple[tuple[str, int], ...]:
    """Each script and its weight.  What is none is left out."""
    words = str(workload.option("script", _DEFAULTS["script"])).split(",")
    found = (_WEIGHED.fullmatch(word.strip()) for word in words)
    return tuple((each[1], int(each[2] or 1)) for each in found if each)


def _problems(workload: Workload) -> Iterator[tuple[str, str]]:
    if workload.jobfile:
        yield "jobfile", "pgbench has no job files: write options"
    for name, value in workload.options:
        if name in _MOST:
            whole = isinstance(value, int) and not isinstance(value, bool)
            least = 0 if name == "rate" else 1
            if not whole or not least <= int(value) <= _MOST[name]:
                yield name, f"{value!r} is not a whole number from {least} to {_MOST[name]}"
        elif name == "time":
            if not 1 <= _seconds(workload) < math.inf:
                yield name, f"{value!r} is not a duration of a second or more, such as 30s"
        elif name == "script":
            yield from _unknown_scripts(str(value))
        elif found := _SETTING.fullmatch(name):
            yield from ((name, what) for what in _unfit(found[1], str(value)))
        else:
            known = ", ".join((*_DEFAULTS, "pg.NAME"))
            yield name, f"pgbench has no such option; there are {known}"


def _unfit(setting: str, value: str) -> Iterator[str]:
    if setting in _OURS:
        yield "iotrial says where the cluster is, and how it is reached"
    if "\0" in value or "\n" in value:
        yield "a setting is one line"


def _unknown_scripts(text: str) -> Iterator[tuple[str, str]]:
    words = [word.strip() for word in text.split(",")]
    names = [found[1] if (found := _WEIGHED.fullmatch(word)) else word for word in words]
    for name in names:
        if name not in _SCRIPTS:
            yield "script", f"{name!r} is none of {', '.join(_SCRIPTS)}"
    if len(set(names)) < len(names):
        yield "script", "a script is named twice"


def _parsed(text: str, logs: list[Path]) -> ParsedOutput:
    rate = _RATE.search(text)
    if rate is None:
        advice = "check stderr beside it, and server.log: pgbench ended before its result"
        raise FormatError("stdout: no result of pgbench", advice=advice)
    took, script = _log(logs)
    found = [*_of(took, float(rate[1]), "")]
    names = [_TITLES.get(title, title) for title in _NAMED.findall(text)]
    for number, name in enumerate(names if len(names) > 1 else ()):
        mine = took[script == number]
        if mine.size:
            found += _of(mine, float(rate[1]) * mine.size / took.size, name)
    return ParsedOutput(tuple(found), tuple(_doubts(text)))


def _log(logs: list[Path]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """How long each transaction took (s), and the number of its script.  A line has client, number,
    µs, script, and when it ended."""
    parts = []
    for path in logs:
        try:
            rows = [line.split()[:_COLUMNS] for line in path.read_text("ascii").splitlines()]
            kept = [(row[2], row[3]) for row in rows if row[2] not in ("failed", "skipped")]
            parts.append(np.array(kept, np.float64).reshape(-1, 2))
        except (ValueError, IndexError) as error:
            raise FormatError(f"{path}: no log of pgbench's: {error}") from None
    table = np.concatenate(parts) if parts else np.zeros((0, 2))
    if not len(table):
        raise FormatError(f"no transaction is in {_LOG}", advice="Repeat the trial.")
    return table[:, 0] / 1e6, table[:, 1]


def _of(took: npt.NDArray[np.float64], rate: float, section: str) -> Iterator[Measurement]:
    def one(quantity: str, value: float, raw: str = "stdout") -> Measurement:
        return of_metric(of_section(f"transaction.{quantity}", section), value, raw)

    ordered = np.sort(took)
    yield one("rate", rate)
    yield one("lat.mean", float(took.mean()), _LOG)
    yield one("lat.max", float(ordered[-1]), _LOG)
    yield one("lat.sd", float(took.std()), _LOG)
    for percent in _PERCENTILES:
        if took.size * (1 - percent / 100) >= _BEYOND:
            rank = math.ceil(percent / 100 * took.size) - 1
            yield one(f"lat.p{percent:g}", float(ordered[rank]), _LOG)


def _doubts(text: str) -> Iterator[Doubt]:
    failed = _FAILED.search(text)
    if failed and int(failed[1]):
        what = f"{failed[1]} transactions failed"
        yield Doubt("pgbench-failed", what, "see stderr beside it, and server.log")
