"""The doctor: may we measure here?

Each check is one function that looks at one thing and answers with a verdict, its reason, and
the remedy.  *bad* means that settings cannot be tried or results not trusted; *warn* that the
numbers will be noisier, or differ from what bare metal would say.  Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.called import as_root
from iotrial.errors import IotrialError
from iotrial.hosts.places import state_places, unseen
from iotrial.look import machine, reading
from iotrial.look.boots import METHODS, boot_means
from iotrial.look.facts import version
from iotrial.look.machine import rules
from iotrial.look.mounts import mount_of, parse_mountinfo, parse_swaps
from iotrial.model.host import Reader
from iotrial.model.tool import Tool
from iotrial.tools import tools as known_tools
from iotrial.units import format_bytes

Verdict = Literal["ok", "warn", "bad"]

_SLOW_CLOCKS = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
_STALLED = 0.05  # of the last ten seconds some task waited for I/O, before we began
_BUSY = 0.5  # load per processor
_DEMO = 2**30 + 2**26  # bytes: the loop file of the demo, and its margin

_COMPLAINTS = ("invalid option", "invalid argument", "Unsupported option")
_NOT_THERE = " is not installed"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One thing looked at.  ``remedy`` is empty when there is nothing to do."""

    name: str
    verdict: Verdict
    reason: str
    remedy: str = ""


def examine(
    host: Reader, *, tools: Sequence[Tool] | None = None, owed: Sequence[str] = ()
) -> tuple[HostCheck, ...]:
    """Look at everything that decides whether measuring here makes sense.

    ``tools`` (default: every tool iotrial knows) are asked for their version; ``owed`` are debts
    of earlier sessions, as :meth:`~iotrial.execute.settings.journal.JournalFile.describe` words
    them.
    """
    found = [_owed(owed, unseen(host))]
    found += [_guard(host)] if host.unguarded else []
    found += [_safely(each, host) for each in CHECKS]
    if tools is None:
        return (*found, *_any_tool(host))
    return (*found, *(_tool(host, tool) for tool in tools))


def overall(checks: Sequence[HostCheck]) -> Verdict:
    """The gravest verdict."""
    found = {check.verdict for check in checks}
    return "bad" if "bad" in found else "warn" if "warn" in found else "ok"


def _safely(check: Callable[[Reader], HostCheck], host: Reader) -> HostCheck:
    """A check that cannot look says so; the others go on."""
    try:
        return check(host)
    except IotrialError as error:
        name = check.__name__.removeprefix("_").replace("_", "-")
        return HostCheck(name, "warn", f"could not be checked: {error.message}", error.advice)


def _owed(owed: Sequence[str], blind: str) -> HostCheck:
    if blind and not owed:
        return HostCheck("owed", "warn", blind, f"{as_root()} status")
    if not owed:
        return HostCheck("owed", "ok", "no settings are left to restore on this host")
    listed = "; ".join(owed)
    return HostCheck(
        "owed", "bad", f"left changed by an earlier session: {listed}", "iotrial restore"
    )


def _any_tool(host: Reader) -> list[HostCheck]:
    """Of all the tools there are, a study needs those that it names: as long as one is there, it
    is nothing bad that another is not."""
    asked = [_tool(host, tool) for tool in known_tools().values()]
    if all(check.verdict == "bad" for check in asked):
        return asked
    return [
        replace(check, verdict="ok", reason=f"{check.reason}; only some studies need it")
        if check.reason.endswith(_NOT_THERE)
        else check
        for check in asked
    ]


def _tool(host: Reader, tool: Tool) -> HostCheck:
    name = f"tool-{tool.name}"
    said = version(host, tool.program)
    package = f"apt-get install {tool.package}, or your distribution's package of that name"
    remedy = getattr(tool, "remedy", package)
    if not said:
        return HostCheck(name, "bad", f"{tool.program}{_NOT_THERE}", remedy)
    problem = tool.version_problem(said)
    if problem:
        return HostCheck(name, "bad", problem, remedy)
    # A program without --version complains of it, and is there.
    return HostCheck(
        name, "ok", "installed" if any(words in said for words in _COMPLAINTS) else said
    )


