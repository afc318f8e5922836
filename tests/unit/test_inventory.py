"""Hosts that another file names: ssh_config and Ansible inventories."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iotrial.cli.main import status
from iotrial.errors import StudyError
from iotrial.hosts.login import destination
from iotrial.plan.ansible import MOST_HOSTS, spread
from iotrial.plan.available import HostCapabilities
from iotrial.plan.host_entry import MOST_BYTES, InventoryHost
from iotrial.plan.inventory import from_ansible, from_ssh_config, recorded
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.schema import InventoryTable
from iotrial.store import create, open_results

INI = """\
# the rack
mail.example.com

[storage]
box[01:03] ansible_user=admin   # three of them
array1 ansible_host=10.0.0.7 ansible_port=2222 ansible_user="root"
old.example.com:2200

[storage:vars]
ansible_user=root
ansible_ssh_private_key_file='/keys/lab key'

[fast]
box02
db-[a:c]

[lab:children]
storage
fast

[lab:vars]
ansible_user=nobody
ansible_ssh_common_args='-J bastion.example.com'
"""
YAML = """\
all:
  hosts:
    mail.example.com:
  children:
    lab:
      vars: &lab
        ansible_user: nobody
        ansible_ssh_common_args: -J bastion.example.com
      children:
        storage:
          hosts:
            box[01:03]: {ansible_user: admin}
            array1:
              ansible_host: 10.0.0.7
              ansible_port: 2222
              ansible_user: root
            old.example.com:2200: ~
          vars:
            ansible_user: root
            ansible_ssh_private_key_file: /keys/lab key
            disks: [sda, sdb]
            secret: !vault |
              $ANSIBLE_VAULT;1.1;AES256
        fast:
          hosts:
            box02:
            db-[a:c]:
