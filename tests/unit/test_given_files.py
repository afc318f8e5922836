"""Files that a command line names: broken, without an end, or pipes that nobody writes to."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import FormatError, StudyError
from iotrial.files import only_files
from iotrial.plan import recorded
from iotrial.plan.load import load_hosts
from iotrial_import.files import opened

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """A call that waits for a pipe is ended."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    yield
    signal.alarm(0)


def test_a_number_of_thousands_of_digits_is_no_study() -> None:
    with pytest.raises(StudyError, match="not TOML"):
        recorded.parse(f"recorded = true\n[decide]\nmargin = {'9' * 5000}\n", "study.toml")


def test_a_damaged_packed_file_is_told(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"a,b\n1,2\n" * 50))
    data[10] ^= 0xFF
    (tmp_path / "t.csv.gz").write_bytes(data)
    with pytest.raises(FormatError, match="cannot be unpacked"), opened(tmp_path / "t.csv.gz"):
        pass


@pytest.mark.parametrize("text", ["[", "a.", "x = [", "a = " + "9" * 5000])
def test_a_file_of_hosts_that_is_no_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.toml").write_text(text)
    with pytest.raises(StudyError, match="not TOML"):
        load_hosts(tmp_path / "hosts.toml")


@pytest.mark.parametrize(
    "words", ["plan @", "doctor --hosts @", "lint @ --as sysctl", "import t.csv --map @"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_not_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("t.csv").write_text("w,IOPS\na,1\n")
    named = "pipe" if kind == "pipe" else "/dev/zero"
    assert status(words.replace("@", named).split()) == 2
    assert "it is not a regular file" in capsys.readouterr().err


def test_a_file_of_a_trial_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trial").mkdir()
    with (tmp_path / "trial" / "fio.json").open("wb") as file:
        file.truncate(20 << 30)  # sparse
    with pytest.raises(FormatError, match=r"fio\.json: is larger than"):
        only_files(tmp_path / "trial", tmp_path)
