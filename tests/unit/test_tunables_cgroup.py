from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iotrial.errors import HostError, RefusedError, SettingRefused, StudyError, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.execute.settings import tuning
from iotrial.execute.settings.journal import Journal, open_journal, read_session
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.model.step import Ensure
from iotrial.model.study import Study
from iotrial.model.tunable import Setting, Tunable
from iotrial.plan.load import parse_study
from iotrial.store import open_results
from iotrial.tunables import group, tunable
from iotrial.tunables.cgroup import TUNABLES, V1, V2

DEVICE = "240:0"
V1_NAMES = [each.name for each in TUNABLES if each.name.startswith("cgroup.v1.")]
V2_NAMES = [
    each.name
    for each in TUNABLES
    if each.scope == "cgroup" and "v2" in each.name and ".cost." not in each.name
]


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
        ("cgroup.v2.beside.weight", b"default 250\n", "250"),
        ("cgroup.v1.bfq_weight", b"250\n", "250"),
        ("cgroup.v2.bfq_weight", b"default 250\n7:5 100\n", "250"),
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
        ("cgroup.v1.bfq_weight", "250", "250"),
        ("cgroup.v2.beside.bfq_weight", "250", "default 250"),
        ("cgroup.v2.cost.qos", "off", "7:5 enable=0 ctrl=auto"),
        ("cgroup.v2.cost.qos", "auto", "7:5 enable=1 ctrl=auto"),
        ("cgroup.v2.cost.qos", "rpct=95.00 rlat=1", "7:5 enable=1 ctrl=user rpct=95.00 rlat=1"),
        ("cgroup.v2.cost.qos", "off rpct=9.00", "7:5 enable=0 ctrl=user rpct=9.00"),
        ("cgroup.v2.cost.model", "auto", "7:5 ctrl=auto"),
        ("cgroup.v2.cost.model", "rbps=1", "7:5 ctrl=user model=linear rbps=1"),
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


@pytest.mark.parametrize("neighbour", [False, True])
@pytest.mark.parametrize(("names", "folder"), [(V1_NAMES, V1), (V2_NAMES, V2)])
def test_each_group_is_owed_before_it_is_made(
    names: list[str], folder: str, *, neighbour: bool
) -> None:
    host = FakeHost()
    books = journal(host)
    assert tuning.own(host, books, names, neighbour=neighbour) == folder
    session = read_session(books.path, host.read(books.path))
    folders = [folder, f"{folder}-beside"][: 1 + neighbour]
    assert [(each.what, each.plan) for each in session.made] == [
        ("folder", {"folder": each}) for each in folders
    ]
    words = [what.partition(" ")[0] for what in host.log]
    assert words[: words.index("mkdir")].count("save") > 1, "the journal was begun, and it was owed"
    assert words.count("mkdir") == len(folders) + ("mkdir" in words[: words.index("save")])
    settings = [owed.setting for debt in session.settings for owed in debt.values]
    if folder == V2:
        assert settings == [Setting("", "cgroup.v2.controller", "off")]
        assert observe(host, tunable("cgroup.v2.controller"), "") == "on"
    else:
        assert settings == []


@pytest.mark.parametrize(("names", "folder"), [(V1_NAMES, V1), (V2_NAMES, V2)])
def test_all_limits_are_set_and_given_back(names: list[str], folder: str) -> None:
    host = FakeHost()
    tuning.own(host, journal(host), names, neighbour=True)
    before = host.settings()
    group = snapshot(host, names, DEVICE)
    assert len(group.owed) == len(names)
    apply(host, [Setting(DEVICE, name, str(300 + at)) for at, name in enumerate(names)])
    assert [observe(host, tunable(name), DEVICE) for name in names] == [
        str(300 + at) for at in range(len(names))
    ], "each group has its own"
    assert put_back(host, group.owed) == ()
    assert host.settings() == before
    host.run(["rmdir", folder])
    host.run(["rmdir", f"{folder}-beside"])
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


# iocost.

QOS, MODEL = tunable("cgroup.v2.cost.qos"), tunable("cgroup.v2.cost.model")
NUMBERS = "rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00"
SPEEDS = "rbps=1000 rseqiops=10 rrandiops=5 wbps=1000 wseqiops=10 wrandiops=5"
LINES = {
    "": "off",
    f"7:5 enable=0 ctrl=auto {NUMBERS}": "off",
    f"7:5 enable=1 ctrl=auto {NUMBERS}": "auto",
    f"7:5 enable=1 ctrl=user {NUMBERS}": NUMBERS,
    f"7:5 enable=0 ctrl=user {NUMBERS}": f"off {NUMBERS}",
    f"7:50 enable=1 ctrl=user {NUMBERS}": "off",
}
MODELS = {
    "": "auto",
    f"7:5 ctrl=auto model=linear {SPEEDS}": "auto",
    f"7:5 ctrl=user model=linear {SPEEDS}": SPEEDS,
}


@pytest.mark.parametrize(
    ("row", "line", "value"),
    [
        *((QOS, line, value) for line, value in LINES.items()),
        *((MODEL, line, value) for line, value in MODELS.items()),
    ],
)
def test_a_line_of_the_kernel_is_one_value(
    row: Tunable, line: str, value: str, tmp_path: Path
) -> None:
    """The very script, with a file in the place of the kernel's."""
    file = tmp_path / "io.cost"
    file.write_text(f"8:0 enable=1 ctrl=auto rpct=1.00\n{line}\n" if line else "")
    argv = [word if "io.cost" not in word else str(file) for word in row.probe("7:5").argv[3:]]
    done = subprocess.run(
        [*row.probe("7:5").argv[:3], *argv], capture_output=True, text=True, check=True
    )
    assert row.observe(done.stdout.encode()) == value


