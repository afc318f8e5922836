"""Job files are read as fio reads them; ``fio --showcmd`` is the witness where fio is installed."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats.fio.jobfile import escaped, filenames, parse, without

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "global and two jobs": "[global]\nrw=read\nsize=1m\n[one]\nbs=8k\n[two]\nbs=16k\n",
    "filenames add up": "[global]\nfilename=a\nfilename=b\nsize=1m\n[one]\nfilename=c\n",
    "global applies to what follows": "[one]\nsize=1m\n[global]\nrw=write\n[two]\nsize=1m\n",
    "any name that begins with global": "[globalfoo]\nrw=write\nsize=1m\n[one]\nbs=8k\n",
    "GLOBAL is a job": "[GLOBAL]\nsize=1m\nrw=write\n[one]\nsize=1m\n",
    "comments": "; one\n# two\n  ; three\n[one]\nsize=1m ; four\nfilename=a#five\n",
    "switches": "[one]\ntime_based\nruntime=1\nsize=1m\nstonewall\n",
    "blanks": "  [one]\n\tsize =1m\r\n\n rw=write\r\n",
    "no bracket at the end": "[job.\nsize=1m\n[jobs\nsize=1m\n[global\nsize=2m\n",
    "more behind the bracket": "[job]x\nsize=1m\n[job]]\nsize=1m\n[a]b]\nsize=1m\n",
    "a comment in the brackets": "[job;x]\nsize=1m\n[jo#x]\nsize=1m\n[job] ; x\nsize=1m\n",
    "a long name": f"[{'n' * 300}]\nsize=1m\n",
    "control characters": "[one]\x01\nsize=1m\x7f\nfilename=a\xa0\n",
    "two jobs of one name": "[one]\nsize=1m\n[one]\nsize=2m\n",
}


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize("name", FILES)
def test_a_job_file_means_what_fio_takes_it_for(name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.fio"
    file.write_text(FILES[name])
    shown = subprocess.run(
        ["fio", "--showcmd", file], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    witness: dict[int, tuple[str, set[str]]] = {}
    shared: set[str] = set()
    current = shared
    for word in shlex.split(shown.stdout)[1:]:
        if word.startswith("--name="):
            current = set()
            witness[len(witness)] = (word.removeprefix("--name="), current)
        current.add(word)
    own = [
        (each.name, {f"--{key}={value}" if value else f"--{key}" for key, value in each.options})
        for each in parse(FILES[name]).sections
    ]
    assert [name for name, _ in own] == [name for name, _ in witness.values()]
    # --showcmd prints [global] options before each job that has them, that is, after the name of
    # the job before: all that counts is that nothing is missing and nothing is made up.
    said = shared.union(*(words for _, words in witness.values()))
    assert said == {f"--name={name}" for name, _ in own}.union(*(words for _, words in own))


def test_sections_hold_the_options_in_force() -> None:
    one, two = parse("[global]\nrw=read\n[one]\nbs=8k\n[global]\nrw=write\n[two]\n").sections
    assert one.options == (("rw", "read"), ("bs", "8k"))
    assert two.options == (("rw", "read"), ("rw", "write"))


def test_includes_are_named() -> None:
    assert parse("[global]\ninclude other.fio\n[one]\nrw=read\n").includes == ("other.fio",)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rw=read\n[one]\n", ":1: 'rw=read'"),
        ("[global]\nrw=read\n", "no job"),
        ("[one]\nrw=read\n[\n", ":3: '\\['"),
    ],
)
def test_what_fio_would_not_run_is_a_format_error(text: str, line: str) -> None:
    with pytest.raises(FormatError, match=line):
        parse(text)


@given(st.lists(st.text(st.characters(exclude_characters="\\", codec="utf-8"), min_size=1)))
@example(["a", "b\\"])
def test_escaped_paths_come_back(paths: list[str]) -> None:
    assert filenames(":".join(map(escaped, paths))) == tuple(paths)


@given(st.text())
def test_any_text_is_a_job_file_or_a_format_error(text: str) -> None:
    with contextlib.suppress(FormatError):
        parse(text)


def test_a_file_without_some_options_keeps_its_other_lines_as_fio_has_them() -> None:
    text = "[a]\nbs=4k\x0bfilename=x\n filename =y\nrw=read\u2028filename=z\nsize=1m"
    assert without(text, frozenset({"filename"})) == text.replace(" filename =y\n", "")
