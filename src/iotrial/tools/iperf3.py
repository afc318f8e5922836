"""iperf3: what the network link itself can do, the ceiling of every disk behind it.

Only the client is started.  Somebody starts ``iperf3 --server`` on the other host, and keeps it
running.  The target of such a workload is a directory, best the mount whose link it is: iperf3
touches no file there, and settings of the network are those of the host.

What this host sends is ``write.bw``, what it receives ``read.bw``: with ``reverse = true`` the
server sends.  Without ``udp`` the link decides how fast; UDP sends 1 Mbit/s unless ``bitrate``
says more.  Rates are bits per second, with K, M, G of 1000; lengths and windows are bytes.

Sources: iperf3(1) of 3.12; iperf_api.c of 3.0.1 to 3.21.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from iotrial.errors import UsageError
from iotrial.formats import iperf3
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.results import result

_SWITCHES = {
    "udp": "--udp", "reverse": "--reverse", "bidir": "--bidir", "zerocopy": "--zerocopy",
    "nodelay": "--no-delay",
}  # fmt: skip
_SIZE = r"[1-9]\d{0,11}[KMGkmg]?"
_SHAPES = {
    "server": (r"[A-Za-z0-9_][\w.:%-]{0,252}", "the name or address of a host with iperf3 -s"),
    "port": (r"[1-9]\d{0,4}", "a port, such as 5201"),
    "time": (r"[1-9]\d{0,4}", "whole seconds, such as 10"),
    "parallel": (r"[1-9]\d{0,2}", "a number of streams from 1 to 128"),
    "bitrate": (r"(0|" + _SIZE + r")(/\d{1,4})?", "bits per second: 0, 900M or 10G"),
    "length": (_SIZE, "bytes a write, such as 128K"),
    "window": (_SIZE, "bytes of socket buffer, such as 4M"),
    "omit": (r"\d{1,3}", "seconds to leave out at the start, such as 2"),
    "mss": (r"[1-9]\d{1,4}", "bytes, such as 1448"),
    "congestion": (r"[a-z][\w-]{0,15}", "an algorithm, such as cubic"),
    "tos": (r"(0x)?[0-9a-fA-F]{1,3}", "a type of service, such as 0x10"),
    "bind": (r"[A-Za-z0-9_][\w.:%-]{0,252}", "an address of this host"),
}
_OPTIONS = (*_SHAPES, *_SWITCHES)
_MOST_STREAMS, _LAST_PORT = 128, 65535
_TIME, _STARTUP = 10, 3.0  # seconds; iperf3's own default, and what it takes to begin and end


class Iperf3:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "iperf3"
    summary = "the network link: TCP or UDP to a server that you started"
    program = "iperf3"
    package = "iperf3"
    usual = "bw"
    measures = re.compile(
        r"cpu\.(usr|sys)|total\.cpu|"
        r"(read|write)\.(bw(\.(sent|received))?|bytes|jitter|loss|retransmits)"
    )

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        return list(dict.fromkeys(_problems(workload)))

    def reach(self, workload: Workload) -> LoadAccess:
        """``reads`` is receiving, ``writes`` is sending; no file is touched."""
        both, back = workload.option("bidir") is True, workload.option("reverse") is True
        return LoadAccess(reads=both or back, writes=both or not back, storage=False)

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem, and for a target that is a device or file."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if aimed.kind != "directory":
            advice = 'aim it at the directory whose link it is, for example directory = "/mnt/nfs"'
            raise UsageError(f"iperf3 measures a link and no {aimed.kind}", advice=advice)
        said = dict(workload.options)
        argv = ["iperf3", "--json", "--client", str(said["server"])]
        argv += ["--time", str(said.get("time", _TIME))]
        for name in _SHAPES:
            if name in said and name not in ("server", "time"):
                argv += [f"--{'set-mss' if name == 'mss' else name}", str(said[name])]
        argv += [option for name, option in _SWITCHES.items() if said.get(name)]
        return Load(tuple(argv))

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        del aimed
        asked = [
            str(workload.option(name, default)) for name, default in (("time", _TIME), ("omit", 0))
        ]
        return _STARTUP + sum(int(each) for each in asked if re.fullmatch(r"\d{1,5}", each))

    def version_problem(self, version: str) -> str:
        if re.match(r"iperf 3\.\d", version):
            return ""
        return f"{version.strip()[:60]!r} is not iperf3: iperf 2 speaks another protocol"

    def parse(self, folder: Path) -> ParsedOutput:
        data = result(folder, "stdout", "iperf3")
        return iperf3.parse(data, "stdout")


TOOL = Iperf3()
EXAMPLE: dict[str, object] = {"server": "far"}


def _problems(workload: Workload) -> Iterator[tuple[str, str]]:
    if workload.jobfile:
        yield "jobfile", "iperf3 takes no job file"
    said = dict(workload.options)
    for name, value in said.items():
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_OPTIONS)}"
            yield name, f"iperf3 has no option {name!r} here; {hint}"
        elif name in _SWITCHES:
            if not isinstance(value, bool):
                yield name, "it is true or false"
        else:
            yield from _shape(name, value)
    yield from _together(said)


def _together(said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
    if "server" not in said:
        yield "server", "name the host that runs iperf3 --server"
    if said.get("reverse") and said.get("bidir"):
        yield "bidir", "it goes both ways already: leave reverse out"
    if said.get("udp"):
        for name in ("mss", "congestion", "nodelay"):
            if said.get(name):
                yield name, "it is for TCP"
        if "bitrate" not in said:
            yield "bitrate", "UDP would send 1 Mbit/s: set how much, 0 for as fast as it goes"


def _shape(name: str, value: OptionValue) -> Iterator[tuple[str, str]]:
    shape, wanted = _SHAPES[name]
    if isinstance(value, bool) or not re.fullmatch(shape, str(value)):
        yield name, f"{str(value)[:40]!r}: it is {wanted}"
    elif (name == "parallel" and int(value) > _MOST_STREAMS) or (
        name == "port" and int(value) > _LAST_PORT
    ):
        yield name, f"{value} is too large: it is {wanted}"
