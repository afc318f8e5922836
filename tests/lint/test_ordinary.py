"""Ordinary files, with the idioms that distributions use, are nothing to complain of."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial_lint.judge import judged
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.rule import KINDS, NEWEST, LintContext, Version

DATA = Path(__file__).resolve().parents[1] / "data" / "lint" / "ordinary"
FILES = sorted(path for path in DATA.rglob("*") if path.is_file() and path.name != "source.txt")


@pytest.mark.parametrize("kernel", [(5, 10), (6, 1), NEWEST])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_ordinary_file_is_nothing_to_complain_of(path: Path, kernel: Version) -> None:
    kind = kind_of(str(path))
    assert kind
    sheet = parsed(kind, path.read_bytes(), path.name)
    assert len(sheet.entries) > 7
    remarks = judged([sheet], LintContext(kernel=kernel, memory=2**34))
    assert [(remark.place, remark.key, remark.what) for remark in remarks] == []


def test_every_kind_but_the_command_line_has_one() -> None:
    assert {kind_of(str(path)) for path in FILES} == set(KINDS) - {"cmdline"}


@pytest.mark.parametrize(
    "path",
    [
        "/usr/share/polkit-1/rules.d/x.rules",
        "/etc/audit/rules.d/x.rules",
        "/usr/lib/tmpfiles.d/tuned.conf",
        "/usr/lib/modules-load.d/multipath.conf",
        "/usr/share/doc-base/fio.fio",
        "/etc/sysctl.d/README",
        "/etc/passwd",
    ],
)
def test_files_of_others_are_not_taken_for_ours(path: str) -> None:
    assert kind_of(path) is None
