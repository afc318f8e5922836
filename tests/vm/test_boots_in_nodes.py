"""Kernels and boot parameters as factors, on nodes that boot by kexec, and on two that GRUB and
systemd-boot start: a study whole, and lives of it that end at any moment, by the death of the
controller or of the node's power.

Asserted of every end: the node runs its own kernel and command line, and nothing of a boot is left.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from iotrial.look.boots import script
from iotrial_vmlab import qemu
from nodes import Several, VirtualLab, up, why_not

pytestmark = [pytest.mark.vm, pytest.mark.timeout(7200)]

STUDY = """\
question = "Do polled queues help, and does the kernel matter?"
{hosts}
[targets.disk]
device = "{device}"
hosts = {names}
[workloads.reads]
tool = "fio"
[workloads.reads.options]
rw = "randread"
bs = "4k"
direct = 1
runtime = "2s"
time_based = 1
ioengine = "pvsync2"
hipri = 1
[factors.polling]
boot = "nvme.poll_queues"
levels = [0, 2]
[factors.kernel]
boot = "kernel"
levels = {kernels}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
kind = "full"
blocks = {blocks}
"""
HOST = """\
[hosts.{name}]
ssh = "{way}"
lease = "5s"
"""
DISK = "/dev/disk/by-path/pci-0000:00:05.0-nvme-1"
"""The same on either node."""
MOMENTS = 20
"""Of each kind of end; half of them on either node."""
SEED = 3
"""Of the study in which a level hangs: the other one comes first."""
LONGEST = 100.0
"""Seconds in which a life ends: two boots and what is measured in them."""
_BACK = 300.0
_LEFT = (
    "ls -d /var/lib/iotrial/boot /etc/systemd/system/iotrial-boot.service"
    " /etc/systemd/system/sysinit.target.wants/iotrial-boot.service /run/iotrial/boot-armed"
    " /var/lib/iotrial/journal.d/*.journal 2>/dev/null || :; cat /sys/kernel/kexec_loaded;"
    " ls -d /boot/grub/custom.cfg* /efi/loader/entries/iotrial.conf"
    " /sys/firmware/efi/efivars/LoaderEntryOneShot-* 2>/dev/null || :;"
    " grub-editenv - list 2>/dev/null | grep next_entry=. || :;"
    " pgrep -x fio || :; echo end"
)


class Boots:
    """The lab, its nodes' own boots, and studies of them."""

    def __init__(self, kind: str, lab: Several) -> None:
        self.kind = kind
        self.lab = lab
        self.ways = [node["ssh"] for node in self.up()["nodes"]]
        self.power = Lock()
        self.own = [self.boot(number) for number in (1, 2)]
        self.kernels = lab.do(1, "ls /lib/modules").split()

    def up(self) -> dict[str, Any]:
        return self.lab.lab.vmlab("up", self.kind, "--name", self.lab.name)

    def boot(self, number: int) -> str:
        return self.lab.do(number, "uname -r; cat /proc/cmdline")

    def study(self, path: Path, numbers: tuple[int, ...], *, blocks: int, kernels: int = 2) -> Path:
        names = [f"{self.lab.name}-{number}" for number in numbers]
        hosts = "".join(
            HOST.format(name=name, way=self.ways[number - 1])
            for name, number in zip(names, numbers, strict=True)
        )
        text = STUDY.format(
            hosts=hosts,
            names=json.dumps(names),
            device=DISK,
            kernels=json.dumps(self.kernels[:kernels]),
            blocks=blocks,
        )
        path.write_text(text, "utf-8")
        return path

    def begun(self, study: Path, out: Path) -> subprocess.Popen[bytes]:
        with Path(f"{out}.said").open("w") as said:
            return subprocess.Popen(
                self.lab.lab.command("run", str(study), "--out", str(out)),
                env=self.lab.lab.environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, out: Path) -> str:
        return Path(f"{out}.said").read_text("utf-8")

    def reboot(self, number: int) -> None:
        """As an administrator would; it is up again afterwards."""
        asked = "cat /proc/sys/kernel/random/boot_id"
        before, until = self.lab.do(number, asked), time.monotonic() + _BACK
        self.lab.do(number, "systemctl reboot --no-block")
        now = before
        while now == before:
            assert time.monotonic() < until, f"node {number} is not back"
            time.sleep(2)
            with suppress(AssertionError, subprocess.TimeoutExpired):
                now = self.lab.do(number, asked)

    def forget(self, number: int) -> None:
        """Remove the journal of a run that ended with the node's power, as any command does."""
        own, until = "", time.monotonic() + _BACK
        while own != self.own[number - 1]:
            assert time.monotonic() < until, f"node {number} runs {own}"
            with suppress(AssertionError, subprocess.TimeoutExpired):
                own = self.boot(number)
            time.sleep(1)
        done = self.lab.lab.said("restore", "--", self.ways[number - 1])
        assert done.returncode == 0, done.stdout + done.stderr

    def left(self, number: int, within: float = _BACK) -> str:
        """What is not as it was on a node, after so many seconds at most; '' when nothing."""
        until, found = time.monotonic() + within, "not looked at"
        while found and time.monotonic() < until:
            try:
                now = self.boot(number)
                there = self.lab.do(number, _LEFT).split()
                found = "" if there == ["0", "end"] else f"there: {there}"
                found = found or ("" if now == self.own[number - 1] else f"it runs {now}")
            except (AssertionError, subprocess.TimeoutExpired) as error:
                found = f"it does not answer: {error}"
            time.sleep(1 if found else 0)
        return found


