"""The page on adding a knob is executed: its row, and its family, work without another change."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial import plugins, tunables
from iotrial.cli import main as cli
from iotrial.execute.session import HostSession
from iotrial.execute.settings.journal import open_journal, sessions
from iotrial.execute.settings.restore import RestoreReport, pay
from iotrial.execute.settings.tuning import observe
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake import proc as fake_sysctl
from iotrial.hosts.local import LocalHost
from iotrial.look.offer import offer
from iotrial.look.refusals import refusals
from iotrial.model.host import Host
from iotrial.model.step import Read
from iotrial.model.study import Study
from iotrial.model.target import Topology
from iotrial.model.tunable import Setting
from iotrial.plan.available import with_available
from iotrial.plan.load import parse_study
from iotrial.tunables import queue
from pages.knobs import reference

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-a-knob.md").read_text("utf-8")
BLOCKS = {
    kind: (where, text)
    for kind, where, text in re.findall(
        r"<!-- (row|family): (\w+) -->\n```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
}
CACHES = (
    *(plugins.plugins, plugins._found),
    *(tunables._modules, tunables.families, tunables._by_name, tunables._made, tunables._closure),
)
FILE = "/proc/sys/vm/dirtytime_expire_seconds"
STUDY = """
question = "Does the new knob matter?"
[targets.disk]
loop = {{ size = "16MiB" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "read", bs = "4k", runtime = "1s" }}
[factors.new]
tunable = "{name}"
levels = [{levels}]
"""


def forget() -> None:
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's family as one more file of the package; the pretended kernel has its files."""
    name, text = BLOCKS["family"]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tunables, "__path__", [*tunables.__path__, str(tmp_path)])
    monkeypatch.setitem(fake_sysctl.START, FILE.removeprefix("/proc/sys/"), "43200")
    importlib.invalidate_caches()
    forget()
    yield name
    monkeypatch.undo()
    sys.modules.pop(f"{tunables.__name__}.{name}", None)
    forget()


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's row, in the table it belongs to."""
    _, text = BLOCKS["row"]
    made = eval(text, vars(queue))  # noqa: S307 (our own page)
    monkeypatch.setattr(queue, "TUNABLES", (*queue.TUNABLES, made))
    forget()
    yield str(made.name)
    monkeypatch.undo()
    forget()


def study(name: str, *levels: str) -> Study:
    return parse_study(STUDY.format(name=name, levels=", ".join(levels)), "study.toml", str)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code, said = cli.status(list(words)), capsys.readouterr()
    assert code == 0, said.err
    return said.out


def held_and_given_back(host: Host, folder: str, wanted: Setting) -> None:
    """The value is in force while held; what was there before is owed meanwhile, and back then."""
    header = {"boot_id": host.read("/proc/sys/kernel/random/boot_id").decode().strip()}
    journal = open_journal(host, folder, {**header, "token": "t"})
    session = HostSession(host, study(wanted.tunable, wanted.value), journal)
    session.own_groups({wanted.device: [wanted.tunable]})
    knob = tunables.tunable(wanted.tunable)
    before = observe(host, knob, wanted.device)
    assert wanted not in session.observed()
    session.hold([wanted])
    assert wanted in session.observed()
    (session,) = sessions(host, folder)
    payment = RestoreReport()
    pay(host, session, payment)
    assert payment.owed == []
    assert observe(host, knob, wanted.device) == before
    assert sessions(host, folder) == ()


def test_the_family_is_listed_and_described(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "inode.lazytime_expire" in shown(capsys, "knobs", family)
    one = shown(capsys, "knobs", "inode.lazytime_expire", "--pretend")
    for word in (FILE, "43200", "0 to 2147483647", "lazytime"):
        assert word in one
    assert "sysctl -q -w vm.vfs_cache_pressure={value}" in shown(
        capsys, "knobs", "inode.cache_pressure"
    )
    assert f"## `{family}`: " in reference()


def test_a_study_may_vary_it_and_what_is_not_taken_is_named(family: str) -> None:
    host, disk = FakeHost(), {"disk": Topology.of_disk("fake0")}
    written = study(f"{family}.lazytime_expire", "60", "-5")
    said = list(refusals(host, with_available(written, offer(host, written, disk)), disk))
    assert len(said) == 1
    assert "-5 is below 0" in said[0]


def test_the_family_is_held_and_given_back(family: str) -> None:
    wanted = Setting("", f"{family}.lazytime_expire", "60")
    held_and_given_back(FakeHost(), "/var/lib/iotrial/journal.d", wanted)


def test_the_row_is_listed_and_in_the_groups_of_its_family(
    row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert row in shown(capsys, "knobs", "queue")
    assert "/sys/block/{device}/queue/iostats_passthrough" in shown(capsys, "knobs", row)
    assert "queue.read_ahead_kb" in [each.name for each in tunables.group([row])]


def test_the_commands_of_the_family_are_true_here(family: str) -> None:
    knob = tunables.tunable(f"{family}.cache_pressure")
    if not shutil.which("sysctl", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        pytest.skip("needs sysctl(8): procps")
    (answer,) = LocalHost().batch([Read(knob.probe(""))])
    assert knob.observe(answer.raw) == Path("/proc/sys/vm/vfs_cache_pressure").read_text().strip()


def test_the_page_has_one_row_and_one_family() -> None:
    assert set(BLOCKS) == {"row", "family"}
