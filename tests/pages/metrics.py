"""The reference page of metrics (``docs/metrics.md``): every operation and quantity that a study
may name, with the tools that give it."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.measurement import QUANTITIES
from iotrial.model.tool import SupportsMetrics
from iotrial.plan.sense import OPERATIONS
from iotrial.tools import tools

_HEAD = """# Metrics

A metric is a number that each trial gives: `read.iops`, `write.clat.p99`, `cpu.sys`.
Its name is `OPERATION.QUANTITY`, one of each from the tables below; a study names it in \
`primary`, `guardrails` and `limits` ([the study file](study-file.md#decide)).
Values are in base units everywhere outside reports.
Unless said otherwise a value is that of the whole trial: rates are summed over jobs, devices \
and hosts, and percentiles are taken from merged histograms.

A load with sections gives each number of each section too, the section's name in brackets: \
`read.iops[4k-read]` of the section `[4k-read]` of fio's job file, `read.bw[1024k/64k]` of a file \
of 1024 KiB in records of 64 KiB in IOzone's auto mode. The second section of a name that waits \
for the first is `mixed(2)`.

- *Better* is the direction that a comparison takes as an improvement. A metric without one (–) \
is reported, and cannot be `primary`.
- *Tools* are those that can give the quantity, for some of the operations. `iotrial plan` \
refuses a metric that the tool of a workload never gives. *Imports* marks what only [imported \
results](importing.md) have.
- The tool `command` gives whatever metrics its workload \
[defines](study-file.md#a-command-of-your-own).

<!-- Made from tests/pages/metrics.py and the tools: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_metrics_page.py -->

## Operations

| operation | is |
|---|---|
"""
_QUANTITIES = """
Operations on files may say in which order or on what: `create.seq.rate`, `stat.random.rate` \
(bonnie++), `create.dir.rate`, `delete.tree.rate` (elbencho, mdtest).
Imported results may have others: `find` (io500), `flush` (iostat), `receive` and `send` (sar), \
and those that a table's map names.

## Quantities

| quantity | unit | better | tools | is |
|---|---|---|---|---|
"""
_LATENCIES = """
## Latencies

All are in seconds, and lower is better.

| quantity | tools | is |
|---|---|---|
"""
_FOOT = """
Each has these summaries, as far as the tool gives them; a percentile may have decimals (`p99.9`):

| summary | is |
|---|---|
| `mean` | arithmetic mean over all I/Os |
| `min`, `max` | the shortest and the longest |
| `sd` | standard deviation over all I/Os |
| `p50`, `p90`, `p95`, `p99`, `p99.9`, `p99.99` | percentile: so many per cent of the I/Os took \
no longer |

For example `read.clat.p99`, `write.lat.mean`, `sync.lat.p99` (fio), `create.seq.lat.max` \
(bonnie++).
"""
_SUMMARIES = ("mean", "min", "max", "sd", "p50", "p99")
_DIRECTIONS = {True: "higher", False: "lower", None: "–"}
_OPERATION = {
    "read": (
        "reading data; of fio also random reads (`randread`); of iperf3 what this host receives"
    ),
    "write": "writing data; of iperf3 what this host sends",
    "trim": "discarding blocks (fio, replay)",
    "mixed": "reads and writes reported as one (fio's `unified_rw_reporting`, IOzone's mixed load)",
    "total": (
        "all operations of the trial together; of fio `total.util` is that of the busiest disk"
    ),
    "cpu": "CPU time of the load generator's processes",
    "sync": "fsync, fdatasync and their like (fio)",
    "transaction": "transactions of a database (pgbench)",
    "seek": "seeks, each with a read and sometimes a write (bonnie++)",
    "create": "creating files or directories",
    "stat": "reading their attributes",
    "delete": "deleting them",
    "rename": "renaming them (mdtest)",
    "list": "listing a folder (listing)",
    "putc": "writing byte by byte (bonnie++)",
    "getc": "reading byte by byte (bonnie++)",
    "rewrite": "writing data again that was written before (bonnie++: read, change, write back)",
    "reread": "reading a file again (IOzone)",
    "random_read": "reading at random offsets (IOzone; of fio it is `read`)",
    "random_write": "writing at random offsets (IOzone; of fio it is `write`)",
    "backward_read": "reading a file from its end to its start (IOzone)",
    "record_rewrite": "writing one and the same record again and again (IOzone)",
    "stride_read": "reading with gaps of one size (IOzone)",
    "fwrite": "writing through the C library's buffers (IOzone)",
    "refwrite": "the same, a second time (IOzone)",
    "fread": "reading through the C library's buffers (IOzone)",
    "refread": "the same, a second time (IOzone)",
    "pwrite": "`pwrite(2)` (IOzone)",
    "repwrite": "the same, a second time (IOzone)",
    "pread": "`pread(2)` (IOzone)",
    "repread": "the same, a second time (IOzone)",
    "pwritev": "`pwritev(2)` (IOzone)",
    "repwritev": "the same, a second time (IOzone)",
    "preadv": "`preadv(2)` (IOzone)",
    "repreadv": "the same, a second time (IOzone)",
}
_QUANTITY = {
    "iops": "I/O operations completed per second",
    "iops.within": (
        "highest offered rate whose response time is within the bound "
        "([offered rates](study-file.md#offered-rates))"
    ),
    "bw": "bytes transferred per second",
    "rate": (
        "operations per second that are no reads or writes of data: files created, entries "
        "listed, seeks, transactions"
    ),
    "rate.sd": "standard deviation of the rate over the tool's iterations",
    "bytes": "bytes transferred",
    "seconds": "how long the operation took",
    "bw.parent": (
        "bytes per second between the first start and the last end of several processes (IOzone's "
        "*Parent sees*)"
    ),
    "bw.min": "bandwidth of the slowest process",
    "bw.max": "bandwidth of the fastest process",
    "bw.avg": "mean bandwidth of a process",
    "bw.sent": "bandwidth as the sender counted it",
    "bw.received": "bandwidth as the receiver counted it",
    "bytes.min": "bytes that the slowest process had transferred when the first one ended",
    "iops.min": "IOPS of the slowest second of a log",
    "iops.max": "IOPS of the fastest second of a log",
    "iops.sd": "standard deviation of IOPS over the seconds of a log",
    "bw.sd": "standard deviation of bandwidth over the seconds of a log",
    "ios": "number of I/O operations",
    "retransmits": "TCP segments sent again",
    "loss": "share of UDP datagrams that were lost",
    "jitter": "variation of the delay of UDP datagrams",
    "util": "share of the time in which the device had at least one I/O in flight",
    "depth": "mean number of I/Os in flight",
    "cpu": "CPU time over elapsed time of the operation",
    "usr": "CPU time in user mode, over the run time of the jobs (`cpu.usr`)",
    "sys": "CPU time in the kernel, over the run time of the jobs (`cpu.sys`)",
    "per_io": "CPU time for one I/O (`cpu.per_io`)",
    "value": "a number of an imported table without a known meaning",
}
_LATENCY = {
    "clat": "completion latency: from the submission of an I/O to the kernel until it is complete",
    "slat": "submission latency: how long the call took that submits the I/O",
    "lat": (
        "total latency: of fio from the creation of an I/O to its completion; of other tools what "
        "they call latency"
    ),
    "response": (
        "response time: from the intended start of an I/O to its completion, of a load with "
        "[offered rates](study-file.md#offered-rates), where it is the bounded percentile, or of "
        "[a recording](record.md#in-a-study)"
    ),
    "late": (
        "by how much I/Os began later than recorded (`total.late`); what is less than 2.5 ms "
        "cannot be told and is 0"
    ),
}


def reference() -> str:
    """The whole page.  Raises KeyError where an operation or quantity has no description."""
    operations = "".join(f"| `{name}` | {_OPERATION[name]} |\n" for name in OPERATIONS)
    quantities = "".join(
        f"| `{name}` | {unit or 'number'} | {_DIRECTIONS[higher]} | {_given([name])} |"
        f" {_QUANTITY[name]} |\n"
        for name, (unit, higher, _) in QUANTITIES.items()
    )
    latencies = "".join(
        f"| `{name}` | {_given([f'{name}.{each}' for each in _SUMMARIES])} | {words} |\n"
        for name, words in _LATENCY.items()
    )
    return f"{_HEAD}{operations}{_QUANTITIES}{quantities}{_LATENCIES}{latencies}{_FOOT}"


def _given(quantities: list[str]) -> str:
    return ", ".join(_tools(quantities)) or "imports"


def _tools(quantities: list[str]) -> Iterator[str]:
    """The tools that give one of these for some operation."""
    for name, tool in tools().items():
        if isinstance(tool, SupportsMetrics) and any(
            tool.measures.fullmatch(f"{operation}.{quantity}")
            for operation in OPERATIONS
            for quantity in quantities
        ):
            yield name
