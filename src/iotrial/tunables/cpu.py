"""Family ``cpu``: frequency, idle states and siblings; ``/sys/devices/system/cpu/``.

How fast an I/O completes depends on how fast and how awake the CPU is that takes its interrupt.
Idle states of any depth have rows: ``cpu.idle.state5.disable`` is made when it is asked for.

Sources: the kernel's Documentation/admin-guide/pm/{cpufreq,cpuidle,intel_pstate}.rst,
Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/power/pm_qos_interface.rst,
drivers/cpufreq/cpufreq.c, kernel/power/qos.c.  Rows of cpufreq were not measured: virtual machines
have none.

Ranks: 3 siblings, with which CPUs come and go; 5 what clamps the frequencies of all, before
anything of one CPU; 10 governors; 20 what they move; 30 and 31 the limits, of which the highest
clamps the lowest.

Limits of a CPU's frequency are kept behind what is shown: 5.3 and later show the highest and lowest
that all requests together leave.  A limit that is clamped when a study begins (turbo off) is
restored as it was shown, which is less than was asked for once turbo is on again.
"""

from __future__ import annotations

import errno
import re

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "cpu"
TITLE = "CPUs: governor, frequency, turbo, idle states, siblings"

ROOT = "/sys/devices/system/cpu"
_EACH = ROOT + "/{device}"
_PM = "kernel Documentation/admin-guide/pm"
_ABI = "kernel Documentation/ABI/testing/sysfs-devices-system-cpu"
_SEEN = "; not measured (no cpufreq in a virtual machine)"
_LASTS = "until the machine reboots"
_BUSY = "The CPUs are busy all the time: then the frequency is the highest anyway."
_POLLED = "Completions are polled, or the CPUs never idle."
_FEW = "No cpufreq, as in most virtual machines: the hypervisor decides."

UNSET = "unset"
PIDFILE = "/run/iotrial/cpu_dma_latency.pid"
"""Who holds /dev/cpu_dma_latency open for us: its process id."""

HOLDER = "iotrial-latency-holder"

# What the holder is, in its own session: it keeps descriptor 3 and waits for ever, with no child
# that would outlive it.  $1 is only there to be seen in /proc/PID/cmdline.
_HOLDER = """\
cd / && rm -f "$2.wait" && mkfifo -m 600 "$2.wait" && exec 4<>"$2.wait" || exit 1
rm -f "$2.wait"
echo "$$" >"$2.new" && mv "$2.new" "$2" || exit 1
while :; do read -r _ <&4; done
"""

_FIND = f"""\
value= pid=
if [ -e "$1" ] && read -r pid <"$1"; then
  value=$(tr '\\0' '\\n' <"/proc/$pid/cmdline" 2>/dev/null | sed -n '/^{HOLDER}$/{{n;p;}}')
fi
"""

_SHOW = f"""\
if ! [ -c /dev/cpu_dma_latency ]; then
  echo "/dev/cpu_dma_latency: No such file or directory" >&2; exit 1
fi
{_FIND}
echo "${{value:-{UNSET}}}"
"""

# A value of four characters would be taken for a binary one (cpu_latency_qos_write), and text is
# hexadecimal: so always eight digits.
_HOLD = f"""\
{_FIND}
if [ "$value" ]; then
  kill -KILL "$pid"
  while grep -q . "/proc/$pid/cmdline" 2>/dev/null; do sleep 0.01; done
fi
rm -f "$1"
[ "$2" != {UNSET} ] || exit 0
case $2 in
  *[!0-9]* | '') echo "$2: Invalid argument" >&2; exit 1 ;;
esac
mkdir -p -m 700 "${{1%/*}}" && exec 3>/dev/cpu_dma_latency && printf %08x "$2" >&3 || exit 1
setsid -f sh -c "$3" {HOLDER} "$2" "$1" </dev/null >/dev/null 2>&1 || exit 1
exec 3>&-
tries=0
while [ "$tries" -lt 200 ]; do
  ! [ -e "$1" ] || exit 0
  sleep 0.01
  tries=$((tries + 1))
done
echo "{HOLDER}: Connection timed out" >&2; exit 1
"""


