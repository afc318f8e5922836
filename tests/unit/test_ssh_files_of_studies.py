"""A configuration of ssh that comes with a study executes nothing here, and writes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import HostUnreachable, StudyError, UsageError
from iotrial.hosts.connection import Connection
from iotrial.hosts.login import destination
from iotrial.plan.inventory import vetted

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
        "CheckHostIP yes", "StrictHostKeyChecking yes\nUserKnownHostsFile /x\nCheckHostIP yes",
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
    with pytest.raises(UsageError, match=r"not a connection option|lend that machine your keys"):
        destination(where)
    assert destination("-o ForwardAgent=no box")[-1] == "box"


SPOILT = ("cfg$(touch canary)", "cfg`touch canary`", "cfg&touch canary", "f -oProxyCommand=>canary")
NAMED = {
    "ssh, jump beside it": ("Host box\n", "[hosts.box]\nssh = {way}"),
    "ssh, jump in it": ("Host box\nProxyJump 127.0.0.1\n", "[hosts.box]\nssh = {plain}"),
    "ssh_config": ("Host box\nProxyJump 127.0.0.1\n", INVENTORIES[0].replace('"cfg"', "{name}")),
    "ansible": ("Host box\nProxyJump 127.0.0.1\n", INVENTORIES[1]),
}


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize(("text", "hosts"), NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("name", SPOILT)
def test_the_name_of_such_a_file_executes_nothing(
    name: str,
    text: str,
    hosts: str,
    verb: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    quoted = f"-F '{name}'"
    (tmp_path / "hosts.ini").write_text(f'box ansible_ssh_common_args="{quoted}"\n')
    words = {"plain": f"{quoted} box", "way": f"-J 127.0.0.1 {quoted} box", "name": name}
    table = hosts.format(**{key: json.dumps(word) for key, word in words.items()})
    table = table if table.startswith("[") else f"[inventory]\n{table}"
    assert "may pass to a shell" in refused(tmp_path, table, verb, capsys)


@pytest.mark.parametrize("name", ["a b", "a%h", "~/a", "a;b", "a'b", "a*", "-a", "a#b", "a\\b", ""])
def test_a_file_whose_name_a_shell_reads_otherwise_is_none(name: str) -> None:
    with pytest.raises(UsageError):
        destination(f'-F "{name}" box')


def test_a_file_has_a_plain_name() -> None:
    for name in ("cfg", "./cfg-1", "/home/ana@x/a_b.c+d", "../größe"):
        assert destination(f"-F {name} box")[:2] == ["-F", name]


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_file_that_others_may_write_is_refused(
    verb: list[str],
    mode: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cfg").write_text("Host box\n")
    (tmp_path / "cfg").chmod(mode)
    said = refused(tmp_path, '[hosts.box]\nssh = "-F cfg box"', verb, capsys)
    assert "is writable by other users" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file is given to another user")
def test_a_file_is_of_who_runs_iotrial_also_by_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cfg").write_text("Host box\n")
    os.chown(tmp_path / "cfg", 4711, -1)
    hosts = '[hosts.box]\nssh = "-F cfg box"'
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert "belongs to user 4711" in refused(tmp_path, hosts, ["plan"], capsys)
    monkeypatch.setenv("SUDO_UID", "4711")
    assert status(["doctor", "--hosts", "study.toml"]) == 0


def test_ssh_adds_no_address_to_a_file_of_known_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostUnreachable):
        Connection("-o CheckHostIP=yes -o UserKnownHostsFile=/x box", "box")
    words = (tmp_path / "words").read_text().splitlines()
    said = [word for word in words if word.startswith("CheckHostIP")]
    assert said[0] == "CheckHostIP=no"  # the first counts
