"""Results within something else: below warnings, in another encoding, in a mail, beside others."""

from __future__ import annotations

import codecs
import re
import time
from pathlib import Path

import pytest

from iotrial.errors import FormatError
from iotrial_import.files import read, unquoted
from iotrial_import.legend import ImportMap, OriginalFile

DATA = Path(__file__).parents[1] / "data"
RESULTS = [
    "bonnie/fast-2.00a.csv", "bonnie/fast-2.00a.txt", "dd/runs.txt", "elbencho/1.0-0.csv",
    "elbencho/3.0-37.csv", "elbencho/1.4-1.txt", "fio-terse/2.0.7-v3.txt",
    "fio-text/2.0.7-jobs.txt", "io500/2023.txt", "ior/3.2.1.json", "ior/3.2.1.txt",
    "iostat/x-12.7.5.json", "iostat/d-10.1.5.txt", "iozone/auto.txt", "iperf3/3.0.1.tcp.json",
    "iperf3/3.0.1.tcp0.txt", "mdtest/3.2.1.txt", "sar/dubn-12.7.5.txt", "sar/sadf-j-12.7.5.json",
    "sar/sadf-du-12.7.5.csv", "table/semicolon.csv",
]  # fmt: skip
TABLES = {"elbencho/1.0-0.csv", "elbencho/3.0-37.csv", "sar/sadf-du-12.7.5.csv"}
"""Below which nothing may follow but more of it."""
WARNINGS = b"".join(
    b"srun: warning: node%03d: cannot bind task %d: Invalid argument\n" % (rank % 128, rank)
    for rank in range(1200)
)


def told(here: Path, name: str, data: bytes) -> OriginalFile:
    (here / name).write_bytes(data)
    return read(name, here / name, ImportMap())


def numbers(found: OriginalFile) -> list[object]:
    return [
        (each.workload, each.treatment, [(m.metric, m.job, m.value) for m in each.measurements])
        for each in found.recordings
    ]


@pytest.mark.parametrize("path", RESULTS)
def test_results_below_many_warnings_are_found_with_their_lines(path: str, tmp_path: Path) -> None:
    data, name = (DATA / path).read_bytes(), path.replace("/", "-")
    plain = told(tmp_path, name, data)
    below = told(tmp_path, name, WARNINGS + data)
    assert len(WARNINGS) > 64 * 1024
    assert below.format == plain.format
    assert numbers(below) == numbers(plain)
    moved = [
        (one.line, other.line)
        for one, other in zip(plain.recordings, below.recordings, strict=True)
    ]
    assert all(two == (one + 1200 if one else 0) for one, two in moved)


def test_json_of_fio_below_its_own_warnings_is_found(tmp_path: Path) -> None:
    data = (DATA / "fio-log/2.1.10-avg.json").read_bytes()
    warned = b"fio: job j%d: size is not a multiple of the block\n"
    warnings = b"".join(warned % job for job in range(3000))
    assert numbers(told(tmp_path, "a.json", warnings + data)) == numbers(
        told(tmp_path, "b.json", data)
    )


def test_a_large_log_is_not_read_whole_to_be_recognised(tmp_path: Path) -> None:
    log = tmp_path / "messages"
    with log.open("wb") as file:
        for _ in range(60):
            file.write(WARNINGS * 12)
        file.truncate(3 * 2**30)  # no more is on the disk
    began = time.thread_time()
    with pytest.raises(FormatError, match="no format knows"):
        read("messages", log, ImportMap())
    assert time.thread_time() - began < 20


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("path", [*RESULTS, "fio-log/2.1.10-avg_clat.log"])
def test_text_is_read_with_a_byte_order_mark(path: str, encoding: str, tmp_path: Path) -> None:
    data, name = (DATA / path).read_bytes().replace(b"\0", b""), path.replace("/", "-")
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    other = told(tmp_path, name, mark + data.decode().encode(encoding))
    plain = told(tmp_path, name, data)
    assert (other.format, numbers(other)) == (plain.format, numbers(plain))


@pytest.mark.parametrize("path", [each for each in RESULTS if each not in TABLES])
@pytest.mark.parametrize("quote", [b"> ", b">> "])
def test_what_a_mail_quotes_is_read(path: str, quote: bytes, tmp_path: Path) -> None:
    data, name = (DATA / path).read_bytes(), path.replace("/", "-")
    lines = b"".join(quote + line for line in data.splitlines(keepends=True))
    mail = told(tmp_path, name, b"Hello,\n\nthis is what we get:\n\n" + lines + b"\n\nBye\n")
    plain = told(tmp_path, name, data)
    assert (mail.format, numbers(mail)) == (plain.format, numbers(plain))


def test_a_quoted_table_that_was_wrapped_is_refused_in_words(tmp_path: Path) -> None:
    text = (DATA / "iostat/d-10.1.5.txt").read_text()
    wrapped = re.sub(r"(?m)^(.{40}.*?) +(\S+)$", r"\1\n\2", text)
    mail = "".join(f"> {line}\n" for line in wrapped.splitlines())
    with pytest.raises(FormatError, match="line") as refused:
        told(tmp_path, "mail.txt", mail.encode())
    assert "mail programs break long lines" in refused.value.advice


def test_a_result_inside_a_long_report_is_found(tmp_path: Path) -> None:
    """As scripts that try many programs write it: logs of the machine, and one table of IOzone."""
    words = "".join(
        f"[ {at}.{at * 7 % 1000:03d}] {word}: {word[::-1]} at 0x{at:x} is ready\n"
        for at, word in enumerate(
            f"driver{chr(97 + n % 26)}{chr(97 + n % 17)}" for n in range(3000)
        )
    )
    table = (DATA / "iozone/auto.txt").read_text()
    found = told(tmp_path, "report.txt", f"{words}\n{table}\n{words}".encode())
    assert found.format == "iozone"
    assert numbers(found) == numbers(told(tmp_path, "auto.txt", table.encode()))


