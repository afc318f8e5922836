"""CPUs of the fake machine: frequencies as intel_pstate with HWP keeps them, and boost besides.

No machine has both ``no_turbo`` and ``boost``; this one does, so that every row can be tried.
What is asked for stays behind what is shown (drivers/cpufreq/cpufreq.c): limits are what all
requests together leave.  CPUs 2 and 3 are the second threads of 0 and 1.  Nothing of cpufreq could
be compared with a real machine; idle states and latencies are, in
``tests/integration/test_cpu_on_this_kernel.py``.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from iotrial.hosts.fake.machine import Control, Program, Said
from iotrial.hosts.fake.proc import CPUS
from iotrial.hosts.fake.queue import refuse, whole

ROOT = "/sys/devices/system/cpu"
GOVERNORS = ("performance", "powersave")
PREFERENCES = ("default", "performance", "balance_performance", "balance_power", "power")
LEAST, NOMINAL, TURBO = 800_000, 3_000_000, 4_000_000
STATES = 4
_MOST = 2**31 - 1
_UINT = 2**32 - 1


@dataclass
class Core:
    """One CPU.  ``low`` and ``high`` are requests; ``preference`` is the one for powersave."""

    governor: str = "powersave"
    preference: str = "balance_performance"
    low: int = LEAST
    high: int = TURBO
    latency: str = "0"
    disabled: list[int] = field(default_factory=lambda: [0] * STATES)


class Cpus:
    """The state of all CPUs, as after a boot.  ``latency`` is what our holder of
    /dev/cpu_dma_latency asks for."""

    below = (ROOT,)

    def __init__(self) -> None:
        self.cores = {f"cpu{number}": Core() for number in range(CPUS)}
        self.no_turbo = "0"
        self.boost = "1"
        self.siblings = "on"
        self.latency = "unset"
        self._known: dict[str, Control] = {}

    def online(self) -> dict[str, Core]:
        cores = list(self.cores.items())
        return dict(cores if self.siblings == "on" else cores[: CPUS // 2])

    def limits(self, core: Core) -> tuple[int, int]:
        """Lowest and highest frequency that are in force."""
        cap = TURBO if self.no_turbo == "0" and self.boost == "1" else NOMINAL
        high = max(LEAST, min(core.high, cap))
        return min(max(core.low, LEAST), high), high

    def controls(self) -> dict[str, Control]:
        """Made anew only after a change: every file that is looked for anywhere asks."""
        if not self._known:
            self._known = self._made()
        return self._known

    def _file(self, value: str, do: Callable[[str], None]) -> Control:
        def take(text: str) -> None:
            do(text)
            self._known = {}

        return Control(value, take)

    def _made(self) -> dict[str, Control]:
        files = {
            f"{ROOT}/intel_pstate/no_turbo": self._file(self.no_turbo, self._set_no_turbo),
            f"{ROOT}/cpufreq/boost": self._file(self.boost, self._set_boost),
            f"{ROOT}/smt/control": self._file(self.siblings, self._set_siblings),
        }
        for name, core in self.online().items():
            files |= self._frequency(f"{ROOT}/{name}/cpufreq", core)
            files[f"{ROOT}/{name}/power/pm_qos_resume_latency_us"] = self._file(
                core.latency, partial(_set_latency, core)
            )
            for state, value in enumerate(core.disabled):
                files[f"{ROOT}/{name}/cpuidle/state{state}/disable"] = self._file(
                    str(value), partial(_disable, core, state)
                )
        return files

    def _frequency(self, folder: str, core: Core) -> dict[str, Control]:
        low, high = self.limits(core)
        shown = "performance" if core.governor == "performance" else core.preference
        return {
            f"{folder}/scaling_available_governors": Control(" ".join(GOVERNORS)),
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

    def programs(self) -> Mapping[str, Program]:
        return {
            "iotrial-latency-seen": Program(lambda *_: Said(0, f"{self.latency}\n"), changes=False),
            "iotrial-latency": Program(lambda _m, words, _s: self._hold(words), changes=True),
        }

    def _hold(self, words: Sequence[str]) -> Said:
        """``-c SCRIPT NAME PIDFILE VALUE HOLDER``."""
        value = words[4]
        if value != "unset" and not value.isdigit():
            return Said(1, "", f"{value}: Invalid argument\n")
        self.latency = value if value == "unset" else str(int(value))
        return Said()

    def links(self) -> Mapping[str, str]:
        return {}

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


def _set_governor(core: Core, text: str) -> None:
    if text.strip() not in GOVERNORS:
        raise refuse(errno.EINVAL)
    core.governor = text.strip()


def _set_preference(core: Core, text: str) -> None:
    wanted = text.strip()
    if wanted not in PREFERENCES:
        raise refuse(errno.EINVAL)
    if core.governor == "performance":
        if wanted != "performance":
            raise refuse(errno.EBUSY)
        return
    core.preference = "balance_performance" if wanted == "default" else wanted


def _set_low(core: Core, text: str) -> None:
    core.low = _scanned(text)


def _set_high(core: Core, text: str) -> None:
    core.high = _scanned(text)


def _disable(core: Core, state: int, text: str) -> None:
    """kstrtouint(text, 0): 0x for hexadecimal, a leading 0 for octal."""
    found = re.fullmatch(r"\+?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\n?", text)
    if not found:
        raise refuse(errno.EINVAL)
    digits = found[1].lower()
    number = int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
    if number > _UINT:
        raise refuse(errno.ERANGE)
    core.disabled[state] = int(number != 0)


def _set_latency(core: Core, text: str) -> None:
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


PART = Cpus
