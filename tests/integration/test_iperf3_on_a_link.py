"""iperf3 for real: a server that the test starts, on a link that it makes and throttles."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.iperf3 import TOOL

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not shutil.which("iperf3"), reason="iperf3 is not installed (apt-get install iperf3)"
    ),
]
RATE = 200e6 / 8  # bytes/s
STUDY = """
question = "What does the link hold, by the number of streams?"
[targets.link]
directory = "{folder}"
[workloads.load]
tool = "iperf3"
options = {{ server = "{server}", time = 1 }}
[factors.streams]
option = "parallel"
levels = [1, 2]
[decide]
primary = "write.bw"
[design]
blocks = 2
settle = "0s"
"""


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


@pytest.fixture
def link() -> Iterator[tuple[str, str]]:
    """(this end's interface, the server's address): a veth pair to a namespace, throttled to
    200 Mbit/s both ways, and iperf3 serving at its other end."""
    if not all(shutil.which(each, path=f"{os.environ['PATH']}:/sbin") for each in ("ip", "tc")):
        pytest.skip("needs ip and tc: iproute2")
    mark = secrets.token_hex(3)
    space, here, there = f"iotrial-{mark}", f"ip{mark}", f"iq{mark}"
    third = secrets.randbelow(200) + 20
    address = f"10.214.{third}.2"
    _do("ip", "netns", "add", space)
    server: subprocess.Popen[bytes] | None = None
    try:
        _do("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
        _do("ip", "addr", "add", f"10.214.{third}.1/30", "dev", here)
        _do("ip", "link", "set", here, "up")
        for words in (f"addr add {address}/30 dev {there}", f"link set {there} up"):
            _do("ip", "-n", space, *words.split())
        shape = ["tbf", "rate", "200mbit", "burst", "256kb", "latency", "50ms"]
        _do("tc", "qdisc", "add", "dev", here, "root", *shape)
        _do("tc", "-n", space, "qdisc", "add", "dev", there, "root", *shape)
        argv = ["ip", "netns", "exec", space, "iperf3", "--server", "--bind", address]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.7)
        yield here, address
    finally:
        if server is not None:
            server.kill()
            server.wait()
        _do("ip", "netns", "del", space)


def _counters(interface: str) -> dict[str, int]:
    folder = Path("/sys/class/net", interface, "statistics")
    return {name: int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes")}


@pytest.mark.parametrize(
    ("name", "counter", "options"),
    [
        ("write.bw", "tx_bytes", {"parallel": 2}),
        ("read.bw", "rx_bytes", {"reverse": True}),
        ("read.bw", "rx_bytes", {"bidir": True}),
        ("write.bw", "tx_bytes", {"udp": True, "bitrate": "50M"}),
    ],
    ids=("sending", "receiving", "both", "datagrams"),
)
def test_what_iperf3_says_is_what_the_interface_counted(
    link: tuple[str, str], tmp_path: Path, name: str, counter: str, options: dict[str, OptionValue]
) -> None:
    interface, server = link
    workload = Workload("load", "iperf3", (("server", server), ("time", 2), *options.items()))
    before = _counters(interface)
    load = TOOL.command(workload, ToolTarget(str(tmp_path), "directory"), {})
    done = subprocess.run(load.argv, capture_output=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    moved = _counters(interface)[counter] - before[counter]
    (tmp_path / "stdout").write_bytes(done.stdout)
    found = {e.metric: e.value for e in TOOL.parse(tmp_path).measurements if e.job == "all"}
    # What the senders' sockets still held may never have left; headers are 4.6 % (3 % of
    # datagrams).
    held = 2 * int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text("ascii").split()[2])
    assert moved * 0.85 < found[name.replace(".bw", ".bytes")] < moved * 1.05 + held
    limit = 50e6 / 8 if "udp" in options else RATE
    assert 0.6 * limit < found[name] < 1.25 * limit
    assert 0 <= found["total.cpu"] < 2


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("way", "metric"), [("", "write.bw"), (", reverse = true", "read.bw")])
def test_a_study_of_a_link(link: tuple[str, str], tmp_path: Path, way: str, metric: str) -> None:
    """Whatever disk the folder is on, nothing is said of it: no load touches it."""
    folder = tmp_path / "mount"
    folder.mkdir()
    text = STUDY.format(folder=folder, server=link[1]).replace("time = 1", f"time = 1{way}")
    (tmp_path / "study.toml").write_text(text.replace('"write.bw"', f'"{metric}"'))
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "r", "--json"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "r" / "measurements.jsonl").read_text().splitlines()
    assert len(rows) == 4
    for row in rows:
        assert 0.6 * RATE < json.loads(row)["values"][metric][0] < 1.3 * RATE
        doubts = {doubt[0] for doubt in json.loads(row)["doubts"]}
        assert doubts.isdisjoint({"cached", "foreign-io", "standstill"}), row


@pytest.mark.usefixtures("state")
def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    text = STUDY.format(folder=tmp_path, server="127.0.0.1").replace("time = 1", "port = 9")
    (tmp_path / "study.toml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "r"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode != 0
    assert "unable to connect to server" in done.stdout + done.stderr