"""
STORAGE = {
    "box01": "-J bastion.example.com -i '/keys/lab key' admin@box01",
    "box02": "-J bastion.example.com -i '/keys/lab key' admin@box02",
    "box03": "-J bastion.example.com -i '/keys/lab key' admin@box03",
    "array1": "-J bastion.example.com -p 2222 -i '/keys/lab key' root@10.0.0.7",
    "old.example.com": "-J bastion.example.com -p 2200 -i '/keys/lab key' root@old.example.com",
}


def table(**about: object) -> InventoryTable:
    return InventoryTable.model_validate({"ansible": "hosts", **about})


def ansible(text: str | bytes, file: str = "hosts", **about: object) -> dict[str, str]:
    raw = text.encode() if isinstance(text, str) else text
    return {each.name: each.ssh for each in from_ansible(raw, file, table(**about))}


@pytest.mark.parametrize(("text", "file"), [(INI, "hosts.ini"), (YAML, "hosts.yml")])
def test_both_forms_say_the_same(text: str, file: str) -> None:
    found = ansible(text, file, group="storage")
    assert found == STORAGE
    assert list(found) == list(STORAGE)
    every = ansible(text, file)
    assert set(every) == {*STORAGE, "mail.example.com", "db-a", "db-b", "db-c"}
    assert every["mail.example.com"] == "mail.example.com"
    assert every["db-a"] == "-J bastion.example.com nobody@db-a"
    assert list(ansible(text, file, group="lab", hosts="box[01-02],db-*")) == [
        "box01", "box02", "db-a", "db-b", "db-c",
    ]  # fmt: skip


def test_the_form_is_told_by_the_text_where_the_name_says_nothing() -> None:
    assert ansible(INI) == ansible(YAML) == ansible(YAML, "x.yaml")
    assert ansible("---\nall:\n  hosts: {a: }\n") == {"a": "a"}


def test_what_is_reached_is_what_ssh_understands() -> None:
    for ssh in ansible(INI).values():
        assert destination(ssh)[-2:] == ["--", shlex.split(ssh)[-1]]


def test_a_local_host_is_this_machine_and_other_ways_are_refused() -> None:
    assert ansible("here ansible_connection=local\n") == {"here": ""}
    with pytest.raises(StudyError, match=r"hosts:2: box: ansible_connection 'winrm' is not ssh"):
        ansible("a\nbox ansible_connection=winrm\n")


def test_values_stay_what_was_written() -> None:
    """YAML would make 22 of 0o26, false of no and 5430 of 1:30:30."""
    found = ansible("all:\n  hosts:\n    no:\n    '08': {ansible_user: on}\n", "h.yml")
    assert found == {"no": "no", "08": "on@08"}


def test_merged_variables_count_and_own_ones_beat_them() -> None:
    text = (
        "x:\n  vars: &v {ansible_user: a, ansible_port: 1}\n  hosts:\n"
        "    h:\n      <<: *v\n      ansible_user: b\n"
    )
    assert ansible(text, "h.yml") == {"h": "-p 1 b@h"}


@pytest.mark.parametrize(
    ("pattern", "names", "port"),
    [
        ("box[01:16:5]", ("box01", "box06", "box11", "box16"), ""),
        ("r[1:2]n[08:09].lan:22", ("r1n08.lan", "r1n09.lan", "r2n08.lan", "r2n09.lan"), "22"),
        ("db-[a:c]", ("db-a", "db-b", "db-c"), ""),
        ("n[:2]", ("n0", "n1", "n2"), ""),
        ("plain", ("plain",), ""),
    ],
)
def test_ranges_are_ansibles(pattern: str, names: tuple[str, ...], port: str) -> None:
    assert spread(pattern, "f", 1) == (names, port)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a\nbox[1:\n", r"hosts:2: 'box\[1:': a bracket is not closed"),
        ("a\nbox1]\n", r"hosts:2: .*a bracket was not opened"),
        ("a\nbox[9:1]\n", r"hosts:2: .*\[9:1\] is not a range"),
        ("a\nbox[08:010]\n", r"hosts:2: .*is not a range"),
        ("a\nbox[1:9:0]\n", r"hosts:2: .*is not a range"),
        (f"a\nbox[0:{MOST_HOSTS}]\n", r"hosts:2: .*is more than 10,000 hosts"),
        ("a\nbox[0:200][0:200]\n", r"hosts:2: .*is more than 10,000 hosts"),
        ("a\nb ansible_host\n", r"hosts:2: not NAME=VALUE: 'ansible_host'"),
        ("a\nb x='\n", r"hosts:2: No closing quotation"),
        ("a\n[x:kids]\nb\n", r"hosts:2: a section of kind 'kids'"),
        ("a\n[x:vars]\nb\n", r"hosts:3: not NAME=VALUE: 'b'"),
        ("a\n[x:children]\nb\n", r"hosts:3: group 'b' does not exist"),
        ("a\n[x:children]\ny\n[y:children]\nx\n", r"hosts:[35]: group '[xy]' contains itself"),
        ("a\nb ansible_port=99999\n", r"hosts:2: b: '99999' is not a port"),
        ("a\nb ansible_host=-oProxyCommand=x\n", r"hosts:2: ansible_host cannot be '-oProxy"),
        ("a\nb ansible_user='{{ me }}'\n", r"hosts:2: ansible_user is a template"),
        ("a\n-oProxyCommand=x\n", r"hosts:2: '-oProxyCommand=x' is not a valid host name"),
        ("a\nb@c\n", r"hosts:2: 'b@c' is not a valid host name"),
        ("", r"hosts: no host is in it"),
        (b"a\n\xff\n", r"hosts:2: is not UTF-8"),
        (b"a\nb\0\n", r"hosts:2: holds a NUL"),
        (b"a" * (MOST_BYTES + 1), r"hosts: is larger than 4 MiB"),
    ],
)
def test_what_an_ini_cannot_mean_is_told_with_its_line(text: str | bytes, error: str) -> None:
    with pytest.raises(StudyError, match=error):
        ansible(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("all:\n  hosts:\n   a: [\n", r"h\.yml:\d: not YAML: "),
        ("all:\n  hosts:\n    - a\n", r"h\.yml:3: hosts: expected a mapping"),
        ("all:\n  host:\n    a:\n", r"h\.yml:2: group 'all' has a key 'host'"),
        ("- a\n", r"h\.yml:1: an inventory: expected a mapping"),
        ("x: &x\n  children:\n    x: *x\n", r"h\.yml:3: group 'x' contains itself"),
        ("all:\n  hosts:\n    ? [a]\n    : b\n", r"h\.yml:3: hosts: expected a name"),
        ("all:\n  hosts:\n    a: 7\n", r"h\.yml:3: variables: expected a mapping"),
        ("", r"h\.yml: is empty"),
        ("a: \x07\n", r"h\.yml:1: not YAML: "),
        ("[" * 3000, r"h\.yml: not YAML: nested too deeply"),
        ("---\na:\n---\nb:\n", r"h\.yml:3: not YAML: "),
    ],
)
def test_what_a_yaml_cannot_mean_is_told_with_its_line(text: str, error: str) -> None:
    with pytest.raises(StudyError, match=error):
        ansible(text, "h.yml")


def test_aliases_do_not_make_a_small_file_a_large_tree() -> None:
    lines = ["g0: &g0 {hosts: {a: }}"]
    lines += [
        f"g{n}: &g{n} {{children: {{x{n}: *g{n - 1}, y{n}: *g{n - 1}}}}}" for n in range(1, 40)
    ]
    with pytest.raises(StudyError, match="more than 100,000 entries"):
        ansible("\n".join(lines), "h.yml")


def test_a_group_or_host_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(StudyError, match=r"hosts: has no group 'storrage'") as refused:
        ansible(INI, group="storrage")
    assert "Did you mean 'storage'" in refused.value.advice
    with pytest.raises(StudyError, match=r"does not contain host 'box04'"):
        ansible(INI, hosts="box[01-09]")


CONFIG = """\
Host bastion
    HostName 192.0.2.1
