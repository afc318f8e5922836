"""The page on Python is executed."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from iotrial.cli.main import status
from public_names import PUBLIC, SHOWN

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text("utf-8")


def test_ten_lines_open_judge_and_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"<!-- python -->\n+```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    assert status(["init", "scheduler", "study.toml"]) == 0
    assert status(["run", "--pretend", "study.toml", "--out", "results", "--quiet"]) == 0
    capfd.readouterr()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "python.md", "exec"), {})  # noqa: S102 (our own page)
    answer, *rest = said.getvalue().splitlines()
    assert answer
    assert any("scheduler" in line and "read.iops" in after for line, after in pairwise(rest))


def test_each_public_name_is_on_the_site_and_says_what_it_is_and_what_it_raises() -> None:
    assert {"open_results", "judge", "document", "Judged", "IotrialError"} <= set(PUBLIC)
    assert sorted(each.rpartition(".")[2] for each in SHOWN) == sorted(PUBLIC)
    for each in SHOWN:
        module, _, name = each.rpartition(".")
        found = getattr(import_module(module), name)
        said = inspect.getdoc(found) or ""
        assert len(said) > 60, each
        links = re.findall(r":(?!class)\w+:`~?(iotrial[\w.]*)`", said)
        led_to = {link.rpartition(".")[2] for link in links}
        assert led_to <= {*PUBLIC, *dir(found)}, (each, "a link to what is not on the page")
        if inspect.isfunction(found):
            assert "Raises " in said, each
            assert "return" in inspect.get_annotations(found), each
