"""A link that is full whatever the treatment, for real: a throttled veth pair, iperf3 for its
ceiling, and a load that sends as fast as the link takes it, under two values of a setting."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_iperf3_on_a_link import link, pytestmark

__all__ = ["link", "pytestmark"]

PORT = 5299
SINK = """
import socket, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    with peer:
        count, began = 0, 0.0
        while data := peer.recv(1 << 20):
            began = began or time.monotonic()
            count += len(data)
        took = time.monotonic() - began
        try:
            peer.sendall(f"{count / took:.0f}".encode())
        except OSError:
            pass
"""
"""What arrives a second, told to whoever sent it."""
LOAD = """
import socket, sys, time
seconds, pause = float(sys.argv[3]), float(sys.argv[4])
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as peer:
    end, data = time.monotonic() + seconds, bytes(1 << 16)
    while time.monotonic() < end:
        peer.sendall(data)
        time.sleep(pause)
    peer.shutdown(socket.SHUT_WR)
    print("received", peer.recv(64).decode())
"""
STUDY = """
question = "Does the size of send buffers matter?"
[targets.here]
directory = "{folder}"
[workloads.ceiling]
tool = "iperf3"
options = {{ server = "{server}", time = 2 }}
[workloads.load]
tool = "command"
argv = ["{python}", "{folder}/load.py", "{server}", "{port}", "2", "{pause}"]
[workloads.load.metrics]
"write.bw" = {{ pattern = "received ([0-9]+)", unit = "bytes/s" }}
[factors.buffers]
tunable = "sysctl.net.core.wmem_default"
levels = [212992, 262144]
[decide]
primary = "write.bw"
[design]
kind = "full"
blocks = 2
settle = "0s"
"""


@pytest.fixture
def sink(link: tuple[str, str]) -> Iterator[str]:
    """The address of a listener behind the link."""
    interface, server = link
    space = f"iotrial-{interface.removeprefix('ip')}"
    argv = ["ip", "netns", "exec", space, sys.executable, "-c", SINK, server, str(PORT)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield server
        finally:
            process.kill()


def doubts(folder: Path, server: str, pause: float) -> list[str]:
    """What the check says of a study whose load waits ``pause`` seconds after each 64 KiB."""
    (folder / "load.py").write_text(LOAD)
    study, out = folder / f"study-{pause}.toml", folder / f"results-{pause}"
    words = {"folder": folder, "server": server, "port": PORT, "python": sys.executable}
    study.write_text(STUDY.format(**words, pause=pause))
    iotrial = (sys.executable, "-m", "iotrial.cli.main")
    done = subprocess.run(
        [*iotrial, "run", str(study), "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [each["what"] for each in json.loads(done.stdout)["doubts"] if each["check"] == "link"]


def test_a_load_that_fills_the_link_at_every_treatment_cannot_show_a_difference(
    state: Path, sink: str, tmp_path: Path
) -> None:
    (said,) = doubts(tmp_path, sink, 0.0)
    assert said.startswith("load saturates the link at every treatment")
    assert "No difference is detectable" in said
    assert doubts(tmp_path, sink, 0.02) == [], "one that waits does not fill it"
