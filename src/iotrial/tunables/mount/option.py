"""Rows of mount options: how a value becomes words for mount(8), and what is shown of it then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable
from iotrial.tunables.mount.script import AGAIN, LOOK, SET, unescaped

UNSET = "unset"
ON = "on"
LASTS = "until it is remounted"
ANY = "mount(8); measured on 6.18 with ext4 and xfs"
_VALUE = re.compile(r"[A-Za-z0-9_.:/+-]+")
_LIVE = "Remounting waits until what is dirty is written."
_AGAIN = (
    "Unmounted and mounted again: refused while anything there is in use, and what is cached of"
    " it is forgotten."
)

Words = Callable[[str], tuple[str, str, str]]
"""Value → the word to mount with, the word to remount with ('': a remount does not do), and what
is shown then."""


def _form(value: str) -> str:
    """Why a value cannot be one: a comma would be a second option."""
    return "" if _VALUE.fullmatch(value) else f"{value!r} cannot be the value of one option"


def row(  # noqa: PLR0913 (a row of a table)
    name: str,
    summary: str,
    words: Words,
    *,
    family: Iterable[str] = (),
    choices: tuple[str, ...] = (),
    moves: tuple[str, ...] = (),
    live: bool = True,
    unit: str = "",
    moot: str = "",
    risk: str = "",
    source: str = ANY,
    low: int | None = None,
    words_too: tuple[str, ...] = (),
    aliases: tuple[tuple[str, str], ...] = (),
    key: str = "",
    column: str = "OPTIONS",
) -> Tunable:
    known = ",".join(family or (name,))
    domain = Domain(choices, low=low, words=words_too, rule=_form, aliases=aliases)

    def how(device: str, value: str) -> tuple[Change, ...]:
        if why := _form(value):
            raise UsageError(f"mount.{name}: {why}", advice="Write one value, as findmnt shows it.")
        new, remount, shown = words(value)
        argv = ("sh", "-c", SET, "iotrial-mount", device, known, new, remount, shown)
        return (Change("run", argv=argv),)

    return Tunable(
        f"mount.{name}",
        "",
        summary,
        unit=unit,
        layer="file system",
        lasts=LASTS,
        risk=f"{_LIVE if live else _AGAIN} {risk}".rstrip(),
        moot=moot[:1].upper() + moot[1:] + "." if moot else "",
        source=source,
        rank=45 if moves else 50,
        moves=(*(f"mount.{other}" for other in moves), "mount.mounted", "nfs.read_ahead_kb"),
        scope="mount",
        domain=lambda _raw: domain,
        read=("findmnt", "-n", "-o", column, "--mountpoint", "{device}"),
        pick="listed" if choices else "option",
        key=",".join(choices) if choices else key or name,
        how=how,
    )


def _one_of(*choices: str, live: bool = True) -> Words:
    """One of several bare words, of which the first may not be shown."""

    def words(value: str) -> tuple[str, str, str]:
        return value, value if live else "", "" if value == choices[0] else value

    return words


def choice(name: str, summary: str, *choices: str, **more: Any) -> Tunable:  # noqa: ANN401
    """A setting whose values are bare options, the kernel's own default first."""
    live = bool(more.get("live", True))
    return row(
        name,
        summary,
        _one_of(*choices, live=live),
        family=choices,
        choices=choices,
        **more,
    )


def option(name: str, summary: str, *, off: str = "", **more: Any) -> Tunable:  # noqa: ANN401
    """An option with a value, or a bare one (value ``on``).  ``off`` is the word by which a
    remount takes it away ('': a remount does not do)."""

    def words(value: str) -> tuple[str, str, str]:
        word = {UNSET: "", ON: name}.get(value, f"{name}={value}")
        return word, (word or off) if off else "", word

    return row(name, summary, words, live=bool(off), **more)


def number(name: str, summary: str, *, low: int = 0, **more: Any) -> Tunable:  # noqa: ANN401
    return option(name, summary, low=low, words_too=(UNSET,), **more)


def mounted() -> Tunable:
    def back(device: str, value: str) -> tuple[Change, ...]:
        source, kind, propagation, options = value.split(" ", 3)
        former = (unescaped(source), kind, propagation, unescaped(options))
        return (Change("run", argv=("sh", "-c", AGAIN, "iotrial-mount-back", device, *former)),)

    return Tunable(
        "mount.mounted",
        "",
        "what is mounted there: source, type, propagation, options; it goes back as a whole",
        layer="file system",
        lasts=LASTS,
        risk=(
            "Only what is not in use is mounted again. One that became read-only after an error"
            " is left so, and named."
        ),
        source="findmnt(8), mount(8), umount(8); measured on 6.18 with ext4 and xfs",
        rank=90,
        scope="mount",
        read=(
            "sh",
            "-c",
            LOOK.replace("{", "{{").replace("}", "}}"),
            "iotrial-mounted",
            "{device}",
        ),
        how=back,
        reload="it is what other mount options are undone by; set those",
    )
