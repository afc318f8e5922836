"""fio's own client and server as the load: three namespaces with a real sshd, their own loop
devices, and fio at both ends of a tunnel.

Loads are slow on purpose (``rate_iops``), and nothing depends on how fast anything is.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrial.store import open_results
from lab import Box, Lab, lab, why_not
from racks import Rack, ended, until, words

__all__ = ["lab"]

_LACKS = why_not() or ("" if shutil.which("fio") else "fio is not installed")
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_LACKS), reason=_LACKS or "-")]

HOSTS, RATE, JOBS = 3, 150, 2
SSH = 22


@dataclass
class Serving(Rack):
    """A rack whose loads are fio's own servers; where ``listen``, at an address of their box."""

    listen: bool = False

    def study(self, *starts: str, blocks: int, runtime: str) -> Path:
        """A workload for each way to start it, of that name."""
        loads = "".join(
            f'[workloads.{start}]\ntool = "fio"\nstart = "{start}"\n'
            f'options = {{ rw = "randread", bs = "4k", rate_iops = {RATE}, numjobs = {JOBS},'
            f' runtime = "{runtime}", write_lat_log = "each" }}\n'
            for start in starts
        )
        path = self.folder / "study.toml"
        path.write_text(
            f"""{self.hosts()}
[targets.disk]
loop = {{ size = "8MiB", directory = "{self.folder}" }}
hosts = "box[1-{len(self.boxes)}]"
{loads}
[factors.depth]
option = "iodepth"
levels = [1]
[design]
blocks = {blocks}
settle = "0s"
"""
        )
        return path

    def more(self, box: Box) -> str:
        return f'listen = "{box.address}"\n' if self.listen else ""

    def servers(self, box: Box) -> list[int]:
        """Every process of a server in a box, its jobs too."""
        return [pid for pid in box.processes() if words(pid)[:1] == [b"fio"]]

    def clients(self) -> list[int]:
        """Clients, wherever they are: their folder is one of ours."""
        return [
            int(each.name)
            for each in Path("/proc").glob("[0-9]*")
            if words(int(each.name))[:1] == [b"fio"] and inside(each, self.folder)
        ]

    def nothing_is_left(self) -> bool:
        sent = "ls -A /var/lib/iotrial/files 2>/dev/null || :"
        return not (
            self.clients()
            or any(map(self.servers, self.boxes))
            or self.owing()
            or any("load-" in box.run("sh", "-c", sent) for box in self.boxes)
            or self.loops()
        )


