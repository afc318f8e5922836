"""Boot parameters kept by the very programs of Debian: ``update-grub`` and ``kernel-install`` make
their menus in a root of the test's own, and give them back bit for bit.  Nothing is booted."""

from __future__ import annotations

import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boot_roots import BootRoot
from iotrial.execute.keep.keeping import boot_script
from iotrial.execute.settings.guard import script

pytestmark = pytest.mark.root

PROFILE = """
format = 1
name = "polled"
question = "$(touch /tmp/asked) `touch /tmp/asked` \\\\"
[[keep]]
tunable = "boot.nvme.poll_queues"
value = 2
because = "'; touch /tmp/asked; '"
[[keep]]
tunable = "boot.threadirqs"
value = "set"
"""
GRUB = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet nvme.poll_queues=1"\nGRUB_CMDLINE_LINUX="net.ifnames=0"\n'
MENU = "/boot/grub/grub.cfg"
PART = "/etc/default/grub.d/zz-iotrial-polled.cfg"
LINE = "/etc/kernel/cmdline"
WORDS = "nvme.poll_queues=2 threadirqs"
BROKEN = "#!/bin/sh\necho 'no room is left here' >&2\nexit 1\n"


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[BootRoot]:
    """A root without a menu."""
    root = BootRoot(tmp_path)
    try:
        root.write("/tmp/polled.toml", PROFILE)
        yield root
    finally:
        root.close()


@pytest.fixture
def grub(bare: BootRoot) -> BootRoot:
    bare.write("/etc/default/grub", GRUB)
    bare.run("update-grub")
    return bare


@pytest.fixture
def entries(bare: BootRoot) -> BootRoot:
    """Booted by systemd-boot, with a file of the words that the running kernel has."""
    if not shutil.which("kernel-install"):
        pytest.skip("needs kernel-install")
    running = Path("/proc/cmdline").read_text().split()
    own = [w for w in running if not w.startswith(("BOOT_IMAGE=", "initrd=", "systemd.machine_id"))]
    bare.write(LINE, " ".join(own) + "\n", "640")
    bare.run("mkdir", "-p", "/boot/loader/entries", f"/boot/debian/{platform.release()}")
    bare.write("/etc/kernel/entry-token", "debian\n")
    bare.write("/etc/machine-id", f"{'0123456789abcdef' * 2}\n")
    image = f"/boot/vmlinuz-{platform.release()}"
    bare.run("kernel-install", "add", platform.release(), image)
    return bare


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def lines(root: BootRoot) -> dict[str, list[str]]:
    """The command lines of the menu: those of recovery, and all others."""
    found: dict[str, list[str]] = {"recovery": [], "others": []}
    for line in re.findall(r"^\s*linux\s(.*)$", root.read(MENU), re.MULTILINE):
        found["recovery" if " single " in line else "others"].append(line)
    return found


def test_grub_s_menu_has_the_words_last_and_undo_gives_every_byte_back(grub: BootRoot) -> None:
    before = grub.files()
    done = grub.keep("/tmp/polled.toml", "apply")
    assert "in force after the next boot: boot.nvme.poll_queues=2" in done.stdout
    assert f"written: {PART}" in done.stdout
    found = lines(grub)
    assert len(found["others"]) == 2
    assert all(line.endswith(f"net.ifnames=0 quiet nvme.poll_queues=1 {WORDS}")
               for line in found["others"])  # fmt: skip
    assert found["recovery"]
    assert not any("poll_queues" in line for line in found["recovery"]), "a way to boot without"
    assert grub.read("/tmp/asked") == "", "what a study says is a comment"

    said = grub.verified("polled")
    assert said["differences"] == []
    assert said["after_boot"] == ["boot.nvme.poll_queues=2", "boot.threadirqs=set"]

    grub.keep("polled", "undo")
    assert grub.files() == before


def test_a_menu_that_was_made_without_the_words_is_named(grub: BootRoot) -> None:
    grub.keep("/tmp/polled.toml", "apply")
    later = "/etc/default/grub.d/zzz.cfg"
    grub.write(later, "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n")
    grub.run("update-grub")
    (found,) = grub.verified("polled")["differences"]  # type: ignore[misc]
    assert (found["what"], found["wanted"]) == ("menu of GRUB", WORDS)
    grub.run("rm", later)
    grub.keep("polled", "undo")
    assert "threadirqs" not in grub.read(MENU)


def test_where_another_file_wins_nothing_is_kept(grub: BootRoot) -> None:
    grub.write("/etc/default/grub.d/zzz.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n")
    grub.run("update-grub")
    before = grub.files()
    done = grub.keep("/tmp/polled.toml", "apply", check=False)
    assert done.returncode == 6, done.stderr
    assert f"no entry of the menu has: {WORDS}" in " ".join(done.stderr.split())
    assert grub.files() == before


def test_a_menu_that_cannot_be_made_leaves_nothing_behind(grub: BootRoot) -> None:
    before = grub.files()
    grub.write("/etc/grub.d/09_broken", BROKEN, "755")
    done = grub.keep("/tmp/polled.toml", "apply", check=False)
    assert done.returncode == 6, done.stderr
    assert "no room is left here" in " ".join(done.stderr.split())
    grub.run("rm", "/etc/grub.d/09_broken")
    assert grub.files() == before
    assert grub.keep("polled", "verify", check=False).returncode == 3


