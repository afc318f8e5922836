"""What holds for every format: recordings are told apart, and nothing but results gives numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.importing.files import HEAD, recognised
from iotrial.model.recording import Format, Recording

DATA = Path(__file__).parents[1] / "data"
FOLDERS = {
    "bonnie": {"bonnie++"},
    "dd": {"dd"},
    "elbencho": {"elbencho"},
    "fio-log": {"fio-log", "fio-hist-log", "fio-json"},
    "fio-terse": {"fio-terse", "fio-json"},
    "fio-text": {"fio-text", "fio-json"},
    "io500": {"io500"},
    "ior": {"ior"},
    "iostat": {"iostat"},
    "iozone": {"iozone", "iozone-xls"},
    "iperf3": {"iperf3"},
    "mdtest": {"mdtest"},
    "sar": {"sar"},
    "table": {"table"},
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


def read(each: Format, data: bytes, name: str) -> tuple[tuple[Recording, ...], str]:
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
def test_a_format_has_a_name_and_a_title(each: Format) -> None:
    assert each.name == each.name.lower()
    assert each.title


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
@given(data=st.one_of(st.binary(max_size=400), st.text(max_size=400).map(str.encode)))
@settings(max_examples=60)
def test_what_is_no_result_is_an_error_that_names_the_file(each: Format, data: bytes) -> None:
    found, refused = read(each, data, "some-file")
    assert found or "some-file" in refused


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
@pytest.mark.parametrize("path", RECORDINGS[::17], ids=short)
def test_a_format_reads_its_own_files_and_refuses_the_others(each: Format, path: Path) -> None:
    data = path.read_bytes()
    mine = recognised(data[:HEAD], path.name).name == each.name
    found, refused = read(each, data, path.name)
    assert found or path.name in refused
    assert found or not mine or path.stem in INCOMPLETE
