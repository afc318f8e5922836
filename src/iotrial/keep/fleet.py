"""A fleet: the same files on many hosts, by a shell script or an Ansible role.

``apply.sh`` needs POSIX sh and coreutils; it keeps what was there in a folder of its own, which
``undo.sh`` gives back.  Neither reads anything but the files beside it; every name and text is
quoted.  Live values that no file's program sets come at the next boot.

Hosts that get the very same files are a group.  Several groups have a folder and a role
each; the inventory says which hosts are in which, and how each is reached.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from iotrial.hosts.login import login
from iotrial.keep.native import NativeFile
from iotrial.keep.profile import Profile, plain
from iotrial.model.study import StudyHost

_APPLY = """\
#!/bin/sh
# {title}
# Puts the files beside this script in place; run as root.  undo.sh restores the former files.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
old=/var/lib/iotrial/kept-by-hand/{name}
[ "$(id -u)" -eq 0 ] || {{ echo 'run as root' >&2; exit 2; }}
[ ! -e "$old" ] || {{ echo "$old is there: undo.sh first" >&2; exit 3; }}
umask 022
mkdir -p -- "$old.new"
# put PATH MODE
put() {{
    mkdir -p -- "$(dirname -- "$1")"
    if [ -e "$1" ] || [ -L "$1" ]; then
        mkdir -p -- "$old.new$(dirname -- "$1")"
        cp -a -- "$1" "$old.new$1"
    fi
}}
place() {{
    cp -- "$here/files$1" "$1.iotrial-new"
    chmod "$2" -- "$1.iotrial-new"
    mv -fT -- "$1.iotrial-new" "$1"
}}
# try COMMAND…: one that is not installed has nothing to be told.
try() {{
    command -v "$1" >/dev/null 2>&1 || return 0
    "$@"
}}
{put}mv -T -- "$old.new" "$old"
{place}{commands}echo 'in place; undo: undo.sh'
"""
_UNDO = """\
#!/bin/sh
# {title}
# Restores the former files that apply.sh found; run as root.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
old=/var/lib/iotrial/kept-by-hand/{name}
[ -d "$old" ] || {{ echo "$old is not there: nothing to undo" >&2; exit 3; }}
# back PATH: what was made of it since is saved beside.
back() {{
    if [ -e "$1" ] || [ -L "$1" ]; then
        if [ -L "$1" ] || ! cmp -s -- "$here/files$1" "$1"; then
            mv -T --backup=numbered -- "$1" "$1.iotrial-saved"
            echo "$1 was changed since: that is saved as $1.iotrial-saved"
        fi
    fi
    if [ -e "$old$1" ] || [ -L "$old$1" ]; then
        cp -aT -- "$old$1" "$1.iotrial-new"
        mv -fT -- "$1.iotrial-new" "$1"
    else
        rm -f -- "$1"
    fi
}}
try() {{
    command -v "$1" >/dev/null 2>&1 || return 0
    "$@"
}}
{unload}{back}{commands}rm -rf -- "$old"
echo 'as before; values that are in force stay until a reboot'
"""


Out = tuple[str, str, bool]
"""(path below the export's folder, text, whether it is executed)."""


def exports(
    name: str, shares: Mapping[StudyHost, tuple[Profile, Sequence[NativeFile]]]
) -> Iterator[Out]:
    """Everything that is exported of a profile: of one machine, or of each of several."""
    groups = grouped(shares)
    plays: list[str] = []
    for group, places in groups.items():
        profile, files = shares[places[0]]
        below = f"hosts/{group}/" if len(groups) > 1 else ""
        for path, each in {each.path.lstrip("/"): each for each in files}.items():
            yield f"{below}files/{path}", each.text, each.program
        placed = [each for each in files if not each.people]
        if placed:
            role = _role_name(name, group if len(groups) > 1 else "")
            yield from ((below + path, text, True) for path, text in scripts(profile, placed))
            yield from _role(f"ansible/roles/{role}", placed)
            plays += _play(name, role if len(shares) > 1 else "all", role)
    if plays:
        yield "ansible/site.yml", "\n".join(["---", *plays]) + "\n", False
    if plays and len(shares) > 1:
        alone = len(groups) == 1
        named = {_role_name(name, "" if alone else each): groups[each] for each in groups}
        yield "ansible/inventory.yml", inventory(named), False


def grouped(
    shares: Mapping[StudyHost, tuple[Profile, Sequence[NativeFile]]],
) -> dict[str, tuple[StudyHost, ...]]:
    """The hosts that get the very same files, by the name of their first."""
    found: dict[object, list[StudyHost]] = {}
    for place, (_, files) in shares.items():
        same = tuple((each.path, each.text, each.program) for each in files)
        found.setdefault(same, []).append(place)
    named: dict[str, tuple[StudyHost, ...]] = {}
    for places in found.values():
        short = re.sub(r"[^A-Za-z0-9_]", "_", places[0].name)
        name = short if short not in named else f"{short}_{len(named)}"
        named[name] = tuple(places)
    return named


def scripts(profile: Profile, placed: Sequence[NativeFile]) -> Iterator[tuple[str, str]]:
    """``apply.sh`` and ``undo.sh`` for these files."""
    title = plain(f"iotrial keep: {profile.name}")
    names = [shlex.quote(each.path) for each in placed]
    modes = ["755" if each.program else "644" for each in placed]
    reload = _commands(placed, "reload")
    yield (
        "apply.sh",
        _APPLY.format(
            title=title,
            name=profile.name,
            put="".join(f"put {name}\n" for name in names),
            place="".join(
                f"place {name} {mode}\n" for name, mode in zip(names, modes, strict=True)
            ),
            commands=reload + _commands(placed, "load"),
        ),
    )
    yield (
        "undo.sh",
        _UNDO.format(
            title=title,
            name=profile.name,
            back="".join(f"back {name}\n" for name in names),
            unload=_commands(placed, "unload", " || :"),
            commands=reload,
        ),
    )


def _commands(files: Sequence[NativeFile], which: str, end: str = "") -> str:
    commands = dict.fromkeys(c for each in files for c in getattr(each, which))
    return "".join(f"try {shlex.join(command)}{end}\n" for command in commands)


def _role_name(name: str, group: str) -> str:
    """As Ansible wants its variables: letters, digits, underscores."""
    return "_".join(("iotrial", name.replace("-", "_"), *([group] if group else [])))


def _role(role: str, files: Sequence[NativeFile]) -> Iterator[Out]:
    """An Ansible role: its files are copied as they are, and handlers tell the programs.

    The YAML is made of JSON's texts, which are YAML's too (YAML 1.2, section 1.3).  A file with
    ``{{`` in it is copied, not templated.
    """
    lines = ["---"]
    handlers: dict[tuple[str, ...], str] = {}
    for at, each in enumerate(files):
        source = f"{at:02d}-{each.path.rpartition('/')[2]}"
        yield f"{role}/files/{source}", each.text, False
        told = [handlers.setdefault(c, _call(c)) for c in (*each.reload, *each.load)]
        lines += [
            f"- name: {_yaml(f'Folder of {each.path}')}",
            "  ansible.builtin.file:",
            f"    path: {_yaml(each.path.rpartition('/')[0])}",
            "    state: directory",
            f"- name: {_yaml(f'File {each.path}')}",
            "  ansible.builtin.copy:",
            f"    src: {_yaml(source)}",
            f"    dest: {_yaml(each.path)}",
            f"    mode: {_yaml('0755' if each.program else '0644')}",
            "    backup: true",
            *(["  notify:", *(f"    - {_yaml(name)}" for name in told)] if told else []),
        ]
    yield f"{role}/tasks/main.yml", "\n".join(lines) + "\n", False
    lines = ["---"]
    for command, name in handlers.items():
        lines += [
            f"- name: {_yaml(name)}",
            "  ansible.builtin.command:",
            "    argv:",
            *(f"      - {_yaml(word)}" for word in command),
            "  changed_when: true",
        ]
    yield f"{role}/handlers/main.yml", "\n".join(lines) + "\n", False


def _play(name: str, hosts: str, role: str) -> list[str]:
    return [
        f"- name: {_yaml(plain(f'iotrial keep {name}'))}",
        f"  hosts: {hosts}",
        "  gather_facts: false",
        "  become: true",
        "  roles:",
        f"    - {_yaml(role)}",
    ]


def inventory(groups: Mapping[str, Sequence[StudyHost]]) -> str:
    """An Ansible inventory: each group with its hosts, and how each is reached."""
    lines = ["---"]
    for group, places in groups.items():
        lines += [f"{group}:", "  hosts:"]
        for place in places:
            lines.append(f"    {_yaml(place.name)}:")
            lines += [f"      {key}: {_yaml(value)}" for key, value in _connection(place).items()]
    return "\n".join(lines) + "\n"


def _connection(place: StudyHost) -> dict[str, str]:
    """How Ansible reaches what ``ssh`` says; what is no option of its own goes to its ssh.  How it
    reaches what a plugin does (``via``), is for its user to say."""
    if not place.ssh:
        return {} if place.via else {"ansible_connection": "local"}
    options, where = login(place.ssh)
    user, at, host = where.rpartition("@")
    found = {"ansible_host": host}
    found |= {"ansible_user": user} if at else {}
    rest: list[str] = []
    for option, value in options:
        if option in _OWN_VARIABLES:
            found[_OWN_VARIABLES[option]] = value
        else:
            rest += [option, value] if value else [option]
    return found | ({"ansible_ssh_common_args": shlex.join(rest)} if rest else {})


_OWN_VARIABLES = {"-p": "ansible_port", "-l": "ansible_user", "-i": "ansible_private_key_file"}


def _call(command: Sequence[str]) -> str:
    return f"Call {shlex.join(command)}"


def _yaml(text: str) -> str:
    """A text in double quotes, which Ansible takes for no template."""
    quoted = json.dumps(text)
    return f"!unsafe {quoted}" if any(sign in text for sign in ("{{", "{%", "{#")) else quoted
