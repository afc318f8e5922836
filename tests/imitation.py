"""What a kernel answered beside what the fake host answers."""

from __future__ import annotations

from typing import Any

from iotrial.errors import FileRefused
from iotrial.hosts.fake import FakeHost
from iotrial.tunables import tunable
from writes import QUEUE

DEVICE = "loop4711"


def differences(run: dict[str, Any], kernel: str) -> list[str]:
    """Where the fake first does otherwise than the run that ``answers.py`` recorded; [] nowhere.
    Which scheduler's module was loaded first is the machine's: the fake has them in its order."""
    host = FakeHost(kernel=kernel)
    host.run(["truncate", "-s", "64M", "/var/tmp/backing"])
    assert host.run(["losetup", f"/dev/{DEVICE}", "/var/tmp/backing"]).exit == 0
    real = dict(run["new"])
    queue = host.machine.blocks[DEVICE].queue
    own = {name for name in queue.names() if "/" not in name}
    if missing := sorted(own - set(run["files"])):
        return [f"the kernel has no {', '.join(missing)}"]
    queue.schedulers = tuple(real["queue.scheduler"].replace("[", "").replace("]", "").split())
    if found := _unlike(state(host), real):
        return ["when new", *found]
    for number, (name, text, said, changed) in enumerate(run["steps"]):
        real |= changed
        answer = written(host, name, text)
        found = _unlike(state(host), real)
        if found or answer != said:
            before = [f"{n} {t!r}" for n, t, _, _ in run["steps"][max(0, number - 8) : number]]
            return [f"{name} {text!r}: fake {answer}, kernel {said}", *found, "before:", *before]
    return []


def state(host: FakeHost) -> dict[str, str | int]:
    seen: dict[str, str | int] = {}
    for row in QUEUE:
        try:
            seen[row.name] = host.read(row.file(DEVICE)).decode()
        except FileRefused as refused:
            seen[row.name] = refused.errno
    return seen


def written(host: FakeHost, name: str, text: str) -> int:
    try:
        host.write(tunable(name).file(DEVICE), text.encode())
    except FileRefused as refused:
        return refused.errno
    return 0


def _unlike(fake: dict[str, str | int], real: dict[str, str | int]) -> list[str]:
    """What is not in ``real`` was no tunable when it was recorded."""
    return [f"{k}: fake {fake[k]!r}, kernel {real[k]!r}" for k in real if fake.get(k) != real[k]]
