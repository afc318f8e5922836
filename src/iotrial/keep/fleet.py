"""A fleet: the same files on many hosts, by a shell script or an Ansible role.

``apply.sh`` needs POSIX sh and coreutils; it keeps what was there in a folder of its own, which
``undo.sh`` gives back.  Neither reads anything but the files beside it; every name and text is
quoted.  Live values that no file's program sets come at the next boot.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from iotrial.keep.native import NativeFile
from iotrial.keep.profile import Profile, plain

_APPLY = """\
#!/bin/sh
# {title}
# Puts the files beside this script in place; run as root.  undo.sh gives back what was there.
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
    if [ -e "$1" ]; then
        mkdir -p -- "$old.new$(dirname -- "$1")"
        cp -a -- "$1" "$old.new$1"
    fi
}}
place() {{
    cp -- "$here/files$1" "$1.iotrial-new"
    chmod "$2" -- "$1.iotrial-new"
    mv -f -- "$1.iotrial-new" "$1"
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
# Gives back what apply.sh found; run as root.
set -eu
old=/var/lib/iotrial/kept-by-hand/{name}
[ -d "$old" ] || {{ echo "$old is not there: nothing to undo" >&2; exit 3; }}
# back PATH
back() {{
    if [ -e "$old$1" ]; then
        cp -a -- "$old$1" "$1.iotrial-new"
        mv -f -- "$1.iotrial-new" "$1"
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


def fleet(profile: Profile, files: Sequence[NativeFile]) -> Iterator[tuple[str, str, bool]]:
    """(path below the export's folder, text, whether it is executed)."""
    placed = [each for each in files if not each.people]
    if not placed:
        return
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
        True,
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
        True,
    )
    yield from _role(profile, placed)


def _commands(files: Sequence[NativeFile], which: str, end: str = "") -> str:
    commands = dict.fromkeys(c for each in files for c in getattr(each, which))
    return "".join(f"try {shlex.join(command)}{end}\n" for command in commands)


def _role(profile: Profile, files: Sequence[NativeFile]) -> Iterator[tuple[str, str, bool]]:
    """An Ansible role: its files are copied as they are, and handlers tell the programs.

    The YAML is made of JSON's texts, which are YAML's too (YAML 1.2, section 1.3).  A file with
    ``{{`` in it is copied, not templated.
    """
    role = f"ansible/roles/iotrial_{profile.name.replace('-', '_')}"
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
            f"    argv: {json.dumps(list(command))}",
            "  changed_when: true",
        ]
    yield f"{role}/handlers/main.yml", "\n".join(lines) + "\n", False
    play = [
        "---",
        f"- name: {_yaml(plain(f'iotrial keep {profile.name}'))}",
        "  hosts: all",
        "  gather_facts: false",
        "  become: true",
        "  roles:",
        f"    - {_yaml(role.rpartition('/')[2])}",
    ]
    yield "ansible/site.yml", "\n".join(play) + "\n", False


def _call(command: Sequence[str]) -> str:
    return f"Call {shlex.join(command)}"


def _yaml(text: str) -> str:
    """A text in double quotes, which Ansible takes for no template."""
    quoted = json.dumps(text)
    return quoted if "{{" not in text and "{%" not in text else f"!unsafe {quoted}"
