"""What a recorded load is, against loads that were made up with known properties; the folder of a
recording; its report."""

from __future__ import annotations

import dataclasses
import errno
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from iotrial.errors import UsageError
from iotrial_record.character import LoadCharacter, character, responses
from iotrial_record.reports.load import REPORT, read
from iotrial_record.trace import (
    COMPLETED,
    INDEX,
    ISSUED,
    QUEUED,
    SECTOR,
    SYNC,
    TracedDevice,
    TraceEvents,
    TraceFacts,
    joined,
    load_index,
    load_parts,
    save_index,
    save_part,
)

SIZE = 1 << 30
READ, WRITE, FLUSH = (ord(letter) for letter in "RWF")


def events(
    at: npt.ArrayLike,
    sector: npt.ArrayLike,
    sectors: npt.ArrayLike,
    *,
    kind: int = QUEUED,
    operation: npt.ArrayLike = READ,
    flags: npt.ArrayLike = 0,
) -> TraceEvents:
    """``at`` in seconds."""
    times = np.round(np.atleast_1d(np.asarray(at, float)) * 1e9).astype(np.int64)

    def column(values: npt.ArrayLike, kind: str) -> npt.NDArray[np.generic]:
        return np.broadcast_to(np.asarray(values), times.shape).astype(kind)

    return TraceEvents(
        times, column(kind, "u1"), column(0, "u1"), column(sector, "u8"), column(sectors, "u4"),
        column(operation, "u1"), column(flags, "u1"), column(7, "u4"), column(0, "i4"),
    )  # type: ignore[arg-type]  # fmt: skip


def served(asked: TraceEvents, seconds: float) -> TraceEvents:
    """Each I/O is issued at once, and completed after so long."""
    issued = dataclasses.replace(asked, kind=np.full(len(asked), ISSUED, np.uint8))
    done = dataclasses.replace(
        asked, kind=np.full(len(asked), COMPLETED, np.uint8), at=asked.at + round(seconds * 1e9)
    )
    return joined([asked, issued, done])


def of(*parts: TraceEvents, seconds: float = 10.0) -> LoadCharacter:
    device = TracedDevice("sda", "8:0", SIZE)
    index = TraceFacts("box", "6.1", 0.0, (device,), seconds=seconds, complete=True)
    return character(index, parts)


def test_mix_sizes_and_flags_are_counted() -> None:
    writes = events([1, 2, 3], [0, 80, 160], [8, 8, 16], operation=WRITE, flags=[SYNC, SYNC, 0])
    found = of(joined([events([4, 5], 0, 64), writes, events([6], 0, 0, operation=FLUSH)]))
    assert found.ios == 6
    assert found.operations["write"].sizes == {4096: 2, 8192: 1}
    assert found.operations["write"].sync == pytest.approx(2 / 3)
    assert found.operations["read"].bytes == 2 * 64 * SECTOR
    assert found.operations["flush"].bytes == 0
    assert found.aligned == {4096: 2, 8192: 1, 32768: 2}


def test_a_stream_is_sequential_though_others_come_between_and_parts_cut_it() -> None:
    at = np.arange(100) / 10
    one, other = np.arange(100) * 8, 1_000_000 + np.arange(100) * 8
    both = joined([events(at, one, 8), events(at + 0.05, other, 8)])
    assert of(both).operations["read"].sequential == pytest.approx(198 / 200)
    halves = both.only(both.at < 5e9), both.only(both.at >= 5e9)
    assert of(*halves).operations["read"].sequential == pytest.approx(198 / 200)


