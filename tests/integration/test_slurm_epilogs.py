"""`iotrial restore --epilog` as both programs that Slurm has for the end of a job: the controller
and all guards are killed, so that nobody else restores anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from test_slurm import PAGE, Site, cluster, lab, site

from lab import Lab, why_not

__all__ = ["cluster", "lab", "site"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]


@pytest.fixture
def epilog(site: Site) -> Iterator[str]:
    """The text that iotrial prints."""
    assert site.iotrial("restore", "--epilog").wait(60) == 0
    yield site.said
    for each in (site.cluster.epilog, site.cluster.epilog_slurmctld):
        each.unlink(missing_ok=True)


def kill_all(site: Site, process: subprocess.Popen[bytes], own: Path) -> None:
    """iotrial, its guards on the nodes, and the one here, whose journals are in ``own``."""
    process.send_signal(signal.SIGSTOP)
    site.kill_guards()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = path.read_bytes()
            if b"iotrial-guard" in text and f"{own}/".encode() in text:
                os.kill(int(path.parent.name), signal.SIGKILL)
    process.kill()


def drained(site: Site) -> list[str]:
    states = site.cluster.do("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
    return sorted({each.split()[0] for each in states if "drain" in each})


def test_that_of_the_controller_restores_its_own_machine(
    site: Site, epilog: str, state: Path
) -> None:
    """A reservation is all that a run changes there."""
    before = site.seen()
    site.cluster.epilog.write_text(epilog)
    here = epilog.replace("/run/iotrial/lock", f"{state}/lock")
    here = here.replace("/var/lib/iotrial/journal.d", f"{state}/journal.d")
    site.cluster.epilog_slurmctld.write_text(f"PATH={site.cluster.bin}:/usr/bin:/bin\n{here}")
    process = site.run("--reserve", "Nodes=n[1-2] Duration=20", runtime="20s")
    site.until(lambda: bool(site.loads()) and site.seen() != before)
    assert "iotrial-" in site.reservations
    kill_all(site, process, state)
    site.until(lambda: "iotrial-" not in site.reservations)
    site.until(lambda: not list((state / "journal.d").glob("*.journal")))
    site.clean(before)
    assert not drained(site)


def test_from_the_controller_nodes_are_restored_over_ssh(
    site: Site, epilog: str, lab: Lab, state: Path
) -> None:
    """As docs/slurm.md shows; a node that cannot be reached is drained."""
    (shown,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert shown.count("ssh ") == 1
    text = site.folder / "epilog-text"
    text.write_text(epilog)
    shown = shown.replace("ssh ", f"ssh -F {lab.config} -o ConnectTimeout=5 ")
    shown = shown.replace("/etc/slurm/epilog.d/iotrial", str(text))
    site.cluster.epilog_slurmctld.write_text(f"PATH={site.cluster.bin}:/usr/bin:/bin\n{shown}")
    before = site.seen()
    process = site.run(runtime="20s", nodes="--nodelist=n[1-2] --exclusive")
    site.until(lambda: bool(site.loads()) and site.seen() != before)
    kill_all(site, process, state)
    site.clean(before)
    assert not drained(site)
    site.cluster.epilog_slurmctld.write_text(
        f"PATH={site.cluster.bin}:/usr/bin:/bin\n{shown.replace(str(lab.config), '/dev/null')}"
    )
    site.cluster.do("srun", "--nodelist=n3", "--exclusive", "true")
    site.until(lambda: drained(site) == ["n3"])
    site.cluster.do("scontrol", "update", "nodename=n3", "state=resume")
