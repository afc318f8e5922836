"""The row that the page on adding a knob shows, on a real loop device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial import plugins, tunables
from iotrial.execute.settings.tuning import apply, put_back, read_back, snapshot
from iotrial.hosts.local import LocalHost
from iotrial.model.tunable import Setting
from iotrial.tunables import queue

pytestmark = pytest.mark.root

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-knob.md"
ROW = re.compile(r"<!-- row: queue -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CACHES = (
    *(plugins.plugins, plugins._found),
    *(tunables._modules, tunables.families, tunables._by_name, tunables._made, tunables._closure),
)


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's row, in the table it belongs to."""
    found = re.search(
        r"<!-- row: queue -->\n```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found
    made = eval(found[1], vars(queue))  # noqa: S307 (our own page)
    monkeypatch.setattr(queue, "TUNABLES", (*queue.TUNABLES, made))
    for cached in CACHES:
        cached.cache_clear()
    yield str(made.name)
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()


def test_it_is_held_and_given_back_with_what_it_moves(row: str, loop_device: str) -> None:
    folder = Path("/sys/block", loop_device, "queue")
    if not (folder / "iostats_passthrough").exists():
        pytest.skip("this kernel has no queue/iostats_passthrough")
    (folder / "read_ahead_kb").write_text("4")
    host = LocalHost()
    group = snapshot(host, [row], loop_device)
    before = read_back(host, [group])
    apply(host, [Setting(loop_device, row, "1")])
    held = read_back(host, [group])
    assert Setting(loop_device, row, "1") in held
    assert Setting(loop_device, "queue.read_ahead_kb", "4") not in held
    assert put_back(host, group.owed) == ()
    assert read_back(host, [group]) == before