def inside(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


@pytest.fixture(scope="module")
def boxes(lab: Lab) -> tuple[Box, ...]:
    return tuple(lab.box(f"box{n}") for n in range(1, HOSTS + 1))


@pytest.fixture
def rack(boxes: tuple[Box, ...], tmp_path: Path) -> Iterator[Serving]:
    with Serving.of(boxes, tmp_path) as made:
        yield made


def lost_by_fio(folder: Path) -> int:
    """Logs that fio's client could not decompress, which is rare: decision 0021."""
    return (folder / "stderr").read_text().count("failed converting IO log")


def every_log_is_there_or_told(folder: Path, read: float | None) -> None:
    """Of each job a line for each I/O of the ``read`` bytes; a log is missing only where fio said
    so, and then it is a doubt."""
    lost = lost_by_fio(folder)
    kinds = [sorted(folder.glob(f"each_{kind}.*.log")) for kind in ("clat", "slat", "lat")]
    assert sum(map(len, kinds)) == len(kinds) * JOBS - lost
    if lost:
        assert "fio-log-lost" in (folder.parents[1] / "trial.json").read_text()
    for logs in kinds:
        lines = sum(len(log.read_text().splitlines()) for log in logs)
        assert lines * 4096 == read or len(logs) < JOBS


@pytest.mark.timeout(900)
def test_what_servers_measure_has_the_shape_of_what_plain_loads_do(rack: Serving) -> None:
    status, told = ended(rack.run(rack.study("plain", "server", blocks=1, runtime="1s")))
    assert status == 0, told
    assert rack.nothing_is_left()
    # A first start may be late on a busy machine, and is then done again.
    valid = [each for each in open_results(rack.out).records if each.state == "valid"]
    alone = next(each for each in valid if each.trial.workload == "plain")
    served = next(each for each in valid if each.trial.workload == "server")
    assert served.command[-2] == "--client=sock:fio.sock"
    assert {(m.metric, m.job) for m in served.measurements} == {
        (m.metric, m.job) for m in alone.measurements
    }
    assert {name for name, _ in served.starts} == {name for name, _ in alone.starts}
    total = served.value("read.iops")
    assert total == pytest.approx(RATE * JOBS * HOSTS, rel=0.2)
    own = [served.of_part(part, "read.iops") or 0.0 for part in served.parts]
    assert total == pytest.approx(sum(own), rel=0.01)
    for part in served.parts:
        folder = rack.out / "trials" / served.trial.folder / part
        other = rack.out / "trials" / alone.trial.folder / part
        theirs = {path.name for path in folder.iterdir()} - {"server.stdout", "server.stderr"}
        missing = ({path.name for path in other.iterdir()} | {"job.fio"}) ^ theirs
        assert len(missing) == lost_by_fio(folder), missing
        every_log_is_there_or_told(folder, served.of_part(part, "read.bytes"))


@pytest.mark.timeout(900)
def test_a_host_whose_server_is_killed_is_named_and_the_study_goes_on(rack: Serving) -> None:
    process = rack.run(rack.study("server", blocks=2, runtime="2s"))
    box = rack.boxes[1]
    until(lambda: len(rack.servers(box)) > JOBS, process)
    # It may be forking its jobs just now: one of them alone would go on, with the connection.
    while servers := rack.servers(box):
        for pid in servers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    status, told = ended(process)
    first, second = rack.trials()
    assert first["state"] == "failed", told
    assert first["error"].startswith("box2/disk: fio: the server went away"), first["error"]
    assert second["state"] == "valid", second["error"]
    assert status == 5, told
    assert rack.nothing_is_left()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda each: each.name)
def test_a_controller_that_is_stopped_leaves_no_server_and_no_client(
    rack: Serving, number: signal.Signals
) -> None:
    process = rack.run(rack.study("server", blocks=1, runtime="600s"))
    until(lambda: all(len(rack.servers(box)) > JOBS for box in rack.boxes), process)
    os.kill(process.pid, number)
    process.wait(timeout=200)
    until(rack.nothing_is_left)


def ports(box: Box) -> set[int]:
    """Where TCP is listened at in a box."""
    lines = box.run("cat", "/proc/net/tcp").splitlines()[1:]
    return {int(each.split()[1].split(":")[1], 16) for each in lines if each.split()[3] == "0A"}


@pytest.mark.timeout(900)
def test_a_server_listens_at_an_address_of_its_host_where_the_study_says_so(rack: Serving) -> None:
    rack.boxes, rack.listen = rack.boxes[:2], True
    before = [ports(box) for box in rack.boxes]
    process = rack.run(rack.study("server", blocks=1, runtime="1s"))
    pairs = list(zip(rack.boxes, before, strict=True))
    until(lambda: all(ports(box) - own for box, own in pairs), process)
    status, told = ended(process)
    assert status == 0, told
    assert [ports(box) for box in rack.boxes] == before
    assert rack.nothing_is_left()
    record = next(e for e in open_results(rack.out).records if e.state == "valid")
    assert record.command[-2].startswith("--client=ip:10.")
    for part in record.parts:
        folder = rack.out / "trials" / record.trial.folder / part
        every_log_is_there_or_told(folder, record.of_part(part, "read.bytes"))


@pytest.mark.timeout(900)
def test_a_port_that_somebody_holds_is_refused_by_name(rack: Serving) -> None:
    rack.boxes, rack.listen = rack.boxes[:1], True
    study = rack.study("server", blocks=1, runtime="1s")
    address = rack.boxes[0].address
    study.write_text(study.read_text().replace(f'"{address}"', f'"{address}:{SSH}"'))
    status, told = ended(rack.run(study))
    assert status == 3, told
    assert f"box1: port {SSH} on {address} is in use" in told
