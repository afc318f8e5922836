"""What the kernel of the fake machine has for the whole of it: CPUs, interrupts, memory, parameters
of modules, control groups.

They answer as 6.18 does, as far as nothing else is said; ``tests/integration/test_cpu``, ``_irq_``,
``_mm_`` and ``_cgroup_on_this_kernel.py`` compare the answers with the running kernel's.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from iotrial.hosts.fake.commands import COMMANDS
from iotrial.hosts.fake.disk import BLOCKS, refuse, unsigned, whole
from iotrial.hosts.fake.machine import (
    CommandOutput,
    ControlFile,
    FakeMachine,
    FakeProgram,
    MachinePart,
    StaticFiles,
)
from iotrial.hosts.fake.proc import CPUS

CPU_ROOT = "/sys/devices/system/cpu"
GOVERNORS = ("performance", "powersave")
PREFERENCES = ("default", "performance", "balance_performance", "balance_power", "power")
LEAST, NOMINAL, TURBO = 800_000, 3_000_000, 4_000_000
STATES = 4
_MOST = 2**31 - 1
_UINT = 2**32 - 1


@dataclass
class CpuCore:
    """One CPU.  ``low`` and ``high`` are requests; ``preference`` is the one for powersave."""

    governor: str = "powersave"
    preference: str = "balance_performance"
    low: int = LEAST
    high: int = TURBO
    latency: str = "0"
    disabled: list[int] = field(default_factory=lambda: [0] * STATES)


class Cpus(MachinePart):
    """All CPUs, as after a boot: frequencies as intel_pstate with HWP keeps them, and boost
    besides.

    No machine has both ``no_turbo`` and ``boost``; this one does, so that every row can be tried.
    What is asked for stays behind what is shown (drivers/cpufreq/cpufreq.c): limits are what all
    requests together leave.  CPUs 2 and 3 are the second threads of 0 and 1.  Nothing of cpufreq
    could be compared with a real machine; idle states and latencies are.

    ``latency`` is what our holder of /dev/cpu_dma_latency asks for.
    """

    name = "cpu"
    below = (CPU_ROOT,)

    def __init__(self) -> None:
        self.cores = {f"cpu{number}": CpuCore() for number in range(CPUS)}
        self.no_turbo = "0"
        self.boost = "1"
        self.siblings = "on"
        self.latency = "unset"
        self._known: dict[str, ControlFile] = {}

    def online(self) -> dict[str, CpuCore]:
        cores = list(self.cores.items())
        return dict(cores if self.siblings == "on" else cores[: CPUS // 2])

    def limits(self, core: CpuCore) -> tuple[int, int]:
        """Lowest and highest frequency that are in force."""
        cap = TURBO if self.no_turbo == "0" and self.boost == "1" else NOMINAL
        high = max(LEAST, min(core.high, cap))
        return min(max(core.low, LEAST), high), high

    def controls(self) -> dict[str, ControlFile]:
        """Made anew only after a change: every file that is looked for anywhere asks."""
        if not self._known:
            self._known = self._made()
        return self._known

    def _file(self, value: str, do: Callable[[str], None]) -> ControlFile:
        def take(text: str) -> None:
            do(text)
            self._known = {}

        return ControlFile(value, take)

    def _made(self) -> dict[str, ControlFile]:
        files = {
            f"{CPU_ROOT}/intel_pstate/no_turbo": self._file(self.no_turbo, self._set_no_turbo),
            f"{CPU_ROOT}/cpufreq/boost": self._file(self.boost, self._set_boost),
            f"{CPU_ROOT}/smt/control": self._file(self.siblings, self._set_siblings),
            f"{CPU_ROOT}/smt/active": ControlFile(str(int(self.siblings == "on"))),
            f"{CPU_ROOT}/online": ControlFile(f"0-{len(self.online()) - 1}"),
        }
        for name, core in self.online().items():
            files |= self._frequency(f"{CPU_ROOT}/{name}/cpufreq", core)
            files[f"{CPU_ROOT}/{name}/power/pm_qos_resume_latency_us"] = self._file(
                core.latency, partial(_set_latency, core)
            )
            first = int(name.removeprefix("cpu")) % (CPUS // 2)
            files[f"{CPU_ROOT}/{name}/topology/thread_siblings_list"] = ControlFile(
                f"{first},{first + CPUS // 2}" if self.siblings == "on" else str(first)
            )
            for state, value in enumerate(core.disabled):
                files[f"{CPU_ROOT}/{name}/cpuidle/state{state}/disable"] = self._file(
                    str(value), partial(_disable, core, state)
                )
        return files

    def _frequency(self, folder: str, core: CpuCore) -> dict[str, ControlFile]:
        low, high = self.limits(core)
        shown = "performance" if core.governor == "performance" else core.preference
        return {
            f"{folder}/scaling_available_governors": ControlFile(" ".join(GOVERNORS)),
            f"{folder}/scaling_governor": self._file(core.governor, partial(_set_governor, core)),
            f"{folder}/energy_performance_preference": self._file(
                shown, partial(_set_preference, core)
            ),
            f"{folder}/scaling_min_freq": self._file(str(low), partial(_set_low, core)),
            f"{folder}/scaling_max_freq": self._file(str(high), partial(_set_high, core)),
        }

    def _set_no_turbo(self, text: str) -> None:
        self.no_turbo = str(min(_scanned(text), 1))

    def _set_boost(self, text: str) -> None:
        if text.strip() not in ("0", "1"):
            raise refuse(errno.EINVAL)
        self.boost = text.strip()
        for core in self.cores.values():  # cpufreq_boost_set_sw() asks for the highest anew
            core.high = TURBO if self.boost == "1" else NOMINAL

    def _set_siblings(self, text: str) -> None:
        if self.siblings == "forceoff":
            raise refuse(errno.EPERM)
        if text.strip() not in ("on", "off", "forceoff"):
            raise refuse(errno.EINVAL)
        self.siblings = text.strip()

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "iotrial-latency-seen": FakeProgram(
                lambda *_: CommandOutput(0, f"{self.latency}\n"), changes=False
            ),
            "iotrial-latency": FakeProgram(lambda _m, words, _s: self._hold(words), changes=True),
        }

    def _hold(self, words: Sequence[str]) -> CommandOutput:
        """``-c SCRIPT NAME PIDFILE VALUE HOLDER``."""
        value = words[4]
        if value != "unset" and not value.isdigit():
            return CommandOutput(1, "", f"{value}: Invalid argument\n")
        self.latency = value if value == "unset" else str(int(value))
        return CommandOutput()

    def settings(self) -> Mapping[str, str]:
        """What our holder asks for.  Not what nobody can read: the preference that the governor
        performance hides, and limits that were asked for and are cut."""
        return {"latency": self.latency}


def _scanned(text: str) -> int:
    """sscanf(text, "%u")."""
    found = re.match(r"\s*\+?([0-9]+)", text)
    if not found:
        raise refuse(errno.EINVAL)
    return int(found[1])


def _set_governor(core: CpuCore, text: str) -> None:
    if text.strip() not in GOVERNORS:
        raise refuse(errno.EINVAL)
    core.governor = text.strip()


def _set_preference(core: CpuCore, text: str) -> None:
    wanted = text.strip()
    if wanted not in PREFERENCES:
        raise refuse(errno.EINVAL)
    if core.governor == "performance":
        if wanted != "performance":
            raise refuse(errno.EBUSY)
        return
    core.preference = "balance_performance" if wanted == "default" else wanted


def _set_low(core: CpuCore, text: str) -> None:
    core.low = _scanned(text)


def _set_high(core: CpuCore, text: str) -> None:
    core.high = _scanned(text)


def _disable(core: CpuCore, state: int, text: str) -> None:
    """kstrtouint(text, 0): 0x for hexadecimal, a leading 0 for octal."""
    found = re.fullmatch(r"\+?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\n?", text)
    if not found:
        raise refuse(errno.EINVAL)
    digits = found[1].lower()
    number = int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
    if number > _UINT:
        raise refuse(errno.ERANGE)
    core.disabled[state] = int(number != 0)


def _set_latency(core: CpuCore, text: str) -> None:
    """pm_qos_resume_latency_us_store()."""
    if text.strip() == "n/a":
        core.latency = "n/a"
        return
    try:
        number = whole(text)
    except OSError:
        raise refuse(errno.EINVAL) from None
    if number < 0 or number == _MOST:
        raise refuse(errno.EINVAL)
    core.latency = str(number)


IRQ_START = {"40": "0-3", "41": "0-3", "42": "1", "43": "2"}
MANAGED = "43"


def take_list(text: str, cpus: int = CPUS) -> str:
    """What the kernel makes of a list of CPUs.  Raises OSError."""
    found: set[int] = set()
    for word in text.strip().split(","):
        ends = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", word)
        if not ends:
            raise refuse(errno.EINVAL)
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise refuse(errno.EINVAL)
        if last >= cpus:
            raise refuse(errno.ERANGE)
        found.update(range(first, last + 1))
    return _spelt(found)


def _spelt(found: set[int]) -> str:
    starts = sorted(n for n in found if n - 1 not in found)
    ends = sorted(n for n in found if n + 1 not in found)
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _mask(cpus: str) -> str:
    bits = 0
    for word in cpus.split(","):
        first, _, last = word.partition("-")
        bits |= sum(1 << n for n in range(int(first), int(last or first) + 1))
    return f"{bits:x}"


FUNCTION = "/sys/devices/pci0000:00/0000:00:04.0"
"""The PCI function that serves the disk fake1, with all interrupts that can be moved."""
_SERVED = "fake1"
_NODE = "/sys/devices/system/node"
_CLASS = ["-l", "/sys/class/block"]


class Interrupts(MachinePart):
    """Affinities, as after a boot: three interrupts that can be moved, of the disk fake1 on NUMA
    node 0, and one that the kernel spreads itself (kernel/irq/proc.c).

    Two NUMA nodes: the CPUs 0 and 2, and 1 and 3.
    """

    name = "irq"
    below = ("/proc/irq", FUNCTION, _NODE)

    def __init__(self) -> None:
        files = {
            f"/proc/irq/{number}/smp_affinity_list": ControlFile(cpus, _taker(number))
            for number, cpus in IRQ_START.items()
        }
        files["/proc/irq/default_smp_affinity"] = ControlFile(_mask(f"0-{CPUS - 1}"))
        files |= {f"{_NODE}/has_cpu": ControlFile("0-1"), f"{FUNCTION}/numa_node": ControlFile("0")}
        for node in range(2):
            files[f"{_NODE}/node{node}/cpulist"] = ControlFile(f"{node},{node + CPUS // 2}")
        for number in IRQ_START.keys() - {MANAGED}:
            files[f"{FUNCTION}/msi_irqs/{number}"] = ControlFile("msix")
        self._controls = StaticFiles(files)

    def controls(self) -> Mapping[str, ControlFile]:
        return self._controls

    def links(self) -> Mapping[str, str]:
        return {f"{FUNCTION}/block/{_SERVED}": f"{BLOCKS}/{_SERVED}"}

    def programs(self) -> Mapping[str, FakeProgram]:
        return {"ls": FakeProgram(_ls, changes=False)}


def _ls(machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
    """What the disk with interrupts hangs on, and which ones; of the rest of /sys nothing."""
    if list(words) == _CLASS and _SERVED in machine.blocks:
        place = FUNCTION.removeprefix("/sys")
        return CommandOutput(
            0, f"lrwxrwxrwx 1 root root 0 {_SERVED} -> ../..{place}/block/{_SERVED}\n"
        )
    if words[-1] == f"{FUNCTION}/msi_irqs":
        return CommandOutput(0, "".join(f"{name}\n" for name in sorted(machine.names(words[-1]))))
    return CommandOutput(2, "", f"ls: cannot access '{words[-1]}': No such file or directory\n")


def _taker(number: str) -> Callable[[str], str]:
    def take(text: str) -> str:
        if number == MANAGED:
            raise refuse(errno.EPERM)
        return take_list(text)

    return take


_MM = "/sys/kernel/mm"
CHOICES = {
    f"{_MM}/transparent_hugepage/enabled": ("always", "madvise", "never"),
    f"{_MM}/transparent_hugepage/defrag": (
        *("always", "defer", "defer+madvise", "madvise", "never"),
    ),
}
_NUMBERS = {f"{_MM}/transparent_hugepage/khugepaged/defrag": 1, f"{_MM}/ksm/run": 2}
"""File → the largest number that it takes."""


def brackets(choices: tuple[str, ...], chosen: str) -> str:
    """``always [madvise] never``."""
    return " ".join(f"[{each}]" if each == chosen else each for each in choices)


class Memory(MachinePart):
    """Huge pages, page merging and a compressed disk: ``chosen`` and ``numbers`` by file."""

    name = "mm"
    below = (_MM,)

    def __init__(self) -> None:
        self.chosen = dict.fromkeys(CHOICES, "madvise")
        self.numbers = {file: most % 2 for file, most in _NUMBERS.items()}

    def controls(self) -> dict[str, ControlFile]:
        return {
            **{
                file: ControlFile(brackets(names, self.chosen[file]), partial(self._choose, file))
                for file, names in CHOICES.items()
            },
            **{
                file: ControlFile(str(value), partial(self._set, file))
                for file, value in self.numbers.items()
            },
        }

    def _choose(self, file: str, text: str) -> None:
        if text.strip() not in CHOICES[file]:
            raise refuse(errno.EINVAL)
        self.chosen[file] = text.strip()

    def _set(self, file: str, text: str) -> None:
        number = unsigned(text)
        if number > _NUMBERS[file]:
            raise refuse(errno.EINVAL)
        self.numbers[file] = number


HBA = "/sys/module/fake_hba/parameters"
_LOOPS = "/sys/module/loop/parameters/hw_queue_depth"
_TRUE = ("y", "Y", "1", "on", "On", "ON")
_FALSE = ("n", "N", "0", "off", "Off", "OFF")
_POLICIES = ("default", "performance", "powersave")


def _switched(text: str) -> str:
    """kstrtobool(): the first letter decides, or on and off."""
    word = text.strip()
    if word in _TRUE or word[:1] in ("y", "Y", "1", "t", "T"):
        return "Y"
    if word in _FALSE or word[:1] in ("n", "N", "0", "f", "F"):
        return "N"
    raise refuse(errno.EINVAL)


def _parameter(text: str) -> str:
    number = unsigned(text)
    if number > _UINT:
        raise refuse(errno.ERANGE)
    return str(number)


def _policy(text: str) -> str:
    if text.strip() not in _POLICIES:
        raise refuse(errno.EINVAL)
    return brackets(_POLICIES, text.strip())


def _word(text: str) -> str:
    return text.rstrip("\n")


_PARAMETERS: dict[str, tuple[str, Callable[[str], str] | None]] = {
    "lun_queue_depth": ("32", _parameter),
    "debug": ("N", _switched),
    "link_speeds": ("8,16", _word),
    "path": ("", _word),
    "policy": (brackets(_POLICIES, "default"), _policy),
    "hba_queue_depth": ("1024", None),
}


class Modules(MachinePart):
    """Parameters of modules, as kernel/params.c keeps them: ``values`` by name, as they read.

    ``fake_hba`` has one of each kind: a number, a switch, a text, a list of choices, one that is
    empty and one that is read-only.  ``loop`` has what says how deep its devices are.
    """

    name = "module"
    below = ("/sys/module",)

    def __init__(self) -> None:
        self.values = {name: value for name, (value, _) in _PARAMETERS.items()}

    def controls(self) -> dict[str, ControlFile]:
        return {_LOOPS: ControlFile("128", None)} | {
            f"{HBA}/{name}": ControlFile(self.values[name], self._writer(name, taken))
            for name, (_, taken) in _PARAMETERS.items()
        }

    def _writer(
        self, name: str, taken: Callable[[str], str] | None
    ) -> Callable[[str], str | None] | None:
        if taken is None:
            return None

        def write(text: str) -> None:
            if text:  # sysfs never calls the kernel for nothing
                self.values[name] = taken(text)

        return write


V1, V2 = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"
GROUP = "iotrial"
LIMITS = ("read_bps", "write_bps", "read_iops", "write_iops")
MAXIMA = ("rbps", "wbps", "riops", "wiops")
_U32, _U64 = 2**32, 2**64


COST_QOS = "rpct=0.00 rlat=250000 wpct=0.00 wlat=250000 min=1.00 max=10000.00"
COST_MODEL = (
    "rbps=174019176 rseqiops=41708 rrandiops=370 wbps=178075866 wseqiops=42705 wrandiops=378"
)
"""What the kernel takes a disk that turns for (block/blk-iocost.c autop)."""


@dataclass
class ControlGroup:
    """One group, as after mkdir: limits of v1 by file and device, of v2 by device and name."""

    v1: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in LIMITS})
    v2: dict[str, dict[str, int]] = field(default_factory=dict)
    latency: dict[str, int] = field(default_factory=dict)
    weight: int = 100
    bfq: int = 100


class ControlGroups(MachinePart):
    """Control groups: blkio of v1 and io of v2, two groups that may be made in each; iocost, bfq.

    No kernel offers both controllers; this one does, so that every row can be tried.  v1 is as
    measured, v2 as Documentation/admin-guide/cgroup-v2.rst and block/blk-iocost.c say.

    ``made`` are the folders that are there now; ``qos`` and ``model`` are the lines of iocost by
    device, as they read.
    """

    name = "cgroup"
    below = (V2,)

    def __init__(self) -> None:
        self.made: dict[str, ControlGroup] = {}
        self.io = False
        self.qos: dict[str, tuple[int, str]] = {}
        self.model: dict[str, str] = {}

    def controls(self) -> dict[str, ControlFile]:
        files = {
            f"{V1}/cgroup.procs": ControlFile("1", lambda _text: None),
            f"{V1}/blkio.throttle.read_iops_device": ControlFile(""),
            f"{V2}/cgroup.controllers": ControlFile("cpu io memory"),
            f"{V2}/cgroup.subtree_control": ControlFile("io" if self.io else "", self._control),
            f"{V2}/io.cost.qos": ControlFile(
                "\n".join(
                    f"{device} enable={on} {line or f'ctrl=auto {COST_QOS}'}"
                    for device, (on, line) in self.qos.items()
                ),
                self._set_qos,
            ),
            f"{V2}/io.cost.model": ControlFile(
                "\n".join(
                    f"{device} {line or f'ctrl=auto model=linear {COST_MODEL}'}"
                    for device, line in self.model.items()
                ),
                self._set_model,
            ),
        }
        for folder, group in self.made.items():
            files[f"{folder}/cgroup.procs"] = ControlFile("", lambda _text: None)
            if folder.startswith(f"{V1}/"):
                files |= self._old(folder, group)
            elif self.io:
                files |= self._new(folder, group)
        return files

    def _old(self, folder: str, group: ControlGroup) -> dict[str, ControlFile]:
        limits = {
            f"{folder}/blkio.throttle.{name}_device": ControlFile(
                "\n".join(f"{device} {value}" for device, value in found.items()),
                partial(_throttle, name, found),
            )
            for name, found in group.v1.items()
        }
        weight = ControlFile(str(group.bfq), partial(_weigh, group, "bfq", 1000))
        return {**limits, f"{folder}/blkio.bfq.weight": weight}

    def _new(self, folder: str, group: ControlGroup) -> dict[str, ControlFile]:
        return {
            f"{folder}/io.max": ControlFile(_maxima(group), partial(_set_max, group)),
            f"{folder}/io.weight": ControlFile(
                f"default {group.weight}", partial(_weigh, group, "weight", 10000)
            ),
            f"{folder}/io.bfq.weight": ControlFile(
                f"default {group.bfq}", partial(_weigh, group, "bfq", 1000)
            ),
            f"{folder}/io.latency": ControlFile(
                "\n".join(f"{device} target={value}" for device, value in group.latency.items()),
                partial(_set_latency_of, group),
            ),
        }

    def _control(self, text: str) -> None:
        if text.strip() not in ("+io", "-io"):
            raise refuse(errno.EINVAL)
        self.io = text.strip() == "+io"
        if not self.io:
            self.made = {
                folder: group if folder.startswith(f"{V1}/") else ControlGroup()
                for folder, group in self.made.items()
            }

    def _set_qos(self, text: str) -> None:
        """ioc_qos_write(): a number makes it the user's, ``ctrl=auto`` the kernel's again."""
        device, words = _costs(text)
        on = int(words.pop("enable", str(self.qos.get(device, (0, ""))[0])))
        line = _line(words, COST_QOS, self.qos.get(device, (0, ""))[1], "")
        self.qos[device] = (on, line)
        self._forget(device)

    def _set_model(self, text: str) -> None:
        device, words = _costs(text)
        if words.pop("model", "linear") != "linear":
            raise refuse(errno.EINVAL)
        self.model[device] = _line(words, COST_MODEL, self.model.get(device, ""), "model=linear ")
        self._forget(device)

    def _forget(self, device: str) -> None:
        """The kernel goes on to show a disk whose values are its own again, until that goes."""
        if self.qos.get(device, (0, "")) == (0, ""):
            self.qos.pop(device, None)
        if not self.model.get(device):
            self.model.pop(device, None)

    # -- making and removing the groups -----------------------------------------------------

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "iotrial-join": FakeProgram(lambda *_: CommandOutput(), changes=True),
            "mkdir": FakeProgram(self._mkdir, changes=True),
            "rmdir": FakeProgram(self._rmdir, changes=True),
            "iotrial-controller": FakeProgram(
                lambda *_: CommandOutput(0, "on\n" if self.io else "off\n"), changes=False
            ),
            "iotrial-cost": FakeProgram(self._cost, changes=False),
        }

    def _cost(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        """``-c SCRIPT NAME FILE DEVICE OTHERWISE``."""
        path, device, otherwise = words[3:6]
        if path.endswith("qos"):
            on, line = self.qos.get(device, (0, ""))
            own = line.removeprefix("ctrl=user ")
            said = ("auto" if on else "off") if not line else own if on else f"off {own}"
        else:
            said = self.model.get(device, "").removeprefix("ctrl=user model=linear ") or otherwise
        return CommandOutput(0, f"{said}\n")

    def _mkdir(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        folder = words[-1]
        if folder not in _GROUPS:
            return _ordinary("mkdir", machine, words, stdin)
        if folder in self.made:
            return CommandOutput(1, "", f"mkdir: cannot create directory '{folder}': File exists\n")
        self.made[folder] = ControlGroup()
        return CommandOutput()

    def _rmdir(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        folder = words[-1]
        if folder not in _GROUPS:
            return _ordinary("rmdir", machine, words, stdin)
        if folder not in self.made:
            why = "No such file or directory"
            return CommandOutput(1, "", f"rmdir: failed to remove '{folder}': {why}\n")
        inside = (word for task in machine.tasks.values() for word in task.argv)
        if any(folder == word or f" {folder} " in word for word in inside):
            return CommandOutput(
                1, "", f"rmdir: failed to remove '{folder}': Device or resource busy\n"
            )
        del self.made[folder]
        return CommandOutput()

    def settings(self) -> Mapping[str, str]:
        return {"groups": " ".join(sorted(self.made))}


_GROUPS = tuple(f"{root}/{name}" for root in (V1, V2) for name in (GROUP, f"{GROUP}-beside"))


def _costs(text: str) -> tuple[str, dict[str, str]]:
    device, *words = text.split()
    if not re.fullmatch("[0-9]+:[0-9]+", device) or not all("=" in word for word in words):
        raise refuse(errno.EINVAL)
    return device, {name: value for name, _, value in (word.partition("=") for word in words)}


def _line(words: dict[str, str], start: str, former: str, model: str) -> str:
    """What a line of iocost reads after a write; '' where the kernel chooses."""
    known = dict(word.split("=") for word in start.split())
    known |= {n: v for n, v in (word.split("=") for word in former.split()) if n in known}
    control = words.pop("ctrl", "user" if former or words else "auto")
    if set(words) - set(known) or control not in ("auto", "user"):
        raise refuse(errno.EINVAL)
    if control == "auto" and not words:
        return ""
    known |= {n: f"{float(v):.2f}" if "." in known[n] else str(int(v)) for n, v in words.items()}
    if "min" in known and float(known["min"]) > float(known["max"]):
        raise refuse(errno.EINVAL)
    return f"ctrl=user {model}" + " ".join(f"{n}={v}" for n, v in known.items())


def _throttle(name: str, limits: dict[str, int], text: str) -> None:
    """tg_set_conf(): 0 is no limit, and iops keep the lower 32 bits."""
    found = re.fullmatch(r"([0-9]+:[0-9]+) ([0-9]+)\s*", text)
    if not found:
        raise refuse(errno.EINVAL)
    most = _U32 if "iops" in name else _U64
    value = int(found[2]) % most
    if value in (0, most - 1):
        limits.pop(found[1], None)
    else:
        limits[found[1]] = value


def _maxima(group: ControlGroup) -> str:
    return "\n".join(
        f"{device} " + " ".join(f"{name}={limits.get(name, 'max')}" for name in MAXIMA)
        for device, limits in group.v2.items()
    )


def _set_max(group: ControlGroup, text: str) -> None:
    device, *words = text.split()
    limits = dict(group.v2.get(device, {}))
    for word in words:
        name, _, value = word.partition("=")
        if name not in MAXIMA or not (value == "max" or value.isdigit()):
            raise refuse(errno.EINVAL)
        limits.pop(name, None)
        if value != "max":
            if int(value) == 0:
                raise refuse(errno.ERANGE)
            limits[name] = int(value)
    group.v2[device] = limits
    if not limits:
        del group.v2[device]


def _weigh(group: ControlGroup, which: str, most: int, text: str) -> None:
    found = re.fullmatch(r"(?:default )?([0-9]+)\s*", text)
    if not found or not 1 <= int(found[1]) <= most:
        raise refuse(errno.EINVAL)
    setattr(group, which, int(found[1]))


def _set_latency_of(group: ControlGroup, text: str) -> None:
    found = re.fullmatch(r"([0-9]+:[0-9]+) target=([0-9]+)\s*", text)
    if not found:
        raise refuse(errno.EINVAL)
    group.latency.pop(found[1], None)
    if int(found[2]):
        group.latency[found[1]] = int(found[2])


def _ordinary(name: str, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
    return COMMANDS[name].command(machine, words, stdin)
