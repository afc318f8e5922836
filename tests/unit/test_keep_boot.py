"""The units of the next boot: in which order they come, by systemd's own units and its own look."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from iotrial.execute.keep.keeping import EARLY, UNIT, boot_script, units
from iotrial.keep.native import formats

PLACE = "/var/lib/iotrial/kept.d"
SYSTEM = Path("/usr/lib/systemd/system")
EARLIER, LATER = Path(EARLY).name, Path(UNIT).name
READERS = (
    *("systemd-modules-load.service", "systemd-sysctl.service", "systemd-tmpfiles-setup.service"),
    *("systemd-tmpfiles-setup-dev.service", "systemd-udevd.service"),
    *("systemd-udev-trigger.service", "multipathd.service"),
)
LATER_READ = {
    "boot": "the boot loader, before any unit; its menu is made anew when file systems are there",
    "cmdline": "a note for people",
    "irq": "its service and irqbalance come with multi-user.target",
    "mount": "systemd itself, before any unit; it is told when the file is gone",
    "nmcli": "a note for people",
    "tuned": "tuned comes with multi-user.target",
}
"""Formats that no unit reads before sysinit.target, and why."""
UDEV = {  # of Debian 12, where this machine has them not
    "systemd-udevd.service": "Before=sysinit.target\n",
    "systemd-udev-trigger.service": "After=systemd-udevd.service\nBefore=sysinit.target\n",
    "multipathd.service": "Before=sysinit.target\nAfter=systemd-udevd.service\n",
}
TARGETS = {"sysinit.target": "After=local-fs.target\n", "basic.target": "After=sysinit.target\n"}
VAR = {
    "var.mount": "After=dev-vdb.device\nBefore=local-fs.target\n",
    "dev-vdb.device": "After=systemd-udev-trigger.service\n",
}
"""/var on a disk of its own, which is there when udev has found it."""

needs_systemd = pytest.mark.skipif(
    not (SYSTEM / "systemd-sysctl.service").exists() or not shutil.which("systemd-analyze"),
    reason="needs systemd's units and systemd-analyze",
)


def ordered(texts: dict[str, str]) -> dict[str, set[str]]:
    """Unit → those that it comes after."""
    after: dict[str, set[str]] = {}
    for name, text in texts.items():
        for line in text.splitlines():
            key, _, words = line.partition("=")
            for other in words.split() if key in ("After", "Before") else ():
                first, second = (other, name) if key == "After" else (name, other)
                after.setdefault(second, set()).add(first)
    return after


def texts(more: dict[str, str]) -> dict[str, str]:
    found = {Path(path).name: text for path, text in units(PLACE).items()}
    for name in (*READERS, "systemd-remount-fs.service", "local-fs.target"):
        path = SYSTEM / name
        found[name] = path.read_text() if path.exists() else UDEV.get(name, "")
    return found | TARGETS | more


def before(after: dict[str, set[str]], name: str) -> set[str]:
    """All that comes before it."""
    found: set[str] = set()
    left = [name]
    while left:
        for each in after.get(left.pop(), set()) - found:
            found.add(each)
            left.append(each)
    return found


@pytest.mark.parametrize("form", formats())
def test_every_format_says_who_reads_it_early_and_both_units_know(form: str) -> None:
    readers = formats()[form].readers
    assert bool(readers) is (form not in LATER_READ), "no reader, or a reason why there is none"
    after = ordered({Path(path).name: text for path, text in units(PLACE).items()})
    for reader in readers:
        assert reader in READERS, "its order is looked at below"
        assert EARLIER in after[reader]
        assert reader in after[LATER]


@needs_systemd
@pytest.mark.parametrize("more", [{}, VAR], ids=["one disk", "var of its own"])
def test_files_go_before_anybody_reads_them_and_values_after_everybody_set_them(
    more: dict[str, str],
) -> None:
    said = texts(more)
    if more:  # RequiresMountsFor
        said[LATER] += "After=var.mount\n"
    after = ordered(said)
    tuple(TopologicalSorter(after).static_order())  # raises CycleError
    for reader in READERS:
        assert EARLIER in before(after, reader), reader
        assert reader in before(after, LATER), reader
    assert {EARLIER, LATER} <= before(after, "basic.target")
    assert "systemd-remount-fs.service" in before(after, EARLIER), "/ can be written"


def test_an_early_unit_that_waited_for_var_would_never_come() -> None:
    """That the order above can be wrong."""
    said = texts(VAR)
    said[EARLIER] += "After=var.mount\n"
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(ordered(said)).static_order())


def analysed(folder: Path, names: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(folder / name) for name in names)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
    )


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path, text in units(PLACE).items():
        (tmp_path / Path(path).name).write_text(text)
    done = analysed(tmp_path, (EARLIER, LATER))
    assert done.returncode == 0, done.stderr
    assert "iotrial" not in done.stderr, done.stderr
    (tmp_path / LATER).write_text(units(PLACE)[UNIT].replace("Before=", "Befor="))
    assert "Befor" in analysed(tmp_path, (LATER,)).stderr, "it would say so"


def test_the_script_of_the_boot_is_sh_and_waits_for_udev_only_when_late(tmp_path: Path) -> None:
    script = boot_script(str(tmp_path / "kept.d"), str(tmp_path / "run/lock"))
    (tmp_path / "udevadm").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\n')
    (tmp_path / "udevadm").chmod(0o755)
    (tmp_path / "boot.sh").write_text(script)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for words, asked in ((), False), (("late",), True):
        subprocess.run(["sh", tmp_path / "boot.sh", *words], check=True, timeout=30, env=path)
        assert (tmp_path / "asked").exists() is asked
