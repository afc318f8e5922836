"""A name of a file that is not there is no host: ssh is not tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.cli import status
from iotrial.cli.machine import means_a_file
from iotrial.cli.main import status as execute
from iotrial.execute.settings import guard
from iotrial.hosts import places
from iotrial.hosts.places import StateFolders
from iotrial_lint import cli

pytestmark = pytest.mark.usefixtures("state")


def never(*_: object, **_more: object) -> None:
    raise AssertionError("a host was reached")


@pytest.mark.parametrize("verb", ["lint", "status"])
@pytest.mark.parametrize("name", ["dangling", "a/b", "./x", "x.conf", "study.toml", "plan.jsonl"])
def test_what_is_not_there_is_said_to_be(
    name: str,
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (cli, status):
        monkeypatch.setattr(module, "machine", never)
    (tmp_path / "dangling").symlink_to("nothing")
    assert execute([verb, name]) == 2
    said = capsys.readouterr().err
    assert f"file {name} does not exist" in said or f"{Path(name)} does not exist" in said


@pytest.mark.parametrize(
    "name", ["box7", "root@box7", "box7.lan", "10.0.0.7", "ssh://a@box:22", "-F /etc/cfg box"]
)
def test_a_host_stays_one(name: str) -> None:
    assert not means_a_file(name)


@pytest.mark.parametrize("verb", ["status", "doctor", "restore"])
def test_a_lock_in_a_folder_that_somebody_else_may_write_is_not_believed(
    verb: str,
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planted = tmp_path / "planted"  # as /tmp/iotrial-UID is, apart from the journal
    planted.mkdir()
    planted.chmod(0o777)
    own = StateFolders(f"{planted}/lock", f"{state}/journal.d", f"{state}/files")
    for module in (places, guard):
        monkeypatch.setattr(module, "state_places", lambda _host: own)
    assert execute([verb]) == 3
    said = capsys.readouterr()
    assert "cannot be trusted" in said.err
    assert "No setting is left to restore" not in said.out
