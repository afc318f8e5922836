"""What lies beside results and is none that iotrial takes: whose output it is, in words.  Pure."""

from __future__ import annotations

import re

from iotrial.errors import FormatError

_TOOLS: tuple[tuple[str, str], ...] = (
    ("ioping", r"^--- .+ ioping statistics ---|\d [KMG]iB <<< |\d [KMG]iB >>> "),
    ("hdparm -t", r"^ ?Timing (?:buffered disk|cached|O_DIRECT disk|O_DIRECT cached) reads:"),
    ("diskspd", r"^Command Line: .*diskspd|^Input parameters:\s+timespan: "),
    ("iperf 2", r"^(?:Client connecting to .+,|Server listening on) (?:TCP|UDP) port \d"),
    ("vmstat", r"^procs -+memory-+ -+swap-+ -+io-+|^ *r +b +swpd +free +(?:buff|inact) +"),
    ("mpstat", r"^(?:\d\d:\d\d:\d\d.*|Average:) +CPU +%usr +%nice +%sys +%iowait"),
    ("pidstat", r"^#? ?(?:\d\d:\d\d:\d\d.*|Time|Average:) +UID +(?:TGID +)?PID +"),
    ("sysbench", r"^sysbench \d+\.\d+"),
    ("CrystalDiskMark", r"^CrystalDiskMark \d"),
    ("smartctl", r"^smartctl \d+\.\d+ "),
    ("blktrace", r"^=+ All Devices =+\s*$|^Total \([^)\n]+\):\s*$\s{1,9}Reads Queued:"),
    ("pfind", r"^rank, errors, unknown, found, total, checked, job steal "),
    ("perf", r"^ ?Performance counter stats for "),
)
_KNOWN = tuple((tool, re.compile(each.encode(), re.MULTILINE)) for tool, each in _TOOLS)
_SECTION = re.compile(rb"^\[[^\]\n]{1,200}\][ \t\r]*$", re.MULTILINE)
_OPTION = re.compile(
    rb"^[ \t]*(?:rw|readwrite|ioengine|blocksize|bs|iodepth|numjobs|filename|directory)[ \t]*=",
    re.MULTILINE,
)
_INSTEAD = {
    "iperf 2": "Measure with iperf3: its JSON and text are read.",
    "pfind": "This lists its processes; IO500's result list has the rate of its phase find.",
    "vmstat": "iostat -x and sar -d tell of each device what vmstat tells of all: they are read.",
    "mpstat": "sar -u tells of the CPUs: it is read.",
    "pidstat": "sar -u tells of the CPUs: it is read.",
}
_LOOKED = 64 * 1024


def whose(head: bytes) -> str:
    """The tool that wrote a file which begins with ``head``; '' unknown."""
    return next((tool for tool, each in _KNOWN if each.search(head[:_LOOKED])), "")


def refusal(head: bytes, name: str) -> FormatError | None:
    """Why a file is no result for iotrial, where that is known; None where it is not."""
    if tool := whose(head):
        return FormatError(
            f"{name}: this is the output of {tool}, which iotrial does not read",
            advice=_INSTEAD.get(
                tool,
                "Write its numbers into a table (CSV): a line of names with units, a row a run.",
            ),
        )
    if _SECTION.search(head[:_LOOKED]) and _OPTION.search(head[:_LOOKED]):
        return FormatError(
            f"{name}: this is a job file of fio: it says what was to be run, and has no result",
            advice="Name it *.fio and import it with fio's results: it tells what is in flight.",
        )
    return None
