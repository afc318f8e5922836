"""IOR and mdtest: what their outputs say, in every version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.ior import FORMAT as IOR
from iotrial.formats.ior import parse as parse_ior
from iotrial.formats.mdtest import FORMAT as MDTEST
from iotrial.formats.mdtest import parse as parse_mdtest
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording, RecordingFormat
from iotrial.plan.sense import known_metric
from iotrial_import.files import recognised
from iotrial_import.formats.io500 import FORMAT as IO500
from mutants import mutants

DATA = Path(__file__).parent.parent / "data"
RECORDED = [path for kind in ("ior", "mdtest") for path in sorted((DATA / kind).glob("[0-9]*.*"))]
MIB = 2.0**20


def format_of(path: Path) -> RecordingFormat:
    return {"ior": IOR, "mdtest": MDTEST}[path.parent.name]


def read(name: str) -> tuple[Recording, ...]:
    path = DATA / name
    return format_of(path).read(path.read_bytes(), name)


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_recording_is_recognised_and_read_with_known_metrics(path: Path) -> None:
    data, name = path.read_bytes(), path.parent.name
    assert format_of(path).recognises(data[: 2**16], path.name) >= 2
    assert [each.name for each in formats().values() if each.recognises(data, path.name) > 1] == [
        name
    ]
    for recording in format_of(path).read(data, "f"):
        assert recording.tool == recording.workload == name
        assert recording.measurements
        if path.suffix != ".csv":
            # The mdtest of IOR 3.2.1 says that it is 1.9.3.
            assert recording.version.startswith((path.name[:3], "1.9.3"))
        for each in recording.measurements:
            assert known_metric(each.metric), each
            assert (each.unit, each.raw) == (metric(each.metric).unit, "f")


def test_each_iteration_is_a_recording_in_base_units() -> None:
    first, second, third = read("ior/3.0.1.txt")
    assert values(first) == {
        "write.bw": 1507.05 * MIB, "write.seconds": 0.002654, "read.bw": 12268 * MIB,
        "read.seconds": 0.000326, "delete.seconds": 0.000253,
    }  # fmt: skip
    assert values(third)["write.bw"] == 1609.31 * MIB
    assert first.treatment == second.treatment
    assert {("api", "POSIX"), ("xfersize", "262144 bytes"), ("clients", "2 (2 per node)")} <= set(
        first.treatment
    )


def test_later_versions_have_iops_and_latency() -> None:
    first = values(read("ior/4.0.0.txt")[0])
    assert first["write.bw"] == 3487.26 * MIB
    assert (first["write.iops"], first["write.lat.mean"]) == (16226, 0.000234)


def test_json_and_csv_give_what_they_print() -> None:
    report = json.loads((DATA / "ior/4.0.0.json").read_text())
    rows = report["tests"][0]["Results"]
    rows = [each for part in rows for each in (part if isinstance(part, list) else [part])]
    writes = [each["bwMiB"] * MIB for each in rows if each["access"] == "write"]
    assert [values(each)["write.bw"] for each in read("ior/4.0.0.json")] == writes
    assert [values(each)["write.bw"] for each in read("ior/4.0.0.csv")] == [
        3230.7368 * MIB, 2522.1311 * MIB,
    ]  # fmt: skip


def test_a_summary_alone_gives_its_means_and_a_doubt() -> None:
    (found,) = read("ior/2.10.3.txt")
    assert values(found)["write.bw"] == 1310.64 * MIB
    assert "read.iops" not in values(found), "IOR 2 counts one of two segments"
    assert [doubt.check for doubt in found.doubts] == ["ior-means"]


def changed(name: str, old: str, new: str) -> bytes:
    text = (DATA / name).read_text()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("write     3487.26", "write     3587.26", "max is 3487.26 MiB/s"),
        ("write     3487.26", "write     3487.2x", "is not a number"),
        ("0.001147   0", "0.001147", "columns; a row of IOR has 9 or 11"),
        ("0.001241   1", "0.001241   2", "where 1 is due"),
        ("write        3487.26    3025.65    3245.40", "write 3487.26 3025.65 3345.40", "mean is"),
    ],
)
def test_rows_that_are_not_whole_or_do_not_agree_are_errors(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        IOR.read(changed("ior/4.0.0.txt", old, new), "f")


def test_a_run_that_did_not_end_keeps_its_iterations_and_a_doubt() -> None:
    text = (DATA / "ior/4.0.0.txt").read_text()
    last = text.rindex("\nread ", 0, text.index("Summary of all tests"))
    found = IOR.read(text[: last + 1].encode(), "f")
    assert len(found) == 3
    assert {doubt.check for each in found for doubt in each.doubts} == {"ior-unfinished"}


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("ior/4.0.0.txt", "Summary of all tests"),
        ("ior/4.0.0.txt", "Finished "),
        ("ior/3.3.0.txt", "Max Write"),
        ("ior/3.3.0.txt", "Summary of all tests"),
    ],
)
def test_a_run_with_all_its_rows_did_end_whatever_stands_below_them(name: str, end: str) -> None:
    text = (DATA / name).read_text()
    found = IOR.read(text[: text.index(end)].encode(), "f")
    assert len(found) == 3
    assert [each.doubts for each in found] == [()] * 3


def test_a_run_that_was_to_write_only_needs_no_reads() -> None:
    text = (DATA / "ior/4.0.0.txt").read_text()
    rows = [line for line in text[: text.index("Summary of all tests")].splitlines(keepends=True)
            if not line.startswith("read ")]  # fmt: skip
    both = IOR.read("".join(rows).encode(), "f")
    assert {doubt.check for each in both for doubt in each.doubts} == {"ior-unfinished"}
    alone = IOR.read("".join(rows).replace(" -w -r ", " -w ").encode(), "f")
    assert [each.doubts for each in alone] == [()] * 3


def test_mdtest_counts_files_directories_and_trees_apart() -> None:
    (found,) = read("mdtest/1.9.4.txt")
    told = values(found)
    assert told["create.rate"] == 2335.726
    assert told["create.dir.rate"] == 5400.884
    assert told["delete.dir.rate"] == 210.763
    assert told["stat.rate"] == 414889.307
    assert told["delete.tree.rate"] == 449.913
    assert told["create.rate.sd"] == 321.618
    assert [doubt.check for doubt in found.doubts] == ["mdtest-means"]
    assert {("tasks", "2"), ("items", "100"), ("n", "50"), ("i", "3")} <= set(found.treatment)


def test_phases_that_were_not_asked_for_are_left_out() -> None:
    told = values(read("mdtest/3.3.0.F.txt")[0])
    assert "create.rate" in told
    assert not any(".dir." in name for name in told)
    assert all(value > 0 for value in told.values())


def test_renames_of_later_versions_are_read() -> None:
    assert values(read("mdtest/4.0.0.txt")[0])["rename.dir.rate"] == 4373.647


def test_a_mean_that_lies_outside_is_an_error() -> None:
    hurt = changed("mdtest/4.0.0.txt", "332.844", "532.844")
    with pytest.raises(FormatError, match=r"a mean of 532\.844 between"):
        MDTEST.read(hurt, "f")


def test_a_table_of_times_is_not_one_of_rates() -> None:
    text = (DATA / "mdtest/3.3.0.F.txt").read_text()
    table = text[text.index("SUMMARY rate") : text.index("-- finished")]
    times = table.replace("SUMMARY rate", "SUMMARY time").replace(".", "9.")
    (found,) = MDTEST.read((text + times).encode(), "f")
    assert values(found) == values(read("mdtest/3.3.0.F.txt")[0])


def test_digits_without_end_are_read_in_no_time() -> None:
    text = (DATA / "mdtest/4.0.0.F.txt").read_text()
    long = text.replace("Nodemap: 11", "Nodemap: " + "1" * 300_000)
    assert values(MDTEST.read(long.encode(), "f")[0]) == values(MDTEST.read(text.encode(), "f")[0])


ONCE = ("seconds", "iops", "lat.mean")
"""What stands in a row once, and is not what a run is compared by."""


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants([path.read_bytes() for path in RECORDED]))
def test_a_damaged_file_is_an_error_or_gives_the_right_numbers(case: tuple[bytes, bytes]) -> None:
    whole, hurt = case
    reader = IOR if b"IOR-" in whole or b"bw(MiB/s)" in whole or b"bwMiB" in whole else MDTEST
    right: dict[str, list[float]] = {}
    said: set[str] = set()
    for recording in reader.read(whole, "f"):
        said |= {doubt.check for doubt in recording.doubts}
        for each in recording.measurements:
            right.setdefault(each.metric, []).append(each.value)
    try:
        found = reader.read(hurt, "f")
    except FormatError:
        return
    several = len(right) > 1 and reader is MDTEST and "mdtest-means" in said
    for recording in found:
        if {doubt.check for doubt in recording.doubts} - said:
            continue
        for each in recording.measurements:
            if any(word in each.metric for word in ONCE):
                continue
            close = [each.value == pytest.approx(v, rel=2e-3) for v in right.get(each.metric, [])]
            # A mean of several iterations may lie anywhere between their minimum and maximum.
            assert any(close) or several, (each, right)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"tests": 3}', b"\0", b"write 1 2 3", b"SUMMARY:"])
def test_what_is_no_result_is_an_error(data: bytes) -> None:
    for reader in (IOR, MDTEST):
        with pytest.raises(FormatError, match=r"^f"):
            reader.read(data, "f")


def test_a_trial_is_one_iteration() -> None:
    data = (DATA / "ior/4.1dev.one.txt").read_bytes()
    assert {each.raw for each in parse_ior(data, "f").measurements} == {"f"}
    with pytest.raises(FormatError, match="3 iterations"):
        parse_ior((DATA / "ior/3.0.1.txt").read_bytes(), "f")
    assert parse_mdtest((DATA / "mdtest/4.0.0.F.txt").read_bytes(), "f").measurements


# --- IO500 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        (
            "2018.txt",
            {
                "ior-easy-write": ("write.bw", 2.112 * 2**30, 312.4),
                "ior-hard-write": ("write.bw", 0.25 * 2**30, 305.1),
                "mdtest-easy-write": ("create.rate", 10_500, 301.2),
                "find": ("find.rate", 820_000, 12.3),
            },
        ),
        (
            "2023.txt",
            {
                "ior-easy-write": ("write.bw", 2.5 * 2**30, 300.125),
                "mdtest-easy-write": ("create.rate", 12_250, 300.5),
                "ior-hard-write": ("write.bw", 0.125 * 2**30, 120.25),
                "find": ("find.rate", 640_500, 9.75),
                "mdtest-easy-stat": ("stat.rate", 30_750, 122),
                "mdtest-easy-delete": ("delete.rate", 9_500, 395),
            },
        ),
    ],
)
def test_each_phase_of_io500_is_a_run(
    file: str, wanted: dict[str, tuple[str, float, float]]
) -> None:
    found = IO500.read((DATA / "io500" / file).read_bytes(), file)
    assert {
        run.workload: (m.metric, pytest.approx(m.value), s.value)
        for run in found
        for m, s in [run.measurements]
    } == wanted
    doubted = [run.workload for run in found if run.doubts]
    assert doubted == (["ior-hard-write"] if file == "2023.txt" else [])


def test_two_lines_of_io500_are_two_results_and_no_table() -> None:
    data = b"".join((DATA / "io500" / "2018.txt").read_bytes().splitlines(keepends=True)[:2])
    assert recognised(data, "list.txt").name == "io500"
    assert [run.line for run in IO500.read(data, "list.txt")] == [1, 2]
    with pytest.raises(FormatError):
        formats()["table"].read(data, "list.txt")


def test_a_broken_line_of_io500_is_an_error_with_its_number() -> None:
    with pytest.raises(FormatError, match="line 2"):
        IO500.read(b"[RESULT] aa 1 GiB/s : time 2 seconds\n[RESULT] bb 1 GiB/s : time\n", "f")
