from __future__ import annotations

import pytest

from iotrial.errors import SettingLost, SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.net import NAME
from iotrial.model.step import Change
from iotrial.model.tunable import Setting
from iotrial.tunables import families, group, tunable

PAUSE = b"""Pause parameters for eth0:
Autonegotiate:\ton
RX:\t\toff
TX:\t\ton
RX negotiated: on
TX negotiated: off

"""
RINGS = b"""Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t2048
Current hardware settings:
RX:\t\t512
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t256
RX Buf Len:\tn/a
TX Push:\tn/a
"""
COALESCE = b"""Coalesce parameters for eth0:
Adaptive RX: on  TX: off
stats-block-usecs:\tn/a

rx-usecs:\t8
rx-frames:\t128
rx-usecs-irq:\tn/a
rx-frames-irq:\tn/a

tx-usecs:\t8
tx-frames:\tn/a
tx-usecs-irq:\tn/a

rx-usecs-low:\t1
"""
OLD_COALESCE = b"""Coalesce parameters for eth0:
Adaptive RX: off  TX: off
stats-block-usecs: 0
sample-interval: 0

rx-usecs: 3
rx-frames: 0
rx-usecs-irq: 0
"""
CHANNELS = b"""Channel parameters for eth0:
Pre-set maximums:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t8
Current hardware settings:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t4
"""
OFFLOADS = b"""Features for eth0:
rx-checksumming: on
tx-checksumming: off
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: off
scatter-gather: on
tcp-segmentation-offload: off
\ttx-tcp-segmentation: off [requested on]
\ttx-tcp6-segmentation: off
generic-segmentation-offload: on
large-receive-offload: off [fixed]
ntuple-filters: on
receive-hashing: on
"""


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("pause_autoneg", PAUSE, "on"),
        ("pause_rx", PAUSE, "off"),
        ("pause_tx", PAUSE, "on"),
        ("ring_rx", RINGS, "512"),
        ("ring_tx", RINGS, "256"),
        ("adaptive_rx", COALESCE, "on"),
        ("adaptive_rx", OLD_COALESCE, "off"),
        ("rx_usecs", COALESCE, "8"),
        ("rx_usecs", OLD_COALESCE, "3"),
        ("rx_frames", COALESCE, "128"),
        ("tx_frames", COALESCE, "n/a"),
        ("channels_combined", CHANNELS, "4"),
        ("tso", OFFLOADS, "off"),
        ("tx_tcp_segmentation", OFFLOADS, "off"),
        ("gso", OFFLOADS, "on"),
        ("lro", OFFLOADS, "off"),
        ("qdisc", b"qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024\n", "fq_codel"),
    ],
)
def test_a_value_is_found_in_what_the_tools_print(name: str, raw: bytes, value: str) -> None:
    assert tunable(f"net.{name}").observe(raw) == value


@pytest.mark.parametrize("name", ["rx_gro_hw", "tx_checksum_sctp"])
def test_an_offload_that_an_older_kernel_has_not_is_not_there(name: str) -> None:
    assert tunable(f"net.{name}").observe(OFFLOADS) is None


@pytest.mark.parametrize(
    ("name", "raw", "value", "why"),
    [
        ("ring_rx", RINGS, "4097", "above 4096"),
        ("ring_tx", RINGS, "4096", "above 2048"),
        ("ring_rx", RINGS, "0", "below 1"),
        ("tx_frames", COALESCE, "8", "does not offer tx-frames"),
        ("rx_usecs", COALESCE, "-1", "below 0"),
        ("rx_usecs", COALESCE, "soon", "not a whole number"),
        ("adaptive_rx", COALESCE.replace(b"RX: on", b"RX: n/a"), "on", "does not offer"),
        ("pause_rx", PAUSE, "yes", "not one of on, off"),
        ("lro", OFFLOADS, "on", "[fixed]: the driver of this interface cannot change it"),
        ("tso", OFFLOADS, "on", "tx-tcp-segmentation is off only because"),
        ("tx_tcp_segmentation", OFFLOADS, "off", "could not be restored"),
        ("ntuple", OFFLOADS, "off", "deletes the rules"),
        ("mtu", b"1500\n", "1279", "below 1280"),
        ("qdisc", b"qdisc mq 0: root\n", "htb", "not one of"),
        ("qdisc", b"qdisc htb 1: root refcnt 9 r2q 10\n", "fq", "attached by another process"),
        ("qdisc", b"qdisc fq 8001: root refcnt 2\n", "mq", "attached by another process"),
    ],
)
def test_a_domain_says_why_a_value_is_refused(name: str, raw: bytes, value: str, why: str) -> None:
    assert why in tunable(f"net.{name}").domain(raw).refusal(value)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("ring_rx", RINGS, "4096"),
        ("rx_usecs", COALESCE, "0"),
        ("lro", OFFLOADS, "off"),
        ("gso", OFFLOADS, "off"),
        ("ntuple", OFFLOADS, "on"),
        ("mtu", b"1500\n", "9000"),
        ("qdisc", b"qdisc mq 0: root\n", "fq"),
        ("qdisc", b"qdisc htb 1: root refcnt 9 r2q 10\n", "htb"),
    ],
)
def test_a_domain_lets_through_what_can_be_done(name: str, raw: bytes, value: str) -> None:
    assert tunable(f"net.{name}").domain(raw).refusal(value) == ""


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../eth0", "-K", "--help", "a/b", "a b", "a:1", "a\n", "x" * 16, ".x"]
)
def test_what_is_no_name_of_an_interface_reaches_no_command_and_no_path(name: str) -> None:
    for row in families()["net"]:
        assert row.device_problem(name)
        with pytest.raises(UsageError, match="no nic is named"):
            row.probe(name)
        with pytest.raises(UsageError):
            row.acts(name, "1")


