"""A host that a plugin reaches: the namespaces of a process, through nsenter, by the plugin that
stands in docs/plugins.md.  Its network settings, its lock and its journal are its own."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrial.conformance import problems
from iotrial.execute.settings.journal import REPORT
from iotrial.plugins import in_file

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("nsenter"), reason="needs nsenter: util-linux"),
    pytest.mark.skipif(not shutil.which("fio"), reason="needs fio"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
KILLS = 12
LATEST = 5.0
"""Seconds after the start; a run of the study below takes about as long."""
STUDY = """
question = "Is everything given back?"
[hosts.box]
via = "nsenter://{pid}"
lease = "5s"
[targets.file]
file = "{folder}/file"
size = "4MiB"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "0.2s" }}
[factors.memory]
tunable = "sysctl.net.ipv4.tcp_rmem"
levels = ["4096 87380 16777216", "4096 87380 8388608"]
[factors.queue]
tunable = "net.txqueuelen"
on = "lo"
levels = [77, 88]
[design]
blocks = 1
settle = "0s"
"""
PRIVATE = """
mount -t tmpfs -o mode=755 run /run && mount -t tmpfs -o mode=755 lib /var/lib && exec sleep 3600
"""


@dataclass
class Box:
    pid: int
    folder: Path

    def do(self, *argv: str) -> str:
        entered = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--", *argv]
        return subprocess.run(entered, capture_output=True, text=True, check=False).stdout

    def seen(self) -> str:
        return self.do("cat", "/proc/sys/net/ipv4/tcp_rmem", "/sys/class/net/lo/tx_queue_len")

    def owed(self) -> list[str]:
        kept = self.do("find", "/var/lib/iotrial/journal.d", "-type", "f").split()
        return [path for path in kept if not path.endswith(REPORT)]

    def run(self) -> subprocess.Popen[bytes]:
        study = self.folder / "study.toml"
        study.write_text(STUDY.format(pid=self.pid, folder=self.folder))
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        words = ["run", study, "--out", self.folder / "out"]
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "iotrial.cli.main", *words],
                env={**os.environ, "IOTRIAL_PLUGINS": str(self.folder / "plugins")},
                cwd=self.folder,
                stdout=said,
                stderr=said,
            )


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    apart = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", PRIVATE]
    with subprocess.Popen(apart) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            while comm.read_text() != "sleep\n":
                assert process.poll() is None, "namespaces cannot be made here"
                time.sleep(0.01)
            pages = re.findall(
                r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
            )
            (text,) = (each for each in pages if "nsenter" in each)
            (tmp_path / "plugins").mkdir(mode=0o755)
            plugin = tmp_path / "plugins" / "nsenter.py"
            plugin.write_text(text.replace('EXAMPLE = "1"', f'EXAMPLE = "{process.pid}"'))
            yield Box(process.pid, tmp_path)
        finally:
            process.kill()


def test_the_plugin_of_the_page_conforms(box: Box) -> None:
    (plugin,) = in_file(box.folder / "plugins" / "nsenter.py")
    assert problems(plugin) == ()
    assert plugin.value.check("1; reboot") == "'1; reboot' is not a process number"


def test_a_study_changes_its_settings_and_gives_them_back(box: Box) -> None:
    before, ours = box.seen(), Path("/proc/sys/net/ipv4/tcp_rmem").read_text()
    run = box.run()
    assert run.wait(300) == 0, (box.folder / "said").read_text()
    assert box.seen() == before
    assert box.owed() == []
    assert Path("/proc/sys/net/ipv4/tcp_rmem").read_text() == ours
    values = {
        value
        for path in (box.folder / "out" / "trials").glob("*/before.json")
        for value in re.findall(r"4096 87380 \d+", path.read_text("utf-8"))
    }
    assert {"4096 87380 16777216", "4096 87380 8388608"} <= values
    facts = json.loads((box.folder / "out" / "hosts" / "box.json").read_text("utf-8"))
    assert [*facts["plugins"]] == ["hosts nsenter"]


def test_a_controller_that_is_killed_leaves_nothing_changed(box: Box) -> None:
    """Nobody calls ``restore``: the guard, which was started through nsenter too, pays."""
    before, struck = box.seen(), 0
    moments = random.Random(23)
    for _ in range(KILLS):
        run = box.run()
        time.sleep(moments.uniform(0.2, LATEST))
        run.kill()
        run.wait()
        struck += bool(box.owed())
        deadline = time.monotonic() + 200
        while (box.owed() or box.seen() != before) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (box.owed(), box.seen()) == ([], before)
    assert struck, "no kill fell into a session"
