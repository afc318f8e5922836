"""A journal that an earlier version wrote on a real kernel is paid on one: by `iotrial restore`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.execute.settings.journal import sealed
from old_results import DATA

pytestmark = pytest.mark.root

JOURNALS = sorted(DATA.glob("results-*/real.journal"))
THEN = "loop4711"
FORMER = {"scheduler": "kyber", "nr_requests": "72", "read_ahead_kb": "320"}
"""What was there before, when it was recorded."""


def queue(device: str, name: str) -> Path:
    return Path("/sys/block", device, "queue", name)


def of_this_device(journal: Path, device: str) -> bytes:
    """The same journal, had it been written during this boot, of a device that is here now."""
    text = journal.read_text()
    lines = text[: text.index("\nwhole|") + 1] if "\nwhole|" in text else text
    folder = Path("/sys/block", device)
    backing = (folder / "loop" / "backing_file").read_text().strip()
    file = Path(backing).stat()
    identity = json.loads(re.search(r"\|(\{.*?\})\|", lines)[1])  # type: ignore[index]
    then = dict(identity["ids"])
    changed = {
        lines.split("|")[3]: Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        identity["devno"]: (folder / "dev").read_text().strip(),
        then["backing_file"]: backing,
        then["backing_inode"]: f"{file.st_dev}:{file.st_ino}",
        THEN: device,
    }
    for was, now in changed.items():
        lines = lines.replace(was, now)
    return sealed(lines.encode()) if "\nwhole|" in text else lines.encode()


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.parent.name)
def test_settings_of_a_loop_device_go_back(journal: Path, state: Path, loop_device: str) -> None:
    folder = state / "journal.d"
    folder.mkdir(mode=0o700)
    mine = folder / "old.journal"
    mine.write_bytes(of_this_device(journal, loop_device))
    mine.chmod(0o600)
    for name, value in {"scheduler": "mq-deadline", "read_ahead_kb": "64"}.items():
        queue(loop_device, name).write_text(value)
    words = [sys.executable, "-m", "iotrial.cli.main", "restore", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["owed"] == []
    for name, value in FORMER.items():
        now = queue(loop_device, name).read_text().strip()
        assert now == value or f"[{value}]" in now
    assert list(folder.iterdir()) == []


def test_there_is_a_journal() -> None:
    assert JOURNALS