@pytest.fixture(scope="module")
def boots(virtual_lab: VirtualLab) -> Iterator[Boots]:
    yield from _of_kind("boots", virtual_lab)


@pytest.fixture(scope="module")
def loaders(virtual_lab: VirtualLab) -> Iterator[Boots]:
    """Node 1 starts by GRUB, from a BIOS; node 2 by systemd-boot, from UEFI."""
    if not Path(qemu.UEFI[0]).exists():
        pytest.skip(f"needs {qemu.UEFI[0]}: ovmf")
    yield from _of_kind("loaders", virtual_lab)


def _of_kind(kind: str, virtual_lab: VirtualLab) -> Iterator[Boots]:
    if lacking := why_not("both"):
        pytest.skip(lacking)
    with up(virtual_lab, kind, 2, "both") as lab:
        yield Boots(kind, lab)


def test_a_study_of_kernels_and_a_parameter_on_two_nodes(boots: Boots, tmp_path: Path) -> None:
    """Two nodes, two kernels, two numbers of polled queues, four blocks."""
    study, out = boots.study(tmp_path / "study.toml", (1, 2), blocks=4), tmp_path / "out"
    planned = boots.lab.lab.said("plan", str(study))
    assert planned.returncode == 0, planned.stderr
    assert "booted 17 times" in planned.stdout + planned.stderr
    done = boots.lab.lab.said("run", str(study), "--out", str(out), within=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (out / "boots.jsonl").read_text().splitlines()]
    assert len(rows) >= 2 * 16  # and one for each plot of trials that are repeated
    assert all(row["problem"] == "" for row in rows)
    for row in rows:
        changes = dict(row["changes"])
        assert row["kernel"] == changes["boot.kernel"]
        assert f"nvme.poll_queues={changes['boot.nvme.poll_queues']}" in row["command_line"].split()
    # On a busy machine loads begin apart, and such a trial is repeated.
    trials = {path: json.loads(path.read_text()) for path in out.glob("trials/*/trial.json")}
    valid = {path: trial for path, trial in trials.items() if trial["state"] == "valid"}
    assert len(valid) == 32, [trial["doubts"] for trial in trials.values()]
    assert "failed" not in {trial["state"] for trial in trials.values()}
    for path, trial in valid.items():
        rows = json.loads((path.parent / "before.json").read_text())
        seen = {(device, knob): value for device, knob, value in rows}
        wanted = trial["trial"]["treatment"]
        for name in (f"{boots.lab.name}-1", f"{boots.lab.name}-2"):
            assert seen[f"{name}:", "boot.kernel"] == wanted["kernel"]
            assert seen[f"{name}:", "boot.nvme.poll_queues"] == wanted["polling"]
    assert [boots.left(number, 30) for number in (1, 2)] == ["", ""]
    again = boots.lab.lab.said("compare", str(out))
    assert "whole-plot factor" in again.stdout


def test_a_level_that_the_driver_refuses_fails_and_the_others_are_measured(
    boots: Boots, tmp_path: Path
) -> None:
    """More polled queues than the machine has processors: the driver does not load, and the disk
    is not there."""
    study, out = boots.study(tmp_path / "study.toml", (1,), blocks=1, kernels=1), tmp_path / "out"
    text = study.read_text("utf-8").replace("levels = [0, 2]", "levels = [0, 64]")
    study.write_text(text, "utf-8")
    done = boots.lab.lab.said("run", str(study), "--out", str(out), within=1200)
    trials = [json.loads(p.read_text()) for p in out.glob("trials/*/trial.json")]
    states = {trial["trial"]["treatment"]["polling"]: trial["state"] for trial in trials}
    assert states == {"0": "valid", "64": "failed"}, done.stdout + done.stderr
    assert boots.left(1, 30) == ""


