"""Kernel parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from iotrial.model.tunable import Domain
from iotrial.tunables import families
from iotrial.tunables.sysctl import REFUSED
from iotrial_lint.known import INERT, gone, is_sysctl, nearest_sysctl
from iotrial_lint.rule import (
    ConfigFile,
    ConfigSetting,
    LintContext,
    RuleMessage,
    Version,
    at,
    host_rule,
    rule,
    since,
    spelled,
    whole,
)


def _winners(sheets: Iterable[ConfigFile]) -> Mapping[str, tuple[str, ConfigSetting]]:
    """(file, setting) of each kernel parameter by its name: the last that sets it, of sheets in the
    order in which they are read."""
    wins: dict[str, tuple[str, ConfigSetting]] = {}
    for sheet in sheets:
        if sheet.kind == "sysctl":
            wins.update((each.name, (sheet.file, each)) for each in sheet.of("sysctl"))
    return wins


_PAIRS_DIRTY_BACKGROUND_ABOVE = (
    ("vm.dirty_background_ratio", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_bytes"),
)


@rule(
    "dirty-background-above",
    "dirty_background_ratio not below dirty_ratio",
    "warning",
    ("sysctl", "tuned"),
    reason=(
        "Writing back must begin before writers are held up.  Where it does not, the kernel"
        " quietly takes half of the upper limit."
    ),
    source="mm/page-writeback.c: domain_dirty_limits()",
    fix="Keep the background limit below the other.",
    together=True,
)
def dirty_background_above(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Writing back in the background that would begin after writers are stopped."""
    wins = sheet.last("sysctl")
    for begin, stop in _PAIRS_DIRTY_BACKGROUND_ABOVE:
        if begin not in wins or stop not in wins:
            continue
        first, last = whole(wins[begin].value), whole(wins[stop].value)
        if first is not None and last and first >= last:
            what = f"{first} is not below {stop} = {last}; the kernel takes half of {last}"
            yield at(wins[begin], what, f"{begin} = {last // 2}")


_PAIRS_DIRTY_TWICE = (
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
)


