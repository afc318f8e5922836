"""In the files that packages of the distribution ship lint finds no error that is none; each error
that it finds was read.

The packages are unpacked beside the tests, and not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotrial.cli.main import cli
from packages import unpacked

PACKAGES = ("tuned", "multipath-tools", "procps", "udev", "fio-examples")

TRUE = {
    ("cpp_null.fio", "fio-time-without-runtime"),
    ("e4defrag2.fio", "fio-time-without-runtime"),
}
"""Of fio's examples: these have no runtime, and fio 3.33 says that it goes without time_based."""


def judged(folder: Path, kernel: str) -> dict[str, list[dict[str, object]]]:
    words = ["lint", "--json", "--kernel", kernel, str(folder)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.exception is None, done.exception
    said: dict[str, list[dict[str, object]]] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("package", PACKAGES)
def test_no_false_error_in_files_as_they_are_shipped(package: str) -> None:
    said = judged(unpacked(package), "6.1")
    assert said["files"], "there is nothing to judge"
    errors = {
        (str(each["file"]).rpartition("/")[2], str(each["rule"]))
        for each in said["remarks"]
        if each["severity"] == "error"
    }
    assert errors == (TRUE if package == "fio-examples" else set())