def _root(host: Reader) -> HostCheck:
    if host.run(["id", "-u"]).text.strip() == "0":
        return HostCheck("root", "ok", "running as root")
    reason = "not root: settings and loop devices are not available"
    return HostCheck("root", "warn", reason, f"{as_root()} …; file targets and tool options work")


def _guard(host: Reader) -> HostCheck:
    return HostCheck("guard", "warn", f"no guard would restore it: {host.unguarded}",
                     "File targets and tool options work; settings are refused.")  # fmt: skip


def _sysfs(host: Reader) -> HostCheck:
    mounts = parse_mountinfo(
        reading.content(host, "/proc/self/mountinfo").decode("utf-8", "replace")
    )
    mount = mount_of("/sys/block", mounts)
    if mount is None or mount.fstype != "sysfs":
        return HostCheck("sysfs", "bad", "/sys is not mounted", "mount -t sysfs sysfs /sys")
    if mount.read_only:
        reason = "/sys is read-only, as in a container: settings cannot be tried"
        return HostCheck(
            "sysfs", "bad", reason, "Run on the host itself, or in a privileged container"
        )
    return HostCheck("sysfs", "ok", "/sys is not read-only")


def _loop(host: Reader) -> HostCheck:
    found = reading.status(host, "/dev/loop-control")
    if found is None:
        return HostCheck("loop", "warn", "no /dev/loop-control: no loop targets", "modprobe loop")
    return HostCheck("loop", "ok", "the kernel offers loop devices")


def _schedulers(host: Reader) -> HostCheck:
    offered = machine.schedulers(host)
    if not offered:
        remedy = "Check that this host has block devices."
        return HostCheck("schedulers", "warn", "no device offers an I/O scheduler", remedy)
    if len(offered) == 1:
        remedy = "modprobe -a mq-deadline bfq kyber-iosched, where the kernel has them as modules"
        return HostCheck("schedulers", "warn", f"only {offered[0]} is offered", remedy)
    return HostCheck("schedulers", "ok", "offered: " + ", ".join(offered))


def _writers(host: Reader) -> HostCheck:
    found = machine.writers(host)
    if not found:
        return HostCheck("other-writers", "ok", "no other program changes settings")
    if any(each.startswith("iotrial ") for each in found):
        remedy = "Wait until it ends"
        return HostCheck("other-writers", "bad", f"running here: {', '.join(found)}", remedy)
    names = list(dict.fromkeys(each.split(" ", 1)[0] for each in found))
    what = "; ".join(f"{name} writes {machine.WRITERS[name]}" for name in names)
    remedy = f"systemctl stop {' '.join(names)}, during measurements"
    reason = f"also change settings: {', '.join(found)}. {what}"
    return HostCheck("other-writers", "warn", reason, remedy)


def _udev_rules(host: Reader) -> HostCheck:
    if not machine.udev(host):
        return HostCheck("udev-rules", "ok", "udev is not running: no rule is applied")
    found = rules(host)
    if not found:
        return HostCheck("udev-rules", "ok", "no udev rule writes settings")
    reason = f"udev writes settings whenever a device is added or changed: {', '.join(found)}"
    remedy = "Remove the rules for your target during measurements, then `udevadm control --reload`"
    return HostCheck("udev-rules", "warn", reason, remedy)


def _governor(host: Reader) -> HostCheck:
    name = reading.text(host, machine.GOVERNOR)
    if name in ("", "performance"):
        return HostCheck("cpu-governor", "ok", name or "no frequency scaling visible")
    reason = f"the CPU frequency governor is {name}: clocks follow the load"
    return HostCheck("cpu-governor", "warn", reason, "cpupower frequency-set -g performance")


