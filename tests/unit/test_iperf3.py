"""iperf3: what its output says, in every version, and what iotrial asks of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from iotrial.errors import FormatError, UsageError
from iotrial.formats import formats
from iotrial.formats.iperf3 import FORMAT, parse
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.sense import known_metric
from iotrial.tools import tool
from iotrial.tools.iperf3 import TOOL
from mutants import mutants

DATA = Path(__file__).parent.parent / "data" / "iperf3"
RECORDED = sorted(path for path in DATA.iterdir() if path.suffix in (".json", ".txt"))
WHOLE = [path.read_bytes() for path in RECORDED if "refused" not in path.name]
FOLDER = ToolTarget("/mnt/x", "directory")
LINK = Workload("load", "iperf3", (("server", "there"),))


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements if each.job == "all"}


def one(name: str) -> Recording:
    (found,) = FORMAT.read((DATA / name).read_bytes(), name)
    return found


def load(**options: OptionValue) -> Workload:
    return Workload("load", "iperf3", (("server", "there"), *options.items()))


def problems(**options: OptionValue) -> dict[str, str]:
    return dict(TOOL.check(load(**options), {}))


def sums(name: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((DATA / name).read_text())["end"]
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_every_recording_is_recognised_and_read_with_known_metrics(path: Path) -> None:
    data = path.read_bytes()
    assert FORMAT.recognises(data[: 2**16], path.name) >= 2
    assert [each.name for each in formats().values() if each.recognises(data, path.name) > 1] == [
        "iperf3"
    ]
    if "refused" in path.name:
        with pytest.raises(FormatError, match="unable to connect to server"):
            FORMAT.read(data, "f")
        return
    found = FORMAT.read(data, "f")
    assert any(recording.measurements for recording in found)
    for recording in found:
        assert recording.tool == "iperf3"
        assert recording.version in ("", path.name.rpartition(".")[0].rpartition(".")[0])
        for each in recording.measurements:
            assert known_metric(each.metric), each
            assert (each.unit, each.raw) == (metric(each.metric).unit, "f")
            assert each.value >= 0


def test_what_this_host_sends_is_written_and_what_it_receives_is_read() -> None:
    end, found = sums("3.12.tcp.json"), values(one("3.12.tcp.json"))
    assert found["write.bw"] == end["sum_sent"]["bits_per_second"] / 8
    assert found["write.bw.received"] == end["sum_received"]["bits_per_second"] / 8
    assert found["write.bytes"] == end["sum_sent"]["bytes"]
    assert found["write.retransmits"] == end["sum_sent"]["retransmits"]
    assert found["total.cpu"] == end["cpu_utilization_percent"]["host_total"] / 100
    assert not any(name.startswith("read.") for name in found)
    end, found = sums("3.16.tcpP.json"), values(one("3.16.tcpP.json"))
    assert found["read.bw"] == end["sum_received"]["bits_per_second"] / 8
    assert found["read.bw.sent"] == end["sum_sent"]["bits_per_second"] / 8
    assert not any(name.startswith("write.") for name in found)
    assert one("3.16.tcpP.json").workload == "tcp-reverse"


def test_streams_are_told_apart_and_add_up() -> None:
    recording = one("3.16.tcpP.json")
    streams = [each for each in recording.measurements if each.job != "all"]
    assert [each.job for each in streams] == ["stream#1", "stream#2", "stream#3"]
    assert sum(each.value for each in streams) == pytest.approx(
        values(recording)["read.bw"], rel=1e-6
    )


@pytest.mark.parametrize("name", ["3.7.bidir.json", "3.7.bidir.txt", "3.21.bidir.json"])
def test_both_ways_at_once_are_two_flows(name: str) -> None:
    recording = one(name)
    found = values(recording)
    assert recording.workload == "tcp-bidir"
    assert found["write.bw"] > 0 < found["read.bw"]
    assert {"write.retransmits", "read.retransmits"} <= found.keys()


def test_both_ways_are_not_taken_one_for_the_other() -> None:
    end, found = sums("3.21.bidir.json"), values(one("3.21.bidir.json"))
    assert found["write.bw"] == end["sum_sent"]["bits_per_second"] / 8
    assert found["read.bw"] == end["sum_received_bidir_reverse"]["bits_per_second"] / 8


def test_a_server_says_what_it_counted_and_nothing_of_the_client() -> None:
    first, second, third, *_ = FORMAT.read((DATA / "3.21.server.json").read_bytes(), "f")
    assert set(values(first)) == {"read.bw", "read.bytes", "total.cpu", "cpu.usr", "cpu.sys"}
    assert {"write.bw", "write.retransmits"} <= values(second).keys()
    assert "write.bw.received" not in values(second)
    assert {"read.bw", "read.jitter", "read.loss"} <= values(third).keys()
    workloads = [each.workload for each in FORMAT.read((DATA / "3.9.server.txt").read_bytes(), "f")]
    assert workloads[:4] == ["tcp", "tcp-reverse", "udp", "udp-reverse"]


def test_before_3_2_received_datagrams_are_counted_from_the_intervals() -> None:
    report = json.loads((DATA / "3.1.3.udpR.json").read_text())
    moved = sum(each["sum"]["bytes"] for each in report["intervals"])
    found = values(one("3.1.3.udpR.json"))
    assert found["read.bytes"] == moved
    assert found["read.bw"] < found["read.bw.sent"]
    assert (
        found["read.loss"] == report["end"]["sum"]["lost_packets"] / report["end"]["sum"]["packets"]
    )
    assert found["read.jitter"] == pytest.approx(report["end"]["sum"]["jitter_ms"] / 1000)


def test_text_says_the_same_as_far_as_its_digits_go() -> None:
    text = one("3.12.tcp.txt")
    assert "iperf3-text" in {doubt.check for doubt in text.doubts}
    raw = (DATA / "3.12.tcp.txt").read_text()
    assert f"{values(text)['write.bw'] * 8 / 1e9:.3g} Gbits/sec" in raw
    assert text.version == "3.12"
    assert ("length", "131072") in text.treatment


def test_lines_of_json_are_one_test_and_the_full_output_is_not_a_second() -> None:
    assert one("3.17.1.stream.json").version == "3.17.1"
    assert values(one("3.21.streamfull.json"))["write.bw"] > 0


def test_a_document_after_an_error_is_kept_and_the_error_is_said() -> None:
    both = (DATA / "3.12.refused.json").read_bytes() + (DATA / "3.12.tcp.json").read_bytes()
    failed, good = FORMAT.read(both, "f")
    assert not failed.measurements
    assert [(doubt.check, doubt.invalid) for doubt in failed.doubts] == [("iperf3-error", True)]
    assert values(good)["write.bw"] > 0
    with pytest.raises(FormatError, match="2 tests"):
        parse(both, "f")


def _changed(name: str, **records: dict[str, object]) -> bytes:
    report = json.loads((DATA / name).read_text())
    for key, change in records.items():
        report["end"][key].update(change)
    return json.dumps(report).encode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sum_sent": {"bits_per_second": 1e9}}, "are not 1000000000 bits/s"),
        ({"sum_sent": {"retransmits": 10**6}}, "retransmits is 1e+06, its streams have"),
        ({"sum_sent": {"bytes": "many"}}, "'many': no number"),
        ({"sum_sent": {"seconds": None}}, "no number"),
        ({"sum_sent": {"sender": False}}, "contradicts itself on who sent"),
    ],
)
def test_figures_that_do_not_agree_are_an_error(
    changes: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(FormatError, match=message.replace("+", r"\+")):
        FORMAT.read(_changed("3.12.tcp.json", **changes), "f")


def test_losses_must_be_that_share_of_the_packets() -> None:
    with pytest.raises(FormatError, match="are not 50 %"):
        FORMAT.read(_changed("3.18.udpR.json", sum={"lost_percent": 50}), "f")


@pytest.mark.parametrize("share", ["0..0", "1" * 30])
def test_a_share_of_the_cpu_that_is_no_number_is_not_said(share: str) -> None:
    text = (DATA / "3.12.tcp.txt").read_text()
    (found,) = FORMAT.read(text.replace("(0.0%u", f"({share}%u").encode(), "f")
    (whole,) = FORMAT.read(text.encode(), "f")
    assert {m.metric for m in whole.measurements} - {m.metric for m in found.measurements} >= {
        "cpu.usr"
    }


def test_more_found_than_lost_gives_no_loss_but_a_doubt() -> None:
    report = json.loads((DATA / "3.2.udp.json").read_text())
    for record in (report["end"]["sum"], report["end"]["streams"][0]["udp"]):
        record.update(lost_packets=-1, lost_percent=-100.0 / record["packets"])
    (found,) = FORMAT.read(json.dumps(report).encode(), "f")
    assert "write.loss" not in values(found)
    assert "iperf3-loss" in {doubt.check for doubt in found.doubts}


def test_a_bare_nan_of_an_old_printf_is_no_number() -> None:
    text = (DATA / "3.0.1.udp.json").read_text()
    share = text.rindex('"lost_percent":')
    hurt = text[:share] + '"lost_percent":\tnan' + text[text.index("\n", share) :]
    assert values(FORMAT.read(hurt.encode(), "f")[0])["write.bw"] > 0


ONCE = ("cpu", "jitter")
"""What stands in a text once: a mistyped digit of it cannot be seen."""


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(WHOLE))
def test_a_damaged_file_is_an_error_or_gives_the_right_numbers(case: tuple[bytes, bytes]) -> None:
    whole, hurt = case
    right: dict[str, list[float]] = {}
    said: set[str] = set()
    for recording in FORMAT.read(whole, "f"):
        said |= {doubt.check for doubt in recording.doubts}
        for each in recording.measurements:
            right.setdefault(each.metric, []).append(each.value)
    try:
        found = FORMAT.read(hurt, "f")
    except FormatError:
        return
    close = 1e-4 if whole.lstrip().startswith(b"{") else 0.03
    for recording in found:
        if {doubt.check for doubt in recording.doubts} - said:
            continue
        for each in recording.measurements:
            if not any(word in each.metric for word in ONCE):
                assert any(
                    each.value == pytest.approx(value, rel=close) for value in right[each.metric]
                ), (each, right[each.metric])


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[" * 10**5, b'{"end": {}}', b"\x7fELF\0", b"Connecting to host x, port 1"],
)
def test_what_is_no_test_is_an_error(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^f"):
        FORMAT.read(data, "f")


# The tool.


def test_the_command_names_the_server_and_asks_for_json() -> None:
    argv = TOOL.command(load(time=5, parallel=4, reverse=True, window="4M"), FOLDER, {}).argv
    assert " ".join(argv) == (
        "iperf3 --json --client there --time 5 --parallel 4 --window 4M --reverse"
    )
    udp = TOOL.command(load(udp=True, bitrate="900M"), FOLDER, {})
    assert " ".join(udp.argv).endswith("--bitrate 900M --udp")
    assert tool("iperf3") is TOOL


def test_options_that_cannot_work_are_named() -> None:
    assert "server" in dict(TOOL.check(Workload("load", "iperf3", ()), {}))
    assert "did you mean 'parallel'" in problems(paralel=2)["paralel"]
    assert problems(port=70000).keys() == {"port"}
    assert problems(time="ever").keys() == {"time"}
    assert problems(reverse=True, bidir=True).keys() == {"bidir"}
    assert problems(udp=True).keys() == {"bitrate"}
    assert problems(udp=True, bitrate=0, mss=1448).keys() == {"mss"}
    assert problems(server="-x; rm").keys() == {"server"}
    assert problems(parallel=True).keys() == {"parallel"}
    assert problems(time=5, udp=True, bitrate="1G", length="1448") == {}


def test_a_link_has_a_direction_and_no_device() -> None:
    forth, back, both = (
        TOOL.reach(load(**each)) for each in ({}, {"reverse": True}, {"bidir": True})
    )
    assert (forth.reads, forth.writes) == (False, True)
    assert (back.reads, back.writes) == (True, False)
    assert (both.reads, both.writes) == (True, True)
    with pytest.raises(UsageError, match="measures a link and no device"):
        TOOL.command(LINK, ToolTarget("/dev/x", "device"), {})
    assert TOOL.seconds(load(time=30, omit=2), FOLDER) == pytest.approx(35)


def test_iperf_2_will_not_do() -> None:
    assert TOOL.version_problem("iperf 3.12 (cJSON 1.7.15)") == ""
    assert "is not iperf3" in TOOL.version_problem("iperf version 2.1.8")


def test_a_folder_without_a_result_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="wrote no result"):
        TOOL.parse(tmp_path)
    (tmp_path / "stdout").write_bytes((DATA / "3.12.tcp.json").read_bytes())
    assert {each.raw for each in TOOL.parse(tmp_path).measurements} == {"stdout"}
