"""pgbench's result and log, as PostgreSQL 15 wrote them; and what cannot be asked of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iotrial.errors import FormatError, UsageError
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.pgbench import TOOL

DATA = Path(__file__).parents[1] / "data" / "pgbench"
HERE = ToolTarget("/mnt/db", "directory")


def load(**options: OptionValue) -> Workload:
    named = {name.replace("pg_", "pg.", 1): value for name, value in options.items()}
    return Workload("bank", "pgbench", tuple(named.items()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in DATA.iterdir():
        shutil.copy(each, tmp_path)
    return tmp_path


def numbers(folder: Path) -> dict[str, float]:
    return {each.metric: each.value for each in TOOL.parse(folder).measurements}


def test_the_rate_is_pgbench_s_and_the_latencies_are_those_of_its_log(folder: Path) -> None:
    found = numbers(folder)
    took = sorted(
        int(line.split()[2]) for line in (folder / "transactions.6088").read_text().splitlines()
    )
    assert found["transaction.rate"] == pytest.approx(1469.337174)
    assert found["transaction.lat.mean"] == pytest.approx(sum(took) / len(took) / 1e6)
    assert found["transaction.lat.max"] == took[-1] / 1e6
    assert found["transaction.lat.p50"] == took[-(-len(took) // 2) - 1] / 1e6
    assert "transaction.lat.p99.9" not in found  # fewer than ten are beyond it


def test_a_second_log_is_another_thread_s_and_scripts_are_sections(folder: Path) -> None:
    text = (folder / "stdout").read_text()
    text += (
        "SQL script 1: <builtin: select only>\n - weight: 1\nSQL script 2: <builtin: TPC-B (sort"
        " of)>\n - weight: 3\n"
    )
    (folder / "stdout").write_text(text)
    log = folder / "transactions.6088"
    log.write_text("0 1 100 0 1795876433 1\n0 2 300 1 1795876433 2\n0 3 500 1 1795876433 3\n")
    (folder / "transactions.6088.1").write_text("1 1 700 1 1795876433 4\n")
    found = numbers(folder)
    assert found["transaction.lat.mean"] == pytest.approx(400e-6)
    assert found["transaction.lat.mean[select-only]"] == pytest.approx(100e-6)
    assert found["transaction.lat.mean[tpcb-like]"] == pytest.approx(500e-6)
    assert found["transaction.rate[tpcb-like]"] == pytest.approx(1469.337174 * 3 / 4)


def test_skipped_transactions_took_no_time_and_failed_ones_are_a_doubt(folder: Path) -> None:
    text = (
        (folder / "stdout").read_text().replace("failed transactions: 0", "failed transactions: 7")
    )
    (folder / "stdout").write_text(text)
    log = "0 1 100 0 1795876433 1\n0 2 skipped 0 1795876433 2\n0 3 failed 0 1795876433 3\n"
    (folder / "transactions.6088").write_text(log)
    parsed = TOOL.parse(folder)
    assert {e.metric: e.value for e in parsed.measurements}["transaction.lat.mean"] == 100e-6
    assert [doubt.what for doubt in parsed.doubts] == ["7 transactions failed"]


def test_what_is_no_result_is_an_error_with_its_place(folder: Path) -> None:
    (folder / "transactions.6088").write_text("0 1 x 0 1\n")
    with pytest.raises(FormatError, match=r"transactions\.6088: no log"):
        TOOL.parse(folder)
    (folder / "transactions.6088").write_text("")
    with pytest.raises(FormatError, match="no transaction"):
        TOOL.parse(folder)
    (folder / "stdout").write_text("pgbench: error\n")
    with pytest.raises(FormatError, match="no result"):
        TOOL.parse(folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scale": 0}, "whole number from 1"),
        ({"clients": True}, "whole number from 1"),
        ({"rate": -1}, "whole number from 0"),
        ({"time": "0.2s"}, "a second or more"),
        ({"script": "tpc-c"}, "is none of"),
        ({"script": "select-only,select-only"}, "named twice"),
        ({"pg_port": 5432}, "iotrial says where"),
        ({"pg_log_line_prefix": "a\nb"}, "one line"),
        ({"jobs": 2}, "no such option"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, OptionValue], said: str) -> None:
    ((_, what),) = TOOL.check(load(**options), {})
    assert said in what
    with pytest.raises(UsageError):
        TOOL.command(load(**options), HERE, {})


def test_settings_are_words_of_the_command_whatever_they_contain() -> None:
    odd = "'; rm -rf / #"
    argv = TOOL.command(load(pg_archive_command=odd, pg_fsync=False, time="3s"), HERE, {}).argv
    assert argv[2:] == (
        "/mnt/db/iotrial-pgbench/data", "10", "4", "1", "3", "0", "tpcb-like@1",
        f"archive_command={odd}", "fsync=false",
    )  # fmt: skip


def test_it_works_in_a_directory_and_takes_a_server_that_has_abstract_sockets() -> None:
    with pytest.raises(UsageError, match="works in a directory"):
        TOOL.command(load(), ToolTarget("/dev/sda", "device"), {})
    assert TOOL.version_problem("pgbench (PostgreSQL) 13.4") != ""
    assert TOOL.version_problem("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)") == ""
    assert "not a version" in TOOL.version_problem("hello")