def _swap(host: Reader) -> HostCheck:
    swaps = parse_swaps(reading.text(host, "/proc/swaps"))
    used = sum(swap.used for swap in swaps)
    if not used:
        return HostCheck("swap", "ok", "no swap is in use")
    reason = f"{format_bytes(used)} of swap in use: paging causes additional I/O"
    return HostCheck("swap", "warn", reason, "Free some memory, then swapoff -a && swapon -a")


def _load(host: Reader) -> HostCheck:
    load = machine.load_average(reading.text(host, "/proc/loadavg"))
    cpus = machine.cpu_count(reading.text(host, "/proc/cpuinfo")) or 1
    stalled = machine.pressure(reading.text(host, "/proc/pressure/io"))
    reason = f"load {load:.2f} on {cpus} processors, {stalled:.0%} of the time waiting for I/O"
    if load / cpus > _BUSY or stalled > _STALLED:
        return HostCheck(
            "load", "warn", reason, "Check `top` and `iotop`; measure when the host is idle"
        )
    return HostCheck("load", "ok", reason)


def _resync(host: Reader) -> HostCheck:
    found = machine.resyncs(host)
    if not found:
        return HostCheck("md-resync", "ok", "no array is rebuilding or being checked")
    remedy = "Wait, or: echo idle > /sys/block/mdN/md/sync_action"
    return HostCheck("md-resync", "bad", "active: " + ", ".join(found), remedy)


def _room(host: Reader) -> HostCheck:
    folder = state_places(host).files
    left = reading.room(host, reading.nearest(host, folder))
    reason = f"{format_bytes(left)} free in {folder}"
    if left < _DEMO:
        return HostCheck(
            "room", "warn", reason, "Use a folder with free space for loop targets: loop.directory"
        )
    return HostCheck("room", "ok", reason)


def _virtual(host: Reader) -> HostCheck:
    dmi = "/sys/class/dmi/id"
    vendor, product = (reading.text(host, f"{dmi}/{at}") for at in ("sys_vendor", "product_name"))
    kind = machine.virtualisation(reading.text(host, "/proc/cpuinfo"), vendor, product)
    if not kind:
        return HostCheck("virtual-machine", "ok", "no hypervisor detected")
    reason = (
        f"a virtual machine ({kind}): results depend on the hypervisor's scheduler, cache"
        " and other guests"
    )
    return HostCheck("virtual-machine", "warn", reason, "Use ratios within it, not absolute rates")


def _clocksource(host: Reader) -> HostCheck:
    name = reading.text(host, machine.CLOCKSOURCE)
    if name in _SLOW_CLOCKS:
        reason = f"clock source {name}: reading the time costs as much as a fast I/O"
        return HostCheck("clocksource", "warn", reason, f"echo tsc > {machine.CLOCKSOURCE}")
    return HostCheck("clocksource", "ok", name or "unknown")


def _boots(host: Reader) -> HostCheck:
    means = boot_means(host)
    reasons = "; ".join(f"not {METHODS[name]}: {why}" for name, why in means.methods.items() if why)
    if not means.method:
        remedy = "apt-get install kexec-tools, or your distribution's; other factors need no boot"
        return HostCheck(
            "boots", "ok", f"no kernel or boot parameter can be varied: {reasons}", remedy
        )
    kernels = f"{len(means.kernels)} kernels installed: {', '.join(means.kernels)}"
    by = f"kernels and boot parameters can be varied by {METHODS[means.method]}"
    return HostCheck("boots", "ok", "; ".join(filter(None, (by, kernels, reasons))))


CHECKS: tuple[Callable[[Reader], HostCheck], ...] = (
    _root,
    _sysfs,
    _loop,
    _schedulers,
    _writers,
    _udev_rules,
    _governor,
    _swap,
    _load,
    _resync,
    _room,
    _virtual,
    _clocksource,
    _boots,
)