def test_a_kernel_that_panics_ends_in_its_own_boot_and_its_trials_fail(
    boots: Boots, tmp_path: Path
) -> None:
    study, out = boots.study(tmp_path / "study.toml", (1,), blocks=1, kernels=1), tmp_path / "out"
    text = study.read_text("utf-8").replace('boot = "nvme.poll_queues"', 'boot = "rdinit"')
    text = text.replace("levels = [0, 2]", 'levels = ["unset", "/nowhere"]')
    study.write_text(text, "utf-8")
    done = boots.lab.lab.said("run", str(study), "--out", str(out), within=1200)
    trials = [json.loads(p.read_text()) for p in out.glob("trials/*/trial.json")]
    states = {trial["trial"]["treatment"]["polling"]: trial["state"] for trial in trials}
    assert states == {"unset": "valid", "/nowhere": "failed"}, done.stdout + done.stderr
    failed = next(trial for trial in trials if trial["state"] == "failed")
    assert "did not come up" in failed["error"]
    assert boots.left(1, 30) == ""


def lives(boots: Boots, tmp_path: Path, number: int, end: str) -> tuple[list[str], int]:
    """Half of all lives, on one node; gives back how each that left something ended, and how many
    ended between the order to boot and the boot."""
    chance, bad, booting = random.Random(), list[str](), 0
    for life in range(MOMENTS // 2):
        out = tmp_path / f"{end}-{number}-{life}"
        study = boots.study(tmp_path / f"{end}-{number}.toml", (number,), blocks=2)
        with boots.begun(study, out) as run:
            # All but two from where it boots: on a busy machine a minute passes before that.
            until = time.monotonic() + 300 * (life > 1)
            while "booting with" not in boots.said(out) and time.monotonic() < until:
                assert run.poll() is None, boots.said(out)
                time.sleep(0.2)
            # Half of them while it boots, surely.
            moment = chance.uniform(0, LONGEST / 6 if life % 2 else LONGEST)
            try:
                run.wait(moment)
            except subprocess.TimeoutExpired:
                pass
            else:
                bad.append(f"{moment:.1f} s: the run ended by itself: {boots.said(out)}")
                continue
            with boots.power:  # `up` waits for both nodes
                if end == "cut":
                    boots.lab.lab.vmlab("cut", f"{boots.lab.name}-{number}")
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
                if end == "cut":
                    boots.up()
        said = boots.said(out)
        done = out / "boots.jsonl"
        came = len(done.read_text("utf-8").splitlines()) if done.exists() else 0
        booting += said.count("booting with") > came
        if end == "cut":  # its settings ended with its power, and the next command says so
            boots.forget(number)
        found = boots.left(number)
        with (tmp_path / "lives").open("a", encoding="utf-8") as log:  # to be read meanwhile
            log.write(f"{number} {moment:.1f} s, {came} boots, {booting} in one: {found}\n")
        if found:
            bad.append(f"{moment:.1f} s: {found}; {said}")
    return bad, booting


@pytest.mark.parametrize("end", ["killed", "cut"])
def test_whenever_a_life_ends_the_node_returns_to_its_own_boot(
    boots: Boots, tmp_path: Path, end: str
) -> None:
    """The controller is killed, or the node's power cut (and the controller killed then), at random
    moments, many of them while it boots: without us it is in its own boot again."""
    assert both_lives(boots, tmp_path, end) == []


def both_lives(boots: Boots, tmp_path: Path, end: str) -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lives, boots, tmp_path, number, end) for number in (1, 2)]
    found = [job.result() for job in jobs]
    assert sum(booting for _, booting in found) > MOMENTS // 4, "few fell into a boot"
    return [line for bad, _ in found for line in bad]


def test_a_controller_that_is_interrupted_boots_the_node_back(boots: Boots, tmp_path: Path) -> None:
    study, out = boots.study(tmp_path / "study.toml", (1,), blocks=2), tmp_path / "out"
    with boots.begun(study, out) as run:
        until = time.monotonic() + 300
        while not (out / "boots.jsonl").exists():
            assert time.monotonic() < until
            assert run.poll() is None, boots.said(out)
            time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        run.wait(600)
    said = boots.said(out)
    assert run.returncode == 130, said
    assert boots.left(1, 5) == "", said


