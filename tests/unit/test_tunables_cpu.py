from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot, snapshots
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import CPU_ROOT, Cpus
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.cpu import HOLDER, TUNABLES, hold_latency, row


def test_an_idle_state_of_any_depth_has_a_row() -> None:
    deep = tunable("cpu.idle.state7.disable")
    assert deep.file("cpu3") == f"{CPU_ROOT}/cpu3/cpuidle/state7/disable"
    assert deep.scope == "cpu"
    for name in ("cpu.idle.state.disable", "cpu.idle.state007.disable", "cpu.idle.stateX.disable"):
        assert row(name) is None


def test_a_name_that_is_no_cpu_goes_into_no_path() -> None:
    with pytest.raises(UsageError):
        tunable("cpu.governor").probe("../../../../etc")


@pytest.mark.parametrize(
    ("name", "raw", "taken", "refused"),
    [
        ("cpu.smt", b"on\n", "off", "forceoff"),
        ("cpu.smt", b"notsupported\n", "notsupported", "off"),
        ("cpu.no_turbo", b"0\n", "1", "2"),
        ("cpu.resume_latency", b"0\n", "n/a", "-1"),
        ("cpu.dma_latency", b"unset\n", "unset", "never"),
        ("cpu.dma_latency", b"unset\n", "0", "2147483648"),
        ("cpu.min_freq", b"800000\n", "1", "0"),
        ("cpu.idle.state1.disable", b"0\n", "1", "2"),
    ],
)
def test_a_domain_ends_where_the_kernel_says_no(
    name: str, raw: bytes, taken: str, refused: str
) -> None:
    domain = tunable(name).domain(raw)
    assert domain.refusal(taken) == ""
    assert domain.refusal(refused)


def test_every_row_says_when_it_cannot_matter_and_how_long_it_lasts() -> None:
    assert not [each.name for each in TUNABLES if not (each.moot and each.lasts and each.source)]


def test_nothing_of_a_study_is_a_part_of_a_script() -> None:
    (act,) = hold_latency("", "7; reboot")
    assert "7; reboot" in act.argv
    assert not [word for word in act.argv if "reboot" in word and word != "7; reboot"]


def test_scripts_are_good_posix_shell(tmp_path: Path) -> None:
    knob = tunable("cpu.dma_latency")
    for argv in (knob.probe("").argv, knob.acts("", "1")[0].argv):
        for number, script in enumerate(word for word in argv if "\n" in word):
            path = tmp_path / f"{number}.sh"
            path.write_text(script)
            done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "{{" not in script


def test_the_holder_is_found_by_its_name_in_a_command_line(tmp_path: Path) -> None:
    """What a stale pid file names may be anybody by now."""
    pidfile = tmp_path / "pid"
    show = tunable("cpu.dma_latency").probe("").argv[2]
    show = show.replace("[ -c /dev/cpu_dma_latency ]", "true")

    def seen() -> str:
        argv = ["sh", "-c", show, "iotrial-latency-seen", str(pidfile)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    assert seen() == "unset"
    script = "while :; do read -r _; done"
    for name, expected in ((HOLDER, "70"), ("another", "unset")):
        with subprocess.Popen(["sh", "-c", script, name, "70"], stdin=subprocess.PIPE) as process:
            pidfile.write_text(f"{process.pid}\n")
            assert seen() == expected
            process.kill()
    pidfile.write_text("")
    assert seen() == "unset"


def test_eight_hexadecimal_digits_are_never_taken_for_a_binary_value() -> None:
    """Four characters would be (kernel/power/qos.c cpu_latency_qos_write)."""
    for value in (0, 70, 1000, 65535, 2**31 - 1):
        said = subprocess.run(
            ["sh", "-c", 'printf %08x "$1"', "x", str(value)], capture_output=True, check=True
        ).stdout
        assert len(said) == 8 != struct.calcsize("i")
        assert int(said, 16) == value


def test_a_script_is_spoken_of_by_its_name() -> None:
    assert tunable("cpu.dma_latency").file("").startswith("`iotrial-latency-seen ")


# -- on the fake machine --------------------------------------------------------------------------


def test_the_governor_performance_allows_no_other_preference() -> None:
    host = FakeHost()
    asked = [
        Setting("cpu0", "cpu.governor", "performance"),
        Setting("cpu0", "cpu.energy_preference", "power"),
    ]
    with pytest.raises(SettingRefused, match="under the governor performance"):
        apply(host, asked)


def test_an_unknown_governor_is_refused_by_the_kernel() -> None:
    with pytest.raises(SettingRefused, match=r"cpu\.governor=warp"):
        apply(FakeHost(), [Setting("cpu0", "cpu.governor", "warp")])


def test_boost_moves_the_limits_of_every_cpu_and_they_go_back() -> None:
    host = FakeHost()
    host.meddle(f"{CPU_ROOT}/cpu1/cpufreq/scaling_max_freq", b"1500000")
    before = host.settings()
    moved = {"": ["cpu.boost"], "cpu0": ["cpu.max_freq"], "cpu1": ["cpu.max_freq"]}
    groups = snapshots(host, moved)
    apply(host, [Setting("", "cpu.boost", "0")])
    assert host.settings()[f"{CPU_ROOT}/cpu1/cpufreq/scaling_max_freq"] == "3000000"
    assert put_back(host, [owed for group in groups for owed in group.owed]) == ()
    assert host.settings() == before


@pytest.mark.parametrize("pair", [("3500000", "3800000"), ("900000", "900000")])
def test_both_limits_may_go_above_or_below_the_old_ones(pair: tuple[str, str]) -> None:
    host = FakeHost()
    for file, value in (("scaling_max_freq", "2000000"), ("scaling_min_freq", "1500000")):
        host.meddle(f"{CPU_ROOT}/cpu0/cpufreq/{file}", value.encode())
    before = host.settings()
    group = snapshot(host, ["cpu.min_freq", "cpu.max_freq"], "cpu0")
    low, high = pair
    apply(host, [Setting("cpu0", "cpu.min_freq", low), Setting("cpu0", "cpu.max_freq", high)])
    assert observe(host, tunable("cpu.min_freq"), "cpu0") == low
    assert put_back(host, group.owed) == ()
    assert host.settings() == before


def test_siblings_take_their_cpus_with_them() -> None:
    cpus = Cpus()
    cpus.controls()[f"{CPU_ROOT}/smt/control"].take("off")  # type: ignore[misc]
    assert sorted(cpus.online()) == ["cpu0", "cpu1"]
    with pytest.raises(OSError, match="fake kernel"):
        cpus.controls()[f"{CPU_ROOT}/smt/control"].take("sideways")  # type: ignore[misc]
