from __future__ import annotations

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import brackets
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.mm import TUNABLES


def test_huge_pages_are_the_choice_in_brackets() -> None:
    raw = b"always defer defer+madvise [madvise] never\n"
    knob = tunable("mm.thp_defrag")
    assert knob.observe(raw) == "madvise"
    assert knob.domain(raw).choices == ("always", "defer", "defer+madvise", "madvise", "never")
    assert "is not one of" in knob.domain(raw).refusal("sometimes")


def test_unmerging_is_an_act_and_no_level() -> None:
    assert tunable("mm.ksm").domain(b"0\n").refusal("2")
    assert tunable("mm.ksm").domain(b"0\n").refusal("1") == ""


@pytest.mark.parametrize("name", ["mm.zram_algorithm", "mm.zram_size"])
def test_what_a_compressed_disk_takes_only_when_it_is_made_is_no_factor(name: str) -> None:
    assert "create" in tunable(name).reload


def test_every_row_says_when_it_cannot_matter() -> None:
    assert not [each.name for each in TUNABLES if not (each.moot and each.lasts and each.source)]


def test_the_fake_takes_what_is_offered_and_nothing_else() -> None:
    host = FakeHost()
    apply(host, [Setting("", "mm.thp", "never"), Setting("", "mm.ksm", "1")])
    assert observe(host, tunable("mm.thp"), "") == "never"
    with pytest.raises(SettingRefused):
        apply(host, [Setting("", "mm.thp", "sometimes")])
    assert brackets(("a", "b"), "b") == "a [b]"
