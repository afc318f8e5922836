"""What a lab of several nodes tells each of them: disks, networks, configuration, its role."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import UsageError
from iotrial_vmlab import power
from iotrial_vmlab.image import LabImage
from iotrial_vmlab.lab import SCRIPT, UNIT, WANTED, Lab, LabRequest, planned, role
from iotrial_vmlab.labs import cluster, fabrics, kind_of, kinds, san
from iotrial_vmlab.power import SSHKeys, seed_files
from iotrial_vmlab.qemu import command

KEYS = SSHKeys("client", "host", "public")


def lab(folder: Path, kind: str, nodes: int = 2) -> Lab:
    wish = LabRequest(kind, kind, nodes)
    return planned(wish, kind_of(kind), folder=folder / kind, image=folder / "image")


def words(there: Lab, number: int) -> list[str]:
    """The command line of a node."""
    node = replace(there.nodes[number - 1], port=2200 + number)
    image = LabImage(there.image, "6.1")
    return command(there, node, kind=kind_of(there.kind), image=image, accelerator="tcg")


def told(there: Lab, number: int) -> dict[str, str]:
    """What a node finds, text by path."""
    found = seed_files(there, there.nodes[number - 1], kind_of(there.kind), KEYS)
    return {path: entry.data.decode() for path, entry in found.items()}


def drives(there: Lab, number: int) -> dict[str, str]:
    """Serial number of each SCSI disk → the drive behind it."""
    line = words(there, number)
    behind = {re.search(r"id=([^,]+)", each)[1]: each for each in line if each.startswith("file=")}  # type: ignore[index]
    disks = [each for each in line if each.startswith("scsi-hd")]
    pairs = (re.search(r"drive=([^,]+),serial=([^,]+)", each) for each in disks)
    return {pair[2]: behind[pair[1]] for pair in pairs if pair}


def test_nodes_of_a_cluster_have_the_same_disks_by_the_same_names(tmp_path: Path) -> None:
    there = lab(tmp_path, "cluster", 3)
    first = drives(there, 1)
    assert len(first) == 4
    assert drives(there, 2) == drives(there, 3) == first
    assert all("file.locking=off" in each and "cache=none" in each for each in first.values())
    shown = [each for each in words(there, 1) if each.startswith("scsi-hd")]
    assert all(each.endswith(",share-rw=on") for each in shown)


def test_the_clock_of_a_node_is_watched_and_its_timer_trusted(tmp_path: Path) -> None:
    """On a busy machine a kernel may measure its clock wrong by several times, and panic because
    its timer does not tick meanwhile."""
    line = words(lab(tmp_path, "nas"), 1)
    kernel = line[line.index("-append") + 1].split()
    assert not [word for word in kernel if word.startswith("tsc=")]
    assert "no_timer_check" in kernel


def test_a_disk_of_one_node_is_shown_to_no_other(tmp_path: Path) -> None:
    for kind in ("san", "nas", "fabrics"):
        there = lab(tmp_path, kind)
        (drive,) = drives(there, 1).values()
        assert str(there.place(there.nodes[0])) in drive
        assert "locking" not in drive
        assert drives(there, 2) == {}


def test_nodes_of_a_san_have_two_networks_that_do_not_hear_each_other(tmp_path: Path) -> None:
    there = lab(tmp_path, "san")
    for number in (1, 2):
        heard = [each for each in words(there, number) if each.startswith("socket,")]
        assert len({re.search("mcast=([^,]+)", each)[1] for each in heard}) == 2  # type: ignore[index]
        network = told(there, number)["etc/iotrial-net"]
        assert f"52:54:00:77:00:0{number} 10.77.0.{number}/24" in network
        assert f"52:54:00:78:00:0{number} 10.77.1.{number}/24" in network
    assert "lab2" not in " ".join(words(lab(tmp_path, "nas"), 1))


def test_a_link_that_a_lab_has_not_is_refused(tmp_path: Path) -> None:
    there = lab(tmp_path, "nas")
    with pytest.raises(UsageError, match="'lab2'") as refused:
        power.link(there, there.nodes, which="lab2", state="down")
    assert refused.value.advice == "They have: ssh, lab"


def sections(text: str) -> list[str]:
    """The names of the sections of a corosync.conf; they are closed as often as opened."""
    assert text.count("{") == text.count("}")
    return re.findall(r"^\t*(\w+) \{$", text, re.MULTILINE)


def test_corosync_is_told_of_every_node_and_of_two_that_they_are_two(tmp_path: Path) -> None:
    two, three = (cluster.corosync(lab(tmp_path, "cluster", number)) for number in (2, 3))
    assert sections(two) == ["totem", "nodelist", "node", "node", "quorum", "logging"]
    assert sections(three).count("node") == 3
    assert "two_node: 1" in two
    assert "two_node" not in three
    assert "ring0_addr: 10.77.0.3" in three
    assert "name: cluster-3\n\t\tnodeid: 3" in three


def test_o2cb_is_told_of_every_node_by_the_name_it_has(tmp_path: Path) -> None:
    text = cluster.ocfs2(lab(tmp_path, "cluster", 3))
    assert "node_count = 3" in text
    assert re.findall(r"\tname = (cluster-\d)", text) == ["cluster-1", "cluster-2", "cluster-3"]
    assert re.findall(r"number = (\d)", text) == ["0", "1", "2"]
    assert all(line == "" or line[0] == "\t" or line.endswith(":") for line in text.splitlines())


def test_target_and_initiator_are_told_the_same_name_and_portals(tmp_path: Path) -> None:
    there = lab(tmp_path, "san", 3)
    target, *initiators = (told(there, number)[f"{SCRIPT}.conf"] for number in (1, 2, 3))
    assert f"IQN={san.name_of(there)}\n" in target
    assert "PORTALS='10.77.0.1:3260 10.77.1.1:3260'" in target
    assert all(line in target for each in initiators for line in each.splitlines())
    (serial,) = drives(there, 1)
    assert f"SERIAL={serial}\n" in target
    names = {told(there, number)["etc/iscsi/initiatorname.iscsi"] for number in (2, 3)}
    assert len(names) == 2
    assert "etc/multipath.conf" not in told(there, 1)


def test_target_and_hosts_of_fabrics_are_told_the_same_name_and_ports(tmp_path: Path) -> None:
    there = lab(tmp_path, "fabrics", 3)
    target, *hosts = (told(there, number)[f"{SCRIPT}.conf"] for number in (1, 2, 3))
    assert f"NQN={fabrics.name_of(there)}\n" in target
    assert "ADDRESSES='10.77.0.1 10.77.1.1'" in target
    assert all(line in target for each in hosts for line in each.splitlines())
    (serial,) = drives(there, 1)
    assert f"SERIAL={serial}\n" in target
    ids = {told(there, number)["etc/nvme/hostid"].strip() for number in (2, 3)}
    assert len(ids) == 2, "one that both said would be one host"
    for number in (2, 3):
        files = told(there, number)
        assert files["etc/nvme/hostnqn"].strip().endswith(files["etc/nvme/hostid"].strip())
    assert fabrics.uuid_of(there, there.nodes[0]) not in ids
    assert "etc/nvme/hostid" not in told(there, 1)


def test_a_role_is_begun_at_boot_and_a_node_without_one_begins_nothing(tmp_path: Path) -> None:
    node, plain = lab(tmp_path, "cluster").nodes[0], ("boots", "disks")
    for name, kind in kinds().items():
        there = lab(tmp_path, name)
        found = seed_files(there, node, kind, KEYS)
        assert (SCRIPT in found) is (name not in plain)
        assert (WANTED in found) is (name not in plain)
        if WANTED in found:
            assert found[WANTED].link
            assert found[WANTED].data.decode() == f"/{UNIT}"


@pytest.mark.parametrize(("missing", "exit_code"), [("", 0), ("the disk\nthe link", 1)])
def test_a_node_is_asked_until_nothing_is_lacking_and_says_what_is(
    tmp_path: Path, missing: str, exit_code: int
) -> None:
    """The script as it is, but for its places, and a wait that takes no time."""
    files = role("nas-client", SERVER="a b", EXPORT="/x")
    said = f"lacks() {{ printf '%s' '{missing}'; }}\nsleep() {{ :; }}\n"
    (tmp_path / "role").write_text(said)
    (tmp_path / "conf").write_text(files[f"{SCRIPT}.conf"])
    script = files[SCRIPT].replace(f"/{SCRIPT}.", f"{tmp_path}/")
    assert script != files[SCRIPT]
    done = subprocess.run(
        ["sh", "-c", script, "sh", "whole"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exit_code
    assert done.stderr == (missing.replace("\n", ",") + "\n" if missing else "")
