"""As root, a plugin's file is executed only where nobody but root can change it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotrial import plugins
from iotrial.plugins import PluginWarning

pytestmark = pytest.mark.root

RULE = """
from iotrial_lint.rule import Rule
RULE = Rule("mine", "title", "note", ("sysctl",), "reason", "source")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A plugin in a folder of root's: pytest's are below one that all may write to, which has the
    sticky bit."""
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    path = folder / "mine.py"
    path.write_text(RULE)
    path.chmod(0o644)
    return path


def refused(path: Path) -> str:
    with pytest.raises(PermissionError) as caught:
        plugins.refuse_others(path)
    return str(caught.value)


def test_what_root_alone_can_change_is_executed(file: Path) -> None:
    plugins.refuse_others(file)
    assert [plugin.name for plugin in plugins.in_file(file)] == ["mine"]


def test_what_others_can_write_to_is_not(file: Path) -> None:
    file.chmod(0o666)
    assert refused(file).startswith(f"{file} is writable by other users")
    file.chmod(0o644)
    file.parent.chmod(0o777)
    assert refused(file).startswith(f"{file.parent} is writable by other users")


def test_what_others_own_is_not_nor_a_link_to_it(file: Path) -> None:
    link = file.parent.parent / "link.py"
    link.symlink_to(file)
    plugins.refuse_others(link)
    os.chown(file, 65534, 65534)
    assert refused(file).startswith(f"{file} belongs to uid 65534")
    assert refused(link).startswith(f"{file} belongs to uid 65534")


def test_it_is_left_out_with_the_reason(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o622)
    monkeypatch.setenv("IOTRIAL_PLUGINS", str(file.parent))
    plugins._files.cache_clear()
    with pytest.warns(PluginWarning, match="root must not execute files that others can change"):
        assert plugins._files() == ()
    plugins._files.cache_clear()