def test_restore_from_elsewhere_boots_it_back_at_once(boots: Boots, tmp_path: Path) -> None:
    study, out = boots.study(tmp_path / "study.toml", (1,), blocks=2), tmp_path / "out"
    with boots.begun(study, out) as run:
        until = time.monotonic() + 300
        while not (out / "boots.jsonl").exists():
            assert time.monotonic() < until
            assert run.poll() is None
            time.sleep(0.5)
        run.kill()
        run.wait()
    told = boots.lab.lab.said("status", "--", boots.ways[0])
    assert "of a study" in told.stdout + told.stderr
    done = boots.lab.lab.said("restore", "--", boots.ways[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "booted" in done.stdout
    assert boots.left(1, 5) == ""


def test_a_node_that_hangs_is_power_cycled_and_the_study_goes_on(
    boots: Boots, tmp_path: Path
) -> None:
    """A level in which nothing is started that could be reached: what `power` names starts the
    node again, in its own boot."""
    study, out = boots.study(tmp_path / "study.toml", (1,), blocks=1, kernels=1), tmp_path / "out"
    node, command = f"{boots.lab.name}-1", boots.lab.lab.command
    off, on = command("vmlab", "cut", node), command("vmlab", "up", "boots")
    cycle = f"{shlex.join(off)} && {shlex.join([*on, '--name', boots.lab.name])}"
    power = f'lease = "5s"\npower = {json.dumps(["sh", "-c", cycle])}\n'
    text = study.read_text("utf-8").replace('boot = "nvme.poll_queues"', 'boot = "systemd.unit"')
    text = text.replace("levels = [0, 2]", 'levels = ["unset", "emergency.target"]')
    # The first boot has fifteen minutes, a later one what the first took and a minute.
    text = text.replace('lease = "5s"\n', power).replace("[design]\n", f"[design]\nseed = {SEED}\n")
    study.write_text(text, "utf-8")
    done = boots.lab.lab.said("run", str(study), "--out", str(out), within=1200)
    said = done.stdout + done.stderr
    trials = [json.loads(p.read_text()) for p in out.glob("trials/*/trial.json")]
    states = {trial["trial"]["treatment"]["polling"]: trial["state"] for trial in trials}
    assert states == {"unset": "valid", "emergency.target": "failed"}, said
    assert f"{node} is not back in time: sh -c" in said
    assert boots.left(1, 30) == ""


def test_a_host_whose_reboots_load_a_kernel_is_booted_by_its_firmware_afterwards(
    boots: Boots, tmp_path: Path
) -> None:
    """Debian's kexec-tools loads what runs, with its command line, whenever the host reboots: of a
    level, too."""
    by, release = "cat /proc/sys/kernel/bootloader_type", boots.own[0].splitlines()[0]
    own = boots.lab.do(1, by)
    text = (
        f"LOAD_KEXEC=true\nKERNEL_IMAGE=/boot/vmlinuz-{release}\n"
        f"INITRD=/boot/initrd.img-{release}\n"
    )
    boots.lab.do(
        1,
        f"printf %s {shlex.quote(text)} >/etc/default/kexec; update-rc.d kexec-load defaults;"
        " systemctl daemon-reload; systemctl start kexec-load",
    )
    try:
        study = boots.study(tmp_path / "study.toml", (1,), blocks=1, kernels=1)
        done = boots.lab.lab.said("run", str(study), "--out", str(tmp_path / "out"), within=1200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert boots.left(1, 30) == ""
        assert boots.lab.do(1, by) == own
        assert boots.lab.do(1, "ls -d /no-kexec-reboot 2>/dev/null || :") == ""
    finally:
        boots.lab.do(1, "rm /etc/default/kexec; update-rc.d -f kexec-load remove")


# -- by GRUB and by systemd-boot -------------------------------------------------------------------

BY = {1: "grub", 2: "bootctl"}


def test_a_study_of_nodes_that_their_own_loaders_boot(loaders: Boots, tmp_path: Path) -> None:
    study, out = loaders.study(tmp_path / "study.toml", (1, 2), blocks=1), tmp_path / "out"
    for number, way in enumerate(loaders.ways, 1):
        said = loaders.lab.lab.said("doctor", "--json", "--", way).stdout
        name = {"grub": "GRUB", "bootctl": "systemd-boot"}[BY[number]]
        assert f"can be varied by {name}" in said
        assert "not kexec: kernel.kexec_load_disabled is 1" in said
    done = loaders.lab.lab.said("run", str(study), "--out", str(out), within=2400)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (out / "boots.jsonl").read_text().splitlines()]
    assert len(rows) >= 2 * 4  # and one for each plot of trials that are repeated
    for row in rows:
        changes = dict(row["changes"])
        assert row["problem"] == ""
        assert row["method"] == BY[int(row["host"][-1])]
        assert row["kernel"] == changes["boot.kernel"]
        assert f"nvme.poll_queues={changes['boot.nvme.poll_queues']}" in row["command_line"].split()
    trials = [json.loads(p.read_text()) for p in out.glob("trials/*/trial.json")]
    # On a busy machine loads begin apart, and such a trial is repeated.
    assert "failed" not in {trial["state"] for trial in trials}
    valid = {str(t["trial"]["treatment"]) for t in trials if t["state"] == "valid"}
    assert len(valid) == 8, [trial["doubts"] for trial in trials]
    assert [loaders.left(number, 30) for number in (1, 2)] == ["", ""]


@pytest.mark.parametrize("number", [1, 2])
def test_an_entry_that_was_armed_when_the_power_failed_is_booted_once_and_left_again(
    loaders: Boots, number: int
) -> None:
    """Nobody has asked for that boot, and nobody holds the lock: its unit boots the node back."""
    kernel, line = loaders.own[number - 1].splitlines()
    other = next(each for each in loaders.kernels if each != kernel)
    words = " ".join(w for w in line.split() if not w.startswith(("initrd=", "BOOT_IMAGE=")))
    arm = ("arm", "t-1", BY[number], other, f"{words} iotrial.boot=t-1", "90", "/run/t.lock")
    loaders.lab.do(number, shlex.join(["sh", "-c", script(), "iotrial-boot", *arm, script()]))
    loaders.lab.do(number, "sync")
    loaders.lab.lab.vmlab("cut", f"{loaders.lab.name}-{number}")
    loaders.up()
    said = loaders.lab.do(number, "uname -r; cat /proc/cmdline; cat /proc/uptime")
    assert said.split()[0] == other
    assert "iotrial.boot=t-1" in said
    assert loaders.left(number) == ""


@pytest.mark.parametrize("number", [1, 2])
def test_what_the_power_left_of_an_arming_is_removed_by_the_next_command(
    loaders: Boots, number: int
) -> None:
    """Cut after the folder was made, and after the unit was there, and was not yet enabled."""
    folder, unit = "/var/lib/iotrial/boot", "/etc/systemd/system/iotrial-boot.service"
    for made in (f"mkdir -p {folder}", f"mkdir -p {folder}; echo grub >{folder}/method",
                 f"mkdir -p {folder}; echo '[Unit]' >{unit}"):  # fmt: skip
        loaders.lab.do(number, made)
        loaders.forget(number)
        assert loaders.left(number, 5) == ""


KEPT = """\
format = 1
name = "polled"
[[keep]]
tunable = "boot.nvme.poll_queues"
value = 1
"""


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_kept_is_in_force_after_a_boot_and_gone_after_its_undo_and_another(
    loaders: Boots, tmp_path: Path, number: int
) -> None:
    profile, on = tmp_path / "polled.toml", f"--on={loaders.ways[number - 1]}"
    profile.write_text(KEPT, "utf-8")

    def keep(*words: str) -> str:
        done = loaders.lab.lab.said("keep", *words, on, within=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "after the next boot" in keep(str(profile), "apply")
    assert loaders.boot(number) == loaders.own[number - 1]
    assert "after the next boot" in keep("polled", "verify")
    loaders.reboot(number)
    release, line = loaders.boot(number).splitlines()
    assert release == loaders.own[number - 1].splitlines()[0]
    assert "nvme.poll_queues=1" in line.split()
    assert loaders.lab.do(number, "cat /sys/module/nvme/parameters/poll_queues").strip() == "1"
    assert "after the next boot" not in keep("polled", "verify")
    keep("polled", "undo")
    loaders.reboot(number)
    assert loaders.left(number, 30) == ""


SWAP = "/proc/sys/vm/swappiness"
TRIED = f"""\
{KEPT}
[[keep]]
tunable = "sysctl.vm.swappiness"
value = 7
"""


@pytest.mark.parametrize("number", [1, 2])
def test_a_trial_is_one_boot_and_its_end_another(
    loaders: Boots, tmp_path: Path, number: int
) -> None:
    """It ends confirmed, undone, by itself, by Ctrl-C, or with the power."""
    profile, on = tmp_path / "polled.toml", f"--on={loaders.ways[number - 1]}"
    profile.write_text(TRIED, "utf-8")
    swap = loaders.lab.do(number, f"cat {SWAP}")
    own = loaders.lab.do(number, "cat /boot/grub/grub.cfg /efi/loader/entries/* 2>/dev/null || :")

    def keep(*words: str, comes: int = 0) -> str:
        done = loaders.lab.lab.said("keep", *words, on, within=1800)
        assert done.returncode == comes, done.stdout + done.stderr
        return done.stdout + done.stderr

    def in_force() -> bool:
        said = loaders.lab.do(number, f"cat /proc/cmdline {SWAP}").split()
        return "nvme.poll_queues=1" in said and said[-1] == "7"

    def as_before() -> None:
        assert loaders.left(number) == ""
        assert loaders.lab.do(number, f"cat {SWAP}") == swap
        now = loaders.lab.do(
            number, "cat /boot/grub/grub.cfg /efi/loader/entries/* 2>/dev/null || :"
        )
        assert now == own
        assert "is not kept" in keep("polled", "verify", comes=3)

    said = keep(str(profile), "try", "--for", "30m")
    assert "booting with boot.nvme.poll_queues=1" in said
    assert "boots into its own boot in 30m" in said
    assert in_force()
    assert "is not confirmed" in keep("polled", "verify", comes=1)
    assert "poll_queues" not in loaders.lab.do(
        number, "cat /boot/grub/grub.cfg /efi/loader/entries/[!i]* 2>/dev/null || :"
    )
    assert "kept; undo" in keep("polled", "confirm")
    assert in_force()
    assert "iotrial.boot=" not in loaders.boot(number)
    assert "after the next boot" not in keep("polled", "verify")
    keep("polled", "undo")
    loaders.reboot(number)
    as_before()

    keep(str(profile), "try", "--for", "30m")
    keep("polled", "undo")
    assert loaders.boot(number) == loaders.own[number - 1]
    as_before()

    keep(str(profile), "try", "--for", "20s")
    as_before()

    words = loaders.lab.lab.command("keep", str(profile), "try", "--for", "30m", on)
    with subprocess.Popen(
        words, env=loaders.lab.lab.environment, stderr=subprocess.PIPE, text=True
    ) as trying:
        assert trying.stderr is not None
        while "booting with" not in trying.stderr.readline():
            assert trying.poll() is None
        time.sleep(5)  # it goes down, or comes up
        trying.send_signal(signal.SIGINT)
        rest = trying.stderr.read()
    assert trying.returncode == 130, rest
    assert loaders.boot(number) == loaders.own[number - 1], rest
    as_before()

    keep(str(profile), "try", "--for", "30m")
    loaders.lab.lab.vmlab("cut", f"{loaders.lab.name}-{number}")
    loaders.up()
    as_before()


def test_what_stands_in_custom_cfg_stays_as_it_is(loaders: Boots) -> None:
    mine = "# mine\nmenuentry 'x' { true }\n"
    loaders.lab.do(1, f"printf %s {shlex.quote(mine)} >/boot/grub/custom.cfg")
    kernel = loaders.own[0].splitlines()[0]
    verb = ["sh", "-c", script(), "iotrial-boot"]
    arm = [*verb, "arm", "t-2", "grub", kernel, "quiet iotrial.boot=t-2", "5", "/run/t.lock", ":"]
    loaders.lab.do(1, shlex.join(arm))
    loaders.lab.do(1, shlex.join(arm))
    armed = loaders.lab.do(1, "cat /boot/grub/custom.cfg; grub-editenv - list")
    assert armed.startswith(mine)
    assert armed.count("--id iotrial-t-2") == 1
    assert "next_entry=iotrial-t-2" in armed
    loaders.lab.do(1, shlex.join([*verb, "clear"]))
    assert loaders.lab.do(1, "cat /boot/grub/custom.cfg") == mine
    loaders.lab.do(1, "rm /boot/grub/custom.cfg")
    assert loaders.left(1, 30) == ""


@pytest.mark.parametrize("end", ["killed", "cut"])
def test_whenever_a_life_ends_a_node_returns_by_its_loader(
    loaders: Boots, tmp_path: Path, end: str
) -> None:
    assert both_lives(loaders, tmp_path, end) == []
