"""What holds for every format: recordings are told apart, and nothing but results gives numbers."""

from __future__ import annotations

import math
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.model.recording import Recording, RecordingFormat
from iotrial_import.files import HEAD, recognised
from iotrial_import.legend import ImportedRun
from iotrial_import.plausible import impossible

DATA = Path(__file__).parents[1] / "data"
FOLDERS = {
    "bonnie": {"bonnie++"},
    "dd": {"dd"},
    "elbencho": {"elbencho"},
    "fio-log": {"fio-log", "fio-hist-log", "fio-json"},
    "fio-terse": {"fio-terse", "fio-json"},
    "fio-text": {"fio-text", "fio-json"},
    "ior": {"ior"},
    "iostat": {"iostat"},
    "iozone": {"iozone", "iozone-xls"},
    "iperf3": {"iperf3"},
    "mdtest": {"mdtest"},
    "sar": {"sar"},
    "table": {"table"},
    "io500": {"io500"},
    "vdbench": {"vdbench"},
}
INCOMPLETE = {"broken_off", "record_too_large", "throughput_us"}
"""Runs that ended before their first number."""
NOT_RESULTS = {"README.md", "job.fio", "words.tsv"}
RECORDINGS = [
    path
    for folder in FOLDERS
    for path in sorted((DATA / folder).rglob("*"))
    if path.is_file() and path.name not in NOT_RESULTS
]
FORMATS = list(formats().values())


def read(each: RecordingFormat, data: bytes, name: str) -> tuple[tuple[Recording, ...], str]:
    """The runs, whose numbers are all finite; or why there is none."""
    try:
        found = each.read(data, name)
    except FormatError as error:
        return (), error.message
    assert all(math.isfinite(m.value) for run in found for m in run.measurements)
    return found, ""


def short(path: Path) -> str:
    return str(path.relative_to(DATA))


@pytest.mark.parametrize("path", RECORDINGS, ids=short)
def test_a_recording_is_told_by_what_is_in_it(path: Path) -> None:
    data = path.read_bytes()
    wanted = FOLDERS[path.relative_to(DATA).parts[0]]
    assert recognised(data[:HEAD], path.name).name in wanted
    # A name helps only where the content says nothing: fio's logs are bare numbers.
    if "fio-log" not in wanted:
        assert recognised(data[:HEAD], "results").name in wanted


def test_every_format_has_a_recording() -> None:
    told = {recognised(path.read_bytes()[:HEAD], path.name).name for path in RECORDINGS}
    assert told >= set(formats()) - {"table-xlsx"}, "written by openpyxl in its own test"


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_format_has_a_name_and_a_title(each: RecordingFormat) -> None:
    assert each.name == each.name.lower()
    assert each.title


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
@given(data=st.one_of(st.binary(max_size=400), st.text(max_size=400).map(str.encode)))
@settings(max_examples=60)
def test_what_is_no_result_is_an_error_that_names_the_file(
    each: RecordingFormat, data: bytes
) -> None:
    found, refused = read(each, data, "some-file")
    assert found or "some-file" in refused


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
@pytest.mark.parametrize("path", RECORDINGS[::17], ids=short)
def test_a_format_reads_its_own_files_and_refuses_the_others(
    each: RecordingFormat, path: Path
) -> None:
    data = path.read_bytes()
    mine = recognised(data[:HEAD], path.name).name == each.name
    found, refused = read(each, data, path.name)
    assert found or path.name in refused
    assert found or not mine or path.stem in INCOMPLETE


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_one_byte_again_and_again_keeps_no_recogniser_busy(each: RecordingFormat) -> None:
    """It takes 0.04 s at most; where an expression looks again from each place, 22 s."""
    for unit in (*b"\t\n\r\x00 !\"#%'()*+,-./0129:;<=>?@[]_aAe{|}\x7f\xff", b"\r\n", b"1;", b"0,"):
        began = time.thread_time()
        each.recognises((bytes([unit]) if isinstance(unit, int) else unit) * HEAD, "f")
        assert time.thread_time() - began < 2, unit


# --- the fuzzer ----------------------------------------------------------------------------------

FUZZED = 60.0
"""Seconds."""
SMALL = [path for path in RECORDINGS if path.stat().st_size <= 100_000]


def mutant(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, lines doubled and dropped, numbers changed: one to three of them."""
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(5):
            case 0:
                at = rng.randrange(len(data) or 1)
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1 | 2:
                lines = data.split(b"\n")
                at = rng.randrange(len(lines))
                lines[at : at + 1] = [lines[at]] * rng.choice([0, 2, 2, 50])
                data = b"\n".join(lines)
            case _:
                places = list(re.finditer(rb"\d+(\.\d+)?", data))
                if places:
                    found = rng.choice(places)
                    new = rng.choice(NUMBERS) if rng.random() < 0.5 else other(rng, found[0])
                    data = data[: found.start()] + new + data[found.end() :]
    return data


NUMBERS = (
    b"0", b"-1", b"1e999", b"nan", b"18446744073709551616", b"9" * 30, b"0.0001", "\u00b2".encode(),
    "\u0663".encode(), b"", b"1,5",
)  # fmt: skip


def other(rng: random.Random, number: bytes) -> bytes:
    """The number with a digit changed, doubled or dropped."""
    at = rng.randrange(len(number))
    return number[:at] + rng.choice([b"", number[at : at + 1] * 2, b"7", b"0"]) + number[at + 1 :]


def incoherent(run: Recording) -> str:
    """A latency whose percentiles fall or leave its extremes by far, or a number that no machine
    reaches; '' none."""
    values: dict[tuple[str, str], float] = {}
    for m in run.measurements:
        values.setdefault((m.job, m.metric), m.value)
        if not 0 <= m.value < 1e18:
            return f"{m.metric} = {m.value}"
    bounds = {(m.job, m.metric) for m in run.measurements if m.censored}
    for (job, name), value in values.items():
        stem, _, what = name.partition("lat.")
        if (job, name) in bounds or not what.startswith("p"):
            continue
        above = values.get((job, f"{stem}lat.max"), value)
        median = values.get((job, f"{stem}lat.p50"), value)
        if value > 1.1 * above + 1e-6 or (float(what[1:]) > 50 and 1.1 * value + 1e-6 < median):
            return f"{name} = {value}, max {above}, median {median}"
    return ""


@pytest.mark.timeout(600)
def test_no_damaged_recording_gives_a_traceback_a_hang_or_an_impossible_value() -> None:
    seed = int(time.time())
    rng = random.Random(seed)
    until, tried, wrong = time.monotonic() + FUZZED, 0, []
    while time.monotonic() < until and len(wrong) < 20:
        path = rng.choice(SMALL)
        data = mutant(rng, path.read_bytes())
        began = time.thread_time()
        try:
            each = recognised(data[:HEAD], path.name)
            runs = each.read(data, path.name)
        except FormatError:
            runs = ()
        except Exception as error:  # noqa: BLE001 (each is reported)
            wrong.append(f"{short(path)}: {type(error).__name__}: {error}")
        if time.thread_time() - began > 10:
            wrong.append(f"{short(path)}: {time.thread_time() - began:.0f} s")
        tried += 1
        for number, run in enumerate(runs):
            doubted = list(impossible(ImportedRun(path.name, run, {}, block=number)))
            if not doubted and (what := incoherent(run)):
                wrong.append(f"{short(path)}: {what}")
    assert not wrong, f"seed {seed}, of {tried}:\n" + "\n".join(wrong)
    assert tried > 1000, "the machine is slow, or the formats are"
