"""What a kernel answers to writes into the queue files of a new loop device.

A program of its own, without iotrial: it is run on nodes of virtual labs.  It reads on stdin
``{"names": {NAME: PATH}, "runs": [[[NAME, TEXT], ...], ...]}``, where a PATH has ``LOOP`` in the
device's place, and prints what each write said and which files read otherwise after it.  Each run
has a device of its own, since attaching leaves behind what no file shows.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FIRST = 31000
SIZE = 64 * 2**20
REMOVE = 0x4C81  # LOOP_CTL_REMOVE


def state(names: dict[str, str], device: str) -> dict[str, str | int]:
    """Every file: its text, or the errno of reading it."""
    seen: dict[str, str | int] = {}
    for name, path in names.items():
        try:
            seen[name] = Path(path.replace("LOOP", device)).read_bytes().decode()
        except OSError as error:
            seen[name] = error.errno or -1
    return seen


def written(path: str, text: str) -> int:
    """The errno of one write(2), 0 for none."""
    try:
        file = os.open(path, os.O_WRONLY)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        return error.errno or -1
    return 0


def answered(names: dict[str, str], writes: list[tuple[str, str]], number: int) -> dict[str, Any]:
    """``files``: the names below ``queue``; ``new``: how all files read at first; ``steps``: of
    each write its name, text, errno, and the files that read otherwise after it."""
    device = f"loop{number}"
    backing = Path("/var/tmp", device)
    backing.touch()
    os.truncate(backing, SIZE)
    attach = ["losetup", "--direct-io=on", f"/dev/{device}", str(backing)]
    subprocess.run(attach, check=True, timeout=60)
    try:
        new = now = state(names, device)
        steps = []
        for name, text in writes:
            said = written(names[name].replace("LOOP", device), text)
            after = state(names, device)
            changed = {each: after[each] for each in names if after[each] != now[each]}
            steps.append((name, text, said, changed))
            now = after
        files = sorted(each.name for each in Path(f"/sys/block/{device}/queue").iterdir())
        return {"files": files, "new": new, "steps": steps}
    finally:
        subprocess.run(["losetup", "--detach", f"/dev/{device}"], check=True, timeout=60)
        backing.unlink()
        removed(number)


def removed(number: int) -> None:
    """The device goes too, when udev has let go of it."""
    with Path("/dev/loop-control").open("wb") as control:
        for _ in range(100):
            try:
                fcntl.ioctl(control, REMOVE, number)
            except OSError:
                time.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    runs = [answered(asked["names"], run, FIRST + n) for n, run in enumerate(asked["runs"])]
    json.dump({"release": os.uname().release, "runs": runs}, sys.stdout)
