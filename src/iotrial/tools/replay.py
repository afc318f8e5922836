"""replay: the I/Os of a recording again, at their places and at their times, by fio.

The load is open: an I/O begins at its time, whether or not those before it have ended; a slower
setting is not asked for less.  How fio 3.33 replays, tried out and read in its ``iolog.c``:

* A log of version 3 (``timestamp file action offset length``) gives the time since the I/O before.
  What is late stays late, and everything after it; the load is closed, and a slow storage stretches
  it.  An asynchronous engine polls until the next I/O is due, which takes a whole CPU.
* A log of version 2 has ``wait``: until so many milliseconds after the start of fio.  What is late
  catches up.  So the I/Os are spread over clients: threads with a synchronous engine, each with a
  log of its own, which sleep until their next I/O is due.  ``numjobs`` beside ``thread`` ends in a
  segmentation fault with several logs; each client is a job by itself.

An I/O that a thread began within a millisecond after its last one had ended waited for that, and
follows it at the same client. Else a client has its next I/O only when eight times the response
time that the one before had in the recording is over, and some milliseconds, so that it is ready
also where the storage is slower. The **response time** is from the time at which an I/O was to
begin to its completion. fio's log says when it completed (in milliseconds) and how long it took; a
client's I/Os end in the order of its log. Both are whole milliseconds, and so is what a client
sleeps: by how much an I/O was **late** is known to two and a half of them, which are taken off.

``by = "blktrace"`` is what fio does by itself of a trace: one file as blkparse(1) writes it for fio
(``-d``), by libaio.  It is there to be compared with.

``speed = 2`` is twice as fast; ``speed = "max"`` as fast as it goes: then each thread of the
recording does its own I/Os in their order, and those of it that were in flight together are done by
clients of their own.

On a smaller target the places that were used (in MiB) are moved together; where there is no room
for these, the last are put on the first ones.  On a larger one every I/O is at its place.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrial.errors import FormatError, UsageError
from iotrial.formats.fio import json_output
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget, WorkloadCharacter
from iotrial.model.trial import Doubt
from iotrial.model.workload import TRACED, OptionValue, Workload
from iotrial.tools.fio import TOOL as FIO
from iotrial.tools.results import result
from iotrial.units import format_seconds

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_OUTPUT = "fio.json"
_COMMON = ("fio", "--output-format=json+", f"--output={_OUTPUT}", "--eta=never")
_LOG = "replay"
_FOLDED = "folded.txt"
_ACTIONS = ("read", "write", "trim", "sync")
READ, WRITE, TRIM, SYNC = range(len(_ACTIONS))
_MOST = 256
"""Clients: fio 3.33 needs 230 KiB for each."""
_AGAIN = 8
"""Response times of the recording, after which a client has its next I/O."""
_READY = 3000
"""Microseconds, and these beside."""
_TICK = 1000
"""Microseconds that a client's sleep knows."""
_RARELY = 0.01
"""Of a thread's I/Os: it waits for each, though the recording may have them out of order."""
_LEAD = 1000
"""Milliseconds before the first I/O: fio starts all clients meanwhile."""
_EACH = 2
"""And so many for each client."""
_EXTENT = 1 << 20
_KNOWN = 2.5
"""Milliseconds by which an I/O that is on time may seem to be late."""
_SLACK = 10.0
"""Seconds: a replay ends after twice its time and these."""
_LATE = 0.010
"""Seconds: where one I/O in a hundred is later, the target did not keep up."""
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
_BEYOND = 10
"""I/Os beyond a percentile, without which it is none."""
_OWN = ("speed", "direct", "ioengine", "by")
_WAYS = ("clients", "blktrace")
_DEEP = 512
"""I/Os in flight of a replay by one log, at most."""
_ENGINES = ("psync", "pvsync", "pvsync2", "sync")
_MAX = "max"
EXAMPLE_TRACE = f"{TRACED}1.0\n0 0 0 0 4096 100\n"
_OPEN_LOG = "fio version 2 iolog"
_BLKTRACE = np.dtype([
    ("magic", "u4"), ("sequence", "u4"), ("time", "u8"), ("sector", "u8"), ("bytes", "u4"),
    ("action", "u4"), ("pid", "u4"), ("device", "u4"), ("cpu", "u4"), ("error", "u2"),
    ("pdu_len", "u2"),
])  # fmt: skip
"""``struct blk_io_trace`` of the kernel's ``include/uapi/linux/blktrace_api.h``."""
_MAGIC = 0x65617407
_QUEUE = 1
"""``__BLK_TA_QUEUE``: the I/O came to the block layer."""
_CATEGORIES = {READ: 0x0001, WRITE: 0x0002, TRIM: 0x2002, SYNC: 0x0004}
"""``BLK_TC_…`` of each action, beside those of what is queued by a file system."""
_QUEUED_BY_FS = 0x0110
_CLIENT = re.compile(r"client-(\d+)\.iolog")


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """I/Os in the order of time: ``at`` (µs), ``thread``, ``action`` (its place in read, write,
    trim, sync), ``offset`` and ``length`` in bytes, ``took`` (µs, 0: not known).  ``seconds`` is
    how long they were recorded."""

    seconds: float
    at: Ints
    thread: Ints
    action: Ints
    offset: Ints
    length: Ints
    took: Ints


