"""A results folder of somebody else: what has a name of ours in it need not be a file of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import foreign
from iotrial import files
from iotrial.cli.main import status
from iotrial.errors import FormatError
from iotrial.live.file import LiveFile

pytestmark = pytest.mark.usefixtures("state")

STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
blocks = 2
settle = "0s"
"""
PRECIOUS = "SECRET-a1b2c3\n"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("real")
    (here / "study.toml").write_text(STUDY)
    assert (
        status(["run", str(here / "study.toml"), "--pretend", "-q", "--out", str(here / "r")]) == 0
    )
    return here / "r"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    return path


def link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def dangling(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("made"))


def device(path: Path, precious: Path) -> None:
    del precious
    path.symlink_to("/dev/zero")


def folder(path: Path, precious: Path) -> None:
    del precious
    path.mkdir()


def fifo(path: Path, precious: Path) -> None:
    del precious
    os.mkfifo(path)


KINDS = (link, dangling, device, folder, fifo)
Kind = Callable[[Path, Path], None]
WRITTEN = {
    "report.html": ["report"],
    "report.md": ["report", "--as", "md"],
    "report.json": ["report", "--as", "json"],
    "report.csv": ["report", "--as", "csv"],
    "report.parquet": ["report", "--as", "parquet"],
    "report.xlsx": ["report", "--as", "xlsx"],
    "report.xml": ["report", "--as", "junit"],
    "together.html": ["report", "{other}"],
    "together.md": ["report", "{other}", "--as", "md"],
    "together.json": ["report", "{other}", "--as", "json"],
    "findings.json": ["run"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_replaces_the_name_and_follows_nothing(
    name: str, kind: Kind, real: Path, tmp_path: Path, precious: Path
) -> None:
    there = foreign.like(real, tmp_path / "r")
    (there / name).unlink(missing_ok=True)
    kind(there / name, precious)
    verb, *rest = [each.format(other=real) for each in WRITTEN[name]]
    if verb == "run":
        argv = ["run", str(there / "study.toml"), "--pretend", "--out", str(there), "-q"]
    else:
        argv = [verb, str(there), *rest, "-q"]
    code = status(argv)
    if kind is folder:
        assert code in {2, 5}
        assert not list((there / name).iterdir())
    else:
        assert code == 0
        assert (there / name).is_file()
        assert not (there / name).is_symlink()
    assert precious.read_text() == PRECIOUS
    assert not precious.with_name("made").exists()
    assert not list(there.glob(".iotrial-*"))


READ = (
    "study.toml", "plan.jsonl", "measurements.jsonl", "sessions.jsonl", "hosts/local.json",
    "trials/{trial}/trial.json", "trials/{trial}/before.json", "trials/{trial}/fio.json",
    "trials/{trial}/telemetry.jsonl", "inventory.json", "trials/{trial}/strain.json",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_a_file_of_the_folder(
    name: str,
    kind: Kind,
    real: Path,
    tmp_path: Path,
    precious: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = foreign.like(real, tmp_path / "r")
    trial = next(each.name for each in sorted((there / "trials").iterdir()))
    path = there / name.format(trial=trial)
    if "{trial}" in name:
        (there / "measurements.jsonl").unlink()
    path.unlink(missing_ok=True)
    kind(path, precious)
    code = status(["report", str(there), "--as", "json", "--out", "-"])
    said = capsys.readouterr()
    assert code in {0, 2}, said.err
    assert PRECIOUS.strip() not in said.out + said.err
    if code:
        assert path.name in said.err


@pytest.mark.parametrize("name", ["trials", "hosts", "trials/{trial}"])
def test_folders_in_it_are_no_links(
    name: str, real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = foreign.like(real, tmp_path / "r")
    (there / "measurements.jsonl").unlink()
    path = there / name.format(trial=next(sorted_names(there / "trials")))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert status(["compare", str(there)]) == 2
    assert f"{path}: is a link" in capsys.readouterr().err


def sorted_names(path: Path) -> map[str]:
    return map(str, sorted(each.name for each in path.iterdir()))


def test_the_folder_itself_may_be_reached_through_a_link(real: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(real)
    assert status(["report", str(tmp_path / "latest"), "-q"]) == 0


def test_a_run_goes_on_in_no_link(real: Path, tmp_path: Path, precious: Path) -> None:
    for name in ("plan.jsonl", "measurements.jsonl", "sessions.jsonl"):
        there = foreign.like(real, tmp_path / "r")
        (there / name).unlink()
        (there / name).symlink_to(precious)
        argv = ["run", str(there / "study.toml"), "--pretend", "--out", str(there), "-q"]
        assert status(argv) == 2
        assert precious.read_text() == PRECIOUS


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_tells_of_itself_in_a_file_of_its_own(
    kind: Kind, tmp_path: Path, precious: Path
) -> None:
    kind(tmp_path / "live.json", precious)
    live = LiveFile()
    assert live.write(tmp_path, {"a": 1}) == (kind is not folder)
    assert live.write(tmp_path, {"a": 2}) == (kind is not folder)
    live.close()
    assert precious.read_text() == PRECIOUS


@pytest.mark.parametrize("kind", [link, device, fifo])
@pytest.mark.parametrize("act", ["append", "truncate", "read", "only"])
def test_each_way_to_a_file_refuses_what_is_none(
    kind: Kind, act: str, tmp_path: Path, precious: Path
) -> None:
    path = tmp_path / "f" / "x"
    path.parent.mkdir()
    kind(path, precious)
    ways: dict[str, Callable[[], object]] = {
        "append": lambda: files.append(path, "x", tmp_path),
        "truncate": lambda: files.truncate(path, 0, tmp_path),
        "read": lambda: files.read_bytes(path, tmp_path),
        "only": lambda: files.only_files(path.parent, tmp_path),
    }
    with pytest.raises(FormatError, match=r"/f/x: is (a link|not a regular file)"):
        ways[act]()
    assert precious.read_text() == PRECIOUS


def test_no_more_of_a_file_is_read_than_it_may_hold(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FormatError, match="larger than"):
        files.read_bytes(tmp_path / "x")


def test_where_out_names_a_pipe_or_a_disk(real: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert (
            status(["report", str(real), "--as", "csv", "-q", "--out", str(tmp_path / "pipe")]) == 0
        )
        assert os.read(reader, 5) == b"trial"
    finally:
        os.close(reader)
    assert status(["report", str(real), "-q", "--out", "/dev/null"]) == 0
    assert not Path("/dev/null").is_file()
