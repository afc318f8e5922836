"""Whatever a file holds, lint has an answer and no accident."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_cases import CASES, Case

from iotrial_lint.judge import judged, judged_host
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import KINDS, SEVERITIES, HostDisk, Kind, LintContext

KERNELS = st.sampled_from([(2, 6, 9), (3, 10), (4, 18), (6, 1), (9999,)])
WORDS = sorted({word for case in CASES for word in (*case.bad.split(), *case.good.split())})
MARKS = ["\n", " ", "\t", "=", "==", "{", "}", '"', "'", "\\\n", "#", "[", "]", ",", "\0", "\r\n"]
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(MARKS),
    st.text(max_size=5),
    st.integers().map(str),
)
TEXTS = (
    st.lists(PIECES, max_size=30).map(" ".join).map(lambda text: text.encode("utf-8", "replace"))
)


def answered(kind: Kind, data: bytes, scene: LintContext) -> None:
    sheet = parsed(kind, data, "file")
    lines = data.count(b"\n") + 1
    for remark in judged([sheet], scene):
        assert 0 <= remark.line <= lines
        assert remark.severity in SEVERITIES
        assert remark.what
    for complaint in sheet.complaints:
        assert 0 <= complaint.line <= lines


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.one_of(st.binary(max_size=200), TEXTS), kernel=KERNELS)
def test_any_bytes_get_an_answer(kind: Kind, data: bytes, kernel: tuple[int, ...]) -> None:
    answered(kind, data, LintContext(kernel=kernel, memory=2**34))


@settings(max_examples=200, deadline=None)
@given(
    case=st.sampled_from(CASES),
    cut=st.integers(0, 200),
    length=st.integers(0, 20),
    put=PIECES,
    kind=st.sampled_from(KINDS),
)
def test_files_with_a_piece_torn_out_get_an_answer(
    case: Case, cut: int, length: int, put: str, kind: Kind
) -> None:
    text = case.bad
    torn = text[:cut] + put + text[cut + length :]
    data = torn.encode("utf-8", "replace")
    answered(case.kind, data, LintContext(memory=2**34))
    answered(kind, data, LintContext())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), TEXTS), max_size=5))
def test_a_host_with_any_files_gets_an_answer(files: list[tuple[Kind, bytes]]) -> None:
    sheets = tuple(parsed(kind, data, f"/{at}") for at, (kind, data) in enumerate(files))
    remarks = judged_host(LintContext(sheets=sheets))
    assert all(remark.what for remark in remarks)


def test_no_pattern_goes_back_and_forth_over_a_long_line() -> None:
    """This would take hours."""
    for kind in KINDS:
        for piece in (b"a", b" ", b'"', b"{", b"echo ", b"[", b"=", b"\\", b"net.ipv4.conf."):
            parsed(kind, piece * 20_000, "file")


def test_a_number_of_ten_thousand_digits_is_no_accident() -> None:
    """Python refuses to make one of such a text."""
    digits = "9" * 10_000
    for case in CASES:
        for text in (case.bad, case.good):
            longer = re.sub(r"\d+", digits, text)
            answered(case.kind, longer.encode(), LintContext(memory=2**34))
    disk = HostDisk("sda", {"nr_requests": digits, "read_ahead_kb": digits}, 64, ("sda",))
    assert judged_host(LintContext(disks=(disk,))) == ()
