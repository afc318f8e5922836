"""Queues for polling, which nothing polls by itself."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet

_POLLED = ("nvme.poll_queues", "virtio_blk.poll_queues")


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("module"):
        if each.name in _POLLED and each.value not in ("0", "") and since(scene, 5, 0):
            yield at(each, "only I/O that asks to be polled uses them (fio: hipri=1)")


RULE = Rule(
    "poll-queues",
    "queues for polling",
    "note",
    ("modprobe", "tuned", "cmdline"),
    "From 5.0 on a device polls on queues of their own.  They are taken from the others, and stay"
    " idle unless a program asks for polling (IORING_SETUP_IOPOLL, RWF_HIPRI).",
    "drivers/nvme/host/pci.c: poll_queues; io_uring_setup(2); preadv2(2)",
    "Leave it out, unless the program polls.",
    _judge,
)