def test_random_io_is_not_sequential_and_is_spread_evenly() -> None:
    chance = np.random.default_rng(1)
    sectors = chance.integers(0, SIZE // SECTOR // 8, 20_000) * 8
    found = of(events(np.sort(chance.uniform(0, 10, 20_000)), sectors, 8))
    assert found.operations["read"].sequential < 0.001
    at_half = dict(found.curve)[0.5]
    assert at_half == pytest.approx(0.5, abs=0.05)


def test_a_hot_zone_is_found_and_its_blocks_are_asked_for_again() -> None:
    chance = np.random.default_rng(2)
    hot = chance.integers(0, SIZE // 256 // SECTOR // 8, 9_000) * 8
    cold = chance.integers(0, SIZE // SECTOR // 8, 1_000) * 8
    found = of(events(np.linspace(0, 9, 10_000), chance.permutation(np.r_[hot, cold]), 8))
    assert found.curve[0][0] == pytest.approx(1 / 256)
    assert found.curve[0][1] == pytest.approx(0.9, abs=0.01)
    # 64 blocks of the hot zone, and of 16,384 in all some 1,000.
    assert found.reuse == pytest.approx(1 - (64 + 970) / 10_000, abs=0.01)


def test_arrivals_of_a_poisson_process_have_a_dispersion_of_one_and_bursts_more() -> None:
    chance = np.random.default_rng(3)
    poisson = np.sort(chance.uniform(0, 100, 50_000))
    even = of(events(poisson, 0, 8), seconds=100)
    assert even.dispersion[0.1] == pytest.approx(1, abs=0.15)
    assert even.dispersion[1.0] == pytest.approx(1, abs=0.4)
    bursts = np.sort(chance.choice(np.arange(0, 100, 5), 50_000) + chance.uniform(0, 0.5, 50_000))
    assert of(events(bursts, 0, 8), seconds=100).dispersion[1.0] > 100


def test_in_flight_is_weighted_by_time_and_agrees_with_little_s_law() -> None:
    chance = np.random.default_rng(4)
    asked = events(np.sort(chance.uniform(0, 9, 9_000)), np.arange(9_000) * 8, 8)
    found = of(served(asked, 0.002))
    total = sum(found.depth.values())
    mean = sum(depth * seconds for depth, seconds in found.depth.items()) / total
    assert mean * total == pytest.approx(9_000 * 0.002, rel=1e-6)
    assert found.response["read"][0.5] == pytest.approx(0.002)
    assert found.response["read"][0.99] == pytest.approx(0.002)
    assert 0.999 not in found.response["read"]  # nine I/Os are beyond it


def test_merged_and_split_requests_have_the_response_time_of_each_io() -> None:
    asked = events([1.0, 1.001, 2.0], [0, 8, 100], [8, 8, 2000])
    merged = events([1.011], [0], [16], kind=COMPLETED)
    split = events([2.001, 2.003], [100, 1100], [1000, 1000], kind=COMPLETED)
    every = joined([asked, merged, split])
    assert of(every).response["read"][0.5] == pytest.approx(0.010)
    found = sorted(waited / 1e9 for _, waited in responses(every))
    assert found == pytest.approx([0.003, 0.010, 0.011])


def recording(folder: Path, *parts: TraceEvents, lost: int = 0) -> Path:
    folder.mkdir()
    device = TracedDevice("sda", "8:0", SIZE, (("serial", "<b>&"),))
    saved = tuple(save_part(folder, at, part) for at, part in enumerate(parts, 1))
    index = TraceFacts(
        "box", "6.1", 1.7e9, (device,), 10.0, {"block_bio_queue": sum(map(len, parts))},
        lost, int(lost > 0), complete=True, parts=saved,
    )  # fmt: skip
    save_index(folder, index)
    return folder


def test_a_folder_is_read_back_as_it_was(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    asked = events(np.sort(chance.uniform(0, 9, 5_000)), chance.integers(0, 1 << 40, 5_000), 8)
    folder = recording(tmp_path / "load", asked)
    index = load_index(folder)
    (again,) = load_parts(folder, index)
    for each in dataclasses.fields(TraceEvents):
        assert np.array_equal(getattr(again, each.name), getattr(asked, each.name)), each.name
    assert index.devices[0].ids == (("serial", "<b>&"),)
    assert index.doubt == ""


def test_a_part_for_which_there_is_no_room_is_named_and_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.lib.format.write_array", full)
    with pytest.raises(OSError, match=r"No space left.*part-000001\.npz"):
        save_part(tmp_path, 1, events([1.0], [8], 8))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 9}', '{"format": 1, "x": 1}', "null"])
def test_what_is_no_recording_is_refused_with_words(text: str, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(UsageError, match=r"is no recording|another version"):
        load_index(tmp_path)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    folder = recording(tmp_path / "load", events([1], 0, 8))
    part = folder / "part-000001.npz"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(UsageError, match=r"part-000001\.npz cannot be read"):
        list(load_parts(folder, load_index(folder)))


def test_two_recordings_are_one_page_side_by_side(tmp_path: Path) -> None:
    chance = np.random.default_rng(6)
    folders = [
        recording(
            tmp_path / name,
            served(events(np.sort(chance.uniform(0, 9, 500)), chance.integers(0, 999, 500) * 8,
                          8, operation=operation), 0.001),
            lost=lost,
        )
        for name, operation, lost in (("monday", READ, 0), ("tuesday", WRITE, 5))
    ]  # fmt: skip
    assert all(map(REPORT.takes, folders))
    page = REPORT.written(folders, "html", tmp_path).text
    assert "monday and tuesday" in page
    assert "5 events were lost at 1 places" in page
    text = REPORT.written(folders, "md", tmp_path).text
    assert "| | monday | tuesday |" in text.replace("|  |", "| |")
    assert "| reads | 100.0% of the I/Os" in text
    told = json.loads(REPORT.written(folders, "json", tmp_path).text)
    assert [len(each["load"]["zones"][0]) for each in told["loads"]] == [256, 256]
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="is no recording, and others are"):
        REPORT.written([*folders, tmp_path / "other"], "html", tmp_path)


def test_a_recording_without_an_io_has_a_page(tmp_path: Path) -> None:
    folder = recording(tmp_path / "quiet")
    assert read([folder])[0].load.ios == 0
    assert "I/Os" in REPORT.written([folder], "html", tmp_path).text


def test_phases_are_in_the_page_where_there_are_several(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    one, two = (np.sort(chance.uniform(*span, count)) for span, count in (
        ((0, 60), 3000), ((60, 120), 12000),
    ))  # fmt: skip
    folder = tmp_path / "monday"
    folder.mkdir()
    part = save_part(folder, 1, served(events(np.concatenate([one, two]), 8, 8), 0.001))
    device = TracedDevice("sda", "8:0", SIZE)
    index = TraceFacts(
        "box", "6.1", 0.0, (device,), seconds=120.0, complete=True, parts=(part,)
    )  # fmt: skip
    save_index(folder, index)
    written = REPORT.written([folder], "md", tmp_path).text
    assert "| 0 s – 1m00s | 50.0 IOPS |\n| 1m00s – 2m00s | 200 IOPS |" in written
