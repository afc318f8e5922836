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


class ControlGroups(MachinePart):
    """Control groups: blkio of v1 and io of v2, one group that may be made in each.

    No kernel offers both controllers; this one does, so that every row can be tried.  v1 is as
    measured, v2 as Documentation/admin-guide/cgroup-v2.rst says.

    ``made`` are the roots that have our group now, ``v1`` its limits by file and device, ``v2`` by
    device and name.
    """

    name = "cgroup"
    below = (V2,)

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.v1: dict[str, dict[str, int]] = {name: {} for name in LIMITS}
        self.v2: dict[str, dict[str, int]] = {}
        self.latency: dict[str, int] = {}
        self.weight = 100
        self.io = False

    def controls(self) -> dict[str, ControlFile]:
        files = {
            f"{V1}/cgroup.procs": ControlFile("1", lambda _text: None),
            f"{V1}/blkio.throttle.read_iops_device": ControlFile(""),
            f"{V2}/cgroup.controllers": ControlFile("cpu io memory"),
            f"{V2}/cgroup.subtree_control": ControlFile("io" if self.io else "", self._control),
        }
        if V1 in self.made:
            files[f"{V1}/{GROUP}/cgroup.procs"] = ControlFile("", lambda _text: None)
            for name, limits in self.v1.items():
                files[f"{V1}/{GROUP}/blkio.throttle.{name}_device"] = ControlFile(
                    "\n".join(f"{device} {value}" for device, value in limits.items()),
                    self._throttler(name),
                )
        if V2 in self.made:
            files[f"{V2}/{GROUP}/cgroup.procs"] = ControlFile("", lambda _text: None)
        if V2 in self.made and self.io:
            files[f"{V2}/{GROUP}/io.max"] = ControlFile(self._maxima(), self._set_max)
            files[f"{V2}/{GROUP}/io.weight"] = ControlFile(
                f"default {self.weight}", self._set_weight
            )
            files[f"{V2}/{GROUP}/io.latency"] = ControlFile(
                "\n".join(f"{device} target={value}" for device, value in self.latency.items()),
                self._set_latency,
            )
        return files

    def _control(self, text: str) -> None:
        if text.strip() not in ("+io", "-io"):
            raise refuse(errno.EINVAL)
        self.io = text.strip() == "+io"
        if not self.io:
            self.v2, self.latency, self.weight = {}, {}, 100

    def _throttler(self, name: str) -> Callable[[str], None]:
        """tg_set_conf(): 0 is no limit, and iops keep the lower 32 bits."""

        def write(text: str) -> None:
            found = re.fullmatch(r"([0-9]+:[0-9]+) ([0-9]+)\s*", text)
            if not found:
                raise refuse(errno.EINVAL)
            most = _U32 if "iops" in name else _U64
            value = int(found[2]) % most
            if value in (0, most - 1):
                self.v1[name].pop(found[1], None)
            else:
                self.v1[name][found[1]] = value

        return write

    def _maxima(self) -> str:
        return "\n".join(
            f"{device} " + " ".join(f"{name}={limits.get(name, 'max')}" for name in MAXIMA)
            for device, limits in self.v2.items()
        )

    def _set_max(self, text: str) -> None:
        device, *words = text.split()
        limits = dict(self.v2.get(device, {}))
        for word in words:
            name, _, value = word.partition("=")
            if name not in MAXIMA or not (value == "max" or value.isdigit()):
                raise refuse(errno.EINVAL)
            limits.pop(name, None)
            if value != "max":
                if int(value) == 0:
                    raise refuse(errno.ERANGE)
                limits[name] = int(value)
        self.v2[device] = limits
        if not limits:
            del self.v2[device]

    def _set_weight(self, text: str) -> None:
        found = re.fullmatch(r"(?:default )?([0-9]+)\s*", text)
        if not found or not 1 <= int(found[1]) <= 10000:  # noqa: PLR2004 (CGROUP_WEIGHT_MAX)
            raise refuse(errno.EINVAL)
        self.weight = int(found[1])

    def _set_latency(self, text: str) -> None:
        found = re.fullmatch(r"([0-9]+:[0-9]+) target=([0-9]+)\s*", text)
        if not found:
            raise refuse(errno.EINVAL)
        self.latency.pop(found[1], None)
        if int(found[2]):
            self.latency[found[1]] = int(found[2])

    # -- making and removing the group ------------------------------------------------------

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "iotrial-join": FakeProgram(lambda *_: CommandOutput(), changes=True),
            "mkdir": FakeProgram(self._mkdir, changes=True),
            "rmdir": FakeProgram(self._rmdir, changes=True),
            "iotrial-controller": FakeProgram(
                lambda *_: CommandOutput(0, "on\n" if self.io else "off\n"), changes=False
            ),
        }

    def _mkdir(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        root = self._root(words)
        if not root:
            return _ordinary("mkdir", machine, words, stdin)
        if root in self.made:
            return CommandOutput(
                1, "", f"mkdir: cannot create directory '{words[-1]}': File exists\n"
            )
        self.made.add(root)
        return CommandOutput()

    def _rmdir(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        root = self._root(words)
        if not root:
            return _ordinary("rmdir", machine, words, stdin)
        if root not in self.made:
            why = "No such file or directory"
            return CommandOutput(1, "", f"rmdir: failed to remove '{words[-1]}': {why}\n")
        if any(words[-1] in task.argv for task in machine.tasks.values()):
            return CommandOutput(
                1, "", f"rmdir: failed to remove '{words[-1]}': Device or resource busy\n"
            )
        self.made.discard(root)
        if root == V1:
            self.v1 = {name: {} for name in LIMITS}
        else:
            self.v2, self.latency, self.weight = {}, {}, 100
        return CommandOutput()

    @staticmethod
    def _root(words: Sequence[str]) -> str:
        root, _, name = words[-1].rpartition("/")
        return root if name == GROUP and root in (V1, V2) else ""

    def settings(self) -> Mapping[str, str]:
        return {"groups": " ".join(sorted(self.made))}


def _ordinary(name: str, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
    return COMMANDS[name].command(machine, words, stdin)
