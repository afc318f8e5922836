"""Native files: what each holds, and that no text of a study can be anything but a text in it."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import UsageError
from iotrial.keep.entry import KeptSetting
from iotrial.keep.fleet import exports
from iotrial.keep.native import export, formats
from iotrial.keep.native.mount import escaped
from iotrial.keep.native.udev import assigned, pattern
from iotrial.keep.profile import Profile
from iotrial.model.study import StudyHost

WWID = (("wwid", "naa.600508b1001c"),)
NIC = (("address", "52:54:00:00:00:01"),)
NFS = (("options", "rw,relatime,vers=4.2,rsize=1048576,hard"),)


def texts(*entries: KeptSetting, names: tuple[str, ...] = ()) -> dict[str, str]:
    """Path → the lines of the file that are no comments."""
    return {
        each.path: "".join(
            f"{line}\n" for line in each.text.splitlines() if line and not line.startswith("#")
        )
        for each in export(Profile("p", entries, "?"), names).files
    }


def test_a_kernel_parameter_goes_to_sysctl_d() -> None:
    found = texts(KeptSetting("sysctl.net.ipv4.tcp_rmem", "4096 87380 16777216"))
    assert found == {"/etc/sysctl.d/99-iotrial-p.conf": "net.ipv4.tcp_rmem = 4096 87380 16777216\n"}


def test_a_disk_is_found_by_its_wwn_and_its_scheduler_is_written_first() -> None:
    (text,) = texts(
        KeptSetting("queue.nr_requests", "64", "sda", WWID),
        KeptSetting("queue.scheduler", "bfq", "sda", WWID),
    ).values()
    match = 'SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ATTRS{wwid}=="naa.600508b1001c", '
    assert text.splitlines()[1:-1] == [
        f'{match}ATTR{{queue/scheduler}}="bfq"',
        f'{match}ATTR{{queue/nr_requests}}="64"',
    ]


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        ((("dm_uuid", "mpath-3600"), ("serial", "x")), 'ENV{DM_UUID}=="mpath-3600"'),
        ((("md_uuid", "a:b"),), 'ATTR{md/uuid}=="a:b"'),
        ((("serial", "S 1"),), 'ATTRS{serial}=="S 1"'),
        ((("model", "SAN ARRAY       "), ("vendor", "VIOLIN  ")), 'ATTRS{model}=="SAN ARRAY"'),
        ((), 'KERNEL=="sda"'),
    ],
)
def test_a_disk_is_found_by_the_surest_thing_there_is(
    ids: tuple[tuple[str, str], ...], match: str
) -> None:
    exported = export(Profile("p", (KeptSetting("queue.scheduler", "bfq", "sda", ids),)))
    assert match in exported.files[0].text
    assert bool(exported.files[0].notes) is (not ids), "a name that moves is said"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"|\\')))
def test_a_pattern_matches_what_it_was_made_of_and_ends_no_string(text: str) -> None:
    made = pattern(text)
    assert '"' not in made
    assert "|" not in made
    regular = "".join(
        re.escape(part[1] if part.startswith("[") else part)
        for part in re.findall(r"\[[*?\[]\]|.", made, re.DOTALL)
    )
    assert re.fullmatch(regular, text.strip(), re.DOTALL)
    assert '"' not in assigned(text)


def test_a_module_gets_one_line_and_the_initramfs_is_spoken_of() -> None:
    profile = Profile(
        "p",
        (
            KeptSetting("module.lpfc.lpfc_hba_queue_depth", "64"),
            KeptSetting("module.lpfc.lpfc_lun_queue_depth", "32"),
            KeptSetting("nfs.tcp_slot_table_entries", "128"),
        ),
    )
    (file,) = export(profile).files
    assert file.text.endswith(
        "options lpfc lpfc_hba_queue_depth=64 lpfc_lun_queue_depth=32\n"
        "options sunrpc tcp_slot_table_entries=128\n"
    )
    assert any("initramfs" in note for note in file.notes)


def test_processors_that_are_alike_are_one_line() -> None:
    cpus = [KeptSetting("cpu.governor", "performance", f"cpu{n}") for n in range(3)]
    (text,) = texts(*cpus).values()
    place = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    assert text == f"w {place} - - - - performance\n"
    (text,) = texts(*cpus, KeptSetting("cpu.governor", "powersave", "cpu3")).values()
    assert len(text.splitlines()) == 4


def test_multipath_is_told_in_overrides() -> None:
    (text,) = texts(
        KeptSetting("multipath.path_selector", "queue-length 0"),
        KeptSetting("multipath.polling_interval", "5"),
    ).values()
    assert text == (
        'overrides {\n\tpath_selector "queue-length 0"\n}\ndefaults {\n\tpolling_interval "5"\n}\n'
    )


def test_an_interface_is_found_by_its_address_and_keeps_its_naming_policy() -> None:
    (text,) = texts(
        KeptSetting("net.pause_rx", "on", "eth0", NIC),
        KeptSetting("net.rx_usecs", "20", "eth0", NIC),
    ).values()
    assert text.startswith("[Match]\nMACAddress=52:54:00:00:00:01\n[Link]\nNamePolicy=")
    assert text.endswith("RxFlowControl=yes\nRxCoalesceSec=20us\n")


def test_mount_options_take_the_place_of_those_they_contradict() -> None:
    found = texts(
        KeptSetting("mount.rsize", "65536", "/mnt/a b", NFS),
        KeptSetting("mount.atime", "noatime", "/mnt/a b", NFS),
        KeptSetting("mount.hard", "soft", "/mnt/a b", NFS),
    )
    (path,) = found
    assert path == "/etc/systemd/system/mnt-a\\x20b.mount.d/50-iotrial-p.conf"
    assert found[path] == "[Mount]\nOptions=rw,vers=4.2,rsize=65536,noatime,soft\n"


def test_interrupts_are_found_again_by_who_asked_for_them() -> None:
    entry = KeptSetting("irq.affinity", "2-3", "33", (("of", "nvme0q1"),))
    found = texts(entry)
    assert "moved 2-3 nvme0q1\n" in found["/etc/iotrial/p.irq"]
    assert "nvme0q1) echo ban=true ;;" in found["/etc/iotrial/p.irqbalance"]
    hostile = KeptSetting("irq.affinity", "2-3", "33", (("of", "x; rm -rf /"),))
    assert export(Profile("p", (hostile,))).left == (hostile,)


def test_what_no_file_holds_is_left_and_said() -> None:
    entries = (
        KeptSetting("queue.scheduler", "bfq", "loop0"),
        KeptSetting("cgroup.v1.read_iops", "100", "8:0"),
        KeptSetting("lvm.read_ahead", "256", "vg/lv"),
    )
    exported = export(Profile("p", entries))
    assert exported.files == ()
    assert exported.left == entries


def test_a_format_may_be_chosen_and_an_unknown_one_is_answered_with_all() -> None:
    entry = KeptSetting("sysctl.vm.swappiness", "10")
    both = texts(entry, names=("tuned", "sysctl"))
    assert both["/etc/tuned/iotrial-p/tuned.conf"].endswith("[sysctl]\nvm.swappiness=10\n")
    assert (
        both["/etc/tuned/iotrial-p/tuned.conf"] == both["/etc/tuned/profiles/iotrial-p/tuned.conf"]
    )
    with pytest.raises(UsageError, match="unknown format 'sysctl-d'") as raised:
        export(Profile("p", (entry,)), ["sysctl-d"])
    assert "tuned" in str(raised.value.advice)


def test_a_key_goes_to_tuned_with_dots_and_stays_out_where_a_name_has_one() -> None:
    """tuned makes a slash of every dot, and takes slashes as they are."""
    (text, _) = texts(KeptSetting("sysctl.vm/dirty_ratio", "5"), names=("tuned",)).values()
    assert text.endswith("[sysctl]\nvm.dirty_ratio=5\n")
    for key in ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"):
        entry = KeptSetting(f"sysctl.{key}", "1")
        exported = export(Profile("p", (entry,)), ("tuned",))
        assert (exported.files, exported.left) == ((), (entry,))


HOSTILE = '"; rm -rf / #\n[x]\n$(id) `id` %d {{ x }} \\'


@pytest.mark.parametrize("name", formats())
def test_a_text_of_a_study_never_leaves_its_comment(name: str) -> None:
    """What a question or a reason holds stands in lines of comment alone."""
    entries = (
        KeptSetting("sysctl.vm.swappiness", "10", "", (), HOSTILE, HOSTILE),
        KeptSetting("queue.scheduler", "bfq", "sda", WWID, HOSTILE, HOSTILE),
        KeptSetting("mm.thp", "never", "", (), HOSTILE, HOSTILE),
        KeptSetting("module.lpfc.lpfc_hba_queue_depth", "64", "", (), HOSTILE, HOSTILE),
        KeptSetting("multipath.prio", "alua", "", (), HOSTILE, HOSTILE),
        KeptSetting("net.ring_rx", "64", "eth0", NIC, HOSTILE, HOSTILE),
        KeptSetting("mount.rsize", "65536", "/mnt", NFS, HOSTILE, HOSTILE),
        KeptSetting("irq.affinity", "1", "33", (("of", "nvme0q1"),), HOSTILE, HOSTILE),
        KeptSetting("boot.mitigations", "off", "", (), HOSTILE, HOSTILE),
    )
    profile = Profile("p", entries, HOSTILE, HOSTILE)
    exported = export(profile, [name])
    assert exported.files, f"no entry here is of {name}"
    for each in exported.files:
        said = [line for line in each.text.splitlines() if "rm -rf" in line]
        assert said
        assert all(line.startswith("# ") and not line.endswith("\\") for line in said)


def test_scripts_and_roles_quote_every_name() -> None:
    entry = KeptSetting("mount.rsize", "65536", "/mnt/$(id) 'x'", NFS)
    exported = export(Profile("p", (entry,)))
    shares = {StudyHost("local"): (Profile("p", (entry,)), exported.files)}
    made = {place: text for place, text, _ in exports("p", shares)}
    (file,) = exported.files
    assert f"put {shlex.quote(file.path)}\n" in made["apply.sh"]
    assert f"back {shlex.quote(file.path)}\n" in made["undo.sh"]
    assert set(made) == {
        "apply.sh",
        "undo.sh",
        f"files{file.path}",
        "ansible/site.yml",
        "ansible/roles/iotrial_p/tasks/main.yml",
        "ansible/roles/iotrial_p/handlers/main.yml",
        f"ansible/roles/iotrial_p/files/00-{file.path.rpartition('/')[2]}",
    }


SWAP = KeptSetting("sysctl.vm.swappiness", "10")


def exported(shares: dict[StudyHost, tuple[KeptSetting, ...]]) -> dict[str, str]:
    given = {}
    for place, entries in shares.items():
        profile = Profile("p-q", entries)
        given[place] = (profile, export(profile).files)
    return {path: text for path, text, _ in exports("p-q", given)}


def test_hosts_with_the_same_files_are_one_group_of_the_inventory() -> None:
    reached = "-p 2222 -J jump root@box1"
    made = exported({StudyHost("box1", reached): (SWAP,), StudyHost("b.2"): (SWAP,)})
    assert "apply.sh" in made
    assert "  hosts: iotrial_p_q\n" in made["ansible/site.yml"]
    assert made["ansible/inventory.yml"].splitlines()[1:] == [
        "iotrial_p_q:",
        "  hosts:",
        '    "box1":',
        '      ansible_host: "box1"',
        '      ansible_user: "root"',
        '      ansible_port: "2222"',
        '      ansible_ssh_common_args: "-J jump"',
        '    "b.2":',
        '      ansible_connection: "local"',
    ]


def test_hosts_with_other_files_have_a_folder_and_a_role_each() -> None:
    disk = KeptSetting("queue.scheduler", "bfq", "sda", WWID)
    made = exported(
        {StudyHost("b.1"): (SWAP,), StudyHost("b_1"): (SWAP, disk), StudyHost("c"): (SWAP,)}
    )
    assert {path.split("/")[1] for path in made if path.startswith("hosts/")} == {"b_1", "b_1_1"}
    assert "hosts/b_1/files/etc/sysctl.d/99-iotrial-p-q.conf" in made
    assert "hosts/b_1_1/files/etc/udev/rules.d/99-iotrial-p-q.rules" in made
    assert made["ansible/site.yml"].count("  hosts: iotrial_p_q_b_1\n") == 1
    groups = made["ansible/inventory.yml"]
    assert groups.index("iotrial_p_q_b_1:") < groups.index('"c":') < groups.index("_b_1_1:")


def test_a_unit_is_named_as_systemd_names_it() -> None:
    assert escaped("/mnt/a-b/.c") == "mnt-a\\x2db-.c"
    assert escaped("/") == "-"
    assert escaped("/.x") == "\\x2ex"
    assert escaped("/ä") == "\\xc3\\xa4"


@pytest.mark.parametrize("form", formats())
def test_no_comment_is_longer_than_a_readers_buffer(form: str) -> None:
    """multipathd reads 1023 bytes at a time, sysctl(8) had 255: the rest would be no comment."""
    ids = {
        "link": NIC,
        "nmcli": NIC,
        "mount": NFS,
        "irq": (("of", "nvme0q1"),),
    }.get(form, WWID)
    settings = {
        "boot": ("boot.mitigations", "off", ""),
        "cmdline": ("module.lpfc.lpfc_hba_queue_depth", "64", ""),
        "irq": ("irq.affinity", "1", "24"),
        "link": ("net.pause_rx", "on", "eth0"),
        "modprobe": ("module.lpfc.lpfc_hba_queue_depth", "64", ""),
        "mount": ("mount.rsize", "65536", "/data"),
        "multipath": ("multipath.polling_interval", "5", ""),
        "nmcli": ("net.pause_rx", "on", "eth0"),
        "sysctl": ("sysctl.vm.swappiness", "10", ""),
        "tmpfiles": ("mm.thp", "never", ""),
        "tuned": ("sysctl.vm.swappiness", "1", ""),
        "udev": ("queue.scheduler", "bfq", "sda"),
    }
    tunable, value, device = settings[form]
    long = "é" * 600 + 'overrides { prio "weightedpath" } ' * 600
    entry = KeptSetting(tunable, value, device, ids, former=long, because=long)
    files = export(Profile("p", (entry,), long, long), (form,)).files
    assert files
    for file in files:
        comments = [line for line in file.text.splitlines() if line.startswith("#")]
        assert max(len(line.encode()) for line in comments) <= 202
        assert "weightedpath" not in file.text
        assert any("…" in line for line in comments), "it is said that there was more"


def test_a_line_that_a_reader_would_split_is_refused() -> None:
    for setting, form in (
        (KeptSetting("multipath.path_selector", " ".join(["x" * 9] * 102)), "multipath"),
        (KeptSetting("sysctl.net.ipv4.ip_local_reserved_ports", ",".join(["1000"] * 60)), "sysctl"),
    ):
        with pytest.raises(UsageError, match="the limit of this format"):
            export(Profile("p", (setting,)), (form,))
