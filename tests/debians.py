"""A plain Debian to install things in: a root file system made of packages, with changes over it,
in a mount namespace that ends with the test.  It reaches the indexes that this machine reaches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from containers import plain_debian

ROOT = Path(__file__).resolve().parents[1]
PASSED_ON = ("PIP_", "UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
"""Of this machine's environment: how an index of packages is reached."""
NO_NETWORK = ("Connection", "Failed to fetch", "dns error", "name resolution", "timed out")
SETUP = """
set -e
root=$1 own=$2
mount -t overlay overlay -o "lowerdir=$3,upperdir=$own/changes,workdir=$own/work" "$root"
shift 3
cd "$root"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
# Not on the overlay: files of loads and results are on a file system as everywhere.
mkdir -p home/work var/lib/iotrial
mount --bind "$own/home" home/work
mount --bind "$own/state" var/lib/iotrial
rm -f etc/resolv.conf
cp -L /etc/resolv.conf etc/
for each; do
    mkdir -p ".${each%/*}"
    [ -e ".$each" ] || if [ -d "$each" ]; then mkdir ".$each"; else : >".$each"; fi
    mount --bind "$each" ".$each"
done
echo ready
exec sleep 3600
"""


class Machine:
    """``home`` is the folder that its commands run in, as it lies here."""

    def __init__(self, folder: Path, suite: str, packages: str) -> None:
        base = plain_debian(suite, packages)
        root = folder / "root"
        for each in ("root", "changes", "work", "home", "state"):
            (folder / each).mkdir()
        passed = {key: value for key, value in os.environ.items() if key.startswith(PASSED_ON)}
        needed = [each for each in passed.values() if each[:1] == "/" and Path(each).exists()]
        self.home = folder / "home"
        self._env = passed | {
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": "/root/.local/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "-"]
        self._holder = subprocess.Popen(
            [*argv, root, folder, base, *dict.fromkeys(needed)], stdout=subprocess.PIPE, text=True
        )
        self._root = root
        assert self._holder.stdout is not None
        with self._holder.stdout as said:
            ready = said.readline() == "ready\n"
        if not ready:
            self.close()
        assert ready, f"no root file system of {suite} is mounted"

    def run(self, *words: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """A command in the folder ``home``; ``code`` is how it must end."""
        there = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "chroot", str(self._root)]
        done = subprocess.run(
            [*there, "env", "--chdir=/home/work", *words],
            env=self._env | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert done.returncode == code, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done

    def install(self, *words: str, **env: str) -> None:
        """Skips the test where no index of packages is reached."""
        try:
            self.run(*words, **env)
        except AssertionError as error:
            if any(each in str(error) for each in NO_NETWORK):
                pytest.skip(f"{words[0]} reaches no index of packages: {str(error)[-300:]}")
            raise

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


def built(folder: Path, kind: str) -> Path:
    """The ``sdist`` or the ``wheel`` of this source."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return next(folder.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[kind]))


def works(machine: Machine) -> None:
    """Every package of the wheel, with its data, on this machine."""
    version = machine.run("iotrial", "--version").stdout
    assert version.startswith("iotrial, version ")
    machine.run("iotrial", "demo", "--pretend", "--out", "pretended")
    verdicts = json.loads(machine.run("iotrial", "compare", "pretended", "--json").stdout)
    assert verdicts["format"] == 1
    machine.run("iotrial", "report", "pretended", "--out", "page.html")
    assert "<html" in (machine.home / "page.html").read_text("utf-8")
    shutil.copytree(ROOT / "tests/data/fio/mix", machine.home / "fio")
    machine.run("iotrial", "import", "fio", "--out", "imported")
    machine.run("iotrial", "compare", "imported")
    (machine.home / "sysctl.conf").write_text("vm.dirty_ratio = 10\nvm.no_such_knob = 1\n")
    found = machine.run("iotrial", "lint", "sysctl.conf", "--json").stdout
    assert "no_such_knob" in found
    labs = json.loads(machine.run("iotrial", "vmlab", "list", "--json").stdout)
    assert "disks" in str(labs)
    for verb in ("check", "record"):
        assert f"Usage: iotrial {verb}" in machine.run("iotrial", verb, "--help").stdout


STORE = (
    ("push", "pretended", "--store", "file:kept"),
    ("list", "--store", "file:kept"),
    ("history", "--store", "file:kept"),
    ("site", "--store", "file:kept", "--out", "site"),
)


def stores(machine: Machine) -> None:
    """What :func:`works` left is pushed, found again and made a site of, by the extra ``store``."""
    answers = [machine.run("iotrial", *words, "--json").stdout for words in STORE]
    pushed, listed, _, _ = map(json.loads, answers)
    assert pushed["added"] == 1
    assert "demo" in str(listed)
    assert "demo" in (machine.home / "site/index.html").read_text("utf-8")


def wants_store(machine: Machine) -> str:
    """What each verb of a store says where its extra is missing: the same, and how to get it."""
    said = {machine.run("iotrial", *words, code=2).stderr for words in STORE}
    (only,) = said
    assert "a store needs duckdb, which is not installed" in only
    return only


def measures(machine: Machine) -> None:
    """The real demo, by the machine's own fio, on a loop device that is gone afterwards."""
    done = machine.run("iotrial", "demo", "--out", "measured")
    assert "to restore:  nothing" in done.stdout
    assert "removed /dev/loop" in done.stdout
    told = json.loads(machine.run("iotrial", "compare", "measured", "--json").stdout)
    assert told["pretended"] is False
