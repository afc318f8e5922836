"""Words for a file system that several hosts have mounted at once: all work in it, then every byte
is looked at, on every host.

Each host makes files, renames them into a folder of all, and appends lines to one file of all,
under a lock of all: what ``O_APPEND`` promises is not kept between hosts.
Sources: open(2) (``O_APPEND``), rename(2), flock(1).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from iotrial_suites.case import MIB, Failed, Needs, Scene
from iotrial_suites.suites.vocabulary import Doing, expect, join, mount, note, run, start

NEEDS = Needs(commands=("flock",), hosts=2, devices=1, size=128 * MIB, shared=True)
COUNT = 30
"""Files and lines of each host."""
SLOW = 240.0
"""Seconds for what asks the other hosts again and again."""
_WORK = """\
cd "$1" || exit
host=$2 count=$3 number=1
mkdir "of-$host" || exit
while [ "$number" -le "$count" ]; do
    printf 'file %s of host %s\\n' "$number" "$host" >"of-$host/new" &&
        mv "of-$host/new" "all/$host-$number" || exit
    { flock 9 && printf 'line %s of host %s\\n' "$number" "$host" >>lines; } 9>>lock || exit
    number=$((number + 1))
done
sync -f .
"""
"""Arguments: the folder, the host's number, how many."""
_LINES = 'cd "$1" && LC_ALL=C sort lines | sha256sum && wc -l <lines'
_FILES = """\
cd "$1/all" || exit
host=0
while [ "$host" -lt "$2" ]; do
    number=1
    while [ "$number" -le "$3" ]; do
        cat "$host-$number"
        number=$((number + 1))
    done
    host=$((host + 1))
done | sha256sum
ls | wc -l
"""


TURNS = 20
"""Lines that hosts append in turn."""
_TURNS = """\
cd "$1" || exit
turn=$2
exec 9>>in-turn || exit
while [ "$turn" -lt "$4" ]; do
    until [ -e "turns/$turn" ]; do sleep 0.1; done
    printf 'turn %05d\\n' "$turn" >&9 || exit
    while read -r word at; do
        [ "$word" != pos: ] || echo "$turn $at"
    done <"/proc/$$/fdinfo/9"
    turn=$((turn + 1))
    : >"turns/$turn"
    turn=$((turn + $3 - 1))
done
"""
"""Arguments: the folder, the host's number, how many hosts, how many turns.  The file stays open.
Prints of each turn where it came to its end, as proc(5) has it of the open file: nothing is asked
that would have the host look how long the file is."""
_TURN = len("turn 00000\n")


def needs(*commands: str, module: str) -> Needs:
    return replace(NEEDS, commands=(*NEEDS.commands, *commands), modules=(module,))


def mounted(scene: Scene, type: str) -> Doing[tuple[str, ...]]:  # noqa: A002 (as mount -t)
    """Mount it on every host; gives back the folder of each."""
    points = []
    for on, node in enumerate(scene.nodes):
        points.append((yield from mount(node.devices[0], type, on=on)))
    return tuple(points)


def worked(scene: Scene, points: tuple[str, ...]) -> Doing[None]:
    """Have all hosts work at once, to their end."""
    yield from run("mkdir", f"{points[0]}/all")
    under_way = []
    for on in range(len(scene.nodes)):
        argv = ("sh", "-c", _WORK, "iotrial-work", points[on], str(on), str(COUNT))
        under_way.append((yield from start(*argv, on=on, within=SLOW)))
    for each in under_way:
        yield from join(each, within=SLOW)


def looked(scene: Scene, points: tuple[str, ...], when: str, *, hosts: int = 0) -> Doing[None]:
    """See that each host (or the first so many) has every byte that all have written."""
    many = len(scene.nodes)
    for on in range(hosts or many):
        name = scene.nodes[on].name
        said = yield from run("sh", "-c", _LINES, "iotrial-lines", points[on], on=on, within=SLOW)
        sum_, lines = said.stdout.split("-")
        expect(
            int(lines) == many * COUNT,
            f"{name} finds {lines.strip()} lines instead of {many * COUNT} {when}",
        )
        expect(sum_.strip() == lines_of(many), f"{name} finds other lines than were written {when}")
        argv = ("sh", "-c", _FILES, "iotrial-files", points[on], str(many), str(COUNT))
        said = yield from run(*argv, on=on, within=SLOW)
        sum_, files = said.stdout.split("-")
        expect(
            int(files) == many * COUNT,
            f"{name} finds {files.strip()} files instead of {many * COUNT} {when}",
        )
        expect(sum_.strip() == files_of(many), f"{name} finds other bytes in files {when}")


def in_turn(scene: Scene, points: tuple[str, ...]) -> Doing[None]:
    """Have the hosts append lines to one file in turn, each when that before is written; see that
    each line was written behind the one before, and that every host finds them all."""
    many = len(scene.nodes)
    yield from run("mkdir", f"{points[0]}/turns")
    yield from run("touch", f"{points[0]}/in-turn", f"{points[0]}/turns/0")
    under_way = []
    for on in range(many):
        argv = ("sh", "-c", _TURNS, "iotrial-turns", points[on], str(on), str(many), str(TURNS))
        under_way.append((yield from start(*argv, on=on, within=SLOW)))
    ends: dict[int, int] = {}
    for each in under_way:
        said = yield from join(each, within=SLOW)
        ends |= {int(turn): int(at) for turn, at in map(str.split, said.stdout.splitlines())}
    expect(len(ends) == TURNS, f"{len(ends)} of {TURNS} turns were taken")
    over = [turn for turn in range(TURNS) if ends[turn] < (turn + 1) * _TURN]
    if over:
        first = over[0]
        yield from note(f"the turns ended at byte {[ends[turn] for turn in range(TURNS)]}")
        raise Failed(
            f"{len(over)} of {TURNS} lines, appended in turn, came over what another host had "
            f"appended: {scene.nodes[first % many].name} wrote turn {first} up to byte "
            f"{ends[first]}, where the file had {first * _TURN} before"
        )
    for on in range(many):
        said = yield from run("cat", f"{points[on]}/in-turn", on=on, within=SLOW)
        expect(
            said.stdout == turns_of(),
            f"{scene.nodes[on].name} finds other lines than were appended in turn",
        )


def turns_of() -> str:
    """The lines that were appended in turn."""
    return "".join(f"turn {turn:05}\n" for turn in range(TURNS))


def lines_of(hosts: int) -> str:
    """The checksum of the lines, sorted."""
    return _sum(sorted(_all("line", hosts)))


def files_of(hosts: int) -> str:
    """The checksum of the files, one after the other."""
    return _sum(_all("file", hosts))


def _all(word: str, hosts: int) -> list[str]:
    return [f"{word} {n} of host {on}\n" for on in range(hosts) for n in range(1, COUNT + 1)]


def _sum(words: list[str]) -> str:
    return hashlib.sha256("".join(words).encode()).hexdigest()


def unmounted(scene: Scene, points: tuple[str, ...]) -> Doing[None]:
    """Unmount it everywhere, the first host last."""
    for on in reversed(range(len(scene.nodes))):
        yield from run("umount", points[on], on=on, within=SLOW)
