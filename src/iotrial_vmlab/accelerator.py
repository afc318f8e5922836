"""How QEMU executes a guest: by KVM only where a kernel has been seen to run with it.

That ``/dev/kvm`` can be opened says little: inside a virtual machine it may be there and hang every
guest in its first instructions.  So the image's kernel is booted with it once, to a line that its
first stage says, and the answer is kept for as long as this machine is not booted again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from iotrial.errors import HostError
from iotrial.model.host import Host
from iotrial_vmlab.image import Image
from iotrial_vmlab.qemu import machine

DEVICE = "/dev/kvm"
SAID = b"iotrial: a kernel runs"
WITHIN = 15.0
"""Seconds for a kernel to say it: with KVM it takes one or two."""
BOOT = "/proc/sys/kernel/random/boot_id"


def accelerator(host: Host, image: Image, folder: Path, *, device: str = DEVICE) -> str:
    """``kvm`` or ``tcg`` (emulation).  What was found is kept in ``folder``, with the boot of this
    machine that it holds for."""
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg"
    kept, boot = folder / "accelerator.json", host.read(BOOT).decode().strip()
    said = [boot, os.geteuid()]
    with suppress(OSError, ValueError, KeyError, TypeError):
        row = json.loads(kept.read_bytes())
        if row["of"] == said:
            return str(row["accelerator"])
    found = "kvm" if runs(host, image, "kvm") else "tcg"
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"of": said, "accelerator": found}) + "\n", "ascii")
    return found


def runs(host: Host, image: Image, how: str, *, within: float = WITHIN) -> bool:
    """Whether the image's kernel runs with this accelerator."""
    argv = [
        *("timeout", "-k", "1", f"{within:g}", *machine(how)),
        *("-m", "256", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(image.kernel), "-initrd", str(image.first)),
        *("-append", "console=ttyS0 quiet panic=-1 iotrial.probe"),
    ]
    try:
        return SAID in host.run(argv, timeout=within + 5).stdout
    except HostError:
        return False
