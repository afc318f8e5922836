"""/metrics, read by the parser of those who define it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

import factories
from iotrial.judgement import judge
from iotrial.live.live import findings
from iotrial.live.metrics import CONTENT_TYPE, PLAIN, content_type, openmetrics
from iotrial.live.picture import InterimFindings, LiveDocument
from iotrial.model.event import CountersSampled, TrialBegan, TrialsPlanned
from iotrial.model.results import TelemetrySample

RESULTS = factories.results()
FINDINGS = cache(partial(findings, RESULTS, judge))
Families = dict[str, dict[str, Any]]


def at_work(host: str = "local") -> LiveDocument:
    picture = LiveDocument(RESULTS.study)
    picture.add(TrialsPlanned(63, 63, Path("r")), 0.0)
    picture.add(InterimFindings(FINDINGS(), {"valid": 50, "invalid": 2}), 0.0)
    picture.add(TrialBegan(RESULTS.records[0].trial, 3.0), 0.0)
    for t in (0, 1):
        disk = {"reads": 4000 * t, "sectors_read": 32_000 * t, "read_ms": 2000 * t, "in_flight": 8}
        values = {"t": float(t), "disk": disk, "cpu": {"user": 50 * t, "idle": 50 * t}}
        picture.add(CountersSampled(TelemetrySample(host, "disk", "sda", values)), float(t))
    return picture


def read(picture: LiveDocument) -> dict[str, list[Any]]:
    """Family → its samples.  The parser refuses what is not OpenMetrics."""
    text = openmetrics(picture.document(1.1), picture.counters)
    return {each.name: each.samples for each in text_string_to_metric_families(text)}


def test_every_name_ends_in_its_unit_and_the_numbers_are_those_of_the_page() -> None:
    picture = at_work()
    families = read(picture)
    place = {"host": "local", "target": "disk", "device": "sda"}
    assert families["iotrial_device_read_operations"][0].value == 4000
    assert families["iotrial_device_read_operations"][0].labels == place
    assert families["iotrial_device_read_bytes"][0].value == 32_000 * 512
    assert families["iotrial_device_read_seconds"][0].value == 2.0
    assert families["iotrial_device_read_latency_seconds"][0].value == 0.0005
    now = picture.document(1.1)["rows"][0]["rates"]["read.iops"]
    assert families["iotrial_device_read_operations_per_second"][0].value == now == 4000.0
    assert families["iotrial_host_cpu_busy_ratio"][0].value == 0.5


def test_the_run_is_told_too() -> None:
    families = read(at_work())
    info = families["iotrial_trial"][0].labels
    assert info["study"] == "scheduler"
    assert info["treatment"].startswith("scheduler=")
    trials = {each.labels["state"]: each.value for each in families["iotrial_trials"]}
    assert trials == {"valid": 50, "invalid": 2, "failed": 0}
    assert families["iotrial_trials_left"][0].value == 63
    phases = {each.labels["iotrial_phase"]: each.value for each in families["iotrial_phase"]}
    assert [name for name, value in phases.items() if value] == ["load"]
    ends = {each.labels["end"] for each in families["iotrial_finding_ratio"]}
    assert ends == {"low", "estimate", "high"}


def test_before_the_first_trial_there_is_nothing_and_that_is_said_well() -> None:
    families = read(LiveDocument(RESULTS.study))
    assert families["iotrial_device_read_operations"] == []
    assert families["iotrial_trial"][0].labels == {"study": "scheduler"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_name_is_escaped(name: str) -> None:
    families = read(at_work(name))
    assert families["iotrial_device_read_operations"][0].labels["host"] == name


def test_a_text_that_is_cut_off_is_no_openmetrics() -> None:
    """The parser does refuse: else the tests above would say nothing."""
    picture = at_work()
    text = openmetrics(picture.document(1.1), picture.counters)
    assert text.endswith("\n# EOF\n")
    for broken in (text[:-6], text.replace("# UNIT iotrial_device_read_bytes bytes", "# UNIT")):
        with pytest.raises(ValueError):  # noqa: PT011 (what it raises has no words of its own)
            list(text_string_to_metric_families(broken))
    assert CONTENT_TYPE.startswith("application/openmetrics-text; version=1.0.0")


def test_paths_are_families_of_their_own_that_nobody_adds_to_the_devices() -> None:
    picture = at_work()
    for t in (2, 3):
        reads = {"reads": 4000 * t, "sectors_read": 32_000 * t, "read_ms": 2000 * t}
        paths = {"sdb": reads, "sdc": dict.fromkeys(reads, 0)}
        values = {"t": float(t), "disk": reads, "paths": paths}
        picture.add(CountersSampled(TelemetrySample("local", "disk", "dm-3", values)), float(t))
    families = read(picture)
    place = {"host": "local", "target": "disk", "device": "dm-3"}
    assert [each.labels for each in families["iotrial_path_read_operations"]] == [
        {**place, "path": "sdb"}, {**place, "path": "sdc"},
    ]  # fmt: skip
    assert families["iotrial_path_read_operations"][0].value == 12_000
    assert [each.value for each in families["iotrial_path_share_ratio"]] == [1.0, 0.0]
    assert {each.labels["device"] for each in families["iotrial_device_read_operations"]} == {
        "sda", "dm-3",
    }  # fmt: skip
    assert all("path" not in each.labels for each in families["iotrial_device_read_operations"])


# -- the text format 0.0.4, for whoever does not ask for OpenMetrics ------------------------------


def plain_text(picture: LiveDocument) -> str:
    return openmetrics(picture.document(1.1), picture.counters, plain=True)


def full() -> LiveDocument:
    """A picture with something in every family that there is."""
    picture = at_work()
    for t in (2, 3):
        disk = dict.fromkeys(
            ("reads", "sectors_read", "read_ms", "writes", "sectors_written", "write_ms"), 100 * t
        )
        values = {"t": float(t), "disk": disk, "paths": {"sdb": disk}}
        picture.add(CountersSampled(TelemetrySample("local", "disk", "dm-3", values)), float(t))
    return picture


def empty() -> LiveDocument:
    return LiveDocument(RESULTS.study)


@pytest.mark.parametrize("made", [full, empty])
def test_the_plain_text_keeps_the_rules_of_promtool(made: Callable[[], LiveDocument]) -> None:
    """A name is told once, with help; ``_total`` is of counters, of all of them and of nothing
    else; units are base units at the end; no series is there twice."""
    text = plain_text(made())
    told = re.findall(r"^# (HELP|TYPE) (\S+) (.+)$", text, re.MULTILINE)
    kinds = {name: words for what, name, words in told if what == "TYPE"}
    helps = {name: words for what, name, words in told if what == "HELP"}
    assert len(told) == len(kinds) + len(helps)
    assert kinds.keys() == helps.keys()
    assert set(kinds.values()) == {"counter", "gauge"}
    for name, kind in kinds.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert re.fullmatch("[a-z_]+", name)
        assert not re.search("_(ms|us|kib|mib|minutes|milliseconds|percent|counter|gauge)", name)
    series = re.findall(r"^([a-z][^#\n]*) \S+$", text, re.MULTILINE)
    assert len(series) == len(set(series))
    assert {each.partition("{")[0] for each in series} <= kinds.keys()
    assert "# EOF" not in text
    assert "# UNIT" not in text


def test_the_plain_text_has_the_same_series_as_openmetrics() -> None:
    picture = full()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in plain_families(plain_text(picture))
        for sample in family.samples
    }
    wanted = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for each in read(picture).values()
        for sample in each
    }
    assert samples == wanted
    assert len(samples) > 50


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_name_is_escaped_in_the_plain_text_too(name: str) -> None:
    found = {each.name: each for each in plain_families(plain_text(at_work(name)))}
    assert found["iotrial_device_read_operations"].samples[0].labels["host"] == name


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html,application/xhtml+xml,*/*;q=0.8", PLAIN),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", PLAIN),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            CONTENT_TYPE,
        ),
    ],
)
def test_who_asks_for_openmetrics_gets_it(accept: str, kind: str) -> None:
    assert content_type(accept) == kind


def test_promtool_has_nothing_to_say() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text = plain_text(full())
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
