"""What is said to the agent, tried on shells of this machine: no link, no root."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import UsageError
from iotrial.hosts.agent import (
    appended,
    batch,
    encoded,
    exit_of,
    marks,
    prelude,
    run,
    said,
    saved,
    text_of,
    written,
)
from iotrial.hosts.login import destination
from iotrial.hosts.ssh import BufferedResponse, results
from iotrial.model.step import Change, Ensure, Probe, Read

SHELLS = [
    pytest.param(
        shell,
        marks=[] if shutil.which(shell[0]) else [pytest.mark.skip(reason=f"needs {shell[0]}")],
        id=shell[0],
    )
    for shell in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
]
SIGN = b"\nsign\n"


def heard(shell: tuple[str, ...], data: bytes) -> bytes:
    """What a shell answers that is told ``data`` and then nothing more."""
    done = subprocess.run([*shell, "-s"], input=data, capture_output=True, timeout=60, check=False)
    return done.stdout


def settled(folder: Path) -> bytes:
    (folder / "volatile").mkdir(mode=0o700)
    begin = said("settle", f"{folder}/volatile", f"{folder}/lasting", SIGN.decode())
    return prelude().encode() + encoded(f"{begin} >/dev/null")


@pytest.mark.parametrize("shell", SHELLS)
def test_half_a_request_does_nothing(shell: tuple[str, ...], tmp_path: Path) -> None:
    """A link that is cut in the middle of ``write 128`` must not write 12."""
    file = tmp_path / "file"
    file.write_bytes(b"60\n")
    act = Change("write", str(file), "128")
    request = encoded(batch("box", [Ensure(Probe(str(file)), "128", (act,))], SIGN).text)
    begin = settled(tmp_path)
    for end in range(0, len(request) - 2, 3):
        heard(shell, begin + request[:end])
        assert file.read_bytes() == b"60\n", request[:end]
        assert not list((tmp_path / "volatile").iterdir()), "nothing stays"
    heard(shell, begin + request)
    assert file.read_bytes() == b"128"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_folder_that_a_guard_removes_while_it_is_looked_at_is_made_anew(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    """Seen after a node had hung: the guard had just given back the last thing in it."""
    gone = tmp_path / "lasting" / "files"
    request = encoded(f"{said('ours', gone)} && echo ours")
    assert heard(shell, prelude().encode() + request) == b"ours\n"
    assert gone.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shell", SHELLS)
@given(words=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_a_word_is_one_word_to_the_shell(shell: tuple[str, ...], words: list[str]) -> None:
    said_back = heard(shell, encoded(said("printf", "%s\\0", *words)))
    assert said_back == b"".join(word.encode() + b"\0" for word in words)


def test_a_nul_is_no_part_of_a_word() -> None:
    with pytest.raises(ValueError, match="NUL"):
        said("show", "/etc\0/passwd")


@pytest.mark.parametrize("name", ["", "A B", "1A", "A=B", "A;rm", "$(x)", "é"])
def test_a_mark_has_the_name_of_a_variable(name: str) -> None:
    with pytest.raises(ValueError, match="environment"):
        marks((), {name: "1"})


def test_nothing_of_a_request_is_left_unquoted() -> None:
    odd = "$(touch /never) `x` ; 'a\" \n"
    probe = Probe(odd, key=odd, absent=odd)
    acts = tuple(Change(kind, odd, odd, (odd, odd)) for kind in ("write", "save", "remove", "run"))
    requests = [
        batch("box", [Read(probe), Ensure(probe, odd, acts), Read(Probe(argv=(odd,)))], SIGN).text,
        run((odd, odd), odd.encode(), 1.0).text,
        marks((), {"A": odd}),
        f"{written(odd, odd.encode())}\n{saved(odd, b'x', private=True)}\n{appended(odd, b'')}",
    ]
    text = "\n".join(requests)
    # Quoted as a whole, or not there at all.
    quoted = "'$(touch /never) `x` ; '\"'\"'a\" \n'"
    assert text.count("$(touch") == text.count(quoted) > 10


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("box7", ["--", "box7"]),
        ("root@box7", ["--", "root@box7"]),
        ("-p 2222 -J gate box7", ["-p", "2222", "-J", "gate", "--", "box7"]),
        ("box7 -p 2222", ["-p", "2222", "--", "box7"]),
        ("-F my.config -4 box7", ["-F", "my.config", "-4", "--", "box7"]),
        ("-oUser=ana box7", ["-o", "User=ana", "--", "box7"]),
        ("ssh://ana@box7:2222", ["--", "ssh://ana@box7:2222"]),
        ("-i 'my key' -4 box7", ["-i", "my key", "-4", "--", "box7"]),
    ],
)
def test_where_is_said_as_to_ssh(where: str, words: list[str]) -> None:
    assert destination(where) == words


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("", "no host"),
        ("-p 22", "no host"),
        ("box7 reboot", "reboot is not a connection option"),
        ("-L 1:a:2 box7", "-L is not a connection option"),
        ("-S /tmp/theirs box7", "-S is not a connection option"),
        ("-? box7", "not recognized"),
        ("'box7", "quotation"),
    ],
)
def test_what_is_no_destination_is_refused(where: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        destination(where)
    assert "ssh_config" in caught.value.advice


def test_signals_are_told_from_statuses_as_a_shell_tells_them() -> None:
    assert [exit_of(status) for status in (0, 1, 127, 128, 137, 143, 255)] == [
        *(0, 1, 127, 128, -9, -15, 255)
    ]


def left(words: bytes) -> tuple[int, dict[str, bytes]]:
    status, files = results(io.BytesIO(words))
    return status, {name: b"".join(pieces) for name, pieces in files}


def test_what_comes_back_from_a_load_stays_in_its_folder() -> None:
    for name in ("../x", "/etc/x", "a/../../x"):
        with pytest.raises(ValueError, match="not a file of the load's folder"):
            left(f"0 0\n\nfile {len(name)}\n{name}\nYQ==\nend\n".encode())
    good = b"143 0\n\nfile 5\na/b\nc\nAAo=\nfile 1\ne\n\nend\n"
    assert left(good) == (-15, {"a/b\nc": b"\0\n", "e": b""})
    for end in range(len(good)):
        with pytest.raises(EOFError):
            left(good[:end])


def test_an_answer_is_as_long_as_it_says() -> None:
    told = BufferedResponse(b"1 5\na\nb\0c\n0 0\n\n")
    assert (text_of(told), text_of(told)) == ((1, b"a\nb\0c"), (0, b""))
