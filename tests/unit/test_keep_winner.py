"""From findings to a profile: what is kept, what is not, and what the report shows of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import RefusedError, UsageError
from iotrial.judgement import completed
from iotrial.keep.entry import KeptSetting
from iotrial.keep.winner import profile, winners
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.load import parse_study
from iotrial.report.keepsake import keepsake
from iotrial.report.study import html
from iotrial.report.view import view
from iotrial.stats.judge import judge

STUDY = """
question = "Which?"
[targets.disk]
device = "/dev/disk/by-id/x"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq", "kyber"]
baseline = "none"
[factors.kernel]
baseline = "stock"
[factors.kernel.levels]
stock = {}
tuned = { "sysctl.vm.swappiness" = 10 }
[design]
kind = "full"
blocks = 4
[decide]
margin = "2%"
guardrails = { "read.clat.p99" = "+10%" }
"""
SPEED = {"none": 1000.0, "bfq": 1200.0, "kyber": 1300.0}
WIGGLE = (1.0, 1.002, 0.999, 1.001)
FACTS = {
    "local": {
        "targets": {
            "disk": {"identity": {"kernel_name": "sda", "ids": {"wwid": "naa.1", "serial": "S"}}}
        },
        "devices": {"sda": {"vendor": "ACME", "model": "FAST"}},
    }
}


def results(tail: float = 1e-3) -> Results:
    """bfq 20 % faster, kyber 30 %; with a ``tail`` of its own for kyber."""
    study = parse_study(STUDY, "study.toml", read=str)
    records, number = [], 0
    for block in range(1, 5):
        for scheduler, speed in SPEED.items():
            for kernel in ("stock", "tuned"):
                number += 1
                wiggle = WIGGLE[(block + number) % 4]
                latency = (tail if scheduler == "kyber" else 1e-3) * wiggle
                values = (
                    Measurement("read.iops", speed * wiggle, "1/s"),
                    Measurement("read.clat.p99", latency, "s"),
                )
                treatment = (("scheduler", scheduler), ("kernel", kernel))
                trial = Trial(number, f"{number:06x}", block, "reads", treatment, "disk")
                made = TrialRecord(trial, "valid", float(number), 1.0, measurements=values)
                before = (
                    ("sda", "queue.scheduler", scheduler),
                    ("", "sysctl.vm.swappiness", "10" if kernel == "tuned" else "60"),
                )
                records.append(replace(made, before=before))
    planned = tuple(each.trial for each in records)
    baselines = {"scheduler": "none", "kernel": "stock"}
    return Results(Path("results/x"), study, planned, tuple(records), FACTS, baselines)


def test_the_better_level_is_kept_with_its_device_its_former_value_and_its_interval() -> None:
    found = results()
    kept = profile(completed(found, judge(found)))
    (entry,) = kept.entries
    assert (entry.tunable, entry.value, entry.device) == ("queue.scheduler", "kyber", "sda")
    assert dict(entry.ids) == {"wwid": "naa.1", "serial": "S", "vendor": "ACME", "model": "FAST"}
    assert entry.former == "none"
    assert entry.because.startswith("reads: read.iops +30")
    assert entry.because.endswith("against none, better")


def test_what_breaks_a_guardrail_is_not_kept() -> None:
    found = results(tail=2e-3)
    assert winners(found, judge(found)) == {"scheduler": "bfq"}


def test_what_may_cost_another_load_more_than_the_margin_is_not_kept() -> None:
    """Of the writes nobody knows what kyber does to them; bfq does nothing."""
    found = results()
    comparison = judge(found)
    gain = next(f for f in comparison.findings if f.level == "kyber" and f.primary)
    unsure = replace(
        gain, workload="writes", metric="write.iops", ratio=0.95, low=0.8, high=1.1,
        verdict="cannot-tell",
    )  # fmt: skip
    narrow = replace(unsure, low=0.985, high=1.02)
    told = {
        end: winners(found, replace(comparison, findings=(*comparison.findings, more)))
        for end, more in (("wide", unsure), ("narrow", narrow))
    }
    assert told == {"wide": {"scheduler": "bfq"}, "narrow": {"scheduler": "kyber"}}


def test_a_person_may_choose_and_is_told_what_was_found() -> None:
    found = results()
    (entry,) = profile(completed(found, judge(found)), {"kernel": "tuned"}, "My Name").entries
    assert (entry.tunable, entry.value, entry.former) == ("sysctl.vm.swappiness", "10", "60")
    assert "same" in entry.because
    with pytest.raises(UsageError, match="no level 'tune'"):
        profile(completed(found, judge(found)), {"kernel": "tune"})
    with pytest.raises(UsageError, match="no factor 'kernels'"):
        profile(completed(found, judge(found)), {"kernels": "tuned"})


def test_where_the_baseline_stays_there_is_nothing_to_keep() -> None:
    found = results()
    slow = tuple(
        each for each in found.records if dict(each.trial.treatment)["scheduler"] == "none"
    )
    found = replace(found, records=slow)
    with pytest.raises(RefusedError, match="no setting to keep"):
        profile(completed(found, judge(found)))
    assert keepsake(completed(found, judge(found))) is None


def on_two_hosts() -> Results:
    """The same, on box1 and box2, where the disk is called ``sda`` and ``sdb``."""
    hosts = '[hosts.box1]\nssh = "root@box1"\n[hosts.box2]\nssh = "root@box2"\n[targets.disk]\n'
    text = STUDY.replace("[targets.disk]\n", f'{hosts}hosts = "box[1-2]"\n')
    found = results()
    records = tuple(
        replace(
            each,
            before=(
                ("box1:sda", "queue.scheduler", dict(each.trial.treatment)["scheduler"]),
                ("box2:sdb", "queue.scheduler", dict(each.trial.treatment)["scheduler"]),
                ("box1:", "sysctl.vm.swappiness", "10"),
            ),
        )
        for each in found.records
    )
    disk = {"kernel_name": "sdb", "ids": {"wwid": "naa.2"}}
    facts = {"box1": FACTS["local"], "box2": {"targets": {"disk": {"identity": disk}}}}
    study = parse_study(text, "study.toml", read=str)
    return replace(found, study=study, records=records, facts=facts)


def test_of_several_hosts_each_keeps_it_on_its_own_devices() -> None:
    found = on_two_hosts()
    kept = profile(completed(found, judge(found)))
    assert [place.ssh for place in kept.hosts] == ["root@box1", "root@box2"]
    first, second = kept.shares.values()
    assert [(e.device, dict(e.ids)["wwid"]) for e in first.entries] == [("sda", "naa.1")]
    assert [(e.device, dict(e.ids)["wwid"]) for e in second.entries] == [("sdb", "naa.2")]
    assert {e.value for e in kept.entries} == {"kyber"}
    assert {e.former for e in kept.entries} == {"none"}


def test_what_one_host_sets_for_a_shared_kernel_is_kept_on_that_host() -> None:
    found = on_two_hosts()
    kept = profile(completed(found, judge(found)), {"kernel": "tuned"})
    assert [place.name for place in kept.hosts] == ["box1"]
    assert [each.host for each in kept.entries] == ["box1"]


def test_the_report_of_several_hosts_says_which_file_is_whose() -> None:
    found = on_two_hosts()
    seen = view(completed(found, judge(found)))
    assert seen.kept is not None
    assert [each.hosts for each in seen.kept.files] == ["box1", "box2"]
    assert "naa.2" in seen.kept.files[1].text
    assert "naa.1" not in seen.kept.files[1].text
    assert "box2: <code>/etc/udev" in html(seen)


def test_the_report_ends_with_the_files_ready() -> None:
    found = results()
    seen = view(completed(found, judge(found)))
    assert seen.kept is not None
    assert [each.path for each in seen.kept.files] == ["/etc/udev/rules.d/99-iotrial-study.rules"]
    page = html(seen)
    assert "To keep it" in page
    assert "ATTR{queue/scheduler}=&#34;kyber&#34;" in page
    assert str(KeptSetting("queue.scheduler", "kyber", "sda")) in page


def test_an_option_of_the_load_cannot_be_kept_and_that_is_said() -> None:
    found = results()
    option = replace(found.study.factors[0], kind="option")
    found = replace(found, study=replace(found.study, factors=(option,)))
    with pytest.raises(RefusedError, match="scheduler=kyber is an option of the load or target"):
        profile(completed(found, judge(found)))


OWN = """
[knobs.size]
file = "/etc/client.conf"
content = "size {value}\\n"
reload = ["touch", "/tmp/reloaded"]
read = ["touch", "/tmp/read"]
[factors.kernel]"""


def studied(*changes: tuple[str, str]) -> Results:
    """The results of another study: the text of ours with something in place of something."""
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return replace(results(), study=parse_study(text, "study.toml", read=str))


def test_what_only_a_study_can_make_is_told_and_not_kept() -> None:
    """Its file and its commands are the study's; keep runs none of a folder's commands."""
    own = ("\n[factors.kernel]", OWN), ('swappiness" = 10', 'swappiness" = 10, "file.size" = "4"')
    found = studied(*own)
    more = (("", "file.size", "4"),)
    records = tuple(replace(each, before=each.before + more) for each in found.records)
    found = replace(found, records=records)
    kept = profile(completed(found, judge(found)), {"kernel": "tuned"})
    assert [each.tunable for each in kept.entries] == ["sysctl.vm.swappiness"]
    assert kept.apart == ("file.size=4",)
    alone = studied(own[0], ('"sysctl.vm.swappiness" = 10', '"file.size" = "4"'))
    alone = replace(alone, records=records)
    with pytest.raises(RefusedError, match=r"set only by commands of the study: file\.size=4"):
        profile(completed(alone, judge(alone)), {"kernel": "tuned"})


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ({"wwid": "naa.1\n[script]\nscript=/tmp/x"}, "wwid holds a control character"),
        ({"serial": "\u2028"}, "serial holds a control character"),
        ({"dm_uuid": "x" * 5000}, "is longer than"),
        ({"md_uuid": '", RUN+="/tmp/x'}, "md_uuid is malformed"),
        ({"a b": "x"}, "ids is malformed"),
    ],
)
def test_ids_of_somebody_elses_folder_are_refused_by_name(
    identity: dict[str, str], said: str
) -> None:
    facts = {"local": {"targets": {"disk": {"identity": {"kernel_name": "sda", "ids": identity}}}}}
    found = replace(results(), facts=facts)
    with pytest.raises(RefusedError, match=said) as raised:
        profile(completed(found, judge(found)))
    assert raised.value.message.startswith("results/x: queue.scheduler in ")
    assert raised.value.message.isprintable()
    assert keepsake(completed(found, judge(found))) is None, "and its report is made all the same"


@pytest.mark.parametrize("device", ["../../etc", "sda/../x", "", "sda\n", "-x", "a b"])
def test_a_device_out_of_sysfs_is_refused(device: str) -> None:
    found = results()
    records = [
        replace(
            each,
            before=tuple(
                (device if knob == "queue.scheduler" else at, knob, value)
                for at, knob, value in each.before
            ),
        )
        for each in found.records
    ]
    found = replace(found, records=tuple(records))
    with pytest.raises(RefusedError, match=r"queue\.scheduler"):
        profile(completed(found, judge(found)))


def test_a_way_to_a_host_that_reads_a_file_here_is_refused() -> None:
    way = '[hosts.box]\nssh = "-i /etc/key box"\n[targets.disk]\nhost = "box"\n'
    found = studied(("[targets.disk]\n", way))
    with pytest.raises(RefusedError, match=r"hosts\.box: ssh = .*-i /etc/key is not accepted"):
        profile(completed(found, judge(found)))


def booted(levels: str) -> Results:
    """A study whose second factor takes a boot; the module shows what nobody asked for."""
    changes = (('"sysctl.vm.swappiness" = 10', levels),)
    found = studied(*changes)
    read = (("", "boot.nvme.poll_queues", "0"), ("", "boot.threadirqs", "set"))
    records = tuple(replace(each, before=(*each.before, *read)) for each in found.records)
    return replace(found, records=records)


def test_of_boot_parameters_the_level_is_kept_and_not_what_a_module_shows() -> None:
    found = booted('"boot.nvme.poll_queues" = "unset", "boot.threadirqs" = "set"')
    judged = completed(found, judge(found))
    (entry,) = profile(judged, {"kernel": "tuned"}).entries
    assert (entry.tunable, entry.value) == ("boot.threadirqs", "set")
    found = booted('"boot.nvme.poll_queues" = 2')
    (entry,) = profile(completed(found, judge(found)), {"kernel": "tuned"}).entries
    assert (entry.tunable, entry.value, entry.former) == ("boot.nvme.poll_queues", "2", "0")
    found = booted('"boot.nvme.poll_queues" = "unset"')
    with pytest.raises(RefusedError, match="kernel=tuned leaves the host's own boot as it is"):
        profile(completed(found, judge(found)), {"kernel": "tuned"})


def test_a_kernel_that_wins_is_not_kept_and_the_commands_are_named() -> None:
    found = booted('"boot.kernel" = "6.1.0-x"')
    with pytest.raises(RefusedError, match=r"the winner has kernel 6\.1\.0-x: .*bootctl") as caught:
        profile(completed(found, judge(found)), {"kernel": "tuned"})
    assert "--finding FACTOR=LEVEL" in caught.value.advice


def test_the_report_names_apply_where_try_would_need_a_boot() -> None:
    found = studied(
        ('tunable = "queue.scheduler"', 'boot = "mitigations"'),
    )
    seen = view(completed(found, judge(found)))
    assert seen.kept is not None
    assert seen.kept.command.endswith(" apply")
    assert "To apply: " in html(seen)
    assert "mitigations=kyber" in seen.kept.files[0].text
