"""An Ansible inventory in INI form.

Source: ansible-core 2.19, the inventory plugin ``ini`` (sections, ``:children``, ``:vars``, words
of a host's line as a shell's, comments).
"""

from __future__ import annotations

import re
import shlex

from iotrial.plan.ansible import ALL, Inventory, spread
from iotrial.plan.host_entry import refuse, text_of

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_KINDS = ("", "children", "vars")
UNGROUPED = "ungrouped"


def parse(raw: bytes, file: str) -> Inventory:
    """Raises StudyError, naming the line."""
    found = Inventory(file)
    group, kind = UNGROUPED, ""
    for number, text in enumerate(text_of(raw, file).split("\n"), start=1):
        line = text.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and (match := _SECTION.fullmatch(line)):
            group, kind = match[1], match[2] or ""
            if kind not in _KINDS:
                advice = "[group], [group:children] and [group:vars] are known."
                raise refuse(file, number, f"a section of kind {kind!r}", advice)
            found.group(group)
        elif kind == "children":
            found.group(group).children[_words(line, file, number)[0]] = number
        elif kind == "vars":
            name, equals, value = line.partition("=")
            if not equals:
                raise refuse(file, number, f"not NAME=VALUE: {line[:60]!r}")
            found.group(group).said[name.strip()] = (_plain(value.strip()), number)
        elif line.startswith("[") and line.endswith("]") and ":" not in line:
            raise refuse(file, number, f"not a section: {line[:60]!r}")
        else:
            _host(found, group, line, number)
    return found


def _host(found: Inventory, group: str, line: str, number: int) -> None:
    first, *rest = _words(line, found.file, number)
    names, port = spread(first, found.file, number)
    said = {"ansible_port": (port, number)} if port else {}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals:
            advice = "After a host come variables, such as ansible_host=10.0.0.7"
            raise refuse(found.file, number, f"not NAME=VALUE: {word[:60]!r}", advice)
        said[name] = (value, number)
    found.add(group if group != ALL else UNGROUPED, names, said, number)


def _words(line: str, file: str, number: int) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise refuse(file, number, f"{error}: {line[:60]!r}", "Close the quotation.") from None
    if not words or not words[0]:
        raise refuse(file, number, f"no name: {line[:60]!r}")
    return words


def _plain(value: str) -> str:
    """Without the quotes around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
