"""Numbers of one run that exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording
from iotrial_import.files import HEAD, recognised
from iotrial_import.legend import ImportedRun
from iotrial_import.plausible import impossible

DATA = Path(__file__).parents[1] / "data"
UNITS = {"iops": "1/s", "bw": "bytes/s", "bytes": "bytes"}
SOUND = {
    "read.iops": 16_000.0,
    "read.slat.mean": 7e-6,
    "read.clat.mean": 84e-6,
    "read.clat.min": 20e-6,
    "read.clat.max": 9e-3,
    "read.clat.p50": 80e-6,
    "read.clat.p99": 250e-6,
    "read.clat.p99.9": 800e-6,
    "read.lat.mean": 91e-6,
}


def said(**changed: float) -> list[str]:
    """What is held against the sound run with some numbers changed."""
    values = SOUND | {name.replace("_", "."): value for name, value in changed.items()}
    measured = tuple(
        Measurement(name, value, UNITS.get(name.rpartition(".")[2], "s"))
        for name, value in values.items()
    )
    found = list(impossible(ImportedRun("f", Recording("fio", "read", measured), {})))
    assert all(doubt.invalid for doubt in found)
    return [doubt.what for doubt in found]


def test_a_sound_run_has_no_contradiction() -> None:
    assert said() == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"read_clat_p99": 60e-6}, "clat.p99 60.0 µs is below read.clat.p50 80.0 µs"),
        ({"read_clat_p50": 10e-6}, "clat.p50 10.0 µs is below its minimum 20.0 µs"),
        ({"read_clat_max": 500e-6}, "clat.p99.9 800 µs is above its maximum 500 µs"),
        ({"read_clat_mean": 10e-3, "read_lat_mean": 10e-3}, "is above its maximum"),
        ({"read_lat_mean": 50e-6}, "clat.mean 84.0 µs is above read.lat.mean 50.0 µs"),
        ({"read_lat_mean": 200e-6}, "is not clat 84.0 µs and slat 7.00 µs together"),
        ({"read_clat_mean": 0.0}, "read.clat.mean is 0, though"),
        ({"read_clat_p99.9": 30.0, "read_clat_max": 31.0}, "beyond the last bin"),
        ({"read_clat_max": 1.8446744e10}, "read.clat.max is 1.84e+10 s"),
        ({"read_iops": 1e19}, "read.iops is 1e+19 1/s"),
        ({"read_bw": 2e18}, "read.bw is 2e+18 bytes/s"),
        ({"read_bytes": 2.0**64}, "read.bytes is 1.84e+19 bytes"),
    ],
)
def test_what_cannot_be_makes_a_run_that_does_not_count(
    changed: dict[str, float], what: str
) -> None:
    (told,) = said(**changed)
    assert what in told


def test_a_bound_is_no_value() -> None:
    measured = (
        Measurement("read.clat.p99", 16.7, "s", censored="high"),
        Measurement("read.clat.max", 60.0, "s"),
        Measurement("read.clat.p99.9", 16.7, "s", censored="high"),
    )
    assert not list(impossible(ImportedRun("f", Recording("fio", "read", measured), {})))


RECORDED = [
    path
    for path in sorted(DATA.rglob("*"))
    if path.is_file() and path.parent.parent.name == "data" and path.suffix != ".md"
]


def test_no_recording_of_any_tool_is_held_to_be_impossible() -> None:
    """Of every version there is: no false alarm."""
    known, wrong = set(), []
    folders = {"fio", "fio-log", "fio-terse", "fio-text", "ior", "iozone", "elbencho", "iostat"}
    for path in RECORDED:
        if path.parent.name not in folders or path.name in ("words.tsv", "job.fio"):
            continue
        data = path.read_bytes()
        try:
            each = recognised(data[:HEAD], path.name)
            runs = each.read(data, path.name)
        except FormatError:
            continue
        known.add(each.name)
        wrong += [
            (path.name, doubt.what)
            for run in runs
            for doubt in impossible(ImportedRun(path.name, run, {}))
        ]
    assert known > {"fio-json", "fio-text", "fio-terse", "fio-log", "ior", "elbencho"}
    assert known <= set(formats())
    assert wrong == []


def test_a_file_whose_name_is_no_text_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\udcff\udc9b.csv").write_bytes(b"scheduler,bw_mib_s\nnone,100\nbfq,90\n")
    assert status(["import", ".", "--out", "r"]) == 0
    assert "\\xff\\x9b.csv" in capsys.readouterr().out
    assert status(["report", "r"]) == 0
    (kept,) = Path("r/originals").iterdir()
    assert kept.name == "a\\xff\\x9b.csv"
