"""What a host boots with: which kernels it has, by which methods it can be booted once with
another, and whether a boot of a study runs, or is owed.

Only looks; ``hosts/boot.sh`` is what is executed there, and :mod:`iotrial.execute.boot` what acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from iotrial.errors import HostError
from iotrial.look import reading
from iotrial.model.host import Reader
from iotrial.tunables.boot import MARK

NAME = "iotrial-boot"
METHODS = {"kexec": "kexec", "grub": "GRUB", "bootctl": "systemd-boot"}
"""What each is called, in the order in which they are taken."""
FOLDER = "/var/lib/iotrial/boot"
UNIT = "/etc/systemd/system/iotrial-boot.service"
STATE, BOOT_SCRIPT = f"{FOLDER}/token", f"{FOLDER}/boot.sh"
"""What a host has that is armed or runs a boot of ours: its mark, and the script itself."""
SHORT = 120.0
"""Seconds that a verb of the script may take."""


@dataclass(frozen=True, slots=True)
class BootMeans:
    """What a host says of booting: the release and command line that run, the ``kernels`` that are
    installed, and why not each of ``methods`` ('': it can be used).  ``owed``: something of a boot
    is left there.  ``level``: a boot of a study runs."""

    release: str
    command_line: str
    kernels: tuple[str, ...]
    methods: Mapping[str, str]
    owed: str = ""
    level: bool = False

    @property
    def method(self) -> str:
        """The first that can be used; '' where none can."""
        return next((name for name in METHODS if not self.methods.get(name, "no")), "")


@cache
def script() -> str:
    return files("iotrial.hosts").joinpath("boot.sh").read_text("utf-8")


def boot_means(host: Reader) -> BootMeans:
    """What the host says.  Only looks.  Raises HostError where it says nothing."""
    done = host.run(["sh", "-c", script(), NAME, "means"], timeout=SHORT)
    rows = [line.split("|", 2) for line in done.text.splitlines() if line.count("|") > 1]
    said = {key: (first, rest) for key, first, rest in rows if key in ("running", "owed", "level")}
    if "running" not in said:
        raise HostError(f"{host.name}: what it boots with cannot be read: {done.complaint}")
    return BootMeans(
        *said["running"],
        kernels=tuple(dict.fromkeys(first for key, first, _ in rows if key == "kernel")),
        methods={first: rest for key, first, rest in rows if key == "method"},
        owed=said.get("owed", ("", ""))[0],
        level="level" in said,
    )


def boot_debt(host: Reader) -> tuple[str, ...]:
    """What is owed to the host for boots of a study, in words."""
    seen = reading.texts(host, ["/proc/cmdline", STATE, UNIT])
    if f"{MARK}=" in seen["/proc/cmdline"]:
        means = boot_means(host)
        return (
            f"boot: {means.release} with another command line runs, of a study or of `keep … try`",
        )
    # Where the power failed while it was armed, only a part of it is there, and nothing else.
    if seen[STATE] or seen[UNIT] or reading.status(host, FOLDER) is not None:
        return ("boot: one is armed, or was, and its unit is still there",)
    return ()