@lru_cache(maxsize=4)
def trace_of(text: str) -> Trace:
    """The trace that a text says (:attr:`iotrial.model.workload.Workload.trace`).

    Raises FormatError for another text."""
    head, _, body = text.partition("\n")
    try:
        seconds = float(head.removeprefix(TRACED))
        numbers = np.array(body.split(), np.int64).reshape(-1, 6)
    except ValueError as error:
        raise FormatError(f"no trace of a recording: {error}") from None
    return Trace(seconds, *numbers.T)


class Replay:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "replay"
    summary = "the I/Os of a recording again, at their places and times (by fio)"
    program = "fio"
    package = "fio"
    usual = "response.p99"
    measures = re.compile(
        r"(read|write|trim)\.(iops|bw|ios)|(read|write|trim)\.lat\.(mean|max|p(50|9[09]|99\.9))|"
        r"(read|write|trim)\.response\.(mean|max|p(50|9[09]|99\.9))|"
        r"total\.(iops|bw|ios|late\.(mean|max|p(50|9[09]|99\.9)))"
    )

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        found = [
            (name, f"replay has no option {name!r}: it has {', '.join(_OWN)}")
            for name, _ in workload.options
            if name not in _OWN
        ]
        if workload.jobfile:
            found.append(("jobfile", "a replay has none: the recording says everything"))
        if not workload.trace:
            found.append(("recorded", "name the folder that `iotrial record` made"))
        if (engine := str(workload.option("ioengine", "psync"))) not in _ENGINES:
            found.append(("ioengine", f"{engine}: each client waits; {', '.join(_ENGINES)}"))
        if _speed(workload.option("speed", 1)) is None:
            found.append(("speed", 'a number such as 2, or "max"'))
        if (way := workload.option("by", _WAYS[0])) not in _WAYS:
            found.append(("by", f"{way!r}: clients, or log"))
        return found

    def reach(self, workload: Workload) -> LoadAccess:
        if not workload.trace:
            return LoadAccess(reads=True, writes=True)
        actions = set(np.unique(trace_of(workload.trace).action).tolist())
        return LoadAccess(reads=READ in actions, writes=bool(actions & {WRITE, TRIM}))

    def unnameable(self, workload: Workload, aimed: ToolTarget) -> str:  # noqa: ARG002 (any load)
        """See :class:`iotrial.model.tool.SupportsPathCheck`."""
        return "a replay needs a device or a file" if aimed.kind == "directory" else ""

    def command(
        self,
        workload: Workload,
        aimed: ToolTarget,
        facts: Mapping[str, float],
    ) -> Load:
        """Raises UsageError with the first problem :meth:`check` finds, for a directory, and for a
        target that is smaller than one I/O."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if why := self.unnameable(workload, aimed):
            advice = "Name a file in it as the target, with its size."
            raise UsageError(f"workload {workload.name}: {why}", advice=advice)
        trace = trace_of(workload.trace)
        speed = _speed(workload.option("speed", 1)) or 0.0
        offsets = placed(trace, aimed.size or aimed.capacity)
        engine: dict[str, OptionValue] = {"ioengine": workload.option("ioengine", "psync")}
        if workload.option("by") == "blktrace":
            count, engine = 1, {"ioengine": "libaio", "iodepth": _DEEP}
            files = [("job.fio", _job(1).encode()), (_client(0), _blktrace(trace, offsets, speed))]
        else:
            clients = clients_of(trace, speed)
            count = int(clients.max()) + 1
            files = [("job.fio", _job(count).encode())]
            files += _logs(trace, clients, offsets, speed, count)
        options = {
            "replay_redirect": aimed.path,
            **engine,
            "direct": int(bool(workload.option("direct", default=True))),
            "runtime": f"{_most(trace, speed, count) * 1000:.0f}ms",
        }
        words = (f"--{name}={value}" for name, value in options.items())
        if folded := _folded(trace, aimed.size or aimed.capacity):
            files.append((_FOLDED, folded.encode()))
        return Load((*_COMMON, *words, "job.fio"), tuple(files))

    def primary(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsMetricChoice`: the highest percentile of the
        response time that there are enough I/Os for."""
        if not workload.trace or not _speed(workload.option("speed", 1)):
            return "total.iops"
        done = set(trace_of(workload.trace).action.tolist())
        action = next((each for each in (READ, WRITE, TRIM) if each in done), READ)
        for name in ("p99", "p90"):
            metric = f"{_ACTIONS[action]}.response.{name}"
            if not self.lacking(workload, metric):
                return metric
        return f"{_ACTIONS[action]}.response.mean"

    def lacking(self, workload: Workload, metric: str) -> str:
        """See :class:`iotrial.model.tool.SupportsMetricChoice`."""
        operation, _, quantity = metric.partition(".")
        if not workload.trace:
            return ""
        done = trace_of(workload.trace).action
        count = int(np.count_nonzero(done < SYNC))
        if operation in _ACTIONS[:SYNC]:
            count = int(np.count_nonzero(done == _ACTIONS.index(operation)))
        kind, percent = quantity.partition(".")[0], quantity.partition(".p")[2]
        if kind in ("response", "late") and not _speed(workload.option("speed", 1)):
            return f"with speed = {_MAX!r} no I/O is to begin at a time: there is no {metric}"
        if percent and count * (1 - float(percent) / 100) < _BEYOND:
            need = round(_BEYOND / (1 - float(percent) / 100))
            return f"{metric} needs {need} I/Os, and the recording has {count}"
        return ""

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        del aimed
        if not workload.trace:
            return 0.0
        trace, speed = trace_of(workload.trace), _speed(workload.option("speed", 1))
        return trace.seconds / (speed or 1.0) + _LEAD / 1000

    def written(self, workload: Workload) -> float:
        """See :class:`iotrial.model.tool.SupportsKnownWrites`."""
        if not workload.trace:
            return 0.0
        trace = trace_of(workload.trace)
        return float(trace.length[trace.action == WRITE].sum())

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        return "" if workload.option("direct", default=True) else "direct = false"

    def character(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> WorkloadCharacter:
        """See :class:`iotrial.model.tool.SupportsCharacter`.  How many I/Os are in flight follows
        from the storage; one that begins where the one before it ended is sequential."""
        reach, buffered = self.reach(workload), bool(self.buffered(workload))
        if not workload.trace:
            return WorkloadCharacter(reach.reads, reach.writes, buffered=buffered, metadata=False)
        trace = trace_of(workload.trace)
        moved = trace.action < SYNC
        ends = trace.offset[moved] + trace.length[moved]
        follows = trace.offset[moved][1:] == ends[:-1]
        least = _RARELY * len(follows)
        return WorkloadCharacter(
            reach.reads,
            reach.writes,
            sequential=int(np.count_nonzero(follows)) > least,
            random=int(np.count_nonzero(~follows)) > least,
            buffered=buffered,
            metadata=False,
            block=int(trace.length[moved].max(initial=0)),
        )

    def version_problem(self, version: str) -> str:
        return FIO.version_problem(version)

    def parse(self, folder: Path) -> ParsedOutput:
        report = json_output.parse(result(folder, _OUTPUT, "fio", what="report"), _OUTPUT)
        kept = tuple(each for each in report.measurements if each.metric.startswith("cpu."))
        found, doubts = _measured(folder)
        if (note := folder / _FOLDED).exists():
            advice = "take a larger target: what is asked for again is cached, here more than there"
            doubts.append(Doubt("replay-folded", note.read_text("utf-8"), advice))
        return ParsedOutput((*found, *kept), (*report.doubts, *doubts), disks=report.disks)


TOOL = Replay()


def _speed(value: OptionValue) -> float | None:
    """As a number, 0 for as fast as it goes; None for no speed."""
    if value == _MAX:
        return 0.0
    try:
        speed = float(value)
    except ValueError:
        return None
    return speed if 0 < speed < float("inf") and not isinstance(value, bool) else None


def _most(trace: Trace, speed: float, clients: int) -> float:
    """Seconds after which fio ends a replay that does not end."""
    lead = (_LEAD + _EACH * clients) / 1000
    return 2 * trace.seconds / (speed or 1.0) + lead + _SLACK


def clients_of(trace: Trace, speed: float) -> Ints:
    """The client of each I/O.  Those that begin at their times (``speed`` > 0) go to whichever is
    ready longest; else a thread's own go to its clients alone, and wait for those before them."""
    known = trace.took[trace.took > 0]
    usual = int(np.median(known)) if known.size else 0
    took = np.where(trace.took > 0, trace.took, usual)
    if speed:
        return _open((trace.at / speed).astype(np.int64), took, trace.thread)
    return _spread(trace.at, took, trace.thread)


def _open(at: Ints, took: Ints, thread: Ints) -> Ints:
    """Each I/O to the client that is ready longest, or to a new one while there may be more.  One
    that its thread began when the one before had just ended, too soon after it for a sleep to tell
    them apart, follows that at the same client: it waited for it.  But not of a thread that does
    not wait for its I/Os."""
    asynchronous = _asynchronous(at, took, thread)
    ready: list[int] = []
    queue: list[tuple[int, int]] = []
    last: dict[int, tuple[int, int]] = {}
    found = np.zeros(len(at), np.int64)
    for place, (begins, length, who) in enumerate(
        zip(at.tolist(), took.tolist(), thread.tolist(), strict=True)
    ):
        ended, client = last.get(who, (begins + 1, -1))
        if who in asynchronous or not 0 <= begins - ended < _TICK:
            while queue and queue[0][0] != ready[queue[0][1]]:  # it has got another since
                heapq.heappop(queue)
            if (not queue or queue[0][0] > begins) and len(ready) < _MOST:
                client = len(ready)
                ready.append(0)
            else:
                client = heapq.heappop(queue)[1]
        ready[client] = begins + _AGAIN * length + _READY
        heapq.heappush(queue, (ready[client], client))
        last[who] = (begins + length, client)
        found[place] = client
    return found


def _asynchronous(at: Ints, took: Ints, thread: Ints) -> set[int]:
    """Threads that have begun an I/O before their last one had ended, now and then."""
    order = np.lexsort((at, thread))
    who, begins, ends = thread[order], at[order], (at + took)[order]
    early = (who[1:] == who[:-1]) & (begins[1:] < ends[:-1])
    threads, counts = np.unique(thread, return_counts=True)
    found = np.zeros(len(threads), np.int64)
    np.add.at(found, np.searchsorted(threads, who[1:][early]), 1)
    return set(threads[found > _RARELY * counts].tolist())


def _spread(at: Ints, lasts: Ints, owner: Ints) -> Ints:
    """Each I/O to a client of its owner that is ready, or to a new one while there may be more."""
    ready: dict[int, list[tuple[int, int]]] = {}
    found = np.zeros(len(at), np.int64)
    count = 0
    for place, (begins, length, who) in enumerate(
        zip(at.tolist(), lasts.tolist(), owner.tolist(), strict=True)
    ):
        mine = ready.setdefault(who, [])
        if (not mine or mine[0][0] > begins) and count < _MOST:
            client, count = count, count + 1
        elif mine:
            _, client = heapq.heappop(mine)
        else:  # an owner too many: it shares the clients of another
            client = who % _MOST
        heapq.heappush(mine, (begins + length, client))
        found[place] = client
    return found


def placed(trace: Trace, size: int) -> Ints:
    """Where each I/O goes on a target of ``size`` bytes (0: large enough).

    Raises UsageError where not even one I/O fits."""
    ends = trace.offset + trace.length
    if not size or not len(ends) or int(ends.max()) <= size:
        return trace.offset
    if int(trace.length.max()) > size:
        raise UsageError(
            f"a target of {size} bytes is smaller than an I/O of {trace.length.max()}",
            advice="Name a larger target.",
        )
    moved = np.searchsorted(_used(trace), trace.offset // _EXTENT) * _EXTENT
    moved += trace.offset % _EXTENT
    moved %= max(size // _EXTENT, 1) * _EXTENT
    return np.asarray(np.minimum(moved, (size - trace.length) // 4096 * 4096), np.int64)


def _folded(trace: Trace, size: int) -> str:
    """What is to be said where places are laid on each other; '' where there is room for all."""
    ends = trace.offset + trace.length
    if not size or not len(ends) or int(ends.max()) <= size:
        return ""
    used, room = len(_used(trace)), max(size // _EXTENT, 1)
    if used <= room:
        return ""
    return f"the load uses {used} MiB of a device, and the target has {room}: places are the same"


def _used(trace: Trace) -> Ints:
    """The extents in which something is, in their order."""
    last = np.maximum(trace.offset + trace.length - 1, trace.offset)
    return np.unique(np.concatenate([trace.offset // _EXTENT, last // _EXTENT]))


def _job(clients: int) -> str:
    shared = (
        "thread=1", "group_reporting=1", "allow_file_create=0", f"write_lat_log={_LOG}",
        "log_unix_epoch=1", "disable_clat=1", "disable_slat=1",
    )  # fmt: skip
    parts = [f"[client-{n}]\nread_iolog={_client(n)}\n" for n in range(clients)]
    return "\n".join(["[global]", *shared, "".join(parts)])


def _client(number: int) -> str:
    return f"client-{number}.iolog"


def _blktrace(trace: Trace, offsets: Ints, speed: float) -> bytes:
    """All of it as blktrace's records of what was queued."""
    found = np.zeros(len(trace.at), _BLKTRACE)
    found["magic"], found["sequence"] = _MAGIC, np.arange(1, len(found) + 1)
    found["time"] = trace.at * 1000 / (speed or 1.0)
    found["sector"], found["bytes"] = offsets // 512, trace.length
    categories = np.array([_CATEGORIES[action] for action in sorted(_CATEGORIES)], np.uint32)
    found["action"] = _QUEUE | (categories[trace.action] | _QUEUED_BY_FS) << 16
    found["pid"] = trace.thread
    return found.tobytes()


def _logs(
    trace: Trace, clients: Ints, offsets: Ints, speed: float, count: int
) -> list[tuple[str, bytes]]:
    """fio's logs of version 2, one of each client.  The target's path is not in them."""
    lead = _LEAD + _EACH * count
    texts: list[list[str]] = [[_OPEN_LOG, "t add", "t open"] for _ in range(count)]
    due = (trace.at / (speed * 1000)).astype(np.int64) + lead if speed else trace.at
    rows = zip(
        clients.tolist(), due.tolist(), trace.action.tolist(), offsets.tolist(),
        trace.length.tolist(), strict=True,
    )  # fmt: skip
    for client, at, action, offset, length in rows:
        if speed:
            texts[client].append(f"t wait {at} 0")
        texts[client].append(f"t {_ACTIONS[action]} {offset} {length}")
    return [
        (_client(n), ("\n".join([*text, "t close"]) + "\n").encode())
        for n, text in enumerate(texts)
    ]


# -- what came of it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Done:
    """I/Os of all clients: ``action``, ``length`` in bytes, ``due`` and ``ended`` (ms), ``took``
    (ns); ``asked`` is how many there were to do.  Syncs are not in fio's log of latencies."""

    action: Ints
    length: Ints
    due: Floats
    ended: Floats
    took: Floats
    asked: int
    open: bool

    @property
    def late(self) -> Floats:
        """Seconds; the I/O that is least late is on time."""
        begun = self.ended - self.took / 1e6 - self.due
        return np.maximum(begun - begun.min() - _KNOWN, 0.0) / 1e3 if begun.size else begun


def _measured(folder: Path) -> tuple[list[Measurement], list[Doubt]]:
    done = _done(folder)
    doubts = list(_doubts(done))
    if not len(done.action):
        return [], doubts
    begins = np.min(done.ended - done.took / 1e6)
    seconds = max((float(np.max(done.ended) - begins)) / 1e3, 1e-3)
    found = [*_rates("total", done.length, seconds)]
    if done.open:
        found += _spread_of("total.late", done.late)
    for number, name in enumerate(_ACTIONS[:SYNC]):
        mine = done.action == number
        if not mine.any():
            continue
        took = done.took[mine] / 1e9
        found += _rates(name, done.length[mine], seconds)
        found += _spread_of(f"{name}.lat", took)
        if done.open:
            found += _spread_of(f"{name}.response", took + done.late[mine])
    return found, doubts


def _rates(name: str, lengths: Ints, seconds: float) -> list[Measurement]:
    return [
        of_metric(f"{name}.iops", len(lengths) / seconds, _OUTPUT),
        of_metric(f"{name}.bw", float(lengths.sum()) / seconds, _OUTPUT),
        of_metric(f"{name}.ios", float(len(lengths)), _OUTPUT),
    ]


def _spread_of(name: str, values: Floats) -> list[Measurement]:
    raw = f"{_LOG}_lat.1.log"
    found = [
        of_metric(f"{name}.mean", float(values.mean()), raw),
        of_metric(f"{name}.max", float(values.max()), raw),
    ]
    for word, share in _QUANTILES:
        if len(values) * (1 - share) >= _BEYOND:
            found.append(of_metric(f"{name}.{word}", float(np.quantile(values, share)), raw))
    return found


def _doubts(done: _Done) -> Sequence[Doubt]:
    found = []
    if len(done.action) < done.asked:
        missing = done.asked - len(done.action)
        what = f"{missing} of {done.asked} I/Os of the recording were not done"
        found.append(Doubt("replay-incomplete", what, "see stderr of fio beside it"))
    if done.open and len(done.action):
        late = float(np.quantile(done.late, 0.99))
        if late > _LATE:
            what = (
                f"the target did not keep up with the recording: one I/O in a hundred began"
                f" {format_seconds(late)} late or later"
            )
            advice = (
                "the response times say so, too; for a load within its reach take speed = 0.5;"
                " where the CPUs are busy, that may be the reason"
            )
            found.append(Doubt("replay-late", what, advice))
    return found


def _done(folder: Path) -> _Done:
    """Raises FormatError where a client's log is not there, or is not that of its I/Os."""
    logs = {
        int(found[1]): path for path in folder.iterdir() if (found := _CLIENT.fullmatch(path.name))
    }
    if not logs:
        raise FormatError(f"{folder}: no log of a client", advice="Repeat the trial.")
    if not any(folder.glob(f"{_LOG}_lat.*.log")):
        raise FormatError(
            f"{folder}: fio wrote no log of latencies",
            advice="See stderr beside it. A simulated host (--pretend) does no replay.",
        )
    columns: list[tuple[Floats, ...]] = []
    asked, open_ = 0, False
    for number, path in sorted(logs.items()):
        raw = path.read_bytes()
        ended, took, *did = _log(folder / f"{_LOG}_lat.{number + 1}.log")
        if raw.startswith(_MAGIC.to_bytes(4, "little")):  # they end in any order
            actions = np.frombuffer(raw, _BLKTRACE)["action"] >> 16
            asked += int(np.count_nonzero(actions & _CATEGORIES[SYNC] == 0))
            due = np.zeros(len(ended))
        else:
            due, *wanted = _asked(raw.decode("ascii"))
            asked += len(due)
            open_ = open_ or bool(due.any())
            same = [a.tolist() == b[: len(a)].tolist() for a, b in zip(did, wanted, strict=True)]
            if len(ended) > len(due) or not all(same):
                raise FormatError(f"{folder}: the log of {path.name} is not that of its I/Os")
        columns.append((*did, due[: len(ended)], ended, took))
    action, length, due, ended, took = (np.concatenate(each) for each in zip(*columns, strict=True))
    whole = action.astype(np.int64), length.astype(np.int64)
    return _Done(*whole, due, ended, took, asked, open_)


def _asked(text: str) -> tuple[Floats, Floats, Floats]:
    """When each I/O of a client's log was to begin (ms), its action and its length; no syncs, which
    are not in fio's log of latencies."""
    rows, at = [], 0.0
    for line in text.splitlines()[1:]:
        action, *numbers = line.partition("t ")[2].split()
        if action == "wait":
            at = float(numbers[0])
        elif action in _ACTIONS[:SYNC]:
            rows.append((at, float(_ACTIONS.index(action)), float(numbers[1])))
    table = np.array(rows).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _log(path: Path) -> tuple[Floats, Floats, Floats, Floats]:
    """When each ended (ms), how long it took (ns), its action and its length, of fio's log of
    latencies.  Raises FormatError for another file."""
    try:
        rows = [line.split(",")[:4] for line in path.read_text("ascii").splitlines()]
        table = np.array(rows, np.float64).reshape(-1, 4)
    except FileNotFoundError:
        table = np.zeros((0, 4))
    except ValueError as error:
        raise FormatError(f"{path}: no log of fio's: {error}") from None
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