Include lab.d/*
Host=box7 "box8" !box9
    User root
Host node* !node13
    ProxyJump bastion
Match host something
    User x
Host *
    ServerAliveInterval 5
"""


def ssh(text: str, hosts: object, file: str = "cfg") -> dict[str, str]:
    about = InventoryTable.model_validate({"ssh_config": file, "hosts": hosts})

    def included(_who: str, word: str) -> list[tuple[str, bytes]]:
        return [("lab.d/a", b"Host inner1 inner2\n")] if word == "lab.d/*" else []

    return {each.name: each.ssh for each in from_ssh_config(text.encode(), file, about, included)}


def test_names_of_ssh_config_are_chosen_by_name_range_and_pattern() -> None:
    assert ssh(CONFIG, "box7") == {"box7": "-F cfg box7"}
    assert list(ssh(CONFIG, "box[7-8]")) == ["box7", "box8"]
    assert list(ssh(CONFIG, "inner*")) == ["inner1", "inner2"]
    assert list(ssh(CONFIG, "node[1-3]")) == ["node1", "node2", "node3"]
    assert list(ssh(CONFIG, ["box?", "bastion"])) == ["box7", "box8", "bastion"]


def test_the_users_own_configuration_is_not_named_to_ssh() -> None:
    own = str(Path("~/.ssh/config").expanduser())
    assert ssh(CONFIG, "box7", own) == {"box7": "box7"}


@pytest.mark.parametrize("name", ["box9", "node13", "stranger", "something"])
def test_a_name_that_only_the_line_for_all_is_about_is_not_known(name: str) -> None:
    with pytest.raises(StudyError, match=f"cfg: does not contain host '{name}'"):
        ssh(CONFIG, name)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Host a\n%%%\n", r"cfg:2: not ssh_config: '%%%'"),
        ("Host\n", r"cfg:1: not ssh_config"),
        ('Host "a\n', r"cfg:1: not ssh_config: No closing quotation"),
        ("Host a\nHost -x a\n", r"cfg: does not contain host"),
    ],
)
def test_what_ssh_config_cannot_mean_is_told_with_its_line(text: str, error: str) -> None:
    with pytest.raises(StudyError, match=error):
        ssh(text, "b")


def test_files_that_include_each_other_come_to_an_end() -> None:
    about = InventoryTable.model_validate({"ssh_config": "cfg", "hosts": "a"})
    with pytest.raises(StudyError, match="more than 16 files deep"):
        from_ssh_config(b"Include x\n", "cfg", about, lambda _who, _word: [("cfg", b"Include x\n")])


anything = st.one_of(
    st.binary(max_size=400),
    st.text(alphabet="ab:[]{}&*!<-=#'\" \n\t,0123", max_size=200).map(str.encode),
    st.lists(st.sampled_from([*INI.splitlines(), *YAML.splitlines(), *CONFIG.splitlines()])).map(
        lambda lines: "\n".join(lines).encode()
    ),
)


@given(anything)
@example(b"a: &a\n  <<: *a\n")
@example(b"x:\n  hosts: &h\n    a: *h\n")
@example("٣[٣:٤]".encode())
@example(b"a ansible_port=\xc2\xb2\n")
def test_any_bytes_give_hosts_or_an_error_that_names_the_file(raw: bytes) -> None:
    """And every host can be reached by ssh, or is this machine."""
    for file in ("f.ini", "f.yml", "f"):
        try:
            found = from_ansible(raw, file, table())
        except StudyError as error:
            assert error.file == file  # noqa: PT017 (either is right)
            assert error.line <= raw.count(b"\n") + 1  # noqa: PT017
        else:
            assert found
            check(found)
    about = InventoryTable.model_validate({"ssh_config": "f", "hosts": ["a*", "box7"]})
    try:
        check(from_ssh_config(raw, "f", about, lambda _who, _word: []))
    except StudyError as error:
        assert error.file == "f"  # noqa: PT017


def check(found: tuple[InventoryHost, ...]) -> None:
    for each in found:
        words = shlex.split(each.ssh)
        assert not words or not words[-1].startswith("-")


STUDY = """
[inventory]
ansible = "hosts.ini"
group = "storage"
[targets.disk]
device = "wwn-0x5000c500a1b2c3d4"
host = "array1"
[workloads.reads]
tool = "fio"
options = { rw = "randread", runtime = "1s" }
"""


def test_a_target_is_on_a_host_of_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    study = load_study(path)
    assert [(place.name, place.ssh) for place in study.hosts] == [("array1", STORAGE["array1"])]
    assert study.place.ssh == STORAGE["array1"]
    (tmp_path / "hosts.ini").write_text(INI.replace("10.0.0.7", "10.0.0.8"))
    assert load_study(path).digest != study.digest


def test_results_keep_what_the_inventory_came_to(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    (tmp_path / "study.toml").write_text(STUDY)
    study = load_study(tmp_path / "study.toml")
    create(tmp_path / "results", study, HostCapabilities())
    (tmp_path / "hosts.ini").unlink()
    again = open_results(tmp_path / "results").study
    assert again.hosts == study.hosts
    assert again.digest == study.digest


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            ('"array1"', '"array9"'),
            r"study\.toml:7: targets\.disk\.host: \[hosts\] has no 'array9'",
        ),
        (('ansible = "hosts.ini"\n', ""), r"study\.toml:2: inventory: it does not name a file"),
        (('group = "st', 'ssh_config = "x"\ngroup = "st'), r"both ssh_config and ansible"),
        (('ansible = "hosts.ini"', 'ssh_config = "x"'), r"does not name hosts|no groups"),
        (('"hosts.ini"', '"none.ini"'), r"none\.ini: cannot be read: No such file"),
        (('group = "storage"', 'grup = "storage"'), r"study\.toml:4: inventory\.grup"),
    ],
)
def test_what_a_study_cannot_mean_by_an_inventory_is_told(
    tmp_path: Path, change: tuple[str, str], error: str
) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace(*change))
    with pytest.raises(StudyError, match=error):
        load_study(path)


def test_hosts_that_the_study_says_itself_come_before_the_inventorys() -> None:
    text = STUDY + '[hosts.array1]\nssh = "me@elsewhere"\n'
    study = parse_study(text, "s.toml", str, recorded(STORAGE))
    assert study.place.ssh == "me@elsewhere"


def test_doctor_lists_what_an_inventory_comes_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    (tmp_path / "study.toml").write_text(STUDY)
    assert status(["doctor", "--hosts", str(tmp_path / "study.toml")]) == 0
    said = capsys.readouterr().out
    assert all(f"{name}" in said for name in STORAGE)
    assert "root@10.0.0.7" in said


LAYERS = """\
zeta ansible_port=1
[b]
h[1:3] ansible_port=7
k
[a]
h2 ansible_user=own
h3
[deep:children]
b
[top:children]
deep
a
[b:vars]
ansible_user=of-b
ansible_host=10.0.0.2
[a:vars]
ansible_user=of-a
ansible_host=10.0.0.1
[deep:vars]
ansible_user=of-deep
ansible_port=9
[all:vars]
ansible_user=of-all
ansible_port=8
"""


@pytest.mark.parametrize(
    ("text", "file"),
    [(INI, "h.ini"), (LAYERS, "h.ini"), (YAML.partition("            secret")[0], "h.yml")],
)
def test_ansible_itself_says_the_same(tmp_path: Path, text: str, file: str) -> None:
    path = tmp_path / file
    path.write_text(text)
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(path), "--list"],
        capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8",
             "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
             "ANSIBLE_LOCAL_TEMP": str(tmp_path / "t")},
    )  # fmt: skip
    told = json.loads(done.stdout)
    hosts = {name for group in told.values() for name in group.get("hosts", ())}
    found = ansible(text, file)
    assert set(found) == hosts
    for name in hosts:
        about = told["_meta"]["hostvars"].get(name, {})
        words = shlex.split(found[name])
        user, _, where = words[-1].rpartition("@")
        assert where == about.get("ansible_host", name), name
        assert user == about.get("ansible_user", ""), name
        port = words[words.index("-p") + 1] if "-p" in words else ""
        assert port == str(about.get("ansible_port", "")), name
    for group in set(told) - {"_meta", "all", "ungrouped"}:
        below = [group]
        for each in below:
            below += told[each].get("children", [])
        members = {name for each in below for name in told[each].get("hosts", ())}
        assert set(ansible(text, file, group=group)) == members, group
