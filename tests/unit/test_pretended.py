"""Results of ``--pretend`` say so in every shape, and nobody can take them for real ones."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from openpyxl import load_workbook
from pyarrow import parquet

from iotrial.cli.main import status
from iotrial.cli.plan import NoiseSearch, chosen
from iotrial.errors import UsageError
from iotrial.files import read_object
from iotrial.live.picture import LiveDocument
from iotrial.report.words import PRETENDED
from iotrial.store import check, open_results, studies_in

STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 32, ioengine = "libaio", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
blocks = 3
settle = "0s"
"""

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of --pretend (``r``), and the same as of a version that did not note
    it (``old``), which count as real."""
    folder = tmp_path_factory.mktemp("pretended")
    (folder / "study.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("IOTRIAL_STATE", str(folder / "state"))
        assert status(["run", "study.toml", "--pretend", "--out", "r", "-q"]) == 0
    shutil.copytree(folder / "r", folder / "old")
    plan = folder / "old" / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"pretended":true,', "", 1))
    return folder


@pytest.fixture
def here(both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to work in."""
    for name in ("r", "old"):
        shutil.copytree(both / name, tmp_path / name)
    shutil.copy(both / "study.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = status([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def exported(kind: str, folder: str = "r") -> bytes:
    assert status(["report", folder, "--as", kind, "--out", f"here.{kind}", "-q"]) == 0
    return Path(f"here.{kind}").read_bytes()


def test_the_plan_notes_it_and_results_know_it(here: Path) -> None:
    head = json.loads((here / "r" / "plan.jsonl").read_text().splitlines()[0])
    assert head["pretended"] is True
    assert open_results(here / "r").pretended
    assert open_results(here / "r").study.pretended


def test_a_folder_without_the_note_is_real(here: Path) -> None:
    assert "pretended" not in (here / "old" / "plan.jsonl").read_text()
    assert not open_results(here / "old").pretended


@pytest.mark.parametrize("kind", ["html", "md", "junit"])
def test_a_page_begins_with_it(kind: str, here: Path) -> None:
    assert here
    assert PRETENDED in exported(kind).decode()
    assert PRETENDED not in exported(kind, "old").decode()


def test_the_text_begins_with_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here
    status(["compare", "r"])
    assert capsys.readouterr().out.startswith(PRETENDED)
    status(["compare", "old"])
    assert "retended" not in capsys.readouterr().out
    status(["status", "r"])
    assert capsys.readouterr().out.startswith(PRETENDED)


@pytest.mark.parametrize("verb", [["compare"], ["status"], ["report", "--as", "json"]])
def test_json_has_a_key_for_it(
    verb: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here
    for folder, wanted in (("r", True), ("old", False)):
        if "--as" in verb:
            told = json.loads(exported("json", folder))
        else:
            _, told = run(capsys, *verb, folder)
        assert told["pretended"] is wanted
    assert read_object(here / "r" / "findings.json")["pretended"] is True


def test_the_workbook_says_it_on_every_sheet(here: Path) -> None:
    assert here
    book = load_workbook(io.BytesIO(exported("xlsx")))
    assert book["Answer"]["A1"].value == PRETENDED
    first, last = book.sheetnames[1], book.sheetnames[-1]
    assert book[first]["A1"].value.startswith("Pretended: ")
    heads = [cell.value for cell in book[last][1]]
    assert book[last].cell(2, heads.index("pretended") + 1).value == "yes"
    real = load_workbook(io.BytesIO(exported("xlsx", "old")))
    assert not [c for sheet in real for row in sheet.values for c in row if "retended" in str(c)]


def test_tables_have_a_column_that_those_of_real_results_lack(here: Path) -> None:
    assert here
    lines = exported("csv").decode().splitlines()
    assert lines[0].endswith(",pretended")
    assert all(line.endswith(",yes") for line in lines[1:])
    assert "pretended" not in exported("csv", "old").decode()
    table = parquet.read_table(io.BytesIO(exported("parquet")))
    assert set(table.column("pretended").to_pylist()) == {True}
    assert table.schema.metadata[b"iotrial.pretended"] == b"yes"
    assert (
        "pretended" not in parquet.read_table(io.BytesIO(exported("parquet", "old"))).schema.names
    )


@pytest.mark.parametrize("kind", ["html", "md", "json"])
def test_a_report_of_several_folders_names_those_that_are_pretended(kind: str, here: Path) -> None:
    assert here
    assert status(["report", "r", "old", "--as", kind, "--out", f"both.{kind}", "-q"]) == 0
    text = Path(f"both.{kind}").read_text()
    assert PRETENDED in text.replace("\\(", "(").replace("\\)", ")")
    assert "This is so of r." in text


def test_the_live_page_and_what_follows_it_say_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_object(here / "r" / "live.json")["pretended"] is True
    assert LiveDocument(open_results(here / "old").study).document(0.0)["pretended"] is False
    status(["status", "r", "--follow", "--json"])
    assert '"pretended": true' in capsys.readouterr().out


@pytest.mark.parametrize("pair", [("r", "old"), ("old", "r")])
def test_pretended_results_are_not_compared_with_real_ones(
    pair: tuple[str, str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here
    code, told = run(capsys, "compare", *pair)
    assert code == 2
    assert "r holds pretended results and old measured ones" in told["error"]["message"]
    run(capsys, "run", "study.toml", "--pretend", "--out", "again")
    assert run(capsys, "compare", "r", "again")[0] == 0


@pytest.mark.parametrize("words", [[], ["apply", "--pretend"], ["--finding", "scheduler=bfq"]])
def test_pretended_results_are_never_kept(
    words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here
    code, told = run(capsys, "keep", "r", *words)
    assert code == 3
    assert "pretended" in told["error"]["message"]
    assert "without --pretend" in told["error"]["advice"]
    assert run(capsys, "keep", "old", "--finding", "scheduler=bfq")[0] == 0
    assert "iotrial keep" not in exported("md").decode()


def test_a_folder_is_resumed_only_as_it_began(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run(capsys, "run", "study.toml", "--pretend", "--out", "old")
    assert code == 2
    assert "old holds real results, but this run is pretended" in told["error"]["message"]
    code, told = run(capsys, "run", "study.toml", "--out", "r")
    assert code == 2
    assert "r holds pretended results, but this run is real" in told["error"]["message"]
    real = open_results(here / "old").study
    with pytest.raises(UsageError, match="pretended"):
        check(here / "r", real)


def test_an_unfinished_folder_of_the_other_kind_is_not_found(here: Path) -> None:
    digest = open_results(here / "r").study.digest
    assert studies_in(here, digest) == [here / "old"]
    assert studies_in(here, digest, pretended=True) == [here / "r"]


def test_what_a_pretended_tool_said_is_not_imported(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sorted((here / "r" / "trials").glob("*/fio.json"))
    code, told = run(capsys, "import", *map(str, found), "--out", "imported")
    assert code == 2
    assert "never measured" in told["error"]["message"]
    found = sorted((here / "old" / "trials").glob("*/fio.json"))
    assert run(capsys, "import", *map(str, found), "--out", "imported")[0] == 0


def test_to_go_on_is_said_with_the_option(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(max((here / "r" / "trials").iterdir()))
    (here / "r" / "measurements.jsonl").unlink()
    assert status(["status", "r"]) == 0
    assert "iotrial run r/study.toml --out r --pretend" in capsys.readouterr().out


def test_a_job_file_of_a_pretended_search_says_so(here: Path) -> None:
    words = ["saturate", "loop", "--size", "64MiB", "--engine", "libaio", "--pretend", "-q"]
    assert status([*words, "--out", "s"]) == 0
    assert PRETENDED in (here / "s" / "ceiling.fio").read_text()


def test_a_real_plan_takes_no_noise_from_pretended_results(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here
    for option in ("--noise", "--pilot"):
        assert run(capsys, "plan", "study.toml", "--pretend", option, "r")[0] == 0
    with pytest.raises(click.BadParameter, match="pretended"):
        chosen(open_results(here / "old").study, "r", None, NoiseSearch(here, "fake"))
