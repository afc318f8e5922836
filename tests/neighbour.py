"""A neighbour of a virtual lab's nodes: a network namespace of this machine that is on their
network, as a login node or the controller of a cluster is.

The nodes' network is QEMU's: each Ethernet frame is a datagram to a multicast group on this
machine's loopback (qemu(1), ``-netdev socket,mcast=``).  A process of ours carries frames between
the group and a TAP device in a namespace of its own, and is there as long as the test.

Sources: ip(7); Documentation/networking/tuntap.rst of Linux 6.1.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from contextlib import suppress

_DEVICE, _HARDWARE = "lab", "52:54:00:77:00:c8"
_TUNSETIFF = 0x400454CA
_TAP, _NO_PI = 0x0002, 0x1000
_LONGEST = 1 << 16


class Neighbour:
    """``inside`` is what has a command executed there."""

    address = "10.77.0.200"

    def __init__(self, network: str) -> None:
        """``network`` is the multicast address and port of a lab's network."""
        place, _, port = network.partition(":")
        with _heard(place, int(port)) as group:
            self._carrier = subprocess.Popen(
                ["unshare", "--net", sys.executable, __file__, str(group.fileno()), place, port],
                stdin=subprocess.PIPE,  # it ends with us
                stdout=subprocess.PIPE,
                pass_fds=(group.fileno(),),
            )
        self.inside = ("nsenter", f"--net=/proc/{self._carrier.pid}/ns/net", "--")
        try:
            assert self._carrier.stdout is not None
            assert self._carrier.stdout.readline() == b"ready\n"
            for words in (
                ("address", "add", f"{self.address}/24", "dev", _DEVICE),
                ("link", "set", _DEVICE, "address", _HARDWARE, "up"),
                ("link", "set", "lo", "up"),
            ):
                subprocess.run([*self.inside, "ip", *words], check=True, timeout=60)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """With its last process the namespace goes, and the device in it."""
        self._carrier.kill()
        self._carrier.communicate()


def _heard(place: str, port: int) -> socket.socket:
    """The group, as QEMU joins it: every member hears all that is sent to it, its own too."""
    group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here = socket.inet_aton("127.0.0.1")
    group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(place) + here)
    group.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
    group.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    group.bind((place, port))
    return group


def _carry(group: socket.socket, to: tuple[str, int]) -> None:
    card = os.open("/dev/net/tun", os.O_RDWR)
    asked = struct.pack("16sH22x", _DEVICE.encode(), _TAP | _NO_PI)
    fcntl.ioctl(card, _TUNSETIFF, asked)
    own = bytes.fromhex(_HARDWARE.replace(":", ""))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        ready, _, _ = select.select([card, group, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        if card in ready:
            group.sendto(os.read(card, _LONGEST), to)
        if group in ready:
            frame = group.recv(_LONGEST)
            if frame[6:12] != own:
                with suppress(OSError):  # the device is not up yet
                    os.write(card, frame)


if __name__ == "__main__":
    _carry(socket.socket(fileno=int(sys.argv[1])), (sys.argv[2], int(sys.argv[3])))
