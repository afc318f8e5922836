"""What TARGET… of `saturate` means: hosts, paths, names; and the study of several of them."""

from __future__ import annotations

import pytest

from iotrial.look.engines import ENGINES
from iotrial.model.study import Study
from iotrial.plan.load import parse_study
from iotrial.plan.parts import parts_of
from iotrial.plan.saturate import (
    ALONE,
    HERE,
    SaturationRequest,
    SaturationTarget,
    study_text,
    targets_named,
)
from iotrial.plan.stages import next_trials


def of(hosts: dict[str, str], targets: dict[str, dict[str, object]]) -> Study:
    asked = SaturationRequest(
        targets, "iops", "randread", {"libaio": ENGINES["libaio"]}, ("4k",), 2, 1.0, hosts=hosts
    )
    return parse_study(study_text(asked), "several.toml", lambda name: name)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("/dev/sdb", SaturationTarget(HERE, "", "/dev/sdb")),
        ("/dev/disk/by-path/pci-0:1", SaturationTarget(HERE, "", "/dev/disk/by-path/pci-0:1")),
        ("loop", SaturationTarget(HERE, "", "loop")),
        ("./a:b", SaturationTarget(HERE, "", "./a:b")),
        ("here:/dev/sdb", SaturationTarget(HERE, "", "/dev/sdb")),
        ("root@box7:/dev/sdb", SaturationTarget("box7", "root@box7", "/dev/sdb")),
        ("box7:S4X1N0", SaturationTarget("box7", "box7", "S4X1N0")),
        ("box7:loop", SaturationTarget("box7", "box7", "loop")),
        ("-F /a/b root@box7:/dev/sdb", SaturationTarget("box7", "-F /a/b root@box7", "/dev/sdb")),
        ("root@fe80::1:/dev/sdb", SaturationTarget("fe80-1", "root@fe80::1", "/dev/sdb")),
        ("box7:/dev/disk/by-path/pci-0:1", SaturationTarget(
            "box7", "box7", "/dev/disk/by-path/pci-0:1")),
    ],
)  # fmt: skip
def test_a_word_is_a_target_here_or_on_a_host(word: str, meant: SaturationTarget) -> None:
    assert targets_named([word]) == (meant,)


def test_brackets_name_several_hosts_and_every_target_has_a_name_of_its_own() -> None:
    found = targets_named(["root@box[1-2]:/dev/sdb", "/dev/sdb", "/dev/sdc", "me@box1:/data/x y"])
    assert [(each.host, each.name) for each in found] == [
        ("box1", "sdb"),
        ("box2", "sdb-2"),
        (HERE, "sdb-3"),
        (HERE, "sdc"),
        ("box1-2", "x-y"),
    ]
    assert [each.ssh for each in found] == ["root@box1", "root@box2", "", "", "me@box1"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["box7:"], "names no target"),
        ([":/dev/sdb"], "names no host"),
        (["/dev/sdb", "/dev/sdb"], "occurs twice"),
        (["box[1-2]:loop", "box2:loop"], "box2:loop occurs twice"),
        (["box[2-1]:loop"], "descending range"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        targets_named(words)


def test_one_target_has_no_parts_and_several_are_loaded_together() -> None:
    alone = of({}, {ALONE: {"device": "/dev/sdb"}})
    assert [target.name for target in alone.whole] == [ALONE]
    several = of(
        {"box1": "root@box1", HERE: ""},
        {
            "sdb": {"device": "/dev/sdb", "host": "box1"},
            "sdb-2": {"device": "/dev/sdb", "host": HERE},
            "sdc": {"device": "/dev/sdc", "host": HERE},
        },
    )
    assert [(place.name, place.ssh) for place in several.places] == [
        ("box1", "root@box1"),
        (HERE, ""),
    ]
    trials = next_trials(several, (), ())
    assert len({trial.target for trial in trials}) == 1
    names = [part.name for part in parts_of(several, trials[0])]
    assert names == ["box1/sdb", "here/sdb-2", "here/sdc"]
