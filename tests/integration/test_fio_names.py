"""Which files fio opens: what is worked out from a job file, against what fio makes.

Also where fio changes a name, or a line, that looks as if it said something else.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.formats.fio.jobfile import cut, escaped, unwritable
from iotrial.model.workload import Workload
from iotrial.tools import tool
from iotrial.tools.fio_check import opened, sections

LINES = (
    "filename=x", "filename=y:z", r"filename=a\:b", "filename={root}/abs", "directory={root}/d",
    "directory={root}/e:{root}/d", "directory=d", "nrfiles=2", "numjobs=2", "filename_format=f",
    "filename=d/x", "filename=../up", "directory={root}/d/..", "filename=p;q", "filename=p#q",
    "filename= b ", "filename=b : c", "filename=b\t", "filename=b\x01", "filename=b\xa0",
    "filename=b\\", r"filename=b\:c\\", "filename=::b::c:", "filename=:", "filename_format= f",
    "directory= d", "directory=d ;e", "filename =s", "\x0bfilename=s", "name=other",
)  # fmt: skip
NAMES = ("job", "a.b", "job.0.0", "..", ".", "z z", "éa", "n" * 40, " j", "d", "x\x01")
HEADS = (
    "[{}]", "[{}", "[{}.", "[{}]x", "[{}]]", "[{};x]", "[{}#]", "[{} ]", " [{}] ", "[{}] ; x",
    "[{}]\x01", "[a]{}]", "[[{}]", "[{}s",
)  # fmt: skip
HEAD = "ioengine=psync\nrw=write\nbs=4k\nsize=16k\nnumber_ios=1\nthread=1\n"


def text_of(draw: random.Random, root: Path) -> str:
    lines = ["[global]", HEAD, *draw.sample(LINES, draw.choice((0, 1, 2)))]
    for _ in range(draw.choice((1, 2))):
        head = draw.choice(HEADS).format(draw.choice(NAMES))
        lines += [head, *draw.sample(LINES, draw.choice((0, 1, 2, 3)))]
    return "\n".join([*lines, ""]).replace("{root}", str(root))


pytestmark = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


@pytest.mark.parametrize("part", range(6))
def test_fio_makes_no_file_that_was_not_foreseen(part: int, tmp_path: Path) -> None:
    """A job without any name gets the target instead, and is left out here."""
    draw, made_any = random.Random(part), 0
    for number in range(24):
        root = tmp_path / str(number)
        work = root / "work"
        for folder in (work, root / "d", root / "e", work / "d"):
            folder.mkdir(parents=True)
        text = text_of(draw, root)
        known = sections(Workload("load", "fio", (), text))
        if not all(map(opened, known)):
            continue
        foreseen = {(work / path).resolve() for each in known for path in opened(each)}
        done = subprocess.run(
            ["fio", "-"], input=text, cwd=work, capture_output=True, text=True,
            check=False, timeout=200,
        )  # fmt: skip
        made = {path.resolve() for path in root.rglob("*") if path.is_file()}
        assert made <= foreseen, f"{text}\n{made - foreseen}\n{done.stderr}"
        if done.returncode == 0:
            assert made or "filename=:\n" in text, text
            made_any += 1
    assert made_any > 5


SIGNS = (
    *";# \t\r\n\v\x01\x1f\x7f\xa0é,:$%(\"'\\`", "$ncpus", "${HOME}", "\\:", "::", ";#", " ;",
)  # fmt: skip
ODD = [form.format(sign) for sign in SIGNS for form in ("a{}b", "a{}", "{}b")]


def taken(argv: list[str], text: str = "") -> list[str]:
    """The paths that fio asks for the size of; no file of them is there, and none is made."""
    done = subprocess.run(
        ["fio", "--debug=file", *argv], input=text.encode(), capture_output=True, check=False,
        timeout=200,
    )  # fmt: skip
    asked = rb"get file size for 0x[0-9a-f]+/\d+/(.*?)\n(?=file  |\Z)"
    return [each.decode() for each in re.findall(asked, done.stdout, re.DOTALL)]


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """Of each odd name the paths that fio takes for it, on its command line: one fio is asked of
    all, with a job that ends the list of each."""
    words = ["--ioengine=null", "--rw=read", "--size=4k"]
    argv = []
    for name in ODD:
        argv += ["--name=a", *words, f"--filename={escaped(f'/nowhere/{name}')}"]
        argv += ["--name=end", *words, f"--filename={END}"]
    return _by_job(taken(argv))


@pytest.fixture(scope="module")
def read() -> dict[str, list[str]]:
    """The same of a job file; of what cannot be written into one, nothing."""
    text = ""
    for path in (f"/nowhere/{name}" for name in ODD):
        names = [] if unwritable(path) else [escaped(path)]
        for each in (*names, END):
            text += f"[a]\nioengine=null\nrw=read\nsize=4k\nfilename={each}\n"
    return _by_job(taken(["-"], text))


END = "/nowhere-more"


def _by_job(paths: list[str]) -> dict[str, list[str]]:
    found: list[list[str]] = [[]]
    for path in paths:
        if path == END:
            found.append([])
        else:
            found[-1].append(path)
    assert found.pop() == []
    return dict(zip(ODD, found, strict=True))


@pytest.mark.parametrize("name", ODD)
def test_a_path_is_told_apart_exactly_where_fio_takes_another(
    name: str, told: dict[str, list[str]], read: dict[str, list[str]]
) -> None:
    """On a command line, as a target is told; and in a job file, as to fio's client."""
    path = f"/nowhere/{name}"
    assert (told[name] == [path]) == (not cut(path))
    assert unwritable(path) or read[name] == [path]


@pytest.mark.parametrize("name", ["{}/vict", "../../vict", "a/b", "a", "a.b", "read/write"])
@pytest.mark.parametrize("option", ["", "write_bw_log", "write_lat_log", "write_iops_log",
                                    "write_hist_log\nlog_hist_msec=1"])  # fmt: skip
@pytest.mark.parametrize("form", ["[{}]", "[a]\nname={}"])
def test_no_job_is_let_through_that_leaves_its_folder(
    form: str, option: str, name: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    work = root / "one" / "two"
    (work / "a").mkdir(parents=True)
    (work / "read").mkdir()
    head = form.format(name.format(root))
    text = f"{head}\nfilename={work}/data\n{HEAD}{option}\n"
    subprocess.run(["fio", "-"], input=text.encode(), cwd=work, capture_output=True, check=False,
                   timeout=200)  # fmt: skip
    elsewhere = [path for path in root.rglob("*") if path.is_file() and path.parent != work]
    refused = bool(tool("fio").check(Workload("load", "fio", (), text), {}))
    assert refused or not elsewhere
    assert bool(option and "/" in name) == refused


@pytest.mark.parametrize("begin", [";", "description="])
@pytest.mark.parametrize("size", [4095, 4096, 8191, 8192])
def test_no_line_is_let_through_that_fio_takes_for_two(size: int, begin: str) -> None:
    """What stands behind byte 8191 is a line of its own, of fio 3.33; others have 4095."""
    text = f"[a]\nioengine=null\nsize=4k\n{begin.ljust(size, 'x')}filename=/nowhere/y\n"
    assert tool("fio").check(Workload("load", "fio", (), text), {})
    assert (taken(["-"], text) == ["/nowhere/y"]) == (size == 8191)
