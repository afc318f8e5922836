"""Wide tables: a column for each level of a factor."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.cli.main import status
from iotrial.errors import FormatError, UsageError
from iotrial.model.recording import Recording
from iotrial_import.formats.table import FORMAT
from iotrial_import.formats.table_columns import columns_from, to_toml
from iotrial_import.legend import parse

WIDE = (
    "threads,record,noop,cfq,deadline,anticipatory\n"
    "1,4,100.5,98.2,101.3,80.1\n"
    "1,64,220.1,210.5,222.7,190.3\n"
    "8,4,150.9,140.2,152.8,n/a\n"
)
MAP = '[pivot]\nfactor = "{}"\ncolumns = {}\nmetric = "bw"\nunit = "MiB/s"\n'


def read(text: str, said: str = "") -> tuple[Recording, ...]:
    columns = parse(said, "m.toml").columns if said else None
    return FORMAT.read(text.encode(), "t", columns)


def cells(found: tuple[Recording, ...]) -> list[tuple[dict[str, str], str, float]]:
    return [(dict(each.treatment), m.metric, m.value) for each in found for m in each.measurements]


def test_columns_called_like_levels_are_levels() -> None:
    found = read(WIDE)
    assert FORMAT.recognises(WIDE.encode(), "t") == 1
    assert len(found) == 11, "one is n/a"
    assert cells(found)[1] == (
        {"threads": "1", "record": "4", "scheduler": "cfq"}, "total.value", 98.2,
    )  # fmt: skip
    assert [each.line for each in found[:5]] == [2, 2, 2, 2, 3]
    (doubt,) = found[0].doubts
    assert doubt.check == "pivot"
    assert "noop, cfq, deadline, anticipatory" in doubt.what


@pytest.mark.parametrize(
    ("header", "factor", "metric", "value"),
    [
        ("Test (KB/s),noop,cfq", "scheduler", "read.bw", 412e3 * 1000),
        ('op,"noop, MB/s",cfq (MB/s)', "scheduler", "read.bw", 412e9),
        ("op (us),ext4,xfs", "filesystem", "read.lat.mean", 0.412),
        ("op IOPS,4k,64k", "size", "read.iops", 412e3),
        ("op,none IOPS,mq-deadline IOPS", "scheduler", "read.iops", 412e3),
    ],
)
def test_a_unit_in_the_header_says_what_it_is(
    header: str, factor: str, metric: str, value: float
) -> None:
    found = read(f'{header}\nread,"412,000","398,500"\nwrite,"310,000","300,120"\n')
    assert [set(dict(each.treatment)) for each in found] == [{factor}] * 4
    assert [each.workload for each in found] == ["read", "read", "write", "write"]
    assert cells(found)[0][1:] == (metric, pytest.approx(value))
    assert [each.doubts for each in found] == [()] * 4


def test_a_map_says_which_columns_and_what_they_are() -> None:
    text = "op,before,after,cpu %\nread,100,120,5\nwrite,80,70,6\n"
    with pytest.raises(FormatError, match="no column is a measurement"):
        read("op,before,after\nread,100,120\n")
    found = read(text, MAP.format("patch", '["before", "after"]'))
    assert cells(found) == [
        ({"patch": "before"}, "read.bw", 100 * 2.0**20),
        ({"patch": "after"}, "read.bw", 120 * 2.0**20),
        ({"patch": "before"}, "write.bw", 80 * 2.0**20),
        ({"patch": "after"}, "write.bw", 70 * 2.0**20),
    ]
    assert read(text, MAP.format("patch", '["before", "after"]') + '[columns]\nop = "factor"\n')[
        0
    ].treatment == (("op", "read"), ("patch", "before"))


def test_a_table_with_measurements_of_its_own_is_not_wide() -> None:
    text = "cfq,deadline,read MB/s\n1,2,3\n2,3,4\n"
    assert [m for _, m, _ in cells(read(text))] == ["read.bw", "read.bw"]
    said = '[columns]\nnoop = { metric = "bw", unit = "MB/s" }\n'
    assert {m for _, m, _ in cells(read(WIDE, said))} == {"total.bw"}
    assert len(read(WIDE, said)) == 3


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (MAP.format("s", '["noop", "cfg"]'), "no column 'cfg'"),
        (MAP.format("record", '["noop", "cfq"]'), "a column 'record' already"),
        (MAP.format("s", '["noop"]'), "no two columns"),
        (MAP.format("", '["noop", "cfq"]'), "no factor"),
        (MAP.format("s", '["noop", "cfq"]') + "of = 1\n", "unknown key 'of'"),
        (MAP.format("s", '["noop", "cfq"]').replace('"bw"', '"bandwith"'), "bandwith"),
        (MAP.format("s", '["noop", "cfq"]').replace("MiB/s", "ms"), "bw is in bytes/s"),
    ],
)
def test_a_pivot_that_cannot_be_meant_is_refused(said: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read(WIDE, said)


def test_an_error_names_the_column_of_the_file() -> None:
    said = MAP.format("s", '["noop", "cfq"]')
    with pytest.raises(FormatError, match="line 3, column cfq: '2x' is not a number"):
        read("threads,noop,cfq\n1,1,2\n2,3,2x\n", said)


LEVEL = st.text("abcXYZ0 .,()/%-", min_size=1, max_size=8).map(lambda t: f"L{t.strip()}")


@given(
    levels=st.lists(LEVEL, min_size=2, max_size=5, unique=True),
    unit=st.sampled_from(["MiB/s", "KB/s"]),
)
def test_what_was_said_can_be_written_down_and_read_again(levels: list[str], unit: str) -> None:
    quoted = ",".join(f'"{each}"' for each in levels)
    rows = "\n".join(f"{n},{','.join(str(n + at) for at in range(len(levels)))}" for n in (1, 2))
    text = f"threads,{quoted}\n{rows}\n"
    said = MAP.format("scheduler", json.dumps(levels)).replace("MiB/s", unit)
    columns = columns_from(tomllib.loads(said))
    (told,) = FORMAT.columns(text.encode(), "t", columns)
    again = parse(to_toml(told), "m.toml").columns
    assert FORMAT.read(text.encode(), "t", again) == FORMAT.read(text.encode(), "t", columns)
    assert len(FORMAT.read(text.encode(), "t", columns)) == 2 * len(levels)


def test_the_printed_map_reads_it_alike_and_compare_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(WIDE)
    assert status(["import", "t.csv", "--print-map"]) == 0
    printed = capsys.readouterr().out
    assert 'columns = ["noop", "cfq", "deadline", "anticipatory"]' in printed
    Path("m.toml").write_text(printed.replace('metric = "value"', 'metric = "bw"\nunit = "MB/s"'))
    assert status(["import", "t.csv", "--map", "m.toml", "--out", "r"]) == 0
    capsys.readouterr()
    assert status(["compare", "r", "--json"]) == 0
    assert "scheduler" in capsys.readouterr().out


def test_quoted_thousands_and_the_decimal_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text('scheduler,read MB/s\nnoop,"412,000"\ncfq,"398,500"\n')
    for mark, value in (("", 412e9), (",", 412e6), (".", 412e9)):
        option = ["--decimal", mark] if mark else []
        out = f"r{len(mark)}{mark == ','}"
        assert status(["import", "t.csv", *option, "--out", out, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["measurements"][0]["value"] == pytest.approx(value)
    Path("m.toml").write_text('decimal = ","\n')
    arguments = ["import", "t.csv", "--map", "m.toml", "--decimal", ".", "--out", "o", "--json"]
    assert status(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["measurements"][0]["value"] == pytest.approx(412e9), "the option counts"
