"""Parameters of modules that are no more, or moved to another module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotrial.lint.rule import Rule, Said, Scene, Version, at, spelled
from iotrial.lint.sheet import Setting, Sheet

_QUEUES = "options lpfc lpfc_hdw_queue=N"


class _Moved(NamedTuple):
    since: Version
    why: str
    instead: str = ""


_GONE = {
    "scsi_mod.use_blk_mq": _Moved((5, 0), "there is nothing but blk-mq"),
    "dm_mod.use_blk_mq": _Moved((5, 0), "it is accepted and does nothing: all is blk-mq"),
    "nvme.io_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.io_timeout"),
    "nvme.admin_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.admin_timeout"),
    "nvme.shutdown_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.shutdown_timeout"),
    "nvme.max_retries": _Moved((4, 6), "it moved to nvme_core", "nvme_core.max_retries"),
    "nvme.multipath": _Moved((4, 15), "it is one of nvme_core", "nvme_core.multipath"),
    "nvme_core.poll_queues": _Moved((5, 0), "it is one of nvme", "nvme.poll_queues"),
    "nvme_core.write_queues": _Moved((5, 0), "it is one of nvme", "nvme.write_queues"),
    "nvme_core.io_queue_depth": _Moved((4, 13), "it is one of nvme", "nvme.io_queue_depth"),
    "lpfc.lpfc_fcp_wq_count": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_fcp_eq_count": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_fcp_io_channel": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_nvme_io_channel": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "dm_multipath.use_blk_mq": _Moved((5, 0), "there is nothing but blk-mq"),
}


def removed(name: str, scene: Scene) -> bool:
    """Whether this rule has something to say of a parameter."""
    found = _GONE.get(name)
    return found is not None and scene.kernel >= found.since


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("module"):
        if removed(each.name, scene):
            found = _GONE[each.name]
            what = f"it is no parameter from {spelled(found.since)} on: {found.why}"
            yield at(each, what, _line(each, found.instead))


def _line(setting: Setting, instead: str) -> str:
    if not instead or instead.startswith("options"):
        return instead
    if setting.entry.section[:1] != ("options",):
        return f"{instead}={setting.value}"
    module, _, name = instead.partition(".")
    return f"options {module} {name}={setting.value}"


RULE = Rule(
    "module-removed",
    "a parameter of a module that was removed or moved",
    "error",
    ("modprobe", "tuned", "cmdline"),
    "The module says `unknown parameter … ignored` once, when it is loaded.",
    "drivers/scsi/lpfc, drivers/nvme/host, drivers/md, drivers/scsi of Linux 4.5 to 6.1",
    "Take it out.",
    _judge,
)
