"""A workload's options as fio's command line wants them: canonical names, plain values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from iotrial.errors import UsageError
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import fio_rules as rules
from iotrial.tools.expression import evaluate
from iotrial.units import parse_bytes

# fio's own numbers: 32, 4k, 50%, 4k-16k, 4k,64k, 0x10, 70:30.  Anything else is an expression.
_UNIT = r"(?:[kmgtpe]i?b?|[bdhsz%]|[mun]s(?:ec)?)?"
_PART = rf"[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d+)?{_UNIT})"
_LITERAL = re.compile(rf"(?:{_PART})?(?:[-,:/](?:{_PART})?)*", re.IGNORECASE)
_IEC = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?[kmgtKMGT]iB\b")


def resolved(workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
    """(option, value) in the study's order.  Raises :class:`~iotrial.errors.UsageError`."""
    table = rules.option_table()
    return [
        (table.canonical(name), value_text(table.canonical(name), value, facts))
        for name, value in workload.options
    ]


def value_text(option: str, value: OptionValue, facts: Mapping[str, float]) -> str:
    """One value as fio reads it; ``option`` is canonical.

    true and false are 1 and 0, durations get a unit (fio cuts fractions of a second off),
    expressions get their value, and sizes in KiB, MiB … become bytes: fio 3 reads 64MiB as
    64,000,000 (kb_base=1024, for the sake of old job files), and 64m as 67,108,864.
    Raises :class:`~iotrial.errors.UsageError`.
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    text = str(value)
    if not text.isprintable():
        raise UsageError(f"{text!r} holds a character that cannot be shown")
    if "$" in text:
        raise UsageError(f"{text!r}: fio would put a shell or the environment to work; use cpus")
    if rules.option_table().kinds.get(option) == "number" or option.startswith("bs"):
        text = _IEC.sub(lambda found: str(parse_bytes(found[0])), text)
    if option in rules.SECONDS:
        # Only a start delay may be a range, from which fio draws.
        parts = text.split("-") if option == "startdelay" else [text]
        return "-".join(rules.spelled(rules.duration(part)) for part in parts)
    if rules.option_table().kinds.get(option) == "number" and not _LITERAL.fullmatch(text):
        return _whole(text, facts)
    return text


def _whole(text: str, facts: Mapping[str, float]) -> str:
    number = evaluate(text, facts)
    if 0 < number < 1:
        raise UsageError(f"{text!r} is {number:g} here: less than one")
    return str(math.floor(number))
