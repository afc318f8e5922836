"""Lint complains of the lines that the programs themselves complain of, and of no others."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rule_cases import CASES, Case

from iotrial_lint.judge import judged
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import Kind, LintContext

DATA = Path(__file__).resolve().parents[1] / "data" / "lint"


def lines_of_lint(kind: Kind, path: Path, scene: LintContext) -> set[int]:
    remarks = judged([parsed(kind, path.read_bytes(), path.name)], scene)
    return {remark.line for remark in remarks if remark.severity != "note"}


def test_udev_252_and_lint_complain_of_the_same_rules() -> None:
    folder = DATA / "udevadm-test"
    said = (folder / "said.txt").read_text("utf-8")
    lines = {int(line) for line in re.findall(r"^60-wrong\.rules:(\d+)", said, re.MULTILINE)}
    assert len(lines) == 29
    assert lines_of_lint("udev", folder / "60-wrong.rules", LintContext(kernel=(6, 1))) == lines


def test_multipath_0_9_4_and_lint_complain_of_the_same_lines() -> None:
    folder = DATA / "multipath-t"
    said = (folder / "said.txt").read_text("utf-8")
    lines = {int(line) for line in re.findall(r"\bline (\d+)", said)}
    assert len(lines) == 19
    scene = LintContext(kernel=(6, 1), multipath=(0, 9, 4))
    assert lines_of_lint("multipath", folder / "multipath.conf", scene) == lines


def test_modprobe_of_kmod_30_and_lint_complain_of_the_same_lines() -> None:
    folder = DATA / "modprobe-showconfig"
    said = (folder / "said.txt").read_text("utf-8")
    lines = {int(line) for line in re.findall(r"\bline (\d+)", said)}
    assert len(lines) == 7
    assert lines_of_lint("modprobe", folder / "wrong.conf", LintContext(kernel=(6, 1))) == lines


REFUSED = [case for case in CASES if case.rule in ("fio-unknown", "fio-pattern")]
OF_FIO = [case for case in CASES if case.kind == "fio" and "http" not in case.good]


def parse_only(text: str, folder: Path) -> int:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    file = folder / "jobs.fio"
    file.write_text(text.replace("[global]\n", "[global]\nsize=1m\n"), "utf-8")
    command = ["fio", "--parse-only", str(file)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, timeout=30)
    return done.returncode


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.rule)
def test_fio_refuses_what_is_said_to_be_refused(case: Case, tmp_path: Path) -> None:
    assert parse_only(case.bad, tmp_path) != 0


@pytest.mark.parametrize("case", OF_FIO, ids=lambda case: case.rule)
def test_fio_takes_what_is_said_to_be_right(case: Case, tmp_path: Path) -> None:
    assert parse_only(case.good, tmp_path) == 0


WRONG_FSTAB = "a\na b\nUUID=1 /x ext4\nUUID=2 /y ext4 ro x y\n"


def test_findmnt_and_lint_cannot_read_the_same_lines(tmp_path: Path) -> None:
    if shutil.which("findmnt") is None:
        pytest.skip("findmnt is not installed")
    file = tmp_path / "fstab"
    file.write_text(WRONG_FSTAB, "utf-8")
    command = ["findmnt", "--verify", "--tab-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    lines = re.findall(r"parse error at line (\d+)", done.stdout + done.stderr)
    complaints = parsed("fstab", WRONG_FSTAB.encode()).complaints
    assert [str(each.line) for each in complaints] == lines == ["1", "2", "4"]


WRONG_SYSCTL = (
    "vm.swapiness = 1\nvm.swappiness = 10\nvm.lower_zone_protection = 1\nvm.page-cluster = 3\n"
)


def test_sysctl_and_lint_miss_the_same_parameters(tmp_path: Path) -> None:
    if shutil.which("sysctl") is None:
        pytest.skip("sysctl is not installed")
    file = tmp_path / "x.conf"
    file.write_text(WRONG_SYSCTL, "utf-8")
    command = ["sysctl", "--dry-run", "-p", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if "--dry-run" in done.stderr:
        pytest.skip("this sysctl has no --dry-run (procps 4 has)")
    missing = re.findall(r"cannot stat /proc/sys/(\S+):", done.stderr)
    remarks = judged([parsed("sysctl", WRONG_SYSCTL.encode())], LintContext())
    assert [remark.key for remark in remarks] == [name.replace("/", ".") for name in missing]
    assert len(missing) == 2
