"""A host that a plugin reaches: a network namespace, through ip-netns(8), by the plugin that stands
in docs/plugins.md.  Its network settings, its lock and its journal are its own."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrial.conformance import problems
from iotrial.execute.settings.journal import REPORT
from iotrial.plugins import in_file

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("ip"), reason="needs ip: iproute2"),
    pytest.mark.skipif(not shutil.which("fio"), reason="needs fio"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
STATES = "/run/iotrial-netns"
KILLS = 12
LATEST = 5.0
"""Seconds after the start; a run of the study below takes about as long."""
STUDY = """
question = "Is everything given back?"
[hosts.box]
via = "netns://{name}"
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


@dataclass
class Box:
    name: str
    folder: Path

    def do(self, *argv: str) -> str:
        entered = ["ip", "netns", "exec", self.name, *argv]
        return subprocess.run(entered, capture_output=True, text=True, check=False).stdout

    def seen(self) -> str:
        return self.do("cat", "/proc/sys/net/ipv4/tcp_rmem", "/sys/class/net/lo/tx_queue_len")

    def owed(self) -> list[str]:
        kept = self.do("find", f"{STATES}/{self.name}/journal.d", "-type", "f").split()
        return [path for path in kept if not path.endswith(REPORT)]

    def run(self) -> subprocess.Popen[bytes]:
        study = self.folder / "study.toml"
        study.write_text(STUDY.format(name=self.name, folder=self.folder))
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
    name = f"iotrial-test-{secrets.token_hex(4)}"
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=60)
    try:
        pages = re.findall(
            r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        (text,) = (each for each in pages if "netns" in each)
        (tmp_path / "plugins").mkdir(mode=0o755)
        plugin = tmp_path / "plugins" / "netns.py"
        plugin.write_text(text.replace('EXAMPLE = "blue"', f'EXAMPLE = "{name}"'))
        yield Box(name, tmp_path)
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, timeout=60)
        shutil.rmtree(f"{STATES}/{name}", ignore_errors=True)
        with suppress(OSError):
            Path(STATES).rmdir()


def test_the_plugin_of_the_page_conforms(box: Box) -> None:
    (plugin,) = in_file(box.folder / "plugins" / "netns.py")
    assert problems(plugin) == ()
    assert plugin.value.check("1; reboot") == "'1; reboot' is not a namespace"


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
    assert [*facts["plugins"]] == ["hosts netns"]


def test_a_controller_that_is_killed_leaves_nothing_changed(box: Box) -> None:
    """Nobody calls ``restore``: the guard, which was started through the same program, pays."""
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
