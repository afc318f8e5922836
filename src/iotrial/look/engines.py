"""Which I/O engines fio and this kernel take, tried out and not looked up.

An engine may be missing from fio, from the kernel, switched off by sysctl, or forbidden to a
container.  Each is tried with one read of ``/dev/zero``.  Polled completions (``hipri``) need a
device with queues to be polled: asked of one without, fio does nothing until it is ended (fio 3.33
on a loop device), so the device is asked instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from iotrial.errors import ToolMissing
from iotrial.look import reading
from iotrial.model.host import Reader

_FIXED = (("fixedbufs", 1), ("registerfiles", 1))
_POLLED = (("hipri", 1),)
ENGINES: dict[str, tuple[tuple[str, str | int], ...]] = {
    "libaio": (("ioengine", "libaio"),),
    "io_uring": (("ioengine", "io_uring"),),
    "io_uring-fixed": (("ioengine", "io_uring"), *_FIXED),
    "io_uring-sqpoll": (("ioengine", "io_uring"), *_FIXED, ("sqthread_poll", 1)),
    "io_uring-polled": (("ioengine", "io_uring"), *_FIXED, *_POLLED),
}
"""Name → fio's options: fixed buffers and registered files; a kernel thread that polls for
submissions; completions polled from the device."""
_MISSING = 127


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """An engine, and ``why`` it cannot be used here ('': it can)."""

    name: str
    why: str = ""


def try_engines(
    host: Reader, names: tuple[str, ...], devices: Sequence[str]
) -> tuple[EngineSupport, ...]:
    """Each of ``names`` (keys of :data:`ENGINES`), tried; ``devices`` are the paths of the
    targets.

    Raises ToolMissing where there is no fio.
    """
    if host.run(["fio", "--version"]).exit == _MISSING:
        raise ToolMissing(
            f"{host.name}: fio is not installed",
            advice="On Debian and Ubuntu: apt-get install fio",
        )
    return tuple(EngineSupport(name, _why_not(host, name, devices)) for name in names)


def _why_not(host: Reader, name: str, devices: Sequence[str]) -> str:
    options = dict(ENGINES[name])
    if options.pop("hipri", None) and not all(_polls(host, device) for device in devices):
        return "the device has no poll queues (queue/io_poll is 0)"
    words = [f"--{option}={value}" for option, value in options.items()]
    probe = ["fio", "--name=probe", *words, "--rw=read", "--bs=4k", "--size=4k"]
    done = host.run([*probe, "--filename=/dev/zero", "--output=/dev/null"], timeout=20.0)
    if done.exit == 0:
        return ""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return f"fio rejects it here: {said[0] if said else f'exit {done.exit}'}"


def _polls(host: Reader, device: str) -> bool:
    name = PurePosixPath(reading.resolve(host, device) or device).name
    return reading.text(host, f"/sys/class/block/{name}/queue/io_poll") == "1"
