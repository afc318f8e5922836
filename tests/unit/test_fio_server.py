"""What becomes of a load when fio's client and server do it, and what is refused before."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from iotrial.errors import RefusedError, StudyError, ToolMissing
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import barrier
from iotrial.execute.load.load import LoadWatch
from iotrial.execute.load.served import ToolClient, check_paths, check_served, through
from iotrial.formats.fio import jobfile
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.local import LocalHost
from iotrial.model.study import Study
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import Load, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.load import parse_study
from iotrial.tools.fio import TOOL

DEVICE = ToolTarget("/dev/loop7", "device")
FACTS = {"cpus": 4.0, "memory": 2.0**34, "io_uring": 1.0}
STUDY = """
[targets.disk]
loop = { size = "1GiB" }
[workloads.reads]
start = "server"
"""


def load(**options: OptionValue) -> Workload:
    return Workload("load", "fio", tuple(options.items()), start="server")


def job(text: str, **options: OptionValue) -> Workload:
    return Workload("load", "fio", tuple(options.items()), text, start="server")


def text_of(client: Load) -> str:
    return dict(client.files)["job.fio"].decode()


def through_fio(workload: Workload, *, gated: bool = False) -> Load:
    plain = TOOL.command(workload, DEVICE, FACTS)
    waiting = TOOL.gated(plain, workload, barrier.GATE) if gated else plain
    assert waiting is not None
    client, _ = TOOL.client(waiting)
    return client


def test_a_client_is_told_by_a_job_file_what_a_command_would_say() -> None:
    workload = load(rw="randread", bs="4k", runtime="1s", numjobs=2)
    said = TOOL.command(workload, DEVICE, FACTS).argv
    client = through_fio(workload)
    (only,) = jobfile.parse(text_of(client)).sections
    assert only.name == "load"
    assert {f"--{name}={value}" for name, value in only.options} | {"--name=load"} < set(said)
    assert client.argv[-2:] == ("--client=sock:fio.sock", "job.fio")
    assert not [word for word in client.argv if "rw=" in word]


def test_what_a_study_adds_to_its_job_file_stands_in_front_of_it() -> None:
    text = "[global]\nrw=randread\n[a]\nbs=8k\n[b]\nbs=4k\n"
    client = through_fio(job(text, iodepth=4, ioengine="libaio"))
    assert text_of(client).endswith(text)
    first, second = jobfile.parse(text_of(client)).sections
    assert dict(first.options)["iodepth"] == dict(second.options)["iodepth"] == "4"
    assert (first.values("bs"), second.values("bs")) == (("8k",), ("4k",))
    assert first.values("filename") == ("/dev/loop7",)


@pytest.mark.parametrize("began", [True, False], ids=["begun", "not begun"])
def test_a_job_that_waits_leaves_no_file_of_what_it_did_meanwhile(
    tmp_path: Path, *, began: bool
) -> None:
    client = through_fio(load(rw="randread", runtime="1s"), gated=True)
    (line,) = (line for line in text_of(client).splitlines() if line.startswith("exec_prerun="))
    assert not set(";#") & set(line)
    # As exec_string() of fio's backend.c does it.
    words = f"{line.removeprefix('exec_prerun=')} > load.prerun.txt 2>&1"
    gate = {"IOTRIAL_GATE": "true" if began else "false", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, env=gate, check=False)
    assert (done.returncode == 0) == began
    assert [path.name for path in tmp_path.iterdir()] == ([] if began else ["load.prerun.txt"])


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (load(rw="read", startdelay="2s"), "startdelay"),
        (job("[a]\nrw=read\nstartdelay=2\n"), "startdelay"),
        (job("[it's 4k]\nrw=read\n"), 'job "it\'s 4k"'),
        (job("[a]\nname=b c\nrw=read\n"), "job 'b c'"),
        (load(rw="read", description="a # b"), "description"),
        (load(rw="read", description="a; b"), "description"),
        (load(rw="read", description="x" * 4001), "description"),
    ],
)
def test_what_a_client_cannot_be_told_is_refused(workload: Workload, said: str) -> None:
    assert TOOL.check(workload, FACTS) == []
    ((option, what),) = TOOL.unserved(workload)
    assert option == "start"
    assert said in what


def test_what_a_client_can_be_told_is_not_refused() -> None:
    assert TOOL.unserved(load(rw="randread", bs="4k", runtime="1s"), "/dev/sdb") == []
    assert TOOL.unserved(job("[a]\nrw=read\n[b-2]\nrw=read\nstonewall\n")) == []


@pytest.mark.parametrize("path", ["/mnt/a;b", "/mnt/a#1", "/mnt/${HOME}"])
def test_a_target_that_no_job_file_can_name_is_refused(path: str) -> None:
    workload = load(rw="read")
    aim = PreparedTarget(Target("disk", "file", path=path), path, "", None)
    study = a_study(workload)
    with pytest.raises(RefusedError, match="cannot name"):
        check_paths(study, {"disk": aim})


def a_study(workload: Workload) -> Study:
    text = f'{STUDY}tool = "fio"\noptions = {{ rw = "read", runtime = "1s" }}\n'
    made = parse_study(text, "study.toml", lambda _name: "")
    object.__setattr__(made, "workloads", (workload,))
    return made


def test_a_study_says_it_with_one_key() -> None:
    text = f'{STUDY}tool = "fio"\noptions = {{ rw = "randread", runtime = "1s" }}\n'
    study = parse_study(text, "study.toml", lambda _name: "")
    assert study.workload("reads").start == "server"
    plain = parse_study(text.replace('start = "server"\n', ""), "study.toml", lambda _name: "")
    assert plain.workload("reads").start == "plain"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('tool = "dd"\noptions = { rw = "read", bs = "1m" }', "dd has no server"),
        ('tool = "fio"\noptions = { rw = "read", startdelay = "2s" }', "startdelay"),
    ],
)
def test_a_study_that_cannot_be_served_is_refused_at_that_key(words: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(f"{STUDY}{words}\n", "study.toml", lambda _name: "")
    assert "workloads.reads.start" in str(caught.value)
    assert said in str(caught.value)


# -- what a client says ---------------------------------------------------------------------------

REPORT = {"fio version": "fio-3.33", "client_stats": [], "disk_util": []}


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("<box> Bad option <nosuch=1>\n<box> fio: job reads dropped\n", "fio: job reads dropped"),
        (
            "<box> Starting 2 processes\nclient: host=fio.sock disconnected\n",
            "the server went away before its jobs were done",
        ),
        ("client: host=fio.sock disconnected\n", "AllowStreamLocalForwarding"),
        ("fio: connect; Connection refused\n", "did not get through"),
    ],
)
def test_why_a_client_has_no_result_is_found_in_what_it_said(
    tmp_path: Path, before: str, why: str
) -> None:
    (tmp_path / "fio.json").write_text(f"{before}\n{json.dumps(REPORT, indent=2)}\n")
    assert why in TOOL.failure(tmp_path)


def test_a_recorded_report_of_clients_is_no_failure_and_a_job_with_an_error_is(
    tmp_path: Path,
) -> None:
    recorded = Path(__file__).parents[1] / "data" / "fio" / "two-clients" / "fio.json"
    text = recorded.read_text()
    (tmp_path / "fio.json").write_text(text)
    assert TOOL.failure(tmp_path) == ""
    said = "<box> fio: pid=0, err=22/file:filesetup.c:1155, error=Invalid argument\n"
    (tmp_path / "fio.json").write_text(said + text.replace('"error" : 0', '"error" : 22', 1))
    assert TOOL.failure(tmp_path).startswith("fio: pid=0, err=22")


def test_a_log_that_came_through_a_client_has_its_own_name_again() -> None:
    assert TOOL.own_name("rate_bw.1.log.fio.sock", "fio.sock") == "rate_bw.1.log"
    assert TOOL.own_name("fio.json", "fio.sock") == "fio.json"


# -- before the first trial -----------------------------------------------------------------------


def program(folder: Path, words: str) -> None:
    path = folder / "fio"
    path.write_text(f"#!/bin/sh\necho {words}\n")
    path.chmod(0o755)


def test_no_fio_on_this_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="is not installed on this host"):
        check_served(FakeHost(), a_study(load(rw="read")))


def test_another_version_than_that_of_the_host_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost()
    program(tmp_path, "fio-3.1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RefusedError, match=r"fake: .* but this host has fio-3\.1:"):
        check_served(host, a_study(load(rw="read")))
    program(tmp_path, host.run(["fio", "--version"]).text.strip())
    check_served(host, a_study(load(rw="read")))


def test_a_server_that_does_not_begin_to_listen_is_a_load_that_failed_and_says_why(
    tmp_path: Path,
) -> None:
    client = ToolClient(TOOL, tmp_path, Load(("true",)), "fio.sock", "socket/fio.sock")
    watch = LoadWatch(10.0, lambda _elapsed: None, Interruption())
    words = ("sh", "-c", "echo fio: bind: no >&2; exit 3")
    ended = through([client])(LocalHost(), words, folder=tmp_path, token="t0", watch=watch)  # noqa: S106 (no secret)
    assert ended.exit != 0
    assert (tmp_path / "stderr").read_text() == "the server did not start to listen\n"
    assert (tmp_path / "server.stderr").read_text() == "fio: bind: no\n"
    assert {path.name for path in tmp_path.iterdir()} == {
        "stderr", "server.stdout", "server.stderr", "exitcode",
    }  # fmt: skip
