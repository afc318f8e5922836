"""A path that goes before its I/O may fail."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, whole
from iotrial.lint.sheet import Entry, Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        keys = {entry.key: entry for entry in group}
        fail, loss = keys.get("fast_io_fail_tmo"), keys.get("dev_loss_tmo")
        if fail and loss:
            yield from _compared(fail, loss)


def _compared(fail: Entry, loss: Entry) -> Iterator[Said]:
    first, last = whole(fail.value), whole(loss.value)
    if first is not None and last is not None and last <= first:
        what = f"{loss.value} s is not above fast_io_fail_tmo = {fail.value} s"
        yield at(loss, what, "dev_loss_tmo infinity")


RULE = Rule(
    "multipath-loss-before-fail",
    "dev_loss_tmo not above fast_io_fail_tmo",
    "error",
    ("multipath",),
    "multipath switches fast_io_fail_tmo off then, with a line in its log: I/O waits until the port"
    " is removed.  The kernel refuses such a pair too.",
    "multipath.conf(5): fast_io_fail_tmo; libmultipath/discovery.c: sysfs_set_scsi_tmo();"
    " drivers/scsi/scsi_transport_fc.c: store_fc_rport_fast_io_fail_tmo()",
    "Let dev_loss_tmo be large (infinity where I/O waits for paths).",
    _judge,
)
