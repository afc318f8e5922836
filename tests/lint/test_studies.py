"""The mistakes of published studies' own files are found, every one."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial_lint.judge import judged
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.rule import Kind, LintContext

DATA = Path(__file__).resolve().parents[1] / "data" / "lint" / "studies"

Expected = set[tuple[int, str]]

FILES: dict[str, tuple[Kind, Expected]] = {
    "tuned-servers.sysctl.conf": (
        "sysctl",
        {
            (6, "sysctl-too-early"),
            (7, "sysctl-out-of-range"),
            (8, "sysctl-removed"),
            (9, "swappiness-zero"),
            (10, "sysctl-misspelt"),
            (11, "sysctl-misspelt"),
        },
    ),
    "60-array.rules": (
        "udev",
        {
            (2, "udev-removed-key"),
            (2, "scheduler-removed"),
            (2, "depth-without-scheduler"),
            (2, "udev-echo"),
            (3, "scheduler-removed"),
            (3, "scheduler-on-map"),
            (3, "depth-without-scheduler"),
            (3, "udev-echo"),
        },
    ),
    "multipath.conf": (
        "multipath",
        {
            (11, "multipath-removed"),
            (14, "multipath-min-io"),
            (16, "multipath-loss-before-fail"),
        },
    ),
    "adapter.conf": ("modprobe", {(2, "module-removed")}),
    "array.fio": (
        "fio",
        {
            (13, "fio-runtimes"),
            (26, "fio-description"),
            (25, "fio-writes-device"),
            (35, "fio-same-section"),
            (36, "fio-description"),
        },
    ),
    "parallel-client.sysctl.conf": ("sysctl", {(5, "rcvbuf-fixed")}),
}


@pytest.mark.parametrize("name", FILES)
def test_every_mistake_of_a_study_is_found_and_nothing_else(name: str) -> None:
    kind, expected = FILES[name]
    remarks = judged([parsed(kind, (DATA / name).read_bytes(), name)], LintContext(kernel=(6, 1)))
    assert {(remark.line, remark.rule.name) for remark in remarks} == expected


def test_today_has_a_line_for_each_key_that_udev_lost() -> None:
    data = (DATA / "60-array.rules").read_bytes()
    remarks = judged([parsed("udev", data, "x.rules")], LintContext(kernel=(6, 1)))
    fixes = {remark.fix for remark in remarks if remark.rule.name == "udev-removed-key"}
    assert fixes == {
        'SUBSYSTEMS=="scsi"',
        'ATTRS{vendor}=="ACME"',
        'ATTRS{model}=="FLASH BOX*"',
    }


def test_every_file_is_known_by_its_name_but_one() -> None:
    kinds = {name: kind_of(str(DATA / name)) for name in FILES}
    assert kinds.pop("adapter.conf") is None
    assert kinds == {name: kind for name, (kind, _) in FILES.items() if name in kinds}
    assert kind_of("/etc/modprobe.d/adapter.conf") == "modprobe"
