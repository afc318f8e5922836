"""What a job file of fio includes is judged in its place, as fio reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from iotrial.cli.main import cli
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import ConfigFile

MAIN = "[global]\nsize=1m\ninclude common/all.inc\n[a]\nrw=read\n[b]\nbs=8k\n"
ALL = "direct=1\ninclude more.inc\n"
MORE = "iodepth=4\nno_such_option=1\n"


def put(folder: Path, **texts: str) -> Path:
    (folder / "common").mkdir(exist_ok=True)
    for name, text in {"main": MAIN, "all": ALL, "more": MORE, **texts}.items():
        place = folder / "main.fio" if name == "main" else folder / "common" / f"{name}.inc"
        place.write_text(text)
    return folder / "main.fio"


def gathered(path: Path) -> ConfigFile:
    return parsed("fio", path.read_bytes(), str(path), lambda name: Path(name).read_text())


def remarks(*words: object) -> list[dict[str, object]]:
    done = CliRunner().invoke(cli, ["lint", "--json", *map(str, words)], standalone_mode=False)
    assert done.exception is None, done.exception
    found: list[dict[str, object]] = json.loads(done.stdout)["remarks"]
    return found


def test_every_job_has_what_is_included_at_the_line_that_includes_it(tmp_path: Path) -> None:
    sheet = gathered(put(tmp_path))
    assert sheet.complaints == ()
    for number, own in enumerate((("rw", "read", 5), ("bs", "8k", 7))):
        assert [(e.key, e.value, e.line) for e in sheet.entries if e.group == number] == [
            ("size", "1m", 2),
            ("direct", "1", 3),
            ("iodepth", "4", 3),
            ("no_such_option", "1", 3),
            own,
        ]
    assert sheet.sections == ((4, "a"), (6, "b"))


def test_a_wrong_option_is_named_and_a_file_that_is_included_is_none_of_its_own(
    tmp_path: Path,
) -> None:
    main = put(tmp_path)
    (tmp_path / "common" / "more.inc").rename(tmp_path / "common" / "more.fio")
    (tmp_path / "common" / "all.inc").write_text(ALL.replace("more.inc", "more.fio"))
    errors = [each for each in remarks(tmp_path) if each["severity"] == "error"]
    (error,) = errors
    assert (error["file"], error["line"], error["key"]) == (str(main), 3, "no_such_option")
    assert not [each for each in remarks(tmp_path) if each["rule"] == "fio-not-direct"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"all": "include gone.inc"}, "gone.inc: No such file"),
        ({"all": "include more.inc", "more": "include ../main.fio"}, "main.fio includes"),
        ({"all": "include all.inc"}, "all.inc includes"),
        ({"all": "direct=1\n[c]\nbs=4k"}, "all.inc:2: [c]: an included file has no sections"),
        ({"all": "include "}, "it cannot be read"),
    ],
)
def test_what_cannot_be_included_is_an_error_at_its_line(
    tmp_path: Path, texts: dict[str, str], said: str
) -> None:
    sheet = gathered(put(tmp_path, **texts))
    (complaint,) = sheet.complaints
    assert complaint.line == 3
    assert said in complaint.what


def test_fio_itself_reads_it_so(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")

    def complaint(**texts: str) -> str:
        argv = ["fio", "--parse-only", str(put(tmp_path, **texts))]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
        return done.stderr

    assert complaint(more="iodepth=4\n") == ""
    assert "no_such_option" in complaint()
    assert "No new sections" in complaint(more="iodepth=4\n[c]\nbs=4k\n")
    assert "gone.inc" in complaint(all="include gone.inc\n")


@given(main=st.text(), other=st.text())
def test_whatever_includes_whatever_it_ends(main: str, other: str) -> None:
    texts = {"a": f"[x]\ninclude b\n{main}", "b": f"{other}\ninclude b\ninclude c", "c": other}

    def read(name: str) -> str:
        if name not in texts:
            raise FileNotFoundError(2, "not there")
        return texts[name]

    sheet = parsed("fio", texts["a"].encode("utf-8", "replace"), "a", read)
    assert all(each.line >= 0 for each in sheet.complaints)