def test_queues_are_named_with_their_interface() -> None:
    assert tunable("rps.cpus").device_problem("eth0/queues/rx-10") == ""
    assert tunable("xps.cpus").device_problem("eth0.100/queues/tx-0") == ""
    for name in ("eth0", "eth0/queues/tx-0", "../eth0/queues/rx-0", "eth0/queues/rx-0/../../.."):
        assert tunable("rps.cpus").device_problem(name)


def test_the_discipline_goes_back_to_what_the_kernel_attaches_itself() -> None:
    row = tunable("net.qdisc")
    delete = (Change("run", argv=("tc", "qdisc", "del", "dev", "eth0", "root")),)
    assert row.undo("eth0", "fq_codel") == delete
    assert row.acts("eth0", "noqueue") == row.acts("eth0", "mq") == delete
    (act,) = row.acts("eth0", "fq")
    assert act.argv == ("tc", "qdisc", "replace", "dev", "eth0", "root", "fq")


def test_a_word_owns_its_parts_and_what_needs_it() -> None:
    names = [row.name for row in group(["net.tx_checksum"])]
    assert names[0] == "net.tx_checksum"
    assert names.index("net.tso") < names.index("net.tx_tcp_segmentation")
    assert {"net.tx_checksum_ip_generic", "net.tx_udp_segmentation"} <= set(names)
    assert "net.ipv6_mtu" in [row.name for row in group(["net.mtu"])]


def test_a_number_that_a_mode_governs_is_set_after_it_and_goes_back_before_it() -> None:
    host = FakeHost()
    before = host.settings()
    former = snapshot(host, ["net.adaptive_rx", "net.rx_usecs"], NAME)
    wanted = {"net.adaptive_rx": "off", "net.rx_usecs": "3"}
    apply(host, [Setting(NAME, name, value) for name, value in wanted.items()])
    assert host.settings()["net: rx-usecs"] == "3"
    assert put_back(host, former.owed) == ()
    assert host.settings() == before


def test_what_a_later_write_moves_is_written_once_more() -> None:
    """A lenient driver takes the number while its mode is on, and forgets it when that ends."""
    host = FakeHost()
    adapter = host.machine.parts["net"].adapter  # type: ignore[attr-defined]
    strict = adapter.set_coalesce

    def lenient(word: str, value: str) -> int:
        if word == "rx-usecs":
            adapter.coalesce[word] = value
            return 0
        return int(strict(word, value))

    adapter.set_coalesce = lenient
    wanted = {"net.adaptive_rx": "off", "net.rx_usecs": "3"}
    apply(host, [Setting(NAME, name, value) for name, value in wanted.items()])
    assert adapter.coalesce["rx-usecs"] == "3"


def test_flow_control_that_is_negotiated_is_refused_in_the_words_of_the_driver() -> None:
    with pytest.raises(SettingRefused, match="Invalid argument"):
        apply(FakeHost(), [Setting(NAME, "net.pause_rx", "off")])


def test_an_offload_that_cannot_be_in_force_is_lost_not_believed() -> None:
    host = FakeHost()
    host.run(["ethtool", "-K", NAME, "tx", "off"])
    host.run(["ethtool", "-K", NAME, "tso", "off"])
    with pytest.raises((SettingLost, SettingRefused)):
        apply(host, [Setting(NAME, "net.tx_tcp_segmentation", "on")])


def test_the_number_of_queues_is_no_factor_of_a_trial() -> None:
    assert "could not be restored" in tunable("net.channels_combined").reload


@pytest.mark.parametrize(
    ("raw", "value", "why"),
    [
        (b"f\n", "3", ""),
        (b"f\n", "0", ""),
        (b"f\n", "03", "is read back as '3'"),
        (b"f\n", "C", "is read back as 'c'"),
        (b"f\n", "0x3", "is not a hexadecimal mask"),
        (b"f\n", "1f", "longer than the 1 digits"),
        (b"ffff,ffffffff\n", "100000000", ""),
        (b"ffff,ffffffff\n", "1,00000000", "is read back as '100000000'"),
        (b"f\n", "", "is not a hexadecimal mask"),
    ],
)
def test_a_mask_is_written_as_it_is_read_back(raw: bytes, value: str, why: str) -> None:
    for name in ("rps.cpus", "xps.cpus", "xps.rxqs"):
        said = tunable(name).domain(raw).refusal(value)
        assert (why in said) if why else said == ""


def test_a_long_mask_is_written_in_pieces() -> None:
    row = tunable("rps.cpus")
    (act,) = row.acts("eth0/queues/rx-0", "ffffffffff")
    assert act == Change("write", "/sys/class/net/eth0/queues/rx-0/rps_cpus", "ff,ffffffff")
    assert row.observe(b"000000ff,ffffffff\n") == "ffffffffff"
    assert row.acts("eth0/queues/rx-0", "ffffffff")[0].data == "ffffffff"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0", ""),
        ("1", ""),
        ("4096", ""),
        ("100", "rounded up to 128"),
        ("-1", "not a whole number"),
        ("01", "is read back as '1'"),
        (str(2**30), "above"),
    ],
)
def test_a_number_of_flows_is_a_power_of_two(value: str, why: str) -> None:
    said = tunable("rps.flow_cnt").domain(b"0\n").refusal(value)
    assert (why in said) if why else said == ""


@pytest.mark.parametrize("family", ["net", "rps", "xps"])
def test_every_row_says_when_it_cannot_matter_and_how_long_it_lasts(family: str) -> None:
    for row in families()[family]:
        assert row.moot, row.name
        assert row.lasts.startswith("until the "), row.name
        assert row.layer == "network"
        assert "measured" in row.source
