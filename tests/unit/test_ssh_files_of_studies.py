"""A configuration of ssh that comes with a study executes nothing here, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import StudyError, UsageError
from iotrial.hosts.login import destination
from iotrial.plan.ssh_vetted import vetted

pytestmark = pytest.mark.usefixtures("state")

STUDY = """
question = "Which?"
[targets.disk]
loop = {{ size = "16MiB" }}
host = "box"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "1s" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
{hosts}
"""
PROXY = "Host box\n  ProxyCommand touch {folder}/canary\n"
WAYS = ("-F ./cfg box", "-Fcfg box", "-4Fcfg box", "box -F cfg", "-F /dev/null box -F cfg")
VERBS = (["plan"], ["run", "--out", "r"], ["doctor", "--hosts"])


def refused(folder: Path, hosts: str, verb: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    (folder / "study.toml").write_text(STUDY.format(hosts=hosts))
    assert status([*verb, "study.toml"]) == 2
    assert not (folder / "canary").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("where", WAYS)
def test_a_file_that_a_study_names_executes_nothing(
    where: str,
    verb: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cfg").write_text(PROXY.format(folder=tmp_path))
    said = refused(tmp_path, f"[hosts.box]\nssh = {json.dumps(where)}", verb, capsys)
    assert "cfg:2" in said
    assert "ProxyCommand" in said
    assert "~/.ssh/config" in said


INVENTORIES = ('ssh_config = "cfg"\nhosts = "box"', 'ansible = "hosts.ini"')


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("table", INVENTORIES)
def test_a_file_that_an_inventory_names_executes_nothing(
    table: str,
    verb: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cfg").write_text(PROXY.format(folder=tmp_path))
    (tmp_path / "hosts.ini").write_text("box ansible_ssh_common_args='-F cfg'\n")
    said = refused(tmp_path, f"[inventory]\n{table}", verb, capsys)
    assert "cfg:2" in said
    assert "ProxyCommand" in said


@pytest.mark.parametrize(
    "line",
    [
        "ProxyCommand x", "proxycommand=x", '"ProxyCommand" x', "=ProxyCommand x", "LocalCommand x",
        "PermitLocalCommand yes", "KnownHostsCommand x", "Match exec x", "Match all", "Include x",
        "PKCS11Provider x", "SecurityKeyProvider x", "XAuthLocation x", "ControlMaster auto",
        "ControlPath /x", "ForwardAgent yes", "IdentityAgent /x", "UpdateHostKeys yes",
        "HostKeyAlias /tmp/evil", "HostName $(x)", "User `x`", "ProxyJump -x", "SendEnv *",
        "UserKnownHostsFile /x", "StrictHostKeyChecking no\nUserKnownHostsFile /x",
        "Host a\nStrictHostKeyChecking yes\nHost b\nUserKnownHostsFile /x",
        "StrictHostKeyChecking yes\nUserKnownHostsFile none /x\nHost b\nStrictHostKeyChecking no",
        "Port 1\rProxyCommand x", "Port 1\x0cProxyCommand x", "PubkeyAuthentication maybe",
    ],
)  # fmt: skip
def test_what_such_a_file_may_not_say(line: str) -> None:
    with pytest.raises(StudyError):
        vetted(line.encode(), "cfg")


def test_what_it_may_say() -> None:
    text = (
        "# mine\r\nHost gate box*\r\n\tHostName=%h.lan\nUser ana\nPort = 22\nProxyJump gate\n"
        "IdentityFile ~/.ssh/key\nIdentitiesOnly yes\nIdentityAgent none\nCompression no\n"
        "ControlMaster no\nControlPath none\nForwardAgent no\nKexAlgorithms ecdh-sha2-nistp256\n"
        "PasswordAuthentication no\nHostKeyAlias a-b.c\nConnectTimeout 5\n"
    )
    assert not vetted(text.encode(), "cfg")
    assert not vetted(b"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n", "cfg")
    assert vetted(b"Host a\nUserKnownHostsFile k\nHost *\nStrictHostKeyChecking yes\n", "cfg")


@pytest.mark.parametrize(
    "where",
    [
        "-o StrictHostKeyChecking=no -o HashKnownHosts=no -o UserKnownHostsFile=/x box",
        "-o StrictHostKeyChecking=accept-new -o 'UserKnownHostsFile none /x' box",
        "-o GlobalKnownHostsFile=/x -o stricthostkeychecking=off box",
        "-o HostKeyAlias=/tmp/evil box",
    ],
)
def test_no_line_is_written_into_a_file_that_a_study_names(where: str) -> None:
    with pytest.raises(UsageError):
        destination(where)


def test_ssh_is_strict_where_a_study_names_known_hosts() -> None:
    first = destination("-o UserKnownHostsFile=/x box")[:2]
    assert first == ["-o", "StrictHostKeyChecking=yes"]
    assert destination("-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no box")[-1]


def test_a_file_that_is_strict_is_not_made_loose_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cfg").write_text("Host box\nUserKnownHostsFile x\nStrictHostKeyChecking yes\n")
    hosts = '[hosts.box]\nssh = "-o StrictHostKeyChecking=no -F cfg box"'
    assert "known hosts" in refused(tmp_path, hosts, ["plan"], capsys)


@pytest.mark.parametrize(
    "where",
    ["-A box", "-X box", "-Y box", "-K box", "-o ForwardAgent=yes box", "-oForwardAgent=/x box"],
)
def test_a_study_lends_no_host_the_keys_or_the_screen_of_who_runs_it(where: str) -> None:
    with pytest.raises(UsageError, match=r"not about how to reach|lend that machine your keys"):
        destination(where)
    assert destination("-o ForwardAgent=no box")[-1] == "box"
