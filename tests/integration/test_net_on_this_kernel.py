"""A network interface for real: a veth in a network namespace of its own.

Each body runs in a forked child that leaves this machine's network first: with the child all that
it made is gone, whatever happens.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from iotrial.errors import SettingRefused
from iotrial.execute.settings.tuning import apply, observe, put_back, read_back, snapshots
from iotrial.hosts.fake.parts.net import SHORT, Offloads
from iotrial.hosts.local import LocalHost
from iotrial.look.offer import Domains
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not shutil.which("ethtool"), reason="needs ethtool"),
    pytest.mark.skipif(not shutil.which("tc"), reason="needs tc and ip, of iproute2"),
]

NIC = "vethA"
RX, TX = f"{NIC}/queues/rx-0", f"{NIC}/queues/tx-1"
FOLDER = Path("/sys/class/net", NIC)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000  # <linux/sched.h>


def _own_network() -> None:
    """Leave this machine's network and mounts for good (this process), and make a veth."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    queues = ["numrxqueues", "2", "numtxqueues", "2"]
    pair = ["type", "veth", "peer", "name", "vethB", *queues]
    for words in (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "sysfs", "sysfs", "/sys"],
        ["ip", "link", "add", NIC, *queues, *pair],
        ["ip", "link", "set", NIC, "up"],
        ["ip", "link", "set", "vethB", "up"],
    ):
        subprocess.run(words, check=True, timeout=200, capture_output=True)
    # The kernel notices the carrier later, and then sets the MTU of IPv6 anew.
    until = time.monotonic() + 200
    while (FOLDER / "operstate").read_text() != "up\n":
        assert time.monotonic() < until, (FOLDER / "operstate").read_text()
        time.sleep(0.01)
    run("ip", "link", "show", NIC)  # waits for the lock that it holds while it does so


