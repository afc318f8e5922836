"""Everything that is known of a tunable, in words; and the reference page of them all.

``iotrial knobs NAME`` and ``docs/knobs.md`` say the same, from the rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.target import Scope
from iotrial.model.tunable import Domain, Tunable
from iotrial.tunables import TunableFamily, every_family

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
_HEAD = """# Knobs

Every tunable that this version knows, by family.
A study names them in `tunable = "…"` or in a group of a level ([the study file](study-file.md)).
`iotrial knobs NAME` shows the same, with the value and the domain on this host.
[Adding a knob](adding-a-knob.md) is adding a row.

<!-- Made from the tables in src/iotrial/tunables/: change them, then
     IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_knobs.py -->
"""


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


def reference() -> str:
    """The whole page as Markdown.  Pure; the same for the same version of iotrial."""
    known = every_family()
    index = [f"- [`{each.name}`](#{_anchor(each)}): {each.title}" for each in known]
    return "\n".join([_HEAD, *index, "", *(line for each in known for line in _family(each))])


def _heading(family: TunableFamily) -> str:
    return f"`{family.name}`: {family.title}"


def _anchor(family: TunableFamily) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", _heading(family).lower()).strip().replace(" ", "-")


def _family(family: TunableFamily) -> Iterator[str]:
    yield from (f"## {_heading(family)}", "", *_prose(family.about))
    for knob in family.rows:
        yield from (f"### `{knob.name}`", "", f"{_sentence(knob.summary)}", "")
        yield from ("| | |", "|---|---|")
        for title, words in about(knob).items():
            yield f"| {title} | {_cell(title, words)} |"
        yield ""


def _sentence(text: str) -> str:
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "…")) else f"{whole}."


def _cell(title: str, words: str) -> str:
    if title in ("read", "moves") and "`" not in words:
        words = ", ".join(f"`{word}`" for word in words.split(", "))
    return _inline(words).replace("|", "\\|")


def _prose(text: str) -> Iterator[str]:
    """A docstring as Markdown: what is set off in it stays as it is."""
    for part in re.split(r"\n\s*\n", text):
        set_off = all(line.startswith(" ") for line in part.splitlines()) or "====" in part
        if set_off:
            yield from ("```text", part, "```", "")
        else:
            yield from (_inline(" ".join(part.split())).replace("::", ":"), "")


def _inline(text: str) -> str:
    text = re.sub(r":[a-z]+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"``(.+?)``", r"`\1`", text)
