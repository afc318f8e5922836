"""Parameters that a module brings, in files that are read before it is loaded."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Setting, Sheet

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


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        module = module_of(each.name)
        if module and each.name not in scene.there:
            what = f"it comes with the module {module}, which may be loaded after this file is read"
            yield at(each, what, _fix(each, module))


def _fix(setting: Setting, module: str) -> str:
    name = setting.name.rpartition(".")[2]
    if module == "sunrpc" and name in _OF_MODULE:
        return f"in modprobe.d: options sunrpc {name}={setting.value}"
    return f"in modules-load.d: {module}, so that it is there when the file is read"


RULE = Rule(
    "sysctl-too-early",
    "a parameter of a module that is not loaded yet",
    "warning",
    ("sysctl",),
    "At boot the file is read once, early.  A module that comes later brings its parameters at"
    " their defaults.",
    "sysctl.d(5), the example of br_netfilter; net/sunrpc/xprtsock.c",
    "Load the module before (modules-load.d), or give it the value as an option (modprobe.d).",
    _judge,
)
