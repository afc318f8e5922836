"""What Slurm is asked, and what its answers mean."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iotrial.errors import HostError, RefusedError, UsageError
from iotrial.execute.settings.guard import epilog
from iotrial.hosts import slurm
from iotrial.hosts.via import slurm as slurm_via


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, first on PATH, for programs that answer as Slurm's do."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in (slurm.JOB, slurm.NODES):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    "said",
    ["$SLURM_JOB_NODELIST", "n[1-4]", "n1,m[2-3,7]", "partition=p", "state=idle nodes=n[1-2]"],
)
def test_these_are_nodes(said: str) -> None:
    assert slurm.problem_of(said) == ""


@pytest.mark.parametrize(
    "said",
    [
        "",
        "n1 n2",
        "$HOME",
        "n1;id",
        "--all",
        "partition=",
        "partition=-a",
        "user=me",
        "n1 state=up",
    ],
)
def test_these_are_none(said: str) -> None:
    assert slurm.problem_of(said)


def test_sinfo_is_asked_for_what_it_selects_and_names_a_node_once(programs: Path) -> None:
    program(programs, "sinfo", f'echo "$@" >{programs}/asked; printf "n1\\nn2\\nn1\\n"')
    assert slurm.nodes("partition=p,q state=idle") == ("n1", "n2")
    asked = (programs / "asked").read_text().split()
    assert asked == ["--noheader", "--Node", "--format=%N", "--partition=p,q", "--states=idle"]


def test_outside_a_job_its_nodes_are_nobodys(programs: Path) -> None:
    assert programs
    with pytest.raises(UsageError, match="this is no job of Slurm"):
        slurm.nodes("$SLURM_JOB_NODELIST")
    with pytest.raises(UsageError, match="this is no job of Slurm"):
        slurm_via.words("n1")


def test_what_slurm_does_not_know_is_said_in_its_words(programs: Path) -> None:
    program(programs, "scontrol", 'echo "scontrol: error: Invalid hostlist: n[" >&2; exit 1')
    with pytest.raises(HostError, match=r"scontrol: Invalid hostlist: n\["):
        slurm.nodes("n[")
    with pytest.raises(HostError, match="sinfo is not installed"):
        slurm.nodes("partition=p")
    program(programs, "sinfo", "exit 0")
    with pytest.raises(UsageError, match="no node that is partition=p"):
        slurm.nodes("partition=p")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("1:05", 65.0),
        ("2:00:01", 7201.0),
        ("1-00:00:00", 86400.0),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_how_long_a_job_lasts(programs: Path, said: str, seconds: float | None) -> None:
    program(programs, "squeue", f"echo '{said}'")
    assert slurm.seconds_left("7") == seconds


def test_a_job_that_ends_now_is_refused_and_one_that_ends_soon_is_stopped(programs: Path) -> None:
    program(programs, "squeue", "echo 0:59")
    with pytest.raises(RefusedError, match="job 7 ends in 59 s"), slurm.before_the_end("7", print):
        pass
    program(
        programs, "squeue",
        f"[ -e {programs}/asked ] && echo 0:30 || echo 1:01; : >{programs}/asked",
    )  # fmt: skip
    stopped: list[str] = []
    with slurm.before_the_end("7", stopped.append):
        for _ in range(600):
            if stopped:
                break
            subprocess.run(["sleep", "0.05"], check=True)
    assert stopped == ["job 7 ends in 30 s"]


def test_a_step_is_the_node_and_nothing_of_ours_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slurm.JOB, "7")
    words = slurm_via.words("n1")
    assert words[:4] == ["srun", "--jobid=7", "--nodelist=n1", "--overlap"]
    assert words[words.index("--") :][:4] == ["--", "env", "-u", "IOTRIAL_STATE"]
    assert slurm_via.words("12/n1")[1] == "--jobid=12"


def test_an_ordinary_users_state_is_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """One home is on all nodes."""
    monkeypatch.setenv(slurm.JOB, "7")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "IOTRIAL_STATE=/var/tmp/iotrial-1000" in slurm_via.words("n1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not [word for word in slurm_via.words("n1") if word.startswith("IOTRIAL_STATE=")]


def test_the_epilog_is_a_program_that_does_nothing_where_nothing_is_owed(tmp_path: Path) -> None:
    text = epilog().replace("/run/iotrial", f"{tmp_path}/run")
    text = text.replace("/var/lib/iotrial", f"{tmp_path}/lib")
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())
    journals = tmp_path / "lib" / "journal.d"
    journals.mkdir(parents=True)
    (journals / "a.journal").write_text("open|99|a|b|0|||.\n")  # of a format that nobody knows
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "settings are left to restore" in done.stderr
    assert "a journal of format 99" in (journals / "a.restored").read_text()


def test_an_allocation_that_cannot_be_had_is_said_in_the_words_of_salloc(programs: Path) -> None:
    with pytest.raises(HostError, match="salloc is not installed"), slurm.allocation([], print):
        pass
    program(programs, "salloc", 'echo "salloc: error: Job submit failed: Invalid" >&2; exit 1')
    refused = pytest.raises(UsageError, match="salloc: Job submit failed: Invalid")
    with refused, slurm.allocation(["-N1"], print):
        pass


def test_an_allocation_is_in_the_environment_while_it_lasts(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        programs, "salloc",
        'while [ "$1" != sh ]; do shift; done\n'
        'SLURM_JOB_ID=7 SLURM_JOB_NODELIST="n[1-2]" OTHER=1 "$@"\n'
        f": >{programs}/released",
    )  # fmt: skip
    said: list[str] = []
    with slurm.allocation(["-N2"], said.append) as job:
        assert (job, slurm.job_here(), os.environ[slurm.NODES]) == ("7", "7", "n[1-2]")
        assert "OTHER" not in os.environ
        assert not (programs / "released").exists()
    assert (programs / "released").exists()
    assert (slurm.job_here(), said) == ("", ["job 7: n[1-2]"])
    monkeypatch.setenv(slurm.JOB, "8")
    with pytest.raises(UsageError, match="this is job 8"), slurm.allocation([], print):
        pass