FOREIGN = {
    "ioping": "4 KiB <<< /dev/sdb (block device 8 GiB): request=1 time=201.3 us (warmup)\n\n"
    "--- /dev/sdb (block device 8 GiB) ioping statistics ---\n9 requests completed in 1.84 ms\n",
    "hdparm -t": "\n/dev/sdb:\n Timing buffered disk reads: 402 MB in  3.01 seconds = 133 MB/sec\n",
    "diskspd": "\nCommand Line: diskspd.exe -b4K -d10 -o32 -t4 -r -w0 D:\\io.dat\n\n"
    "Input parameters:\n\n\ttimespan:   1\n\t-------------\n\tduration: 10s\n",
    "iperf 2": "Client connecting to 10.1.0.2, TCP port 5001\nTCP window size: 85.0 KByte\n"
    "[  3] local 10.1.0.1 port 41200 connected with 10.1.0.2 port 5001\n"
    "[ ID] Interval       Transfer     Bandwidth\n[  3]  0.0-10.0 sec  1.1 GBytes  941 Mbits/sec\n",
    "vmstat": "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    " 1  0      0 812340  10240 512000    0    0    12    40  101  202  1  2 96  1  0\n",
    "pfind": "runtime: 3.250000 rate: 9231.000000\n"
    "rank, errors, unknown, found, total, checked, job steal msgs received, work items send, job "
    "steal msgs send, work items stolen, time spend in job stealing in s, number of completion "
    "tokens send\n0, 0, 0, 64, 15000, 15011, 2, 5, 9, 4, 0.070s, 3\n"
    "1, 0, 0, 61, 15000, 15009, 1, 6, 8, 4, 0.110s, 2\n",
    "job file of fio": "[global]\nioengine=libaio\ndirect=1\n\n[reads]\nrw=randread\nbs=4k\n",
}


@pytest.mark.parametrize("tool", FOREIGN)
def test_what_is_no_result_is_named(tool: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=re.escape(tool)) as refused:
        told(tmp_path, "output.txt", FOREIGN[tool].encode())
    assert "no format knows" not in refused.value.message
    assert refused.value.advice


@pytest.mark.parametrize("tool", FOREIGN)
def test_a_result_below_other_output_is_read(tool: str, tmp_path: Path) -> None:
    result = (DATA / "fio-text/2.0.7-jobs.txt").read_text()
    found = told(tmp_path, "output.txt", f"{FOREIGN[tool]}\n{result}".encode())
    assert found.format == "fio-text"


def test_normal_and_terse_output_in_one_file_are_one_run(tmp_path: Path) -> None:
    normal = (DATA / "fio-text/2.0.7-jobs.txt").read_bytes()
    terse = (DATA / "fio-terse/2.0.7-v3.txt").read_bytes()
    alone = told(tmp_path, "normal.txt", normal)
    for name, both in (("after", normal + terse), ("before", terse + normal)):
        found = told(tmp_path, name, both)
        assert found.format == "fio-text"
        assert numbers(found) == numbers(alone)


TABLE = """\
                                                                random  random
      kB  reclen   write  rewrite    read    reread    read    write
  102400       4    2200     2301     8012     8034     7702     1802
  102400    1024   30211    30400    72012    72034    71702    29802
"""


def test_results_of_another_tool_in_the_file_are_named(tmp_path: Path) -> None:
    dd = (DATA / "dd/runs.txt").read_text()
    for text, wanted in ((f"{TABLE}\n{dd}", 1), (dd, 0)):
        found = told(tmp_path, "report.txt", text.encode())
        assert found.format == "dd"
        said = [d for run in found.recordings for d in run.doubts if d.check == "others"]
        assert len(said) == wanted
        assert all("iozone" in d.what and "--format iozone" in d.advice for d in said)


def test_results_of_two_tools_that_are_as_sure_are_not_chosen_from(tmp_path: Path) -> None:
    both = (DATA / "dd/runs.txt").read_bytes() + (DATA / "iozone/auto.txt").read_bytes()
    with pytest.raises(FormatError, match="it may be dd or iozone") as refused:
        told(tmp_path, "report.txt", both)
    assert "once for each" in refused.value.advice


def test_what_lies_between_megabytes_of_something_else_is_not_looked_for(tmp_path: Path) -> None:
    data = (DATA / "fio-text/2.0.7-jobs.txt").read_bytes()
    around = WARNINGS * 130
    with pytest.raises(FormatError, match="its first 8 MiB and its last 1 were looked through"):
        told(tmp_path, "log", around + data + around)
    assert told(tmp_path, "log", around + data).format == "fio-text"


def test_a_spreadsheet_is_no_mail(tmp_path: Path) -> None:
    content = b"\xd0\xcf\x11\xe0\0\0\n> a\n> b\n> c\n"
    (tmp_path / "x.xls").write_bytes(content)
    assert unquoted(content) is content


@pytest.mark.parametrize("unit", [b"[a]\n", b"rw=\n", b"> ", b">\n", b"\n{", b"Average: ", b"<a"])
def test_nothing_again_and_again_keeps_an_import_busy(unit: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(unit * (200_000 // len(unit)))
    began = time.thread_time()
    with pytest.raises(FormatError):
        read("f", tmp_path / "f", ImportMap())
    assert time.thread_time() - began < 10
