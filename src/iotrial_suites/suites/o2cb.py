"""Words for ocfs2 that several hosts have mounted, in O2CB, the cluster of its own.

A host that has it mounted writes a heartbeat into it, and configfs has a folder of that: mounting
makes it.  When it is unmounted the kernel has ``ocfs2_hb_ctl`` remove it.  One that is left goes on
writing to the disk, whatever lies there next, and has the device in use.
Sources: o2cb(7), ocfs2_hb_ctl(8); ocfs2_leave_group() of fs/ocfs2/stackglue.c.
"""

from __future__ import annotations

from iotrial_suites.case import NotHere, Scene
from iotrial_suites.suites.vocabulary import Doing, expect, run, undo, until

CLUSTERS = "/sys/kernel/config/cluster"
SLOW = 240.0
"""Seconds for what asks the other hosts."""
GONE = 30.0
"""Seconds in which a heartbeat ends that nobody needs any more."""
END = """\
try=0
while [ -d "$1" ] && [ "$try" -lt 5 ]; do
    sleep 1
    try=$((try + 1))
done
[ ! -d "$1" ] || rmdir "$1"
"""
"""Argument: the folder of a heartbeat, which is given time to go by itself."""


def made(scene: Scene, device: str) -> Doing[str]:
    """ocfs2 on a device, for all hosts; gives back the folder of its heartbeat, which is owed to
    end on each."""
    said = yield from run("ls", CLUSTERS, exits=None)
    if not said.stdout.split():
        raise NotHere("O2CB has no cluster: /etc/ocfs2/cluster.conf, o2cb register-cluster")
    name = said.stdout.split()[0]
    yield from run(
        "mkfs.ocfs2", "-q", "-F", "-N", str(len(scene.nodes)), "--cluster-stack=o2cb",
        f"--cluster-name={name}", "--fs-feature-level=max-compat", device, within=SLOW,
    )  # fmt: skip
    asked = ("tunefs.ocfs2", "--query", "%U", device)
    uuid = (yield from run(*asked, within=SLOW)).stdout.strip()
    expect(uuid, f"tunefs.ocfs2 says no UUID of {device}")
    heart = f"{CLUSTERS}/{name}/heartbeat/{uuid}"
    for on in range(len(scene.nodes)):
        yield from undo("sh", "-c", END, "iotrial-heart", heart, on=on, at=heart)
    return heart


def beating(scene: Scene, heart: str) -> Doing[None]:
    """See that every host, all of which have it mounted, has its heartbeat."""
    for on, node in enumerate(scene.nodes):
        said = yield from run("test", "-d", heart, on=on, exits=None)
        expect(said.exit == 0, f"{node.name} has it mounted without a heartbeat")


def still(scene: Scene, heart: str) -> Doing[None]:
    """See that no host, none of which has it mounted any more, has left its heartbeat."""
    for on, node in enumerate(scene.nodes):
        yield from until(
            lambda on=on: run("test", "-d", heart, on=on, exits=None),  # type: ignore[misc]
            lambda said: said.exit,
            f"{node.name} has it mounted no more, and its heartbeat goes on",
            within=GONE,
            every=1.0,
        )
