"""What Python picks out of a text and what a shell picks is the same value."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iotrial.model.step import PICKS, Pick, Probe

TEXT = resources.files("iotrial.hosts").joinpath("picks.sh").read_text("utf-8")
SHELLS = (("dash",), ("bash", "--posix"), ("busybox", "sh"))
EACH = TEXT + (
    'while [ $# -gt 0 ]; do RAW=$3; if pick "$1" "$2"; then printf "1%s\\0" "$VALUE"; '
    'else printf "0\\0"; fi; shift 3; done; printf "%s\\0%s\\0" "$IFS" "$-"'
)

WORDS = st.text("ab*?[]=,\\\"'$`:-é0F", min_size=1, max_size=4)
LINES = st.lists(st.one_of(WORDS, st.sampled_from([" ", "\t", "\n", "\n\n", ",", "=", "[", "]"])))
RAW = LINES.map("".join)
MASK = st.tuples(
    st.text(" \t\n", max_size=2), st.text("0123456789abcdefABCDEF,", max_size=40), st.text(" \n")
).map("".join)
NAMES = st.lists(st.text("ab*?[]é", min_size=1, max_size=3), min_size=1, max_size=4).map(",".join)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pick, str, str]:
    """A pick, its key, and a text in which the key is found more often than by chance."""
    kind = draw(st.sampled_from(PICKS))
    if kind == "mask":
        return kind, "", draw(MASK)
    if kind == "yes":
        return kind, "", draw(st.one_of(RAW, st.sampled_from(["Y", "N\n", " Y \n", "Y N", "y"])))
    if kind == "listed":
        key = draw(NAMES)
        there = draw(st.lists(st.sampled_from(key.split(",")) | WORDS)).copy()
        return kind, key, ",".join(there) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if kind == "item":
        head, name = draw(WORDS), draw(WORDS)
        lines = st.lists(st.sampled_from([head, name, f"{name}=", f"{name}=x", "\n", " ", "\t"]))
        return kind, f"{head} {name}", "".join(draw(lines)) + draw(RAW)
    key = draw(WORDS)
    around = st.lists(st.sampled_from([key, ",", f"{key}=x", f"{key}=", "\n", " ", "\n\t"]))
    return kind, key, "".join(draw(around)) + draw(RAW)


def missing(shell: tuple[str, ...]) -> list[pytest.MarkDecorator]:
    why = f"{shell[0]} is not installed"
    return [] if shutil.which(shell[0]) else [pytest.mark.skip(reason=why)]


@pytest.mark.parametrize(
    "shell", [pytest.param(shell, id=shell[0], marks=missing(shell)) for shell in SHELLS]
)
@given(asked=st.lists(cases(), min_size=8, max_size=24))
@example(
    asked=[
        ("text", "", "4096\t131072\t6291456\n"),
        ("chosen", "", "none [mq-deadline] kyber\n"),
        ("chosen", "", "1 ]2[ 3\n"),
        ("chosen", "", "a [b\nc] [d]"),
        ("field", "RX:", "Ring:\nRX:\t\t4096\nTX: 4096\nCurrent:\nRX:  512\nRX Mini: n/a\n"),
        ("field", "RX:", "RX: 1\nRX:\n"),
        ("field", "-n", " -n 5 \n"),
        ("item", "node1 depth", "node1 depth=5 x=1\nnode1 x=2\n"),
        ("item", "n d", "n d\n"),
        ("option", "rsize", "rw,relatime,rsize=65536,wsize=1"),
        ("option", "ro", "rw,ro"),
        ("option", "b", "a,bc,c"),
        ("option", "b", ",,b="),
        ("listed", "a,b,c", "c,a"),
        ("listed", "a,b,c", "x"),
        ("mask", "", "00000000,0000000F\n"),
        ("mask", "", "0,0\n"),
        ("mask", "", "\n"),
        ("yes", "", "Y\n"),
        ("whole", "", " a\n\n"),
        ("whole", "", ""),
    ]
)
def test_a_shell_picks_what_python_picks(
    shell: tuple[str, ...], asked: list[tuple[Pick, str, str]]
) -> None:
    words = [word for case in asked for word in case]
    done = subprocess.run(
        [*shell, "-c", EACH, "picks", *words],
        capture_output=True,
        check=True,
        timeout=60,
        env={"LC_ALL": "C", "PATH": "/nowhere"},
        executable=shutil.which(shell[0]),
    )
    said = done.stdout.decode("utf-8").split("\0")
    expected = [Probe(pick=kind, key=key).value(raw.encode()) for kind, key, raw in asked]
    assert done.stderr == b""
    assert [line[1:] if line[0] == "1" else None for line in said[:-3]] == expected
    assert said[-3] == " \t\n", "the shell is left as it was"
    assert "f" not in said[-2]