@rule(
    "dirty-twice",
    "dirty_ratio with dirty_bytes",
    "warning",
    ("sysctl", "tuned"),
    reason=(
        "Each is the counterpart of the other: the one written last counts, the other becomes 0."
    ),
    source="Documentation/admin-guide/sysctl/vm.rst: dirty_bytes, dirty_background_bytes",
    fix="Keep one of them.",
    together=True,
)
def dirty_twice(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A limit of dirty memory said twice: as a share and in bytes."""
    wins = sheet.last("sysctl")
    order = [each.name for each in sheet.of("sysctl")]
    for pair in _PAIRS_DIRTY_TWICE:
        both = [wins[name] for name in pair if name in wins]
        if len(both) == len(pair) and all(each.value != "0" for each in both):
            first, last = sorted(both, key=lambda each: _last(order, each.name))
            yield at(first, f"{last.name} is written after it, and makes it 0")


def _last(order: list[str], name: str) -> int:
    return len(order) - order[::-1].index(name)


@rule(
    "rcvbuf-fixed",
    "tcp_rmem with tcp_moderate_rcvbuf = 0",
    "warning",
    ("sysctl", "tuned"),
    reason=(
        "The third number of tcp_rmem bounds what TCP makes of a buffer by itself.  Switched off,"
        " it makes nothing: buffers stay at the second."
    ),
    source="Documentation/networking/ip-sysctl.rst: tcp_moderate_rcvbuf",
    fix="net.ipv4.tcp_moderate_rcvbuf = 1",
    together=True,
)
def rcvbuf_fixed(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A largest receive buffer that TCP is told not to use."""
    wins = sheet.last("sysctl")
    fixed, sizes = wins.get("net.ipv4.tcp_moderate_rcvbuf"), wins.get("net.ipv4.tcp_rmem")
    if not fixed or not sizes or fixed.value != "0":
        return
    words = sizes.value.split()
    first = words[1] if len(words) > 1 else "the second number"
    what = f"with tcp_moderate_rcvbuf = 0 every socket keeps {first} bytes; the largest is moot"
    yield at(sizes, what, "net.ipv4.tcp_moderate_rcvbuf = 1")


_PAIRS_SOCKET_MAX_BELOW_TCP = (
    ("net.core.rmem_max", "net.ipv4.tcp_rmem"),
    ("net.core.wmem_max", "net.ipv4.tcp_wmem"),
)


@rule(
    "socket-max-below-tcp",
    "rmem_max or wmem_max below the maximum of tcp_rmem or tcp_wmem",
    "warning",
    ("sysctl", "tuned"),
    reason=(
        "TCP by itself goes up to its own maximum.  A program that sets its buffer (SO_RCVBUF,"
        " SO_SNDBUF), as many storage clients do, gets no more than rmem_max or wmem_max: less than"
        " one that asks for nothing."
    ),
    source="Documentation/networking/ip-sysctl.rst: tcp_rmem, tcp_wmem; socket(7)",
    fix="Give both the same maximum.",
    together=True,
)
def socket_max_below_tcp(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A socket's largest buffer below TCP's."""
    wins = sheet.last("sysctl")
    for of_socket, of_tcp in _PAIRS_SOCKET_MAX_BELOW_TCP:
        if of_socket not in wins or of_tcp not in wins:
            continue
        largest = wins[of_socket]
        words = [whole(word) for word in wins[of_tcp].value.split()]
        least, most = whole(largest.value), words[-1] if words else None
        if least is not None and most is not None and least < most:
            what = f"{largest.value} is below the largest of {of_tcp}, {most}"
            yield at(largest, what, f"{of_socket} = {most}")


@rule(
    "swappiness-zero",
    "swappiness = 0",
    "note",
    ("sysctl", "tuned"),
    reason=(
        "Old reports set 0 where 1 is meant now: before 3.5 it was the least.  Since then it is"
        " off until free and file pages fall below the high watermark, and the OOM killer is near."
    ),
    source="Documentation/admin-guide/sysctl/vm.rst: swappiness; commit fe35004fbf9e (3.5)",
    fix="vm.swappiness = 1",
)
def swappiness_zero(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """swappiness = 0 is not "a little less"."""
    for each in sheet.of("sysctl"):
        if each.name == "vm.swappiness" and each.value == "0" and since(scene, 3, 5):
            what = "from 3.5 on nothing anonymous is swapped until memory is nearly gone"
            yield at(each, what, "vm.swappiness = 1")


@rule(
    "sysctl-act",
    "an act, not a setting",
    "warning",
    ("sysctl", "tuned", "cmdline"),
    reason=(
        "Dropping caches or compacting memory at boot does nothing, and costs whenever the file is"
        " read again."
    ),
    source="Documentation/admin-guide/sysctl/vm.rst: drop_caches, compact_memory",
    fix="Take the line out.",
)
def sysctl_act(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Acts in a file of settings."""
    for each in sheet.of("sysctl"):
        if "is an act" in REFUSED.get(each.name, ""):
            yield at(each, "it is an act and no setting: it is done once, when the file is read")


_DEFAULTS: dict[str, tuple[int, Version]] = {
    "net.ipv4.ipfrag_low_thresh": (3 * 2**20, (3, 9)),
    "net.ipv4.ipfrag_high_thresh": (4 * 2**20, (3, 9)),
    "net.core.somaxconn": (4096, (5, 4)),
    "kernel.shmmax": (2**64 - 2**24 - 1, (3, 16)),
    "kernel.shmall": (2**64 - 2**24 - 1, (3, 16)),
    "kernel.msgmnb": (16384, (2, 6, 12)),
    "kernel.msgmax": (8192, (2, 6, 12)),
    "net.core.netdev_max_backlog": (1000, (2, 6, 12)),
    "fs.aio-max-nr": (65536, (2, 6, 12)),
    "fs.inotify.max_user_instances": (128, (2, 6, 14)),
    "vm.max_map_count": (65530, (2, 6, 12)),
}


@rule(
    "sysctl-below-default",
    "a value below the kernel's own",
    "note",
    ("sysctl", "tuned"),
    reason=(
        "It was an increase when it was written.  The default has grown since: the line takes away."
    ),
    source=(
        "include/uapi/linux/shm.h (3.16), net/ipv4/ip_fragment.c, net/core/net_namespace.c (5.4)"
    ),
    fix="Take the line out.",
)
def sysctl_below_default(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Values that were large once, and are below what the kernel has by itself now."""
    for each in sheet.of("sysctl"):
        default, since = _DEFAULTS.get(each.name, (0, ()))
        known = default and scene.kernel >= since and each.how != "bound"
        value = whole(each.value)
        if known and value is not None and value < default:
            what = f"{each.value} is below the default from {spelled(since)} on, {default}"
            yield at(each, what)


_TEXTS = ("kernel.core_pattern", "kernel.hostname", "kernel.domainname", "kernel.modprobe")


@rule(
    "sysctl-comment-behind",
    "a comment behind a value",
    "error",
    ("sysctl",),
    reason="The kernel gets the comment with the value, and refuses both (Invalid argument).",
    source="sysctl.d(5), sysctl.conf(5): a comment is a line that begins with # or ;",
    fix="Give the comment a line of its own.",
)
def sysctl_comment_behind(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """A comment behind a value: in a sysctl file it is part of the value."""
    for each in sheet.of("sysctl"):
        found = re.search(r"\s[#;].*", each.value)
        if found and each.name not in _TEXTS:
            value = each.value[: found.start()].strip()
            what = f"{found[0].strip()[:40]!r} is part of the value: only whole lines are comments"
            yield at(each, what, f"{each.name} = {value}")


@rule(
    "sysctl-inert",
    "a kernel parameter without effect",
    "warning",
    ("sysctl", "udev", "tuned", "cmdline"),
    reason="It is kept so that old files are accepted.  Whoever relies on it relies on nothing.",
    source="Documentation/networking/ip-sysctl.rst; net/ipv4/route.c",
    fix="Take the line out.",
)
def sysctl_inert(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Kernel parameters that are accepted and do nothing."""
    for each in sheet.of("sysctl"):
        found = INERT.get(each.name)
        if found and scene.kernel >= found.since:
            yield at(each, f"it has no effect from {spelled(found.since)} on: {found.why}")


def unknown(setting: ConfigSetting, scene: LintContext) -> bool:
    """Whether no kernel has it: not the list's, not this host's."""
    return not (setting.name in scene.there or gone(setting.name) or is_sysctl(setting.name))


@rule(
    "sysctl-misspelt",
    "a kernel parameter that is misspelt",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    reason="sysctl(8) reports an error and continues, at boot in a log only: nothing is set.",
    source="tables of Linux 6.1, /proc/sys of Linux 6.18, and of the host where one is asked",
    fix="Take the real name.",
)
def sysctl_misspelt(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Kernel parameters that do not exist, and are one or two letters from one that does."""
    for each in sheet.of("sysctl"):
        if unknown(each, scene) and (near := nearest_sysctl(each.name)):
            yield at(each, f"unknown parameter; the nearest is {near}", f"{near} = {each.value}")


@host_rule(
    "sysctl-not-here",
    "a kernel parameter that this kernel does not have",
    "warning",
    reason=(
        "The kernel was built without it, is older, or the module that brings it is not loaded:"
        " nothing is set."
    ),
    source="/proc/sys of the host",
    fix="Take the line out, or put - before it: then it may be missing.",
)
def sysctl_not_here(scene: LintContext) -> Iterator[RuleMessage]:
    """A kernel parameter that exists, but not on this host."""
    for sheet in scene.sheets:
        for each in sheet.of("sysctl") if sheet.kind == "sysctl" else ():
            known = is_sysctl(each.name) and not gone(each.name) and not module_of(each.name)
            if known and each.name in scene.absent and each.entry.sign != "-=":
                yield RuleMessage(
                    each.line, each.name, "this kernel does not have it", file=sheet.file
                )


@host_rule(
    "sysctl-not-in-force",
    "a kernel parameter that is not as the files say",
    "warning",
    reason=(
        "Another process set it after boot (tuned, a service, a person), the kernel refused it,"
        " or the file is newer than the boot."
    ),
    source="/proc/sys of the host; sysctl.d(5)",
    fix="Find who sets it, or `sysctl --system`.",
)
def sysctl_not_in_force(scene: LintContext) -> Iterator[RuleMessage]:
    """A kernel parameter that is not as the files say."""
    for file, each in _winners(scene.sheets).values():
        there = scene.there.get(each.name)
        if there is None or each.name in REFUSED:
            continue
        now = " ".join(there.split())
        if now and now != each.value and _same_form(now, each.value):
            what = f"{each.value} is written here, and {now} is in force"
            yield RuleMessage(
                each.line, each.name, what, f"sysctl -w {each.name}='{each.value}'", file
            )


def _same_form(now: str, value: str) -> bool:
    """Numbers are compared with numbers: a text may be read back in another form."""
    return all(word.lstrip("-").isdecimal() for word in f"{now} {value}".split())


_TRIPLES = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_mem", "net.ipv4.udp_mem")

_WORDS = {**dict.fromkeys(_TRIPLES, 3), "net.ipv4.ip_local_port_range": 2}

_PAIRS_SYSCTL_ORDER = (
    ("net.ipv4.ipfrag_low_thresh", "net.ipv4.ipfrag_high_thresh"),
    ("net.ipv6.ip6frag_low_thresh", "net.ipv6.ip6frag_high_thresh"),
    ("net.ipv4.neigh.default.gc_thresh1", "net.ipv4.neigh.default.gc_thresh2"),
    ("net.ipv4.neigh.default.gc_thresh2", "net.ipv4.neigh.default.gc_thresh3"),
    ("dev.raid.speed_limit_min", "dev.raid.speed_limit_max"),
)


@rule(
    "sysctl-order",
    "values that do not rise",
    "error",
    ("sysctl", "tuned"),
    reason=(
        "Least, first, largest: the kernel takes any order of tcp_rmem and behaves oddly, and"
        " refuses a low limit above its high one."
    ),
    source="Documentation/networking/ip-sysctl.rst",
    fix="Order them.",
    together=True,
)
def sysctl_order(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Values that must rise: least, first and largest; low before high."""
    wins = sheet.last("sysctl")
    for name, count in _WORDS.items():
        if name in wins and "$" not in wins[name].value:
            yield from _rising(wins[name], count)
    for low, high in _PAIRS_SYSCTL_ORDER:
        below, above = _number(wins.get(low)), _number(wins.get(high))
        if below is not None and above is not None and below > above:
            yield at(wins[low], f"{below} is above {high} = {above}")


def _rising(setting: ConfigSetting, count: int) -> Iterator[RuleMessage]:
    numbers = [number for word in setting.value.split() if (number := whole(word)) is not None]
    words = setting.value.split()
    if len(words) != count:
        yield at(setting, f"it takes {count} numbers, and there are {len(words)}")
    elif len(numbers) == count and numbers != sorted(numbers):
        rising = " ".join(map(str, sorted(numbers)))
        yield at(setting, f"{setting.value} does not rise", f"{setting.name} = {rising}")


def _number(setting: ConfigSetting | None) -> int | None:
    return whole(setting.value) if setting else None


_MORE: Mapping[str, Domain] = {
    "vm.overcommit_memory": Domain(low=0, high=2),
    "vm.overcommit_ratio": Domain(low=0),
    "vm.watermark_scale_factor": Domain(low=1, high=3000),
    "vm.compaction_proactiveness": Domain(low=0, high=100),
    "vm.extfrag_threshold": Domain(low=0, high=1000),
    "vm.oom_dump_tasks": Domain(low=0),
    "vm.panic_on_oom": Domain(low=0, high=2),
    "kernel.randomize_va_space": Domain(low=0),
    "kernel.nmi_watchdog": Domain(low=0, high=1),
    "net.ipv4.tcp_syncookies": Domain(low=0, high=2),
    "net.ipv4.ip_forward": Domain(low=0),
    "net.ipv4.tcp_adv_win_scale": Domain(low=-31, high=31),
    "dev.raid.speed_limit_min": Domain(low=0),
    "dev.raid.speed_limit_max": Domain(low=0),
}

_MOST_SWAPPINESS_BEFORE = 100  # 5.8 made it 200


def _domains() -> Mapping[str, Domain]:
    rows = {row.name.removeprefix("sysctl."): row.domain(b"") for row in families()["sysctl"]}
    return {**rows, **_MORE}


@rule(
    "sysctl-out-of-range",
    "a kernel parameter at a value it does not take",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    reason="The kernel refuses it (Invalid argument), or accepts a value that cannot be intended.",
    source="kernel/sysctl.c, mm/; Documentation/admin-guide/sysctl/vm.rst",
    fix="Take a value within the bounds.",
)
def sysctl_out_of_range(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Kernel parameters at values that the kernel refuses, or that cannot be meant."""
    domains = _domains()
    for each in sheet.of("sysctl"):
        domain = domains.get(each.name)
        why = domain.refusal(_decimal(each.value)) if domain and _plain(each) else ""
        if not why and each.name == "vm.swappiness" and not since(scene, 5, 8):
            why = Domain(low=0, high=_MOST_SWAPPINESS_BEFORE).refusal(each.value)
        if why and each.name == "vm.page-cluster":
            why += f": 2^{each.value} pages are read together from swap"
        if why:
            yield at(each, why)


def _plain(setting: ConfigSetting) -> bool:
    return not any(mark in setting.value for mark in "#$")


def _decimal(value: str) -> str:
    """The kernel takes 0x10 and 010 too (simple_strtoul, base 0)."""
    try:
        return str(int(value, 16 if value.lower().startswith("0x") else 10))
    except ValueError:
        return value


@host_rule(
    "sysctl-overruled",
    "a kernel parameter that another file sets too",
    "note",
    reason=(
        "Files are read by name, whatever their folder; of two with one name the one in /etc hides"
        " the others; /etc/sysctl.conf comes last."
    ),
    source="sysctl.d(5); sysctl(8): --system",
    fix="Keep the line in one file.",
)
def sysctl_overruled(scene: LintContext) -> Iterator[RuleMessage]:
    """A kernel parameter that several files of a host set."""
    said: dict[str, list[tuple[str, ConfigSetting]]] = {}
    for sheet in scene.sheets:
        if sheet.kind == "sysctl":
            for each in sheet.of("sysctl"):
                said.setdefault(each.name, []).append((sheet.file, each))
    for name, places in said.items():
        file, last = places[-1]
        for other, each in places[:-1]:
            if other != file and each.value != last.value:
                what = f"{file}:{last.line} is read after it, and sets {last.value}"
                yield RuleMessage(each.line, name, what, file=other)


@rule(
    "sysctl-removed",
    "a kernel parameter that was removed",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    reason="The line comes from a report about another kernel.  Here it sets nothing.",
    source="the kernel's history; Documentation/admin-guide/sysctl, networking/ip-sysctl.rst",
    fix="Take the line out.",
)
def sysctl_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Kernel parameters that kernels had once."""
    for each in sheet.of("sysctl"):
        found = gone(each.name)
        optional = each.entry.sign == "-="  # whoever wrote it knows that it may not be there
        if found and not optional and scene.kernel >= found.since and each.name not in scene.there:
            what = f"kernels have it no more, from {spelled(found.since)} on"
            yield at(each, f"{what}: {found.why}" if found.why else what, found.instead)


_MODULES = {
    "sunrpc.": "sunrpc",
    "fs.nfs.nlm_": "lockd",
    "fs.nfs.nsm_": "lockd",
    "fs.nfs.": "nfs",
    "fs.xfs.": "xfs",
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
}

_OF_MODULE = ("tcp_slot_table_entries", "tcp_max_slot_table_entries", "udp_slot_table_entries")


def module_of(name: str) -> str:
    """The module that brings a parameter; '' where none is known to."""
    return next((module for head, module in _MODULES.items() if name.startswith(head)), "")


@rule(
    "sysctl-too-early",
    "a parameter of a module that is not loaded yet",
    "warning",
    ("sysctl",),
    reason=(
        "At boot the file is read once, early.  A module that comes later brings its parameters at"
        " their defaults."
    ),
    source="sysctl.d(5), the example of br_netfilter; net/sunrpc/xprtsock.c",
    fix="Load the module before (modules-load.d), or give it the value as an option (modprobe.d).",
)
def sysctl_too_early(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Parameters that a module brings, in files that are read before it is loaded."""
    for each in sheet.of("sysctl"):
        module = module_of(each.name)
        if module and each.name not in scene.there:
            what = f"it comes with the module {module}, which may be loaded after this file is read"
            yield at(each, what, _fix(each, module))


def _fix(setting: ConfigSetting, module: str) -> str:
    name = setting.name.rpartition(".")[2]
    if module == "sunrpc" and name in _OF_MODULE:
        return f"in modprobe.d: options sunrpc {name}={setting.value}"
    return f"in modules-load.d: {module}, so that it is there when the file is read"


@rule(
    "sysctl-unknown",
    "an unknown kernel parameter",
    "warning",
    ("sysctl", "udev", "tuned", "cmdline"),
    reason=(
        "A module from elsewhere or a distribution's own kernel may bring it; else nothing is set."
    ),
    source="tables of Linux 6.1, /proc/sys of Linux 6.18, and of the host where one is asked",
    fix="Check whether `sysctl NAME` knows it there; else take the line out.",
)
def sysctl_unknown(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Kernel parameters that neither the list nor this host has."""
    for each in sheet.of("sysctl"):
        optional = each.entry.sign == "-="  # whoever wrote it knows that it may not be there
        if not optional and unknown(each, scene) and not nearest_sysctl(each.name):
            yield at(each, "no kernel that lint knows has such a parameter, and none is near")


@host_rule(
    "tuned-and-sysctl",
    "a kernel parameter that tuned and a file set",
    "warning",
    reason=(
        "tuned applies its profile after the files are read.  With reapply_sysctl = 1 in"
        " tuned-main.conf (the default) it reads the files again, and they win; with 0 tuned wins."
    ),
    source="tuned-main.conf: reapply_sysctl; tuned/plugins/plugin_sysctl.py",
    fix="Keep it in one place: a profile of your own that includes the other.",
)
def tuned_and_sysctl(scene: LintContext) -> Iterator[RuleMessage]:
    """A kernel parameter that both the active tuned profile and a sysctl file set."""
    files = _winners(scene.sheets)
    for sheet in scene.sheets:
        for each in sheet.of("sysctl") if sheet.kind == "tuned" else ():
            if each.name in files and files[each.name][1].value != each.value:
                file, other = files[each.name]
                what = f"tuned sets {each.value}, and {file}:{other.line} sets {other.value}"
                yield RuleMessage(each.line, each.name, what, file=sheet.file)
