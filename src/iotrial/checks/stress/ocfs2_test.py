"""The programs of ocfs2-test for one host, where they are installed.

What it needs of its own: sudo, and the sources of a Linux kernel to build.  It has not been seen to
run here: Debian has no package of it.  Source: ocfs2-test, ``single_run-WIP.sh``: each of its
programs ends in a line ``PASSED`` or ``FAILED`` of its log.
"""

from __future__ import annotations

import re

from iotrial.checks.vocabulary import Doing, expect, run, undo
from iotrial.model.check import MIB, Case, Needs, Scene, Script

ORDER = 60
_SCRIPT = "/usr/local/ocfs2-test/bin/single_run-WIP.sh"
_KERNEL = "/usr/local/ocfs2-test/linux.tar.xz"
_MOST = 3500.0
_LOGS = 'cat "$1"/*/single_run.log'


def steps(scene: Scene) -> Script:
    device = scene.devices[0]
    point, logs = f"/run/{scene.name('ocfs2')}", f"/run/{scene.name('logs')}"
    yield from undo("rm", "-rf", "--one-file-system", logs)
    yield from undo("rmdir", point, at=point)
    yield from undo("sh", "-c", '! mountpoint -q "$1" || umount "$1"', "iotrial-umount", point)
    yield from run("mkdir", point, logs)
    argv = (_SCRIPT, "-k", _KERNEL, "-d", device, "-m", point, "-l", logs)
    yield from run(*argv, exits=None, within=_MOST)
    yield from _judged(logs)


def _judged(logs: str) -> Doing[None]:
    """See what its log says: the exit status of the script says nothing of its programs."""
    log = (yield from run("sh", "-c", _LOGS, "iotrial-logs", logs, exits=None)).stdout
    passed, failed = len(re.findall(r"\bPASSED\b", log)), re.findall(r".*\n.*\bFAILED\b", log)
    expect(not failed, f"{len(failed)} of its programs failed: {'; '.join(failed)[:600]}")
    expect(passed, "ocfs2-test says that nothing passed")
    expect("End Single Node test" in log, f"it did not come to its end; {passed} programs passed")


CASE = Case(
    "ocfs2-test",
    "The programs of an installed ocfs2-test for one host pass",
    steps,
    Needs(
        commands=("sudo", "mkfs.ocfs2", "debugfs.ocfs2", "tunefs.ocfs2"),
        modules=("ocfs2",),
        paths=(_SCRIPT, _KERNEL),
        devices=1,
        size=2048 * MIB,
        disks=True,
    ),
    limit=3600,
)