def inside(body: Callable[[LocalHost], None]) -> None:
    """Run ``body`` on an interface that nobody else sees; what it raises fails the test."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        try:
            _own_network()
            body(LocalHost())
        except BaseException:  # noqa: BLE001 (reported by the parent)
            said = traceback.format_exc().encode()
        finally:
            os.write(writable, said[-60_000:])
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if said:
        pytest.fail(said.decode(), pytrace=False)


def run(*words: str) -> str:
    return subprocess.run(words, check=True, timeout=200, capture_output=True, text=True).stdout


def everything() -> dict[str, str]:
    """All that can be seen of the interface, but counters."""
    names = ("mtu", "tx_queue_len", "gro_flush_timeout", "napi_defer_hard_irqs", "threaded")
    queues = [f"queues/rx-{n}/{name}" for n in (0, 1) for name in ("rps_cpus", "rps_flow_cnt")]
    queues += [f"queues/tx-{n}/{name}" for n in (0, 1) for name in ("xps_cpus", "xps_rxqs")]
    seen = {name: (FOLDER / name).read_text() for name in (*names, *queues)}
    ipv6 = Path("/proc/sys/net/ipv6/conf", NIC, "mtu")
    return seen | {
        "ipv6": ipv6.read_text() if ipv6.exists() else "",
        "offloads": run("ethtool", "-k", NIC),
        "qdisc": run("tc", "qdisc", "show", "dev", NIC),
    }


def held(host: LocalHost, wanted: Mapping[tuple[str, str], str]) -> None:
    """Own, apply, see in force, put back, see that nothing differs."""
    before = everything()
    names: dict[str, list[str]] = {}
    for device, name in wanted:
        names.setdefault(device, []).append(name)
    groups = snapshots(host, names)
    apply(host, [Setting(device, name, value) for (device, name), value in wanted.items()])
    now = {(s.device, s.tunable): s.value for s in read_back(host, groups)}
    assert {key: now[key] for key in wanted} == dict(wanted)
    assert everything() != before
    assert put_back(host, [owed for group in groups for owed in group.owed]) == ()
    assert everything() == before


@pytest.mark.parametrize(
    "settings",
    [
        {"mtu": "9000"},
        {"mtu": "1280", "txqueuelen": "77"},
        {"tso": "off"},
        {"tso": "off", "tx_checksum": "off", "gso": "off"},
        {"tx_checksum": "off"},
        {"sg": "off"},
        {"rx_checksum": "off", "tx_udp_segmentation": "off"},
        {"tx_tcp_mangleid_segmentation": "off", "tx_tcp6_segmentation": "off"},
        {"gro": "on", "threaded": "1"},
        {"gro_flush_timeout": "20000", "napi_defer_hard_irqs": "2"},
        {"qdisc": "pfifo"},
        {"qdisc": "pfifo_fast", "txqueuelen": "10"},
    ],
    ids=" ".join,
)
def test_a_setting_of_the_interface_is_held_and_given_back(settings: dict[str, str]) -> None:
    inside(lambda host: held(host, {(NIC, f"net.{n}"): v for n, v in settings.items()}))


def test_steering_is_held_and_given_back() -> None:
    wanted = {(RX, "rps.cpus"): "3", (RX, "rps.flow_cnt"): "128"}
    wanted |= {(TX, "xps.cpus"): "2", (TX, "xps.rxqs"): "1"}
    inside(lambda host: held(host, wanted))


def test_parts_that_were_off_go_off_again() -> None:
    """``tso on`` turns on all of them."""

    def body(host: LocalHost) -> None:
        run("ethtool", "-K", NIC, "tx-tcp-mangleid-segmentation", "off")
        held(host, {(NIC, "net.tso"): "off"})
        assert "tx-tcp-mangleid-segmentation: off" in run("ethtool", "-k", NIC)

    inside(body)


def test_what_a_change_of_the_mtu_moves_is_given_back() -> None:
    def body(host: LocalHost) -> None:
        ipv6 = Path("/proc/sys/net/ipv6/conf", NIC, "mtu")
        ipv6.write_text("1300")
        held(host, {(NIC, "net.mtu"): "1400"})
        assert ipv6.read_text() == "1300\n"

    inside(body)


@pytest.mark.parametrize(
    "name", ["pause_rx", "pause_autoneg", "ring_rx", "ring_tx", "rx_usecs", "adaptive_rx"]
)
def test_what_a_veth_has_not_is_not_here_and_the_reason_is_told(name: str) -> None:
    def body(host: LocalHost) -> None:
        assert observe(host, tunable(f"net.{name}"), NIC) is None
        with pytest.raises(SettingRefused, match="Operation not supported"):
            Domains(host).domain(f"net.{name}", NIC)

    inside(body)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("lro", "on", r"\[fixed\]"),
        ("ntuple", "on", r"\[fixed\]"),
        ("channels_combined", "2", "does not offer Combined"),
        ("mtu", "1000", "below 1280"),
        ("qdisc", "tbf", "not one of"),
    ],
)
def test_what_the_interface_does_not_take_is_refused(name: str, value: str, why: str) -> None:
    def body(host: LocalHost) -> None:
        assert re.search(why, Domains(host).domain(f"net.{name}", NIC).refusal(value))

    inside(body)


def test_a_discipline_that_somebody_attached_is_not_replaced() -> None:
    def body(host: LocalHost) -> None:
        attach = ["tc", "qdisc", "replace", "dev", NIC, "root"]
        run(*attach, "tbf", "rate", "1gbit", "burst", "64k", "latency", "50ms")
        domain = Domains(host).domain("net.qdisc", NIC)
        assert "attached by another process" in domain.refusal("pfifo")
        assert domain.refusal("tbf") == ""

    inside(body)


def test_an_offload_that_waits_for_another_is_not_touched() -> None:
    def body(host: LocalHost) -> None:
        run("ethtool", "-K", NIC, "tx", "off")
        assert "turn on what it needs first" in Domains(host).domain("net.tso", NIC).refusal("off")
        held(host, {(NIC, "net.tx_checksum"): "on"})

    inside(body)


def test_a_long_mask_is_taken_in_pieces_only() -> None:
    """Why masks are written with commas."""

    def body(_host: LocalHost) -> None:
        with pytest.raises(OSError, match="too large"):
            (FOLDER / "queues/rx-0/rps_cpus").write_text("000000003")
        (FOLDER / "queues/rx-0/rps_cpus").write_text("00000003")

    inside(body)


def test_an_interface_that_is_not_there_has_no_settings() -> None:
    def body(host: LocalHost) -> None:
        for name in ("net.tso", "net.qdisc", "net.mtu"):
            assert observe(host, tunable(name), "nowhere0") is None

    inside(body)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fake_interface_answers_as_a_veth_does(seed: int) -> None:
    """The same random requests, and after each the same words for every offload."""

    def body(_host: LocalHost) -> None:
        chance = random.Random(seed)
        real = offloads()
        fake = Offloads()
        fake.fixed = frozenset(name for name in fake.wanted if "[fixed]" in of(real, name))
        fake.wanted = {name: of(real, name).startswith("on") for name in fake.wanted}
        words = [*SHORT, *(name for name in fake.wanted if name.startswith("tx-"))]
        for step in range(150):
            word, value = chance.choice(words), chance.choice(["on", "off"])
            subprocess.run(["ethtool", "-K", NIC, word, value], check=False, capture_output=True)
            fake.change(word, value == "on")
            told = dict(line.strip().split(": ") for line in fake.listing().splitlines())
            seen = {name: said for name, said in offloads().items() if name in told}
            assert seen == told, (step, word, value)

    inside(body)


def offloads() -> dict[str, str]:
    lines = run("ethtool", "-k", NIC).splitlines()[1:]
    return {name.strip(): said.strip() for name, _, said in (line.partition(":") for line in lines)}


ALONE = {
    "rx-checksum": "rx-checksumming",
    "tx-generic-segmentation": "generic-segmentation-offload",
    "rx-gro": "generic-receive-offload",
    "rx-lro": "large-receive-offload",
    "rx-ntuple-filter": "ntuple-filters",
    "rx-hashing": "receive-hashing",
}


def of(real: Mapping[str, str], name: str) -> str:
    """A kernel without a feature cannot change it either."""
    return real.get(ALONE.get(name, name), "off [fixed]")
