"""What dd prints, and what may become of it, gives measurements or a FormatError."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.dd import FORMAT, DdOperands, asked, parse
from iotrial.model.measurement import metric
from iotrial.model.tool import ParsedOutput

DATA = Path(__file__).parent.parent / "data" / "dd"
RECORDED = sorted(path.name for path in DATA.glob("*.txt"))
GB = 1073741824
UUTILS = "67108864 bytes (67 MB, 64 MiB) copied, 0.1 s, 945 MB/s"
RECORDS = "1024+0 records in\n1024+0 records out\n"
SPELLINGS = {
    "coreutils 9": f"{GB} bytes (1.1 GB, 1.0 GiB) copied, 2.5 s, 429 MB/s",
    "coreutils 8.4": f"{GB} bytes (1.1 GB) copied, 2.5 s, 429 MB/s",
    "coreutils 6": f"{GB} bytes (1.1 GB) copied, 2.5 seconds, 429 MB/s",
    "German": f"{GB} Bytes (1,1 GB, 1,0 GiB) kopiert, 2,5 s, 429 MB/s",
    "French": f"{GB} octets (1,1 GB, 1,0 GiB) copiés, 2,50000 s, 429 MB/s",
    "Chinese": f"{GB}字节（1.1 GB，1.0 GiB）已复制，2.5 s，429 MB/s",  # noqa: RUF001
    "busybox": f"{GB} bytes (1.0GB) copied, 2.500000 seconds, 409.6MB/s",
    "toybox": f"{GB} bytes (1.0 G) copied, 2.500 s, 409 M/s",
    "BSD": f"{GB} bytes transferred in 2.500000 secs (429496730 bytes/sec)",
    "coreutils 5": f"{GB} bytes transferred in 2.500000 seconds (429496730 bytes/sec)",
}


WORDS = {
    language: (f"{received}\n{sent}", line.replace(str(GB), "{}"))
    for language, received, sent, line in (
        row.split("\t") for row in (DATA / "words.tsv").read_text().splitlines()[1:]
    )
}


def values(parsed: ParsedOutput, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if each.job == job}


def doubts(parsed: ParsedOutput) -> dict[str, bool]:
    return {each.check: each.invalid for each in parsed.doubts}


def read(text: str, told: DdOperands | None = None) -> ParsedOutput:
    return parse(text.encode(), "dd.txt", told)


def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_says_the_same(spelling: str) -> None:
    found = read(f"{RECORDS}{SPELLINGS[spelling]}\n")
    assert values(found) == {
        "total.bytes": GB,
        "total.seconds": 2.5,
        "total.bw": GB / 2.5,
        "total.iops": 1024 / 2.5,
    }
    assert found.doubts == ()


@pytest.mark.parametrize("language", WORDS)
@pytest.mark.parametrize("quoted", ["{}", "> {}", "    # {}"])
def test_words_are_of_any_language(language: str, quoted: str) -> None:
    records, line = WORDS[language]
    text = "\n".join(quoted.format(each) for each in (*records.split("\n"), line.format(GB)))
    for encoding in ("utf-8", "utf-16"):
        found = parse(text.encode(encoding), "dd.txt")
        assert values(found) == {
            "total.bytes": GB,
            "total.seconds": 2.5,
            "total.bw": GB / 2.5,
            "total.iops": 1024 / 2.5,
        }
        assert found.doubts == ()


def test_seconds_with_one_digit_are_read_by_the_rate() -> None:
    found = read(f"64+0 records in\n64+0 records out\n{UUTILS}")
    assert values(found)["total.bw"] == 945e6
    assert values(found)["total.seconds"] == pytest.approx(67108864 / 945e6)


def test_a_recording_says_how_dd_was_run() -> None:
    runs = FORMAT.read(recorded("session.txt"), "session.txt")
    assert formats()["dd"] is FORMAT
    assert FORMAT.recognises(recorded("session.txt"), "") == 3
    assert [(run.tool, run.workload, run.name, run.line) for run in runs] == [
        ("dd", "write", "disk.img", 4),
        ("dd", "read", "disk.img", 9),
        ("dd", "read", "disk.img", 13),
    ]
    assert runs[1].treatment == (("bs", "1M"), ("count", "32"), ("iflag", "direct"))
    assert {each.job for run in runs for each in run.measurements} == {"all"}
    (alone,) = FORMAT.read(SPELLINGS["busybox"].encode(), "x")
    assert (alone.workload, alone.name, alone.treatment) == ("dd", "", ())


def test_a_copy_is_both_and_a_loop_is_many_runs() -> None:
    report = f"{RECORDS}{SPELLINGS['coreutils 9']}\n\n"
    loop = f"$ for i in 1 2; do dd if=/dev/sdx of=/tmp/y bs=1M; done\n{report}{report}"
    both = FORMAT.read(f"{loop}$ ./other\n{report}".encode(), "f")
    assert [run.workload for run in both] == ["both", "both", "both"]
    lines = loop.replace("; ", "\n")
    then = f"$ dd if=/dev/zero of=/tmp/y bs=1M\n{report}{report}"
    assert [run.workload for run in FORMAT.read(f"{lines}{then}".encode(), "f")] == [
        "both", "both", "write", "dd",
    ]  # fmt: skip
    once = f"$ dd if=/dev/sdx of=/tmp/y bs=1M\n{report}$ ./other\n{report}"
    assert [run.workload for run in FORMAT.read(once.encode(), "f")] == ["both", "dd"]


def test_progress_on_lines_of_its_own_is_no_run() -> None:
    text = recorded("progress.txt").replace(b"\r", b"\n")
    assert len(FORMAT.read(text, "f")) == 1
    lines = "".join(f"{n * GB} bytes (1.1 GB, 1.0 GiB) copied, 2.5 s, 429 MB/s\n" for n in (1,))
    grown = f"{2 * GB} bytes (2.1 GB, 2.0 GiB) copied, 5.01234 s, 428 MB/s\n"
    assert len(FORMAT.read(f"{grown.replace('5.01234', '5.01233')}{grown}".encode(), "f")) == 2
    assert len(FORMAT.read(lines.encode(), "f")) == 1


def test_progress_that_looks_like_a_result_is_none_where_records_follow() -> None:
    shown = (
        "412090368 bytes (412 MB, 393 MiB) copied, 1.00039 s, 412 MB/s\n"
        "502090368 bytes (502 MB, 479 MiB) copied, 1.20039 s, 418 MB/s\n"
        "512+0 records in\n512+0 records out\n"
        "536870912 bytes (537 MB, 512 MiB) copied, 1.31076 s, 410 MB/s\n"
    )
    (run,) = FORMAT.read(f"# dd if=x of=/dev/null bs=1M status=progress\n{shown}".encode(), "f")
    assert (run.workload, run.seconds) == ("read", 1.31076)
    assert "progress" in {each.check for each in run.doubts}


def test_a_time_shorter_than_dd_itself_is_a_doubt() -> None:
    report = f"{RECORDS}{SPELLINGS['coreutils 9']}\n\nreal\t0m{{}}s\nuser\t0m0.1s\nsys\t0m0.1s\n"
    assert doubts(read(report.format("2.503"))) == {}
    assert doubts(read(report.format("2.303"))) == {"time": True}


def test_prose_with_numbers_is_no_report() -> None:
    text = f"It has 1+1 disks\n{RECORDS}{SPELLINGS['coreutils 9']}\nand a RAID 0+1 too, 3 of them\n"
    assert values(read(text)) == values(read(RECORDS + SPELLINGS["coreutils 9"]))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("changed", ["bytes", "seconds", "rate"])
def test_numbers_of_one_line_that_do_not_fit_are_an_error(spelling: str, changed: str) -> None:
    line = SPELLINGS[spelling]
    if changed == "bytes":
        line = line.replace(str(GB), str(2 * GB), 1)
    elif changed == "seconds":
        line = re.sub(r"2([.,])50*", r"2\g<1>75", line, count=1)
    else:
        line = re.sub(r"4(29|09)", r"5\g<1>", line, count=1)
    with pytest.raises(FormatError, match=r"dd\.txt: line 3: .* by its seconds"):
        read(f"{RECORDS}{line}\n")


def test_sizes_in_parentheses_and_records_must_fit_the_bytes() -> None:
    line = SPELLINGS["coreutils 9"]
    for size, other in (("1.1 GB", "1.3 GB"), ("1.0 GiB", "1.2 GiB")):
        with pytest.raises(FormatError, match=f"'{other}' is not {GB} bytes"):
            read(RECORDS + line.replace(size, other))
    with pytest.raises(FormatError, match=r"1023\+0 records cannot be 1073741824 bytes"):
        read(RECORDS.replace("1024", "1023") + line)


def test_the_last_line_alone_is_a_run_without_records() -> None:
    found = read(SPELLINGS["coreutils 9"])
    assert set(values(found)) == {"total.bytes", "total.seconds", "total.bw"}


def test_reports_in_between_are_not_counted() -> None:
    found = parse(recorded("usr1.txt"), "usr1.txt")
    assert values(found)["total.bytes"] == 9830379520
    assert values(found)["total.seconds"] == 0.644119
    assert {each.job for each in found.measurements} == {"all", "dd#1"}
    assert {"progress", "partial", "dd-said"} < set(doubts(found))


def test_progress_that_was_overwritten_is_not_counted() -> None:
    found = parse(recorded("progress.txt"), "progress.txt")
    assert values(found) == values(found, "dd#1")
    assert values(found)["total.seconds"] == 1.45408
    assert found.doubts == ()


def test_a_dd_that_only_told_its_progress_has_no_result() -> None:
    cut = recorded("progress.txt").split(b"\n")[0]
    with pytest.raises(FormatError, match="no result of dd"):
        parse(cut, "progress.txt")


def test_runs_one_after_another_are_jobs_of_their_own() -> None:
    found = parse(recorded("runs.txt"), "runs.txt", asked(["if=/dev/zero", "of=x", "conv=fsync"]))
    each = [values(found, f"dd#{i}") for i in (1, 2, 3)]
    assert [one["write.bytes"] for one in each] == [20971520] * 3
    total = sum(one["write.seconds"] for one in each)
    assert values(found)["write.bw"] == pytest.approx(3 * 20971520 / total)


def test_growing_runs_stay_apart_with_a_line_between() -> None:
    second = f"{RECORDS}{2 * GB} bytes (2.1 GB, 2.0 GiB) copied, 5 s, 429 MB/s\n"
    first = f"{RECORDS}{SPELLINGS['coreutils 9']}\n"
    assert "dd#2" in {each.job for each in read(f"{first}\n{second}").measurements}
    assert doubts(read(first + second)) == {"progress": False}


def test_a_session_says_what_each_run_was_to_do() -> None:
    found = parse(recorded("session.txt"), "session.txt")
    assert set(values(found, "dd#1")) == {f"write.{q}" for q in ("bytes", "seconds", "bw", "iops")}
    assert values(found, "dd#2")["read.bytes"] == 24 * 2**20
    words = {each.check: each.what for each in found.doubts if each.check != "short"}
    assert words["fewer"] == "dd#2 copied 25165824 of 33554432 bytes"
    assert words["cache"].startswith("dd#3 read through the page cache")


def test_a_command_without_a_result_is_named() -> None:
    text = f"# dd if=/dev/sdx of=/dev/null\n# dd if=/dev/sdx of=/dev/null\n{RECORDS}"
    found = read(text + SPELLINGS["coreutils 9"])
    assert [each.what for each in found.doubts if each.check == "no-report"] == [
        "the dd on line 1 has no result"
    ]


def test_nothing_and_no_time_make_a_trial_invalid() -> None:
    none = "0+0 records in\n0+0 records out\n0 bytes copied, 3.318e-05 s, 0.0 kB/s\n"
    assert doubts(read(none))["no-io"]
    quick = "1+0 records in\n1+0 records out\n512 bytes copied, 0 s, Infinity B/s\n"
    assert doubts(read(quick)) == {"no-time": True}
    assert values(read(quick)) == {"total.bytes": 512}


@pytest.mark.parametrize("between", ["real 0m2.5s\n", "", "$ dd if=/dev/zero of=x\n"])
def test_a_dd_that_gave_no_time_is_named_and_left_out(between: str) -> None:
    found = read(f"{RECORDS}{between}{RECORDS}{SPELLINGS['coreutils 9']}")
    assert {each.job for each in found.measurements} == {"all", "dd#1"}
    words = {each.check: each.what for each in found.doubts}
    assert words["no-time-given"] == "the dd that ends on line 2 gave no time, and was left out"


def test_records_that_contradict_the_bytes_are_a_doubt() -> None:
    told = DdOperands(("read",), block=2**19)
    assert doubts(read(f"{RECORDS}{SPELLINGS['coreutils 9']}", told)) == {"records": True}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        RECORDS,
        "1+0 records in\n",
        f"1+0 records in\n{SPELLINGS['coreutils 9']}\n",
        f"1+0 records out\n1+0 records in\n{SPELLINGS['coreutils 9']}\n",
        f"{RECORDS}{SPELLINGS['coreutils 9'][:-4]}",
        f"{RECORDS}{SPELLINGS['coreutils 9'].replace('2.5 s', '2.5 ms')}",
        f"{RECORDS}{SPELLINGS['coreutils 9'].replace(',', ';')}",
        f"{RECORDS}real 0m2.5s\nuser 0m2.5s\n",
        f"{RECORDS}{SPELLINGS['coreutils 9'].replace(str(GB), '9' * 22)}",
    ],
)
def test_what_is_not_whole_is_refused_with_the_file(text: str) -> None:
    with pytest.raises(FormatError, match=r"dd\.txt: "):
        read(text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("if=/dev/sdx of=/dev/null bs=64k", DdOperands(("read",), 65536, 0, ("read",))),
        ("if=/dev/zero of=x bs=1MB count=2", DdOperands(("write",), 10**6, 2 * 10**6, ("write",))),
        ("if=/dev/zero of=x count=2x3 oflag=dsync", DdOperands(("write",), 512, 3072)),
        (
            "if=a of=b bs=4K count=8B iflag=direct",
            DdOperands(("read", "write"), 4096, 8, ("write",)),
        ),
        ("if=a of=/dev/null bs=4K count=8MB iflag=direct", DdOperands(("read",), 4096)),
        ("of=x bs=what count=1", DdOperands()),
    ],
)
def test_operands_say_what_was_asked(words: str, expected: DdOperands) -> None:
    found = asked(words.split())
    assert (found.operations, found.block, found.size, found.cached) == (
        expected.operations, expected.block, expected.size, expected.cached,
    )  # fmt: skip


@given(data=st.data(), name=st.sampled_from(RECORDED))
def test_mutated_texts_give_measurements_or_a_format_error(data: st.DataObject, name: str) -> None:
    text = bytearray(recorded(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(st.binary(max_size=3) | st.sampled_from([b"e99", b"\r", b"\n", b"9" * 9]))
        text[at : at + data.draw(st.integers(0, 30))] = piece
        text = text or bytearray(b"0")
    try:
        parsed = parse(bytes(text), name)
    except FormatError:
        return
    assert parsed.measurements
    for each in parsed.measurements:
        assert math.isfinite(each.value)
        assert each.value >= 0
        assert each.unit == metric(each.metric).unit


@given(data=st.data(), name=st.sampled_from([*SPELLINGS, *WORDS]))
def test_one_changed_digit_is_seen_or_changes_little(data: st.DataObject, name: str) -> None:
    records, line = WORDS.get(name, (RECORDS.rstrip(), SPELLINGS.get(name, "")))
    text = f"{records}\n{line.format(GB)}"
    digits = [at for at, char in enumerate(text) if char.isdigit()]
    at = data.draw(st.sampled_from(digits))
    piece = data.draw(st.sampled_from(["", *"0123456789", "00"]))
    try:
        found = read(f"{text[:at]}{piece}{text[at + 1 :]}")
    except FormatError:
        return
    assert values(found)["total.bytes"] == pytest.approx(GB, rel=0.06)
    assert values(found)["total.bw"] == pytest.approx(GB / 2.5, rel=0.06)


@given(st.text())
def test_any_text_without_a_run_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"dd\.txt: "):
        read(text)
