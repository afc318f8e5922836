"""Looking at a study executes nothing of it: a canary in every field that can hold a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.hosts.login import destination

STUDY = """
question = "Which?"
[targets.disk]
directory = "{folder}"
[targets.made]
device = "/dev/md77"
create = [{make}]
remove = [{unmake}]
[workloads.load]
tool = "command"
argv = {argv}
options = {{ seconds = "1s", reads_only = true }}
prepare = [{{ command = {prepare}, each = "trial" }}]
cleanup = [{{ command = {cleanup}, each = "trial" }}]
evidence = [{evidence}]
[knobs.one]
file = "{folder}/one.conf"
content = "v {{value}}"
reload = {reload}
read = {read}
[knobs.two]
write = ["env", "X={{value}}", "touch", "{folder}/canary-write"]
read = {peek}
[factors.two]
tunable = "command.two"
levels = ["1", "2"]
[factors.one]
tunable = "file.one"
levels = ["1", "2"]
[factors.storage]
targets = ["disk", "made"]
[factors.hand]
manual = "Set {{level}}"
levels = ["a", "b"]
verify = {verify}
[design]
blocks = 1
[decide]
primary = "score"
[workloads.load.metrics]
score = {{ pattern = "([0-9]+)", better = "higher" }}
"""
FIELDS = (
    "make",
    "unmake",
    "argv",
    "prepare",
    "cleanup",
    "evidence",
    "reload",
    "read",
    "peek",
    "write",
    "verify",
)
VERBS = (
    ["plan", "STUDY"],
    ["plan", "STUDY", "--json"],
    ["plan", "STUDY", "--pretend"],
    ["lint", "STUDY"],
    ["knobs", "file.one"],
    ["doctor", "--hosts", "STUDY"],
    ["status", "FOLDER"],
    ["compare", "FOLDER"],
    ["report", "FOLDER"],
    ["import", "STUDY"],
    ["keep", "FOLDER"],
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    def canary(field: str) -> str:
        return json.dumps(["touch", f"{tmp_path}/canary-{field}"])

    file = tmp_path / "study.toml"
    text = STUDY.format(folder=tmp_path, **{field: canary(field) for field in FIELDS})
    file.write_text(text)
    return file


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_no_canary_sings(
    study: Path,
    verb: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(study.parent)
    words = [{"STUDY": str(study), "FOLDER": str(study.parent)}.get(word, word) for word in verb]
    status(words)
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said
    assert not list(study.parent.glob("canary-*")), said


def test_plan_says_every_command_before_it_is_executed(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(study.parent)
    status(["plan", str(study)])
    text = "".join(capsys.readouterr())
    flat = "".join(text.split())
    for field in FIELDS:
        assert "".join(f"touch {study.parent}/canary-{field}".split()) in flat, text
    assert "will be read by" in text
    document = json.loads(_json(study, capsys))
    said = [each["argv"][-1].rpartition("-")[2] for each in document["executes"]]
    assert sorted(said) == sorted(set(FIELDS) - {"argv"}), "that one is among the commands"
    assert not list(study.parent.glob("canary-*"))


def _json(study: Path, capsys: pytest.CaptureFixture[str]) -> str:
    status(["plan", str(study), "--json"])
    return capsys.readouterr().out


PROGRAMS = ("ProxyCommand", "LocalCommand", "KnownHostsCommand", "PKCS11Provider", "Include",
            "SecurityKeyProvider", "XAuthLocation", "PermitLocalCommand")  # fmt: skip
FORMS = ("-o{}=touch\\ x box", "-o {}=x box", "box -o {}=x", "-o '{} x' box", "-o'{}   =x' -- box")
NO_NAMES = (
    "-- -oProxyCommand=x", "'bo x'", "'bo\tx'", "'box\n'", "box\\\nx", "'`x`'", "'$(x)'", "'a;b'",
    "'a|b'", "-J -oProxyCommand=x box", "-o ProxyJump=-x box", "-l '$(x)' box", "-I x box",
    "-o User='`x`' box", "-o 'HostName=$(x)' box", "'bo\x1b[2Jx'", "''", "-E x box", "-S x box",
)  # fmt: skip
BAD = (*(f.format(p.swapcase() if n % 2 else p) for p in PROGRAMS for n, f in enumerate(FORMS)),
       *NO_NAMES)  # fmt: skip


@pytest.mark.parametrize("where", BAD)
def test_what_ssh_would_execute_here_is_refused(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError):
        destination(where)
    file = tmp_path / "study.toml"
    text = STUDY.format(folder=tmp_path, **dict.fromkeys(FIELDS, '["true"]'))
    file.write_text(f"{text}[hosts.far]\nssh = {json.dumps(where)}\n")
    assert status(["plan", str(file)]) == 2
    said = "".join("".join(capsys.readouterr()).split())
    assert f"{file}:{len(text.splitlines()) + 2}:hosts.far.ssh" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "where",
    ["box", "ana@box", "-p 22 ana@box", "-J gate,gate2 box", "fe80::1%eth0", "ssh://a@[::1]:22",
     "-o StrictHostKeyChecking=no -i '/home/a b/key' box", "-o ProxyJump=gate box"],
)  # fmt: skip
def test_how_to_reach_a_machine_may_be_said(where: str) -> None:
    assert destination(where)
