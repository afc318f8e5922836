"""What the names of files and folders tell of runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording
from iotrial_import.cells import ImportCells, cells
from iotrial_import.legend import ImportMap, OriginalFile, parse


def gathered(
    files: Sequence[str], legend: ImportMap | None = None, **known: Sequence[str]
) -> ImportCells:
    """Runs of these files, each with a number of its own; ``known`` is what they say themselves."""
    originals = [
        OriginalFile(
            file,
            "f",
            (
                Recording(
                    "fio",
                    "read",
                    (Measurement("read.iops", 100.0 + at, "1/s"),),
                    treatment=tuple((name, each[at]) for name, each in known.items() if each[at]),
                ),
            ),
        )
        for at, file in enumerate(files)
    ]
    return cells(originals, legend or ImportMap())


def factors(files: Sequence[str], **known: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return dict(gathered(files, **known).factors)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["qd1-run1", "qd1-run2", "qd2-run1", "qd2-run2"], {"file": ("qd1", "qd2")}),
        (["none.RUN1.txt", "none.RUN2.txt", "bfq.RUN1.txt"], {"file": ("none", "bfq")}),
        (["run1/none", "run2/none", "run1/bfq", "run2/bfq"], {"file": ("none", "bfq")}),
        (["none (1)", "none (2)", "bfq (1)", "bfq (2)"], {"file": ("none", "bfq")}),
        (["none-1", "none-2", "none-3", "none-4"], {}),
        (["none-rep-07", "none-rep-09", "bfq-rep-07"], {"file": ("none", "bfq")}),
        (["a/x.json", "a/y.json", "b/x.json", "b/y.json"], {"folder": ("a", "b"),
                                                          "file": ("x", "y")}),
        (["a/out.json", "b/out.json", "c/out.json"], {"folder": ("a", "b", "c")}),
        (["qd1-bs4k", "qd8-bs4k", "qd1-bs8k", "qd8-bs8k"], {"file": ("qd1", "qd8"),
                                                           "file2": ("bs4k", "bs8k")}),
        (["cfq", "mq-deadline", "none"], {"file": ("cfq", "mq-deadline", "none")}),
        (["ext4_1.iozone", "ext4_2.iozone", "xfs1.iozone", "xfs2.iozone"],
         {"file": ("ext4", "xfs")}),
        (["read_ext4_1", "read_ext4_2", "read_xfs1", "read_xfs2", "write_ext4_1", "write_ext4_2",
          "write_xfs1", "write_xfs2"], {"file": ("read", "write"), "file2": ("ext4", "xfs")}),
        (["ext4_0", "ext4_1", "ext4_2", "xfs0", "xfs1"], {"file": ("ext4", "xfs")}),
        (["r0", "r1", "r5", "r10"], {"file": ("r0", "r1", "r5", "r10")}),
        (["cfq-r1", "cfq-r2", "bfq-r1", "bfq-r2"], {"file": ("cfq", "bfq")}),
        (["numjobs-1", "numjobs-2", "numjobs-3"], {"file": ("1", "2", "3")}),
        (["b/day1/x", "b/day2/x", "a/day1/x", "a/day2/x"], {"folder": ("b", "a")}),
        (["after/x", "before/x", "after/y", "before/y"], {"folder": ("before", "after"),
                                                          "file": ("x", "y")}),
        (["raid0", "raid1", "ext4_1"], {"file": ("raid0", "raid1", "ext4-1")}),
        (["old-cfq-10G", "old-mq-deadline-10G"], {"file": ("cfq", "mq-deadline")}),
    ],
)  # fmt: skip
def test_words_that_differ_are_factors_and_those_that_count_are_repeats(
    files: list[str], wanted: dict[str, tuple[str, ...]]
) -> None:
    found = gathered(files)
    assert dict(found.factors) == wanted
    assert len(found.runs) == len(files)
    cells = {(run.treatment, run.block) for run in found.runs}
    assert len(cells) == len(files), "runs that differ in nothing else are repeats"


def test_words_that_follow_from_what_a_run_says_are_no_factor() -> None:
    """bench-fio's names: workload, depth, jobs."""
    files = [f"{disk}/randread-{depth}-1.json" for disk in "ab" for depth in (1, 2)]
    found = factors(files, iodepth=["1", "2", "1", "2"])
    assert found == {"iodepth": ("1", "2"), "folder": ("a", "b")}
    assert factors(files[:2], iodepth=["1", "2"]) == {"iodepth": ("1", "2")}


