"""What iotrial made on a host, and how each kind of it is removed again."""

from __future__ import annotations

from iotrial.errors import OwedError
from iotrial.execute import byhand
from iotrial.execute.journal import MadeDebt
from iotrial.execute.loops import LoopPlan, unmake_loop
from iotrial.model.host import Host


def unmake(host: Host, debt: MadeDebt) -> list[str]:
    """Remove what one ``made`` line names, if it is still there.  Twice is once."""
    if debt.what == "loop":
        return unmake_loop(host, LoopPlan.from_dict(debt.plan))
    if debt.what == byhand.KIND:
        if why := byhand.still_owed(host, debt):
            raise OwedError(why, advice="Set it back by hand, then: iotrial restore")
        return []
    if debt.what == "file":
        return _unmake_file(host, str(debt.plan["file"]))
    return []


def _unmake_file(host: Host, path: str) -> list[str]:
    there = host.run(["stat", "-L", "-c", "%F", path]).exit == 0
    host.remove(path)
    return [f"removed {path}"] if there else []
