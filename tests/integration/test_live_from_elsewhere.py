"""A run on another machine: named by an inventory, and looked at through a tunnel of ssh."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from browsing import Browser
from iotrial.cli.main import status
from iotrial.live.file import read
from lab import Lab

pytestmark = pytest.mark.root

SERVER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import factories
from iotrial.live import address
from iotrial.live.live import LiveStatus
from iotrial.model.event import TrialsPlanned, TrialBegan, CountersSampled
from iotrial.model.results import TelemetrySample
results = factories.results()
with LiveStatus(results.study, address.parse(address.FREE)) as live:
    live(TrialsPlanned(1, 1, Path(sys.argv[2])))
    live(TrialBegan(results.records[0].trial, 3.0))
    print(live.place.url, flush=True)
    for t in range(100):
        disk = {"reads": 1000 * t, "sectors_read": 8000 * t, "read_ms": 500 * t}
        live(CountersSampled(TelemetrySample("box", "disk", "sda", {"t": float(t), "disk": disk})))
        time.sleep(1)
"""
STUDY = """
question = "Which scheduler?"
[inventory]
ssh_config = "{config}"
hosts = "bo?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "2s", time_based = 1 }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = 1
settle = "0s"
"""


def free_port() -> int:
    import socket  # noqa: PLC0415 (for this alone)

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.browser
def test_the_page_is_seen_through_a_tunnel(lab: Lab, tmp_path: Path, browser: str) -> None:
    box = lab.boxes[0] if lab.boxes else lab.box()
    inside = ["nsenter", "-t", str(box.pid), "-n", "--", sys.executable, "-c", SERVER]
    tests = str(Path(__file__).resolve().parents[1])
    port = free_port()
    with subprocess.Popen([*inside, tests, str(tmp_path)], stdout=subprocess.PIPE) as server:
        assert server.stdout
        try:
            place = urlsplit(server.stdout.readline().decode().strip())
            ssh = ["ssh", "-F", str(lab.config), "-N", "-L", f"{port}:127.0.0.1:{place.port}"]
            with subprocess.Popen([*ssh, box.name], stdin=subprocess.DEVNULL) as tunnel:
                try:
                    url = f"http://localhost:{port}/?{place.query}"
                    until_served(url)
                    with Browser(browser, tmp_path / "profile") as found:
                        tab = found.tab()
                        tab.go(url)
                        tab.until("points.length > 1 && points.at(-1)[1] === 1000")
                        assert tab.complaints() == []
                finally:
                    tunnel.terminate()
            token = parse_qs(place.query)["token"][0]
            assert token not in (read(tmp_path) or {}).values()
        finally:
            server.terminate()


def until_served(url: str) -> None:
    deadline = time.monotonic() + 200
    while True:
        try:
            with urllib.request.urlopen(url, timeout=200) as answer:  # noqa: S310 (our own)
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_a_host_of_an_inventory_is_measured_and_seen(
    lab: Lab, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = lab.boxes[0] if lab.boxes else lab.box()
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(config=lab.config, folder=tmp_path))
    assert status(["doctor", "--hosts", str(study), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["hosts"]
    assert listed == [{"host": box.name, "ssh": box.where}]
    assert status(["run", str(study), "--out", str(tmp_path / "r"), "--live"]) == 0
    seen = read(tmp_path / "r") or {}
    assert [(row["host"], row["target"]) for row in seen["rows"]] == [(box.name, "disk")]
    assert seen["rows"][0]["rates"]["read.iops"] > 0
    assert seen["progress"]["valid"]  # on a machine that stands still some are INVALID
    assert json.loads((tmp_path / "r" / "inventory.json").read_text()) == {box.name: box.where}
