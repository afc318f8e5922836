"""Other disk: the load itself says that its files lie on another disk than the target.

What a load will open is computed before it, and what it holds open for writing is looked at while
it goes on; this is its own word, afterwards, and holds for what it only read too.  fio names the
disk of every file that it opened, with the disks that one is built on (init_disk_util in
diskutil.c, 3.33).  A layer in between (dm, md) that the topology does not tell of is no other disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check

_LAYER = re.compile(r"(dm-|md)\d")


def judge(case: Case) -> Iterator[Doubt]:
    known = {case.scene.device, *case.scene.disks, *case.scene.below}
    others = [name for name in case.named if name not in known and not _LAYER.match(name)]
    if not case.scene.device or not others:
        return
    alone = not known.intersection(case.named)
    yield CHECK.doubt(
        f"the load says that it used {', '.join(others)}, where the target is {case.scene.device}",
        invalid=alone,
    )


CHECK = Check(
    name="other-disk",
    title="the load used another disk",
    looks_at="the disks that fio's report names (`disk_util`); the target and what it is built on",
    limit="any other disk beside the target (doubt) or in its place (INVALID)",
    remedy="Look at the names of files in the job file, and at what the target's path leads to.",
    source="fio(1), JSON output; diskutil.c of fio 3.33",
    invalid=True,
    judge=judge,
)
