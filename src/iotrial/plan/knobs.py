"""Everything that is known of a tunable, in words: ``iotrial knobs NAME`` says it, from the row
alone."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.target import Scope
from iotrial.model.tunable import Domain, Tunable

_LONG = 100
"""Characters of a command beyond which it is a script, and not shown."""

_DEPENDS = "by steps that depend on the value"

BELONGS: dict[Scope, str] = {
    "host": "the whole machine",
    "device": "the block device under test, as a file system on it sees it",
    "disk": "each disk at the bottom of the target: paths of a map, members of an array, legs",
    "scsi-host": "each SCSI adapter on the way",
    "nvme": "each NVMe controller on the way",
    "remote-port": "each Fibre Channel port behind the target",
    "iscsi-session": "each iSCSI session behind the target",
    "map": "the multipath map",
    "array": "the md array",
    "volume": "the logical volume",
    "crypt": "the dm-crypt device",
    "mount": "the mount point of the target",
    "bdi": "the backing device of the target's file system",
    "nic": "the network interface towards the target",
    "rx": "each receive queue of that interface",
    "tx": "each transmit queue of that interface",
    "irq": "each interrupt on the way",
    "cpu": "each CPU",
    "cgroup": "the control group of the load, for the target's device",
}


def about(knob: Tunable) -> dict[str, str]:
    """What is known of it: title → words, only what there is to say."""
    parts = {
        "belongs to": BELONGS[knob.scope],
        "read": f"`{command(knob.read)}`" if knob.read else knob.path,
        "changed": changed(knob),
        "unit": knob.unit,
        "layer": knob.layer,
        "lasts": knob.lasts,
        "moves": ", ".join(knob.moves),
        "not in a trial": knob.reload,
        "risk": knob.risk,
        "moot when": knob.moot,
        "source": knob.source,
    }
    return {title: words for title, words in parts.items() if words}


def changed(knob: Tunable) -> str:
    """How it is changed."""
    if knob.reload:
        return ""
    if knob.boot:
        return "by a boot"
    if knob.place:
        return f"as {knob.sets}, by the rule"
    try:
        acts = knob.how("{device}", "{value}") if knob.how else _plain(knob)
    except (ValueError, LookupError, UsageError):
        return _DEPENDS
    return ", then ".join(map(_act, acts)) or _DEPENDS


def _plain(knob: Tunable) -> tuple[Change, ...]:
    if knob.change:
        return tuple(Change("run", argv=command) for command in knob.change)
    return (Change("write", knob.path),)


def _act(act: Change) -> str:
    said = {
        "write": f"written to {act.path}",
        "save": f"{act.path} saved",
        "remove": f"{act.path} removed",
        "run": f"`{command(act.argv)}`" if act.argv else "",
    }
    return said[act.kind]


def command(argv: Sequence[str]) -> str:
    """A command for people; of a script only what executes it.

    >>> command(("sh", "-c", "read -r word\\necho $word"))
    'sh …'
    """
    whole = " ".join(argv)
    return f"{argv[0]} …" if len(whole) > _LONG or "\n" in whole else whole


def takes(domain: Domain) -> str:
    """What a domain allows, in words; '' where nothing is known.

    >>> takes(Domain(low=4, high=10240))
    '4 to 10240'
    """
    parts = [*domain.choices]
    if domain.low is not None and domain.high is not None:
        parts.append(f"{domain.low} to {domain.high}")
    elif domain.low is not None:
        parts.append(f"{domain.low} or more")
    elif domain.high is not None:
        parts.append(f"up to {domain.high}")
    return ", ".join([*parts, *domain.words])
