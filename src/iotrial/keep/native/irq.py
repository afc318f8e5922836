"""Interrupts: a service that sends them where they belong, and a policy for irqbalance.

An interrupt's number is another one after a boot: it is found again in /proc/interrupts by who
asked for it (``nvme0q1``, ``eth0-rx-0``).  irqbalance would move it again, so a policy script for
it bans these; irqbalance must be told of the script (``--policyscript=``), which only its own
configuration can.

Sources: systemd.service(5), irqbalance(1), Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import re
import shlex

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header
from iotrial.keep.profile import Profile

_CPUS = re.compile("[0-9]+(?:[-,:/][0-9]+)*")
_SET = """\
# moved CPUS NAME: the interrupt that NAME asked for goes to CPUS.
moved() {
    number=$(sed -n "s/^ *\\([0-9]*\\):.* $2\\$/\\1/p" /proc/interrupts | head -n 1)
    [ -n "$number" ] || { echo "no interrupt of $2" >&2; missing=1; return; }
    echo "$1" >"/proc/irq/$number/smp_affinity_list" || missing=1
}
missing=0
"""
_BAN = """\
# Called with the folder of a device in /sys and the number of an interrupt.
name=$(sed -n "s/^ *$2:.* \\([^ ]*\\)\\$/\\1/p" /proc/interrupts)
case $name in
"""


def _takes(entry: KeptSetting) -> bool:
    asked = dict(entry.ids).get("of", "")
    return (
        entry.tunable == "irq.affinity" and _is_word(asked) and bool(_CPUS.fullmatch(entry.value))
    )


def _is_word(text: str) -> bool:
    """Such that it stands for itself in sed and in a pattern of sh."""
    return bool(text) and text.isascii() and all(sign.isalnum() or sign in "-_@:" for sign in text)


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    name = f"iotrial-irq-{profile.name}"
    script = f"/etc/iotrial/{profile.name}.irq"
    unit = f"/etc/systemd/system/{name}.service"
    undo = f"systemctl disable --now {name}, rm {unit} {script}"
    head = header(profile, profile.entries, undo)
    names = [dict(entry.ids)["of"] for entry in profile.entries]
    calls = "".join(
        f"moved {shlex.quote(entry.value)} {shlex.quote(asked)}\n"
        for entry, asked in zip(profile.entries, names, strict=True)
    )
    service = (
        f"{head}[Unit]\nDescription=Interrupts as iotrial keep {profile.name} wants them\n"
        "After=network.target irqbalance.service\n\n[Service]\nType=oneshot\n"
        f"RemainAfterExit=yes\nExecStart=/bin/sh {script}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    ban = "".join(f"    {asked}) echo ban=true ;;\n" for asked in names)
    entries = profile.entries
    policy = f"/etc/iotrial/{profile.name}.irqbalance"
    return (
        NativeFile(
            script, f'#!/bin/sh\n{head}{_SET}{calls}exit "$missing"\n', entries, program=True
        ),
        NativeFile(
            unit,
            service,
            entries,
            reload=(("systemctl", "daemon-reload"),),
            load=(("systemctl", "enable", "--now", f"{name}.service"),),
            unload=(("systemctl", "disable", "--now", f"{name}.service"),),
        ),
        NativeFile(
            policy,
            f"#!/bin/sh\n{head}{_BAN}{ban}esac\n",
            entries,
            notes=(f"if irqbalance runs: start it with --policyscript={policy}",),
            program=True,
        ),
    )


NATIVE = NativeFormat(
    "irq",
    "interrupts: a service, and a policy for irqbalance",
    "systemd.service(5), irqbalance(1)",
    order=60,
    takes=_takes,
    write=_write,
    readers=(),
)
