"""Kernel parameters at values that the kernel refuses, or that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Setting, Sheet
from iotrial.model.tunable import Domain
from iotrial.tunables import families

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


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
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


def _plain(setting: Setting) -> bool:
    return not any(mark in setting.value for mark in "#$")


def _decimal(value: str) -> str:
    """The kernel takes 0x10 and 010 too (simple_strtoul, base 0)."""
    try:
        return str(int(value, 16 if value.lower().startswith("0x") else 10))
    except ValueError:
        return value


RULE = Rule(
    "sysctl-out-of-range",
    "a kernel parameter at a value it does not take",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    "The kernel refuses it (Invalid argument), or takes what nobody can mean.",
    "kernel/sysctl.c, mm/; Documentation/admin-guide/sysctl/vm.rst",
    "Take a value within the bounds.",
    _judge,
)