def _script(text: str, name: str, *arguments: str) -> tuple[str, ...]:
    """The command of a fixed script, to be read as it stands by ``Tunable.probe``."""
    return ("sh", "-c", literal(text), name, *arguments)


def hold_latency(_device: str, value: str) -> tuple[Change, ...]:
    """Replace our holder of /dev/cpu_dma_latency by one of ``value``, or by none."""
    return (Change("run", argv=("sh", "-c", _HOLD, "iotrial-latency", PIDFILE, value, _HOLDER)),)


def _one_of(*choices: str) -> Domain:
    return Domain(choices=choices)


def _switch(_raw: bytes) -> Domain:
    return _one_of("0", "1")


def _siblings(raw: bytes) -> Domain:
    """Not ``forceoff``: that holds until the machine reboots."""
    state = raw.decode("ascii", "replace").strip()
    return _one_of("on", "off") if state in ("on", "off") else _one_of(state)


def _frequency(_raw: bytes) -> Domain:
    return Domain(low=1)


def _idle(state: str) -> Tunable:
    return Tunable(
        f"cpu.idle.state{state}.disable",
        f"{_EACH}/cpuidle/state{state}/disable",
        f"whether idle state {state} of the CPU is never entered: 1 is never",
        layer="CPU",
        lasts=_LASTS,
        risk=(
            "What a state is called and how long waking takes (name, latency beside it) differs"
            " between machines. The ladder governor then leaves out deeper states too."
        ),
        moot=_POLLED,
        source=f"{_PM}/cpuidle.rst; measured on 6.18",
        scope="cpu",
        domain=_switch,
    )


