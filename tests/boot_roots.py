"""A root of its own, on a disk of its own, with the programs of a boot loader from Debian's
packages: what ``update-grub`` and ``kernel-install`` write is written there, and nowhere else.

Mounts are in a namespace that ends with the test.  The disk is a loop device with a number that
grub-mkconfig takes for a disk: it makes no menu for ``/dev/loop`` and one digit.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from packages import with_all_they_need

_PROJECT = Path(__file__).resolve().parent.parent
_FIRST_LOOP = 40
_SETUP = """
set -e
mount "$1" "$2"
losetup -d "$1"
cd "$2"
mkdir -p boot/grub dev etc/default etc/kernel proc run sys tmp usr var/lib
for each in bin lib lib64 sbin; do ln -s "usr/$each" "$each"; done
mount -t overlay overlay -o "lowerdir=$3/usr:/usr" usr
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
cp -a "$3/etc/grub.d" etc/
cp -a "$3/etc/default/grub.d" etc/default/
cp -a /etc/passwd /etc/group etc/
[ ! -e /etc/ld.so.cache ] || cp -a /etc/ld.so.conf* /etc/ld.so.cache etc/
shift 3
for each; do
    mkdir -p ".$each"
    mount --bind "$each" ".$each"
done
echo ready
exec sleep 3600
"""


class BootRoot:
    """``path`` is where it lies for its own processes; elsewhere its files are read by
    :meth:`read` and written by :meth:`write`."""

    def __init__(self, folder: Path) -> None:
        programs = with_all_they_need("grub2-common")
        image, self.path = folder / "disk.img", folder / "root"
        self.path.mkdir()
        with image.open("wb") as stream:
            stream.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True, timeout=60)
        base = Path(sys.base_prefix)
        inside = dict.fromkeys(
            str(each) for each in (_PROJECT, Path(sys.prefix), base) if each.parts[1] != "usr"
        )
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SETUP, "-"]
        argv += [_loop(image), str(self.path), str(programs), *inside]
        self._holder = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        with self._holder.stdout as said:
            assert said.readline() == "ready\n"
        for each in ("vmlinuz", "initrd.img"):
            self.write(f"/boot/{each}-{platform.release()}", "made up\n")

    def run(
        self, *argv: str, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._there(), *argv], input=stdin, capture_output=True, text=True, timeout=170,
            check=False, env=_environment(),
        )  # fmt: skip
        assert done.returncode == 0 or not check, (argv, done.stdout, done.stderr)
        return done

    def _there(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "chroot", str(self.path)]

    def keep(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "iotrial.cli.main", "keep", *words, check=check)

    def begun(self, name: str, action: str) -> subprocess.Popen[bytes]:
        """The same, not waited for, of the profile ``/tmp/NAME.toml``."""
        argv = [*self._there(), sys.executable, "-m", "iotrial.cli.main", "keep"]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            [*argv, f"/tmp/{name}.toml", action], stdout=quiet, stderr=quiet, env=_environment()
        )

    def begun_there(self) -> bool:
        """Whether something is begun there, and neither kept nor undone."""
        return ".journal" in self.run("ls", "/var/lib/iotrial/kept.d").stdout

    def verified(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            self.keep(name, "verify", "--json", check=False).stdout
        )
        return found

    def read(self, path: str) -> str:
        """'' where there is none."""
        return self.run("cat", path, check=False).stdout

    def write(self, path: str, text: str, mode: str = "644") -> None:
        script = 'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1"'
        self.run("sh", "-c", script, "-", path, mode, stdin=text)

    def files(self) -> str:
        """Everything below /etc and /boot, each with its content's sum, owner and mode."""
        each = 'find /etc /boot -printf "%p %y %m %u %l\\n"'
        script = f"{each}; find /etc /boot -type f -exec sha256sum {{}} +"
        return "\n".join(sorted(self.run("sh", "-c", script).stdout.splitlines()))

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


def _environment() -> dict[str, str]:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(_PROJECT / "src")}


def _loop(image: Path) -> str:
    for number in range(_FIRST_LOOP, 2 * _FIRST_LOOP):
        device = f"/dev/loop{number}"
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["losetup", device, image], check=True, capture_output=True, timeout=60)
            return device
    raise AssertionError("no loop device can be had")
