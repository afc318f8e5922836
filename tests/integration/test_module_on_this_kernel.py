"""Module parameters for real: harmless ones held and given back, read-only ones recognised."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.local import LocalHost
from iotrial.look.refusals import control_file, modes, obstacle
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable

pytestmark = [pytest.mark.root, pytest.mark.alone]

HARMLESS = {
    "printk.console_no_auto_verbose": ("0", "1"),
    "printk.always_kmsg_dump": ("0", "1"),
    "dns_resolver.debug": ("0", "1"),
    "tcp_cubic.hystart_low_window": ("16", "17"),
    "loop.hw_queue_depth": ("128", "64"),
}
"""Parameters that change nothing a test could miss, and two values of each."""


def path(name: str) -> Path:
    return Path("/sys/module", name.replace(".", "/parameters/"))


def writable(name: str) -> bool:
    return path(name).exists() and bool(path(name).stat().st_mode & 0o222)


def test_some_of_them_are_here() -> None:
    assert [name for name in HARMLESS if writable(name)]


@pytest.mark.parametrize("name", [each for each in HARMLESS if writable(each)])
def test_a_parameter_is_held_and_given_back(name: str) -> None:
    host = LocalHost()
    knob = tunable(f"module.{name}")
    before = path(name).read_text()
    assert obstacle(knob, "", modes(host, [control_file(knob, "")])) == ""
    assert knob.domain(before.encode()).refusal("1") == ""
    group = snapshot(host, [knob.name], "")
    try:
        for value in HARMLESS[name]:
            apply(host, [Setting("", knob.name, value)])
            assert observe(host, knob, "") == value
    finally:
        assert put_back(host, group.owed) == ()
    assert path(name).read_text() == before


def read_only() -> list[str]:
    """Names of parameters of this kernel that can be read and not written."""
    files = sorted(Path("/sys/module").glob("*/parameters/*"))
    return [
        f"module.{each.parent.parent.name}.{each.name}"
        for each in files
        if each.stat().st_mode & 0o777 == 0o444
    ]


def test_a_read_only_parameter_is_recognised_and_root_could_not_write_it() -> None:
    host, names = LocalHost(), read_only()
    assert len(names) > 5
    knobs = [tunable(name) for name in names[:200] if "." not in name.split(".", 2)[2]]
    known = modes(host, [control_file(knob, "") for knob in knobs])
    assert len(known) == len(knobs)
    assert all("is read-only (mode 0444)" in obstacle(knob, "", known) for knob in knobs)
    with pytest.raises(SettingRefused, match="Permission denied"):
        apply(host, [Setting("", knobs[0].name, "no such value, in any case")])


def test_modes_of_a_thousand_files_take_a_few_commands() -> None:
    host = LocalHost()
    files = [str(each) for each in sorted(Path("/sys/module").glob("*/parameters/*"))]
    assert modes(host, files) == {each: Path(each).stat().st_mode & 0o7777 for each in files}


@pytest.mark.parametrize("name", ["qla2xxx.ql2xmaxqdepth", "lpfc.lpfc_lun_queue_depth"])
def test_a_module_that_is_not_loaded_is_not_here(name: str) -> None:
    if path(name).exists():
        pytest.skip(f"this machine has {name}")
    assert snapshot(LocalHost(), [f"module.{name}"], "").values == ()
