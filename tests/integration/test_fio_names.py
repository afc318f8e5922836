"""Which files fio opens: what is worked out from a job file, against what fio makes."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.model.workload import Workload
from iotrial.tools.fio_check import sections
from iotrial.tools.fio_reach import opened

LINES = (
    "filename=x", "filename=y:z", r"filename=a\:b", "filename={root}/abs", "directory={root}/d",
    "directory={root}/e:{root}/d", "directory=d", "nrfiles=2", "numjobs=2", "filename_format=f",
    "filename=d/x", "filename=../up", "directory={root}/d/..",
)  # fmt: skip
NAMES = ("job", "a.b", "job.0.0", "..", "z z")
HEAD = "ioengine=psync\nrw=write\nbs=4k\nsize=16k\nnumber_ios=1\nthread=1\n"


def text_of(draw: random.Random, root: Path) -> str:
    lines = ["[global]", HEAD, *draw.sample(LINES, draw.choice((0, 1, 2)))]
    for _ in range(draw.choice((1, 2))):
        lines += [f"[{draw.choice(NAMES)}]", *draw.sample(LINES, draw.choice((0, 1, 2, 3)))]
    return "\n".join([*lines, ""]).replace("{root}", str(root))


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize("part", range(4))
def test_fio_makes_no_file_that_was_not_foreseen(part: int, tmp_path: Path) -> None:
    """A job without any name gets the target instead, and is left out here."""
    draw, made_any = random.Random(part), 0
    for number in range(16):
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
            check=False, timeout=60,
        )  # fmt: skip
        made = {path.resolve() for path in root.rglob("*") if path.is_file()}
        assert made <= foreseen, f"{text}\n{made - foreseen}\n{done.stderr}"
        if done.returncode == 0:
            assert made, text
            made_any += 1
    assert made_any > 5