def test_an_undo_whose_menu_cannot_be_made_is_not_done_and_is_done_later(grub: BootRoot) -> None:
    before = grub.files()
    grub.keep("/tmp/polled.toml", "apply")
    grub.write("/etc/grub.d/09_broken", BROKEN, "755")
    done = grub.keep("polled", "undo", check=False)
    assert done.returncode == 4, (done.stdout, done.stderr)
    said = " ".join(done.stderr.split())
    assert "menu of GRUB" in said
    assert "no room is left here" in said
    assert "threadirqs" in grub.read(MENU)
    grub.run("rm", "/etc/grub.d/09_broken")
    grub.keep("polled", "undo")
    assert grub.files() == before


def test_kernel_install_makes_the_entries_anew_and_undo_gives_every_byte_back(
    entries: BootRoot,
) -> None:
    before, own = entries.files(), entries.read(LINE).strip()
    done = entries.keep("/tmp/polled.toml", "apply")
    assert f"written: {LINE}" in done.stdout
    kernel_s, init, init_s = own.partition(" -- ")
    wanted = f"{kernel_s} {WORDS}{init}{init_s}"
    assert entries.read(LINE) == f"{wanted}\n"
    entry = entries.read(f"/boot/loader/entries/debian-{platform.release()}.conf")
    assert re.findall(r"^options\s+(.*)$", entry, re.MULTILINE) == [wanted]
    assert entries.verified("polled")["differences"] == []

    entries.keep("polled", "undo")
    assert entries.files() == before


def test_words_that_the_host_was_not_booted_with_are_refused(entries: BootRoot) -> None:
    """The entries would be made with them, and what else the kernel needs would be gone."""
    entries.write(LINE, "root=/dev/nowhere\n")
    before = entries.files()
    done = entries.keep("/tmp/polled.toml", "apply", check=False)
    assert done.returncode == 3
    assert "is not what this host was booted with" in " ".join(done.stderr.split())
    assert entries.files() == before


def test_entries_whose_boots_are_counted_are_left_alone(entries: BootRoot) -> None:
    """kernel-install writes another entry beside the one that has been found good."""
    entries.write("/etc/kernel/tries", "3\n")
    before = entries.files()
    done = entries.keep("/tmp/polled.toml", "apply", check=False)
    assert done.returncode == 3
    assert "/etc/kernel/tries has boots counted" in " ".join(done.stderr.split())
    assert entries.files() == before


def test_a_host_without_a_known_boot_loader_is_refused_with_what_to_do(bare: BootRoot) -> None:
    before = bare.files()
    done = bare.keep("/tmp/polled.toml", "apply", check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode == 3
    assert f'grubby --update-kernel=ALL --args="{WORDS}"' in said
    assert f"GRUB: there is no {MENU}" in said
    assert bare.files() == before


def test_the_loaders_script_waits_for_file_systems_that_are_not_mounted_yet(
    grub: BootRoot,
) -> None:
    """As the early unit of a boot finds them: the real menu may lie on a disk that is not there."""
    grub.keep("/tmp/polled.toml", "apply")
    grub.run("mkdir", "-p", "/run/systemd/system")
    done = grub.keep("polled", "undo", check=False)
    assert done.returncode == 4
    assert "local file systems are not mounted" in " ".join(done.stderr.split())
    assert "threadirqs" in grub.read(MENU)
    grub.run("rmdir", "/run/systemd/system")
    grub.keep("polled", "undo")
    assert "threadirqs" not in grub.read(MENU)


def test_after_a_power_cut_the_menu_waits_for_the_file_systems_of_the_boot(
    grub: BootRoot,
) -> None:
    """Begun, and not committed: what the early unit of the next boot finds, and the late one."""
    before, place = grub.files(), "/var/lib/iotrial/kept.d"
    grub.keep("/tmp/polled.toml", "apply")
    grub.run("mv", f"{place}/polled.kept", f"{place}/polled.journal")
    grub.write(f"{place}/guard.sh", script())
    grub.write(f"{place}/boot.sh", boot_script(place, "/run/iotrial/lock"))
    grub.run("mkdir", "-p", "/run/systemd/system")
    grub.run("sh", f"{place}/boot.sh")
    assert grub.read(PART) == ""
    assert "threadirqs" in grub.read(MENU), "it may lie on a disk that is not there yet"
    assert "owed: menu of GRUB" in grub.read(f"{place}/polled.restored")
    assert grub.begun_there()
    grub.run("rmdir", "/run/systemd/system")
    grub.run("sh", f"{place}/boot.sh")
    assert grub.files() == before
    assert not grub.begun_there()


def test_killed_at_any_moment_the_menu_goes_with_its_file(grub: BootRoot) -> None:
    before = grub.files()
    began = time.monotonic()
    grub.keep("/tmp/polled.toml", "apply")
    took = time.monotonic() - began
    after = grub.files()
    grub.keep("polled", "undo")
    nothing = 0
    for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        with grub.begun("polled", "apply") as process:
            time.sleep(share * took)
            process.kill()
        until(lambda: not grub.begun_there())
        kept = grub.keep("polled", "verify", check=False).returncode == 0
        assert grub.files() == (after if kept else before), share
        if kept:
            grub.keep("polled", "undo")
        nothing += not kept
    assert nothing, "no kill came in time"
    assert grub.files() == before
