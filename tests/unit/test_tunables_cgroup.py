from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iotrial.errors import HostError, RefusedError, SettingRefused, UsageError
from iotrial.execute.settings import tuning
from iotrial.execute.settings.journal import Journal, open_journal, read_session
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.cgroup import TUNABLES, V1, V2

DEVICE = "240:0"
V1_NAMES = [each.name for each in TUNABLES if each.name.startswith("cgroup.v1.")]
V2_NAMES = [each.name for each in TUNABLES if each.scope == "cgroup" and "v2" in each.name]


def journal(host: FakeHost) -> Journal:
    return open_journal(host, "/var/lib/iotrial/journal.d", {"boot_id": "b", "token": "t"})


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("cgroup.v1.read_iops", b"7:5 200\n7:50 9\n", "200"),
        ("cgroup.v1.read_iops", b"7:50 9\n", "unset"),
        ("cgroup.v1.read_iops", b"", "unset"),
        ("cgroup.v2.read_bps", b"7:5 rbps=1000 wbps=max riops=max wiops=9\n", "1000"),
        ("cgroup.v2.write_bps", b"7:5 rbps=1000 wbps=max riops=max wiops=9\n", "max"),
        ("cgroup.v2.write_bps", b"7:50 rbps=1000 wbps=9 riops=max wiops=9\n", "max"),
        ("cgroup.v2.latency", b"7:5 target=75\n", "75"),
        ("cgroup.v2.latency", b"", "unset"),
        ("cgroup.v2.weight", b"default 250\n7:5 100\n", "250"),
    ],
)
def test_a_limit_is_read_from_the_line_of_its_device(name: str, raw: bytes, value: str) -> None:
    assert tunable(name).probe("7:5").value(raw) == value


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("cgroup.v1.read_iops", "200", "7:5 200"),
        ("cgroup.v1.read_iops", "unset", "7:5 0"),
        ("cgroup.v2.write_iops", "200", "7:5 wiops=200"),
        ("cgroup.v2.write_iops", "max", "7:5 wiops=max"),
        ("cgroup.v2.latency", "unset", "7:5 target=0"),
        ("cgroup.v2.weight", "250", "default 250"),
    ],
)
def test_a_limit_is_one_line_of_one_write(name: str, value: str, data: str) -> None:
    (act,) = tunable(name).acts("7:5", value)
    assert (act.kind, act.data) == ("write", data)


def test_a_number_that_the_kernel_would_divide_by_as_zero_is_refused() -> None:
    """iops keep 32 bits: 2³² would be 0 (block/blk-throttle.c tg_set_conf)."""
    domain = tunable("cgroup.v1.read_iops").domain(b"")
    assert domain.refusal(str(2**32))
    assert domain.refusal("0")
    assert domain.refusal("200") == domain.refusal("unset") == ""
    assert tunable("cgroup.v2.read_iops").domain(b"").refusal("max") == ""


def test_a_name_that_is_no_device_number_goes_nowhere() -> None:
    with pytest.raises(UsageError):
        tunable("cgroup.v1.read_iops").acts("7:5 1\n7:6", "200")


def test_no_limit_needs_no_group() -> None:
    host = FakeHost()
    assert tuning.own(host, journal(host), ["queue.scheduler"]) == ""
    assert tuning.join(["fio", "x"], "") == ("fio", "x")


@pytest.mark.parametrize(("names", "folder"), [(V1_NAMES, V1), (V2_NAMES, V2)])
def test_the_group_is_owed_before_it_is_made(names: list[str], folder: str) -> None:
    host = FakeHost()
    books = journal(host)
    assert tuning.own(host, books, names) == folder
    session = read_session(books.path, host.read(books.path))
    assert [(each.what, each.plan) for each in session.made] == [("folder", {"folder": folder})]
    words = [what.partition(" ")[0] for what in host.log]
    assert words[: words.index("mkdir")].count("save") > 1, "the journal was begun, and it was owed"
    settings = [owed.setting for debt in session.settings for owed in debt.values]
    if folder == V2:
        assert settings == [Setting("", "cgroup.v2.controller", "off")]
        assert observe(host, tunable("cgroup.v2.controller"), "") == "on"
    else:
        assert settings == []


@pytest.mark.parametrize(("names", "folder"), [(V1_NAMES, V1), (V2_NAMES, V2)])
def test_all_limits_are_set_and_given_back(names: list[str], folder: str) -> None:
    host = FakeHost()
    tuning.own(host, journal(host), names)
    before = host.settings()
    group = snapshot(host, names, DEVICE)
    assert len(group.owed) == len(names)
    apply(host, [Setting(DEVICE, name, "300") for name in names])
    assert host.settings() != before
    assert put_back(host, group.owed) == ()
    assert host.settings() == before
    host.run(["rmdir", folder])
    assert put_back(host, group.owed) == ()  # what is gone limits nothing


def test_limits_of_both_versions_are_one_study_too_many() -> None:
    with pytest.raises(RefusedError, match="one of them"):
        tuning.wanted([*V1_NAMES, *V2_NAMES])


def test_a_group_that_is_there_already_is_somebody_elses() -> None:
    host = FakeHost()
    host.run(["mkdir", V1])
    with pytest.raises(RefusedError, match="exists"):
        tuning.own(host, journal(host), V1_NAMES)


def test_a_kernel_without_the_controller_says_which_it_has() -> None:
    host = FakeHost(refuse={"read /sys/fs/cgroup/cgroup.controllers": 2})
    with pytest.raises(RefusedError, match="no io controller of cgroup v2") as caught:
        tuning.own(host, journal(host), V2_NAMES)
    assert "cgroup.v1.…" in caught.value.advice
    assert tuning.kinds(host) == (V1,)


def test_a_group_that_cannot_be_made_is_an_error_of_the_host() -> None:
    host = FakeHost()
    known = host.machine.programs
    known["mkdir"] = known["mkdir"]._replace(command=known["rmdir"].command)
    with pytest.raises(HostError, match="cannot be created"):
        tuning.own(host, journal(host), V1_NAMES)


def test_a_limit_before_the_group_is_made_is_refused_by_the_kernel() -> None:
    with pytest.raises(SettingRefused):
        apply(FakeHost(), [Setting(DEVICE, "cgroup.v1.read_iops", "200")])


def test_the_load_becomes_itself_in_the_group(tmp_path: Path) -> None:
    """A folder in the place of the group: the pid that is written is the load's own."""
    words = ["a b", "$(reboot)", "'", ""]
    argv = tuning.join(["printf", "%s|", "x", *words], str(tmp_path))
    (tmp_path / "cgroup.procs").write_text("")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as load:
        said, _ = load.communicate(timeout=10)
    assert said == "|".join(["x", *words, ""])
    assert (tmp_path / "cgroup.procs").read_text() == f"{load.pid}\n"


def test_a_load_that_cannot_join_does_not_run(tmp_path: Path) -> None:
    argv = tuning.join(["touch", str(tmp_path / "ran")], str(tmp_path / "none"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "cgroup.procs" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_pretended_load_keeps_its_group_from_going(tmp_path: Path) -> None:
    host = FakeHost()
    tuning.own(host, journal(host), V1_NAMES)
    load = host.start(tuning.join(["sleep", "5"], V1), folder=tmp_path, environment={})
    assert "busy" in host.run(["rmdir", V1]).complaint
    load.kill(gently=True)
    assert host.run(["rmdir", V1]).exit == 0
    lost = host.start(tuning.join(["sleep", "5"], V1), folder=tmp_path, environment={})
    assert lost.wait(1.0) == 2
