"""Podman, unpacked and not installed, and containers of it whose files are this machine's own, with
changes in a layer that goes with the test.

Everything that it keeps is in a folder of the test; its control groups are below one that is
removed.  crun refuses the hybrid mode of control groups that some kernels boot with: it sees only
those of version 1 then.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from iotrial.hosts.local import LocalHost
from packages import FOLDER, with_all_they_need

_CONTAINERS = """
[engine]
conmon_path = ["{programs}/usr/bin/conmon"]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
crun = ["{folder}/bin/crun"]
[network]
network_backend = "cni"
"""
_STORAGE = """
[storage]
driver = "overlay"
runroot = "{folder}/run"
graphroot = "{folder}/graph"
"""
_WRAPPER = """#!/bin/sh
export LD_LIBRARY_PATH={programs}/usr/lib/x86_64-linux-gnu
export CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf
export XDG_RUNTIME_DIR={folder}/xdg
"""
_HYBRID = "/sys/fs/cgroup/unified"


class Podman:
    """``bin`` is the folder to have first on PATH."""

    def __init__(self, folder: Path) -> None:
        programs = with_all_they_need("podman", "crun")
        self.folder, self.bin = folder, folder / "bin"
        self._group = f"/iotrial-test-{secrets.token_hex(4)}"
        self._names: list[str] = []
        self.bin.mkdir(parents=True)
        (folder / "xdg").mkdir()
        named = {"programs": programs, "folder": folder}
        (folder / "containers.conf").write_text(_CONTAINERS.format(**named))
        (folder / "storage.conf").write_text(_STORAGE.format(**named))
        for program in ("podman", "crun"):
            script = f'{_WRAPPER.format(**named)}exec {programs}/usr/bin/{program} "$@"\n'
            (self.bin / program).write_text(script)
            (self.bin / program).chmod(0o755)

    def do(self, *words: str, check: bool = True) -> str:
        command = shlex.join([str(self.bin / "podman"), *words])
        hidden = f"umount {_HYBRID} && " if Path(_HYBRID).is_dir() else ""
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{hidden}{command}"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout

    def run(self, name: str, *options: str, base: Path = Path("/")) -> int:
        """Start a container that sleeps; the number of its first process.  ``base`` is its root
        file system, below a layer of changes."""
        own = self.folder / name
        for each in ("root", "changes", "work"):
            (own / each).mkdir(parents=True)
        layers = f"lowerdir={base},upperdir={own}/changes,workdir={own}/work"
        subprocess.run(
            ["mount", "-t", "overlay", "-o", layers, "overlay", own / "root"], check=True
        )
        self._names.append(name)
        limits = ("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096")
        named = ("--name", name, "--cgroup-parent", self._group)
        root = ("--rootfs", str(own / "root"))
        self.do("run", "-d", *named, *limits, *options, *root, "sleep", "3600")
        return int(self.do("inspect", "--format", "{{.State.Pid}}", name))

    def close(self) -> None:
        for name in self._names:
            self.do("rm", "-f", "-t", "0", name, check=False)
            subprocess.run(["umount", "-l", self.folder / name / "root"], check=False)
        self._names.clear()
        for group in Path("/sys/fs/cgroup").glob(f"*{self._group}"):
            with suppress(OSError):
                for below in sorted(group.rglob("*/"), reverse=True):
                    below.rmdir()
                group.rmdir()


@cache
def plain_debian(suite: str = "", packages: str = "fio,kmod") -> Path:
    """A root file system by mmdebstrap(1): the least that is a Debian, with these packages, from
    where this machine's packages come; of its own release, or of another.  Skips the test where it
    cannot be made."""
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed: apt-get install mmdebstrap")
    # The host's tests, which use containers, are also run as if no wing was installed.
    from iotrial_vmlab.recipe import sources  # noqa: PLC0415

    name = f"debian-{suite}-{sha256(packages.encode()).hexdigest()[:8]}" if suite else "debian"
    folder = FOLDER / name
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "etc/debian_version").exists():
            shutil.rmtree(folder, ignore_errors=True)
            come_from = sources(LocalHost())
            wanted = suite or come_from.suite
            options = FOLDER / f"{name}.conf"
            options.write_text("".join(f"{line}\n" for line in come_from.options))
            made = folder.with_name(f"{name}.partial")
            shutil.rmtree(made, ignore_errors=True)
            lines = [line.replace(come_from.suite, wanted) for line in come_from.lines]
            done = subprocess.run(
                [
                    *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
                    *("--quiet", f"--include={packages}", f"--aptopt={options}"),
                    "--dpkgopt=force-unsafe-io",  # what a loss of power spoils is made again
                    *(wanted, str(made), "-"),
                ],
                input="".join(f"{line}\n" for line in lines),
                capture_output=True,
                text=True,
                check=False,
                timeout=800,
            )
            if done.returncode != 0 and suite:
                said = done.stderr.strip().splitlines()[-1:]
                pytest.skip(f"no root file system of {suite} can be made: {said}")
            assert done.returncode == 0, done.stderr
            made.rename(folder)
    return folder


def path_with(podman: Podman) -> dict[str, str]:
    """The environment in which programs find it."""
    return {**os.environ, "PATH": f"{podman.bin}:{os.environ['PATH']}"}
