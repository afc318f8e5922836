"""What another user has pushed to a store leads nowhere but into the folder that is pulled."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from iotrial.errors import FormatError, IotrialError
from iotrial_store.folder import made_again
from iotrial_store.model import StoreAnswer

PLAN = ("plan.jsonl", zlib.compress(b"{}\n"))
OUT = ["../planted", "/planted", "a/../../planted", "", "a\0b"]


class StrangersStore:
    """Answers what :func:`made_again` asks."""

    def __init__(self, files: list[tuple[str, bytes]], trials: list[str]) -> None:
        self._files, self._trials = files, trials

    def query(self, sql: str, _values: Any = ()) -> StoreAnswer:  # noqa: ANN401
        if "FROM files" in sql:
            return StoreAnswer(("path", "data"), self._files)
        return StoreAnswer(("folder",), [(each,) for each in self._trials])


def pulled(tmp_path: Path, files: list[tuple[str, bytes]], trials: list[str]) -> None:
    made_again(StrangersStore(files, trials), "one", tmp_path / "into")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OUT)
def test_a_file_or_trial_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    for files, trials in (([(name, PLAN[1])], []), ([PLAN], [name])):
        with pytest.raises(FormatError, match="leads out of a results folder"):
            pulled(tmp_path, files, trials)
    assert {path.name for path in tmp_path.rglob("*")} <= {"into", "plan.jsonl"}
    assert not Path("/planted").exists()


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "into").mkdir()
    (tmp_path / "into/hosts").symlink_to(elsewhere)
    with pytest.raises(IotrialError):
        pulled(tmp_path, [("hosts/local.json", PLAN[1])], [])
    assert list(elsewhere.iterdir()) == []


def test_what_stays_within_is_made(tmp_path: Path) -> None:
    pulled(tmp_path, [PLAN, ("hosts/a.json", PLAN[1])], ["0001-abc"])
    assert (tmp_path / "into/hosts/a.json").read_text() == "{}\n"
    assert (tmp_path / "into/trials/0001-abc").is_dir()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (zlib.compress(bytes(80 << 20)), "more than 64 MiB"),
        (b"no zlib", "is damaged"),
        (zlib.compress(b"{}" * 999)[:-9], "is cut off"),
    ],
)
def test_a_file_that_is_damaged_or_fills_the_memory_is_refused(
    tmp_path: Path, data: bytes, said: str
) -> None:
    with pytest.raises(FormatError, match=said):
        pulled(tmp_path, [("study.toml", data)], [])
    assert not (tmp_path / "into/study.toml").exists()
