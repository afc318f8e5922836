"""``iotrial keep`` on this kernel: applied, verified, undone; tried and left alone; killed at any
moment; and on a host whose link the setting itself cuts.

Only settings that are harmless, and this machine's own folders for them: each test ends with what
it found.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_killed_at_any_moment import guards_of

from iotrial.execute.keep import keeping
from iotrial.execute.settings.guard import script
from lab import Lab, lab, why_not

__all__ = ["lab"]

pytestmark = pytest.mark.root

SWAPPINESS = Path("/proc/sys/vm/swappiness")
THP = Path("/sys/kernel/mm/transparent_hugepage/defrag")
KILLS = 12
PROFILE = """
format = 1
name = "{name}"
question = "Is it all there, or nothing?"
[[keep]]
tunable = "sysctl.vm.swappiness"
value = {swappiness}
because = "a test"
[[keep]]
tunable = "mm.thp_defrag"
value = "{defrag}"
"""
WORDS = ("madvise", "never", "defer", "always")


def iotrial(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "iotrial.cli.main", "keep", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, **more)  # type: ignore[call-overload, no-any-return]


def until(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def chosen() -> str:
    text = THP.read_text()
    return text[text.index("[") + 1 : text.index("]")]


def begun(state: Path) -> list[Path]:
    """Journals of what was begun and neither kept nor undone."""
    return list(state.glob("kept.d/*.journal"))


@pytest.fixture
def name() -> str:
    return f"test-{random.SystemRandom().randrange(16**6):06x}"


@pytest.fixture
def profile(name: str, state: Path, tmp_path: Path, own_swappiness: None) -> Iterator[Path]:
    """A profile of two values that are not in force, and the machine as it was afterwards."""
    if not THP.exists():
        pytest.skip("this kernel has no transparent huge pages")
    swappiness, defrag = SWAPPINESS.read_text(), chosen()
    path = tmp_path / "profile.toml"
    other = next(word for word in WORDS if word != defrag)
    path.write_text(PROFILE.format(name=name, swappiness=int(swappiness) ^ 1, defrag=other))
    yield path
    iotrial(name, "undo")
    assert (SWAPPINESS.read_text(), chosen()) == (swappiness, defrag)
    assert files(name) == []


def files(name: str) -> list[str]:
    """What lies in the folders of /etc by this name."""
    folders = ("sysctl.d", "tmpfiles.d", "udev/rules.d")
    return sorted(str(path) for each in folders for path in Path("/etc", each).glob(f"*{name}*"))


def test_files_and_values_come_together_and_go_together(profile: Path, name: str) -> None:
    former = SWAPPINESS.read_text()
    done = iotrial(str(profile), "apply")
    assert done.returncode == 0, done.stderr
    assert files(name) == [
        f"/etc/sysctl.d/99-iotrial-{name}.conf",
        f"/etc/tmpfiles.d/iotrial-{name}.conf",
    ]
    assert int(SWAPPINESS.read_text()) == int(former) ^ 1
    assert iotrial(name, "verify").returncode == 0

    SWAPPINESS.write_text(str(int(former) ^ 3))
    Path(files(name)[1]).write_text("# somebody was here\n")
    said = iotrial(name, "verify", "--json")
    assert said.returncode == 1
    found = {each["what"]: each for each in json.loads(said.stdout)["differences"]}
    assert set(found) == {"sysctl.vm.swappiness", files(name)[1]}
    assert found["sysctl.vm.swappiness"]["found"] == str(int(former) ^ 3)
    assert "since some time after 20" in found["sysctl.vm.swappiness"]["since"]
    assert found[files(name)[1]]["since"].startswith("changed 20")

    again = iotrial(str(profile), "apply")
    assert again.returncode == 3
    assert "is kept already" in again.stderr
    assert iotrial(name, "undo").returncode == 0
    assert SWAPPINESS.read_text() == former
    (saved,) = files(name)
    assert saved.endswith(".iotrial-saved")
    assert Path(saved).read_text() == "# somebody was here\n"
    Path(saved).unlink()
    assert iotrial(name, "undo").returncode == 3


def test_a_file_of_somebody_elses_goes_back_with_its_owner_and_mode(
    profile: Path, name: str
) -> None:
    path = Path(f"/etc/sysctl.d/99-iotrial-{name}.conf")
    path.write_bytes(b"# mine\r\n")
    path.chmod(0o640)
    try:
        os.chown(path, 1, 2)
        assert iotrial(str(profile), "apply").returncode == 0
        assert b"swappiness" in path.read_bytes()
        assert iotrial(name, "undo").returncode == 0
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1, 2, 0o640)
        assert path.read_bytes() == b"# mine\r\n"
    finally:
        path.unlink()


def test_what_was_before_and_is_gone_is_owed(profile: Path, name: str) -> None:
    path = Path(f"/etc/sysctl.d/99-iotrial-{name}.conf")
    path.write_text("# mine\n")
    try:
        assert iotrial(str(profile), "apply").returncode == 0
        path.with_name(f"{path.name}.iotrial-former").unlink()
        done = iotrial(name, "undo")
        assert done.returncode == 4, (done.stdout, done.stderr)
        assert f"or remove {path}" in done.stderr
    finally:
        path.unlink()
    assert iotrial(name, "undo").returncode == 0


def test_a_link_comes_back_and_an_edit_is_saved_and_said(
    profile: Path, name: str, tmp_path: Path
) -> None:
    path = Path(f"/etc/sysctl.d/99-iotrial-{name}.conf")
    saved = path.with_name(f"{path.name}.iotrial-saved")
    path.symlink_to(tmp_path / "nowhere")
    try:
        assert iotrial(str(profile), "apply").returncode == 0
        assert not path.is_symlink()
        path.write_text("vm.swappiness = 1\n# of an administrator\n")
        undone = iotrial(name, "undo")
        assert undone.returncode == 0, undone.stderr
        assert f"saved as {saved}" in " ".join(undone.stdout.split())
        assert saved.read_text().endswith("# of an administrator\n")
        assert path.readlink() == tmp_path / "nowhere"
    finally:
        path.unlink()
        saved.unlink(missing_ok=True)


def test_what_is_tried_is_undone_unless_it_is_confirmed(profile: Path, name: str) -> None:
    former = SWAPPINESS.read_text()
    done = iotrial(str(profile), "try", "--for", "10s")
    assert done.returncode == 0, done.stderr
    assert SWAPPINESS.read_text() != former
    assert until(lambda: SWAPPINESS.read_text() == former and not files(name), 200)
    said = iotrial(name, "verify")
    assert said.returncode == 3
    assert "the guard restored" in said.stderr
    assert iotrial(name, "confirm").returncode == 3

    assert iotrial(str(profile), "try", "--for", "30s").returncode == 0
    over = time.monotonic() + 31
    pending = iotrial(name, "verify")
    assert pending.returncode == 1
    assert "not confirmed" in pending.stdout
    assert iotrial(name, "confirm").returncode == 0
    time.sleep(max(0.0, over - time.monotonic()))
    assert iotrial(name, "verify").returncode == 0, "it is kept, though the time is over"
    assert iotrial(name, "undo").returncode == 0


@pytest.mark.timeout(900)
def test_killed_at_any_moment_all_of_it_is_kept_or_nothing(
    profile: Path, name: str, state: Path
) -> None:
    former, kept = SWAPPINESS.read_text(), 0
    moments = random.Random(4)
    argv = [sys.executable, "-m", "iotrial.cli.main", "keep", str(profile), "apply"]
    began = time.monotonic()
    assert iotrial(str(profile), "apply").returncode == 0
    took = time.monotonic() - began
    assert iotrial(name, "undo").returncode == 0
    for _ in range(KILLS):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.3, 1.1) * took)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=200)

        assert until(lambda: not guards_of(state) and not begun(state), 200), "nobody undoes it"
        whole = SWAPPINESS.read_text() != former and len(files(name)) == 2
        nothing = SWAPPINESS.read_text() == former and files(name) == []
        assert whole or nothing, (SWAPPINESS.read_text(), files(name))
        assert (state / "kept.d" / f"{name}.kept").exists() is whole
        if whole:
            kept += 1
            assert iotrial(name, "verify").returncode == 0
            assert iotrial(name, "undo").returncode == 0
    assert kept < KILLS, "no kill came in time"


def test_the_next_boot_undoes_what_a_power_cut_left_half_made(
    profile: Path, name: str, state: Path, tmp_path: Path
) -> None:
    """Nobody was left to undo it, and /run, where the lock lies, is empty."""
    former = SWAPPINESS.read_text()
    assert iotrial(str(profile), "try", "--for", "1h").returncode == 0
    for guard in guards_of(state):
        os.kill(guard, signal.SIGKILL)
    Path(files(name)[0]).unlink()
    refused = iotrial(name, "confirm")
    assert refused.returncode == 3, "only complete changes can be confirmed"
    assert f"{name} is only partly in force" in refused.stderr
    status = [sys.executable, "-m", "iotrial.cli.main", "status"]
    said = subprocess.run(status, capture_output=True, text=True, timeout=200, check=False)
    assert f"{name}: not confirmed" in said.stdout

    place, lock = state / "kept.d", tmp_path / "run" / "iotrial" / "lock"
    (place / "guard.sh").write_text(script())
    boot = keeping.boot_script(str(place), str(lock))
    subprocess.run(["sh", "-c", boot], check=True, timeout=200)
    assert SWAPPINESS.read_text() == former
    assert files(name) == []
    assert begun(state) == []


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
@pytest.mark.timeout(900)
def test_a_setting_that_cuts_its_own_link_is_undone_by_the_host(
    lab: Lab, name: str, tmp_path: Path
) -> None:
    """With an MTU of 68 nothing that we send arrives any more."""
    network = tmp_path / "network"
    network.mkdir()
    box = lab.box(into=[(network, "/etc/systemd/network")])
    address = box.run("cat", "/sys/class/net/eth0/address").strip()
    path = tmp_path / "profile.toml"
    path.write_text(
        f'format = 1\nname = "{name}"\n[[keep]]\ntunable = "net.mtu"\non = "eth0"\nvalue = 68\n'
        f'ids = {{ address = "{address}" }}\n'
    )
    tried = iotrial(str(path), "try", "--for", "6s", "--on", box.where)
    assert tried.returncode in (0, 6), tried.stderr
    assert until(lambda: box.run("cat", "/sys/class/net/eth0/mtu") == "1500\n", 200)
    assert until(lambda: not list(network.iterdir()), 200)
    said = iotrial(name, "verify", "--on", box.where)
    assert said.returncode == 3, "and the host answers again"
    assert "the guard restored" in said.stderr


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
@pytest.mark.timeout(900)
def test_what_is_tried_elsewhere_is_undone_there_or_kept_when_confirmed(
    lab: Lab, name: str, tmp_path: Path
) -> None:
    """The connection that began it has long ended."""
    network = tmp_path / "network"
    network.mkdir()
    box = lab.box("other", into=[(network, "/etc/systemd/network")])
    former = box.run("cat", "/sys/class/net/eth0/tx_queue_len")
    path = tmp_path / "profile.toml"
    path.write_text(
        f'format = 1\nname = "{name}"\n[[keep]]\ntunable = "net.txqueuelen"\non = "eth0"\n'
        "value = 77\n"
    )

    def now() -> str:
        return box.run("cat", "/sys/class/net/eth0/tx_queue_len")

    tried = iotrial(str(path), "try", "--for", "20s", "--on", box.where)
    assert tried.returncode == 0, tried.stderr
    assert now() == "77\n"
    assert list(network.iterdir())
    assert until(lambda: now() == former and not list(network.iterdir()), 200)

    assert iotrial(str(path), "try", "--for", "40s", "--on", box.where).returncode == 0
    assert iotrial(name, "confirm", "--on", box.where).returncode == 0
    time.sleep(41)
    assert iotrial(name, "verify", "--on", box.where).returncode == 0
    assert iotrial(name, "undo", "--on", box.where).returncode == 0
    assert now() == former