def test_a_kernel_without_iocost_has_no_such_value(tmp_path: Path) -> None:
    argv = [str(tmp_path / "x") if "io.cost" in w else w for w in QOS.probe("7:5").argv[3:]]
    done = subprocess.run(
        [*QOS.probe("7:5").argv[:3], *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("row", "value", "why"),
    [
        (QOS, NUMBERS, ""),
        (QOS, "off", ""),
        (QOS, NUMBERS.replace("95.00", "95"), f"is read back as {NUMBERS!r}: write it so"),
        (QOS, " ".join(reversed(NUMBERS.split())), f"is read back as {NUMBERS!r}: write it so"),
        (QOS, "rpct=95.00", "is neither off nor auto nor like"),
        (QOS, f"{NUMBERS} rpct=95.00", "is neither"),
        (QOS, NUMBERS.replace("5000", "-1"), "is neither"),
        (QOS, NUMBERS.replace("95.00", "101.00"), "a percentile is above 100"),
        (QOS, NUMBERS.replace("min=50.00", "min=200.00"), "min below max"),
        (QOS, NUMBERS.replace("min=50.00", "min=0.50"), "from 1 to 10000"),
        (QOS, f"off {NUMBERS}", "is neither"),
        (MODEL, "auto", ""),
        (MODEL, SPEEDS, ""),
        (MODEL, SPEEDS.replace("rbps=1000", "rbps=01000"), "write it so"),
        (MODEL, "off", "is neither auto nor like"),
    ],
)
def test_all_numbers_are_said_in_the_kernels_spelling(row: Tunable, value: str, why: str) -> None:
    said = row.domain(b"").refusal(value)
    assert (why in said) if why else said == ""


@pytest.mark.parametrize("former", ["off", "auto", NUMBERS, f"off {NUMBERS}"])
def test_iocost_is_given_back_whatever_it_was(former: str) -> None:
    host, other = FakeHost(), NUMBERS.replace("5000", "7000")
    host.batch([Ensure(QOS.probe(DEVICE), former, QOS.acts(DEVICE, former))])
    assert observe(host, QOS, DEVICE) == former
    before = host.settings()
    names = [QOS.name, MODEL.name]
    group = snapshot(host, names, DEVICE)
    for value in (other, "auto", "off", NUMBERS):
        apply(host, [Setting(DEVICE, QOS.name, value), Setting(DEVICE, MODEL.name, SPEEDS)])
        assert observe(host, QOS, DEVICE) == value
        assert put_back(host, group.owed) == ()
        assert host.settings() == before


def test_the_model_is_set_before_it_is_used_and_the_disk_s_throttling_goes_with_it() -> None:
    assert [row.name for row in group([QOS.name, MODEL.name])] == [
        "cgroup.v2.cost.model",
        "cgroup.v2.cost.qos",
        "queue.wbt_lat_usec",
    ]


# A victim and its neighbour.

STUDY = """
[targets.disk]
device = "naa.600fa4e000000001"
[workloads.database]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
BESIDE
[workloads.backup]
tool = "fio"
options = { rw = "read", bs = "64k", runtime = "1s" }
[factors.share.levels]
even = {}
database = { "cgroup.v2.cost.qos" = "auto", "cgroup.v2.weight" = 1000 }
backup = { "cgroup.v2.cost.qos" = "auto", "cgroup.v2.beside.weight" = 1000 }
[design]
kind = "full"
blocks = 2
settle = "0s"
"""


def pair(beside: str = 'beside = "backup"') -> Study:
    return parse_study(STUDY.replace("BESIDE", beside), "study.toml", lambda _name: "")


@pytest.mark.usefixtures("state")
def test_each_of_two_loads_has_its_group_and_its_weight(tmp_path: Path) -> None:
    host = FakeHost()
    execute_study(pair(), host, tmp_path / "r", interruption=Interruption())
    assert host.settings() == FakeHost().settings(), "both groups are gone"
    wanted = {"even": ("100", "100"), "database": ("1000", "100"), "backup": ("100", "1000")}
    records = open_results(tmp_path / "r").valid
    assert {dict(record.trial.treatment)["share"] for record in records} == wanted.keys()
    for record in records:
        held = {name: value for _, name, value in record.before}
        label = dict(record.trial.treatment)["share"]
        assert (held["cgroup.v2.weight"], held["cgroup.v2.beside.weight"]) == wanted[label]
        assert held["cgroup.v2.cost.qos"] == ("off" if label == "even" else "auto")
        assert record.before == record.after
    starts = [line for line in host.log if "iotrial-together" in line]
    assert len(starts) == 6
    for line in starts:
        outer, _, _ = line.partition("iotrial-together")
        assert f"iotrial-join {V2} " in outer, "all loads begin in the group of the first"
        (own,) = [each for each in line.splitlines() if each.startswith("one ") and "join" in each]
        assert f"iotrial-join {V2}-beside fio" in own, "and its neighbour leaves it"
        assert "--name=backup" in own


def test_a_neighbours_weight_without_a_neighbour_is_a_mistake() -> None:
    with pytest.raises(StudyError, match="belongs to a workload that runs beside another"):
        pair(beside="")
