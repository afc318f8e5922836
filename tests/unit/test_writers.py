"""Other writers: which programs and udev rules change settings too, and where that is said."""

from __future__ import annotations

import dataclasses
import json

import pytest

import factories
from iotrial.execute.trial import drift
from iotrial.look import machine as about
from iotrial.look.doctor import examine
from iotrial.look.machine import rules, written
from iotrial.model.host import Host
from iotrial.model.tunable import Setting
from iotrial.rows import record_in, record_out
from machines import Written, machine

RULE = 'ACTION=="add|change", KERNEL=="sd?", ATTR{queue/rotational}=="0", '


def host_of(written: Written) -> Host:
    return written  # type: ignore[return-value]


def busy(**processes: tuple[str, str]) -> Written:
    """A machine with these processes: pid → (comm, argv joined by blanks)."""
    host = machine()
    host.add("/proc/self/stat", "42 (iotrial) R 1")
    host.add("/proc/42/comm", "iotrial")
    for pid, (comm, argv) in processes.items():
        host.add(f"/proc/{pid[1:]}/comm", comm)
        host.add(f"/proc/{pid[1:]}/cmdline", argv.replace(" ", "\0").encode())
    return host


@pytest.mark.parametrize(
    ("comm", "argv", "seen"),
    [
        ("tuned", "/usr/bin/python3 -Es /usr/sbin/tuned -l -P", ("tuned (pid 7)",)),
        ("power-profiles-", "/usr/libexec/power-profiles-daemon",
         ("power-profiles-daemon (pid 7)",)),
        ("google_guest_ag", "/usr/bin/google_guest_agent", ("google_guest_agent (pid 7)",)),
        ("python3", "/usr/bin/python3 -u /usr/sbin/waagent -daemon", ("waagent (pid 7)",)),
        ("iotrial", "iotrial run study.toml", ("iotrial (pid 7)",)),
        ("iotrial", "iotrial run study.toml --pretend", ()),
        ("python3", "/usr/bin/python3 /srv/app.py", ()),
        ("tuned-adm", "/usr/bin/python3 /usr/sbin/tuned-adm list", ()),
        ("systemd-udevd", "/lib/systemd/systemd-udevd", ()),
        ("bash", "bash tuned", ()),
    ],
)  # fmt: skip
def test_a_writer_is_known_by_the_name_the_kernel_keeps(
    comm: str, argv: str, seen: tuple[str, ...]
) -> None:
    assert about.writers(host_of(busy(p7=(comm, argv)))) == seen


def test_the_doctor_says_what_a_writer_writes_and_how_it_is_stopped() -> None:
    host = busy(p7=("irqbalance", "irqbalance"), p9=("tuned", "tuned"))
    (check,) = (c for c in examine(host_of(host), tools=()) if c.name == "other-writers")
    assert check.verdict == "warn"
    assert "irqbalance (pid 7), tuned (pid 9)" in check.reason
    assert "interrupt affinity" in check.reason
    assert check.remedy.startswith("systemctl stop irqbalance tuned,")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{RULE}ATTR{{queue/scheduler}}="bfq"', [(1, ["queue/scheduler"])]),
        (f'#{RULE}ATTR{{queue/scheduler}}="bfq"', []),
        (f'\n{RULE}\\\n  ATTR{{queue/scheduler}}:="bfq"', [(2, ["queue/scheduler"])]),
        ('SUBSYSTEM=="bdi", PROGRAM="/usr/libexec/nfsrahead %k", ATTR{read_ahead_kb}="%c"',
         [(1, ["read_ahead_kb"])]),
        ('ACTION=="add", SYSCTL{net/core/rmem_max}="1"', [(1, ["net/core/rmem_max"])]),
        ('ATTR{device/timeout}="180", ATTR{queue/nr_requests}="1024"',
         [(1, ["device/timeout", "queue/nr_requests"])]),
        ('ATTR{queue/scheduler}!="bfq", ATTRS{device/timeout}="9", ENV{X}="1"', []),
    ],
)  # fmt: skip
def test_a_rule_that_writes_is_told_from_one_that_asks(
    text: str, found: list[tuple[int, list[str]]]
) -> None:
    assert list(written(text)) == found


def test_rules_are_named_by_file_and_line_where_udev_is_at_work() -> None:
    host = busy(p7=("systemd-udevd", "/lib/systemd/systemd-udevd"))
    line = f'# ours\n{RULE}ATTR{{queue/scheduler}}="bfq"'
    host.add("/usr/lib/udev/rules.d/60-vendor.rules", line)
    host.add("/usr/lib/udev/rules.d/61-masked.rules", line)
    host.add("/etc/udev/rules.d/61-masked.rules", "")
    host.add("/etc/udev/rules.d/README", line)
    named = ("/usr/lib/udev/rules.d/60-vendor.rules:2 (queue/scheduler)",)
    assert rules(host_of(host)) == named
    checks = {check.name: check for check in examine(host_of(host), tools=())}
    assert checks["udev-rules"].verdict == "warn"
    assert named[0] in checks["udev-rules"].reason
    del host.files["/proc/7/comm"]
    checks = {check.name: check for check in examine(host_of(host), tools=())}
    assert checks["udev-rules"].verdict == "ok"


def test_a_drift_names_the_writers_seen() -> None:
    before, after = (Setting("sda", "queue.scheduler", value) for value in ("none", "bfq"))
    (doubt,) = drift((before,), (after,), ["tuned (pid 812)"])
    assert doubt.what.endswith("; active then: tuned (pid 812)")
    (doubt,) = drift((before,), (after,))
    assert doubt.what.endswith("from none to bfq")


def test_writers_are_kept_with_the_trial_and_older_rows_have_none() -> None:
    record = dataclasses.replace(
        factories.results().records[0], writers=(("tuned (pid 8)",), ()), measurements=()
    )
    row = json.loads(json.dumps(record_out(record)))
    more = {"before": "[]", "after": "[]", "values": {}}
    assert record_in(row | more, {}).writers == record.writers
    del row["writers"]
    assert record_in(row | more, {}).writers == ((), ())


def test_every_writer_of_this_list_says_what_it_writes() -> None:
    assert all(about.WRITERS.values())
    assert len({name[:15] for name in about.WRITERS}) == len(about.WRITERS)