def test_labels_of_a_person_replace_the_words_of_files() -> None:
    legend = parse('[labels]\nfile = ["x", "y"]\n', "map.toml")
    assert dict(gathered(["a", "b"], legend).factors) == {"file": ("x", "y")}
    other = parse('[labels]\ndisk = ["x", "y"]\n', "map.toml")
    assert dict(gathered(["a", "b"], other).factors) == {"disk": ("x", "y")}


def test_a_pattern_may_name_repeats_and_pass_over_the_rest() -> None:
    legend = parse('files = "*/{scheduler}-run{repeat}-*.json"\n', "map.toml")
    files = [f"d{n}/{s}-run{n}-at{n}{s}.json" for s in ("none", "bfq") for n in (1, 2)]
    found = gathered(files, legend)
    assert dict(found.factors) == {"scheduler": ("none", "bfq")}
    assert [run.block for run in found.runs] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["01", "1", "2", "002"], ("01", "2")),
        (["4k", "4K", "4096", "8k"], ("4k", "8k")),
        (["true", "1", "0", "off"], ("0", "true")),
        (["none", "None", "bfq", "BFQ"], ("none", "bfq")),
    ],
)
def test_labels_that_mean_the_same_are_one_level(labels: list[str], wanted: tuple[str]) -> None:
    found = gathered(["a-1", "a-2", "a-3", "a-4"], level=labels)
    assert dict(found.factors) == {"level": wanted}


LEVELS = st.lists(st.sampled_from(["none", "bfq", "kyber", "x86", "2.6.18"]), min_size=2,
                  max_size=4, unique=True)  # fmt: skip


@settings(max_examples=200)
@given(
    levels=LEVELS,
    repeats=st.integers(1, 3),
    style=st.sampled_from(["{level}-run{n}", "run{n}/{level}", "{level} ({n})", "{level}.{n}"]),
    devices=st.integers(1, 3),
)
def test_more_repeats_or_another_device_take_no_factor_away(
    levels: list[str], repeats: int, style: str, devices: int
) -> None:
    def made(repeats: int, devices: int) -> list[str]:
        return [
            f"disk{chr(97 + device)}/{style.format(level=level, n=n)}"
            for device in range(devices)
            for level in levels
            for n in range(1, repeats + 1)
        ]

    few = factors(made(repeats, devices))
    assert len(few) == 1 + (devices > 1)
    more = factors(made(repeats + 1, devices))
    other = factors(made(repeats, devices + 1))
    assert set(few) <= set(more)
    assert set(few) <= set(other)
    assert [len(more[name]) for name in few] == [len(each) for each in few.values()]
    assert all(len(other[name]) >= len(each) for name, each in few.items())


LABELS = (
    *("seq", "rand", "read", "write", "cfq", "noop", "mq-deadline", "ext4", "xfs", "qd8", "qd32"),
    *("64k", "raid-10-far", "4", "16"),
)
AXES = st.lists(
    st.lists(st.sampled_from(LABELS), min_size=2, max_size=3, unique=True), min_size=1, max_size=3
).filter(lambda axes: len({label for axis in axes for label in axis}) == sum(map(len, axes)))


@settings(max_examples=400)
@given(
    axes=AXES,
    between=st.sampled_from(["-", "_", ".", "/"]),
    repeats=st.integers(1, 3),
    counter=st.sampled_from(["-run{}", "_{}", ".r{}", " ({})", "-rep-0{}"]),
    around=st.sampled_from(["{}", "old-{}", "{}-10G.json", "a/{}.txt"]),
)
def test_a_full_crossing_of_words_is_those_factors_and_nothing_is_confounded(
    axes: list[list[str]], between: str, repeats: int, counter: str, around: str
) -> None:
    files = [
        around.format(between.join(cell) + (counter.format(n) if repeats > 1 else ""))
        for cell in product(*axes)
        for n in range(1, repeats + 1)
    ]
    found = gathered(files)
    assert found.doubts == ()
    assert sorted(sorted(labels) for _, labels in found.factors) == sorted(map(sorted, axes))
    assert len({(run.treatment, run.block) for run in found.runs}) == len(files)


def test_a_word_for_the_operation_that_no_run_says_is_a_factor() -> None:
    """Sequential and random ones are no repeats of each other."""
    files = [f"{access}-read-{scheduler}.json" for access in ("seq", "rand") for scheduler in "ab"]
    assert factors(files) == {"file": ("seq", "rand"), "file2": ("a", "b")}
    said = {"rw": ["read", "read", "randread", "randread"]}
    assert factors(files, **said) == {"rw": ("read", "randread"), "file": ("a", "b")}
