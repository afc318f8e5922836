"""The programs that a lab needs on this machine, and the packages that hold them."""

from __future__ import annotations

from iotrial.errors import RefusedError
from iotrial.model.host import Host

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
"""Program → Debian's package."""


def missing(host: Host, *programs: str) -> tuple[str, ...]:
    """Those of them that are not installed."""
    script = 'for each; do command -v "$each" >/dev/null || echo "$each"; done'
    return tuple(host.run(["sh", "-c", script, "sh", *programs]).text.split())


def need(host: Host, *programs: str) -> None:
    """Raise RefusedError naming every one that is not installed, and what to install."""
    absent = missing(host, *programs)
    if absent:
        packages = " ".join(sorted({PACKAGES[each] for each in absent}))
        raise RefusedError(
            f"not installed here: {', '.join(absent)}",
            advice=f"As root: apt-get install --no-install-recommends {packages}",
        )