def row(name: str) -> Tunable | None:
    """The row of any idle state, made when asked for; None for other names."""
    found = re.fullmatch(r"cpu\.idle\.state([0-9]|[1-9][0-9])\.disable", name)
    return _idle(found[1]) if found else None


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        "cpu.governor",
        f"{_EACH}/cpufreq/scaling_governor",
        "what chooses the frequency of the CPU; scaling_available_governors beside it lists them",
        layer="CPU",
        lasts=_LASTS,
        rank=10,
        moves=("cpu.energy_preference",),
        risk=(
            "`powersave` of intel_pstate is not a slow mode, that of other drivers is: the"
            " lowest frequency. Under intel_pstate `performance` makes the energy preference"
            " performance. CPUs of one policy change together."
        ),
        moot=f"{_BUSY} {_FEW}",
        source=f"{_PM}/cpufreq.rst, intel_pstate.rst{_SEEN}",
        scope="cpu",
    ),
    Tunable(
        "cpu.energy_preference",
        f"{_EACH}/cpufreq/energy_performance_preference",
        "the hint to the CPU whether to save energy: performance … power, or a number",
        layer="CPU",
        lasts=_LASTS,
        rank=20,
        risk=(
            "`default` reads as what it stands for: ask for that. Under the governor"
            " performance it is not possible to read what powersave had: a study that begins"
            " there and varies both leaves its last preference behind for powersave."
        ),
        means=((errno.EBUSY, "under the governor performance there is no other preference"),),
        moot=f"{_BUSY} {_FEW}",
        source=f"{_PM}/intel_pstate.rst; drivers/cpufreq/intel_pstate.c{_SEEN}",
        scope="cpu",
    ),
    Tunable(
        "cpu.min_freq",
        f"{_EACH}/cpufreq/scaling_min_freq",
        "the lowest frequency that is chosen",
        unit="kHz",
        layer="CPU",
        lasts=_LASTS,
        rank=31,
        risk=(
            "Above the highest it is cut down to that (EINVAL before 5.3); cpuinfo_min_freq and"
            " cpuinfo_max_freq beside it are the bounds. CPUs of one policy change together."
        ),
        moot=f"{_BUSY} {_FEW}",
        source=f"{_PM}/cpufreq.rst; drivers/cpufreq/cpufreq.c{_SEEN}",
        scope="cpu",
        domain=_frequency,
    ),
    Tunable(
        "cpu.max_freq",
        f"{_EACH}/cpufreq/scaling_max_freq",
        "the highest frequency that is chosen",
        unit="kHz",
        layer="CPU",
        lasts=_LASTS,
        rank=30,
        moves=("cpu.min_freq",),
        risk="Below the lowest it pulls that down with it (EINVAL before 5.3).",
        moot=f"The load is not bound by the CPU. {_FEW}",
        source=f"{_PM}/cpufreq.rst; drivers/cpufreq/cpufreq.c{_SEEN}",
        scope="cpu",
        domain=_frequency,
    ),
    Tunable(
        "cpu.no_turbo",
        f"{ROOT}/intel_pstate/no_turbo",
        "1: no CPU goes above its nominal frequency (intel_pstate; the reverse of cpu.boost)",
        layer="CPU",
        lasts=_LASTS,
        rank=5,
        moves=("cpu.max_freq", "cpu.min_freq"),
        means=((errno.EPERM, "turbo is off in the firmware"),),
        moot=f"The load is not bound by the CPU. {_FEW}",
        source=f"{_PM}/intel_pstate.rst{_SEEN}",
        scope="host",
        domain=_switch,
    ),
    Tunable(
        "cpu.boost",
        f"{ROOT}/cpufreq/boost",
        "0: no CPU goes above its nominal frequency (acpi-cpufreq, amd-pstate, cppc)",
        layer="CPU",
        lasts=_LASTS,
        rank=5,
        moves=("cpu.max_freq", "cpu.min_freq"),
        risk="Drivers ask for the highest frequency again: limits set manually are lost.",
        moot=f"The load is not bound by the CPU. {_FEW}",
        source=f"{_PM}/cpufreq.rst; drivers/cpufreq/cpufreq.c cpufreq_boost_set_sw(){_SEEN}",
        scope="host",
        domain=_switch,
    ),
    Tunable(
        "cpu.smt",
        f"{ROOT}/smt/control",
        "whether the second thread of each core is used",
        layer="CPU",
        lasts=_LASTS,
        rank=3,
        risk=(
            "CPUs go and come: interrupts that were bound to them, cpusets of cgroup v1 and"
            " processes pinned to them are moved away and do not come back by themselves; bind"
            " interrupts again afterwards (irqbalance does). Fewer CPUs have fewer hardware"
            " queues to use. Not together with settings of single CPUs."
        ),
        moot="It reads notsupported or notimplemented, or the machine is not short of CPU.",
        source=f"{_ABI}; kernel/cpu.c; not measured (notsupported in a virtual machine)",
        scope="host",
        domain=_siblings,
    ),
    Tunable(
        "cpu.resume_latency",
        f"{_EACH}/power/pm_qos_resume_latency_us",
        "how long waking the CPU may take: 0 any time, n/a none at all (it polls)",
        unit="µs",
        layer="CPU",
        lasts=_LASTS,
        risk="`n/a` keeps the CPU running hot, and its sibling slow.",
        moot=_POLLED,
        source="kernel Documentation/ABI/testing/sysfs-devices-power; measured on 6.18",
        scope="cpu",
        domain=lambda _raw: Domain(low=0, high=2**31 - 2, words=("n/a",)),
    ),
    Tunable(
        "cpu.dma_latency",
        "",
        "how long waking any CPU may take, asked for by a process of ours that stays: or unset",
        unit="µs",
        layer="CPU",
        lasts="as long as that process lives",
        risk=(
            "0 keeps every CPU running hot. The least that anybody asks for counts: tuned's"
            " latency-performance and network-latency profiles ask too."
        ),
        moot=_POLLED,
        source=(
            "kernel Documentation/power/pm_qos_interface.rst; kernel/power/qos.c; measured on 6.18"
        ),
        scope="host",
        domain=lambda _raw: Domain(low=0, high=2**31 - 1, words=(UNSET,)),
        read=_script(_SHOW, "iotrial-latency-seen", PIDFILE),
        how=hold_latency,
    ),
    *(_idle(str(state)) for state in range(4)),
)
