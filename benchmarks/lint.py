"""How long it takes to judge 1,000 files of settings.

    ./dev bench lint [--files 1000] [--rounds 5]

Files of every kind are made in a temporary folder: configuration of ordinary length, one line in
ten of them a mistake, no two files alike.  A round is the whole command in a process of its
own, `iotrial lint FOLDER --kernel 6.1`; what counts is the median.  Prints it beside its
limit; exits 1 when it is not kept.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from _limits import Limits, median_of, run_main

from iotrial_lint.known import sysctls

LIMIT = 5.0  # seconds for 1,000 files (issue 7)
ENTRY = [sys.executable, "-c", "from iotrial.cli.main import main; main()"]
ROWS = 40
EVERY = 10  # one line in so many is a mistake


def _wrong(at: int, mistake: str, right: str) -> str:
    return right if at % EVERY else mistake


def _sysctl(number: int) -> str:
    names = sorted(each for each in sysctls() if each.startswith(("net.core.", "vm.")))
    rows = [f"{names[(number + at) % len(names)]} = {at}" for at in range(ROWS)]
    return "\n".join([*rows, f"vm.no_such_name_{number} = 1", f"net.ipv4.tcp_rmeem{number} = 1"])


def _udev(number: int) -> str:
    rule = 'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sd[a-z]", ATTRS{model}=="M%d"'
    return "\n".join(
        rule % (number + at) + f', ATTR{{queue/scheduler}}="{_wrong(at, "cfq", "bfq")}"'
        for at in range(ROWS)
    )


def _multipath(number: int) -> str:
    device = "  device {\n    vendor V%d\n    product P%d\n    no_path_retry 5\n    %s 1\n  }"
    devices = "\n".join(
        device % (number, at, _wrong(at, "rr_min_io", "rr_min_io_rq")) for at in range(ROWS // 4)
    )
    return f"defaults {{\n  polling_interval 5\n}}\ndevices {{\n{devices}\n}}\n"


def _modprobe(number: int) -> str:
    return "\n".join(f"options lpfc lpfc_lun_queue_depth={number + at}" for at in range(ROWS // 4))


def _fstab(number: int) -> str:
    rows = (
        f"UUID={number}-{at} /mnt/{at} xfs {_wrong(at, 'nobarrier', 'noatime')} 0 0"
        for at in range(ROWS)
    )
    return "\n".join(rows)


def _tuned(number: int) -> str:
    return f"[main]\nsummary=x\n[disk]\nelevator=deadline\n[sysctl]\n{_sysctl(number)}\n"


def _fio(number: int) -> str:
    job = "[job%d]\nrw=randwrite\nbs=4k\nsize=1g\niodepth=32\nruntime=60\ntime_based\n"
    return "[global]\nioengine=libaio\n" + "".join(job % (number + at) for at in range(ROWS // 4))


KINDS = {
    "%d.sysctl.conf": _sysctl,
    "%d.rules": _udev,
    "multipath/conf.d/%d.conf": _multipath,
    "modprobe.d/%d.conf": _modprobe,
    "%d.fstab": _fstab,
    "%d/tuned.conf": _tuned,
    "%d.fio": _fio,
}


def make(folder: Path, files: int) -> int:
    """Make the files; gives back how many bytes they have."""
    size = 0
    for number, (name, content) in zip(range(files), _forever(), strict=False):
        path = folder / (name % number)
        path.parent.mkdir(parents=True, exist_ok=True)
        size += path.write_text(content(number), "utf-8")
    return size


def _forever() -> Iterator[tuple[str, Callable[[int], str]]]:
    while True:
        yield from KINDS.items()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = make(folder, given.files)
        took = []
        for _ in range(given.rounds):
            began = time.perf_counter()
            done = subprocess.run(
                [*ENTRY, "lint", str(folder), "--kernel", "6.1"],
                capture_output=True,
                check=False,
            )
            took.append(time.perf_counter() - began)
            last = done.stdout.decode().splitlines()[-1]
            assert done.returncode == 1
            assert last.endswith(f"in {given.files} files"), last
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = (spent.ru_utime + spent.ru_stime) / given.rounds
    limit = LIMIT * given.files / 1000
    limits = Limits()
    print(f"{size / 2**20:.1f} MiB: {last}")
    limits.at_most(f"whole command, {given.rounds} times (s)", median_of(took), limit, form=".2f")
    limits.tell("of it on a processor, mean (s)", processor, form=".2f")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
