"""I/O schedulers: every one takes every setting of its queue, and gives it back.

Each setting is changed, read back, given back and read back.  They are those of the catalogue
(:mod:`iotrial.tunables`), and other values are taken from their domains.  What a setting is known
to move may move; anything else that differs at the end is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iotrial.model.tunable import Tunable
from iotrial.tunables import families
from iotrial_suites.case import (
    MIB,
    Case,
    CaseContext,
    CaseFailed,
    CaseNeeds,
    CaseNotRun,
    CommandResult,
    Script,
    case,
)
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.vocabulary import Doing, expect, join, note, read, run, start, writing

_SCHEDULER = "queue.scheduler"
_SKIPPED = frozenset({_SCHEDULER, "queue.wbt_lat_usec"})
"""The scheduler is the case itself; wbt_lat_usec, once written, does not follow the scheduler any
more until the device goes, and no file shows that."""
_LOOK = """\
cd "$1" || exit
status=0
if [ "$#" = 3 ]; then
    printf %s "$3" | dd of="$2" bs=64k conv=notrunc status=none
    status=$?
fi
for file in * iosched/*; do
    [ -f "$file" ] && read -r value 2>/dev/null <"$file" && printf '%s\\t%s\\n' "$file" "$value"
done
exit "$status"
"""
"""Arguments: a queue's folder; a file in it and what to write into it first, if anything.  Prints
every file that can be read, and what it says."""

CHANGES = tuple(row for row in families()["queue"] if row.name not in _SKIPPED)


def name_of(node: str) -> str:
    """``/dev/loop7`` → ``loop7``, as /sys/block has it."""
    return node.removeprefix("/dev/").replace("/", "!")


def folder_of(node: str) -> str:
    return f"/sys/block/{name_of(node)}/queue"


def offered(node: str) -> Doing[tuple[str, ...]]:
    """The schedulers that the kernel offers for a device, modules not loaded left out."""
    text = yield from read(f"{folder_of(node)}/scheduler")
    return tuple(text.replace("[", "").replace("]", "").split())


def select(node: str, scheduler: str) -> Doing[None]:
    """Set a scheduler and see it in force.  Raises NotHere where the kernel does not offer it."""
    path = f"{folder_of(node)}/scheduler"
    said = yield from run(*writing(path), stdin=scheduler, exits=None)
    if said.exit:
        there = yield from offered(node)
        if scheduler not in there:
            raise CaseNotRun(f"this kernel has no {scheduler} for {node}: {', '.join(there)}")
        raise CaseFailed(f"{scheduler} is offered for {node}, and refused: {said.complaint}")
    now = yield from read(path)
    expect(f"[{scheduler}]" in now.split(), f"{scheduler} was written, and {path} reads {now!r}")


def values(node: str) -> Doing[dict[str, str]]:
    """What every file of the queue reads, by its name below ``queue/``."""
    said = yield from run("sh", "-c", _LOOK, "iotrial-look", folder_of(node))
    return _parsed(said)


def put(node: str, file: str, value: str) -> Doing[tuple[str, dict[str, str]]]:
    """Write a file of the queue, in one write(2): why it was refused ('': it was not), and what
    every file reads afterwards."""
    argv = ("sh", "-c", _LOOK, "iotrial-put", folder_of(node), file, value)
    said = yield from run(*argv, exits=None)
    return said.complaint if said.exit else "", _parsed(said)


def _parsed(said: CommandResult) -> dict[str, str]:
    pairs = (line.partition("\t") for line in said.stdout.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def others(row: Tunable, value: str) -> Iterator[str]:
    """Values to try in place of this one, the likeliest first: all other choices, or numbers near
    it within the domain."""
    domain = row.domain(value.encode())
    for choice in domain.choices:
        if choice != value:
            yield choice
    if domain.choices or not value.lstrip("-").isdigit():
        return
    number = int(value)
    nearby = (number // 2, number - 1, number + 1, 4, 64)
    # Times are kept in ticks of the kernel: twice a whole number of ticks is one too.
    tried = (number * 2, *nearby) if row.unit == "ms" else (*nearby, number * 2)
    for other in dict.fromkeys(tried):
        if other != number and other >= 0 and not domain.refusal(str(other)):
            yield str(other)


def takes_every_setting(scheduler: str) -> Case:
    """The case of one scheduler."""

    def steps(scene: CaseContext) -> Script:
        node = scene.devices[0]
        before = yield from offered(node)
        expect(before, f"/sys/block/{name_of(node)}/queue/scheduler reads nothing")
        yield from select(node, scheduler)
        start = yield from values(node)
        rows = [row for row in CHANGES if file_of(row) in start]
        expect(rows, f"none of the settings of {scheduler} is there")
        for row in rows:
            yield from _there_and_back(node, row, start[file_of(row)])
        yield from _as_at_the_start(node, start)

    return Case(
        name=scheduler,
        title=f"{scheduler} takes every setting of the queue, and gives it back",
        steps=steps,
        needs=CaseNeeds(devices=1),
    )


def file_of(row: Tunable) -> str:
    """Its file, below ``queue/``."""
    return row.path.partition("/queue/")[2]


def _there_and_back(node: str, row: Tunable, was: str) -> Doing[None]:
    """Change a setting, see the change, give it back, see that."""
    file = file_of(row)
    path = f"{folder_of(node)}/{file}"
    for value in others(row, was):
        refused, now = yield from put(node, file, value)
        if not refused:
            expect(
                row.observe(now.get(file, "").encode()) == value,
                f"{path} took {value} for {was}, and reads {now.get(file)!r}",
            )
            break
        # Domains are wider than what one device takes: a refusal is an answer, but must be one.
        still = now.get(file)
        expect(still == was, f"{path} refused {value}, and reads {still!r} instead of {was}")
    else:
        return
    refused, now = yield from put(node, file, was)
    expect(not refused, f"{path} read {was}, and does not take it back: {refused}")
    expect(now.get(file) == was, f"{path} was restored to {was}, but reads {now.get(file)!r}")


def _as_at_the_start(node: str, start: Mapping[str, str]) -> Doing[None]:
    """What was moved along goes back too; then nothing differs."""
    now = yield from values(node)
    for row in CHANGES:
        file = file_of(row)
        if file in start and now.get(file) != start[file]:
            _, now = yield from put(node, file, start[file])
    different = [
        f"{f}: {start[f]} before, {now.get(f)} now" for f in start if now.get(f) != start[f]
    ]
    expect(not different, f"the queue of {node} is not as it was: {'; '.join(different)}")


BFQ = takes_every_setting("bfq")


KYBER = takes_every_setting("kyber")


MQ_DEADLINE = takes_every_setting("mq-deadline")


NONE = takes_every_setting("none")


@case(
    "refuses-unknown",
    "An unknown scheduler is refused, and nothing changes",
    CaseNeeds(devices=1),
)
def refuses_unknown_case(scene: CaseContext) -> Script:
    """A name that no scheduler has is refused, and changes nothing."""
    node = scene.devices[0]
    before = yield from values(node)
    refused, after = yield from put(node, "scheduler", "iotrial-none")
    expect(refused, "a scheduler that does not exist was taken")
    changed = [name for name in before if after.get(name) != before[name]]
    expect(not changed, f"refusing an unknown scheduler changed {', '.join(changed)}")


ROUNDS = 3
COUNT = 48
# The end of a pipe says nothing of what could not be read at its beginning: so the shell is ended.
_SUM = '{ dd if="$1" bs=1M count="$2" iflag=direct status=none || kill "$$"; } | sha256sum'
_REWRITE = """\
for round in 1 2 3 4; do
    at=0
    while [ "$at" -lt "$2" ]; do
        { dd if="$1" bs=1M skip="$at" count=8 iflag=direct status=none || kill "$$"; } |
            dd of="$1" bs=1M seek="$at" oflag=direct iflag=fullblock conv=notrunc status=none ||
            exit
        at=$((at + 8))
    done
done
"""
"""Arguments: a device, MiB.  Reads each part and writes it where it was: nothing may change."""


@case(
    "switch-under-load",
    "Schedulers are switched under load, and no byte is lost",
    CaseNeeds(devices=1, size=64 * MIB),
)
def switch_under_load_case(scene: CaseContext) -> Script:
    """Schedulers are switched while the device is read and written, and no byte is lost."""
    node = scene.devices[0]
    there = yield from offered(node)
    expect(there, f"no scheduler is offered for {node}")
    # What is written must not be all zeros: a lost write would look like one that was done.
    yield from run(
        "dd", "if=/dev/urandom", f"of={node}", "bs=1M", f"count={COUNT}", "oflag=direct",
        "status=none",
    )  # fmt: skip
    before = yield from run("sh", "-c", _SUM, "iotrial-sum", node, str(COUNT))
    load = yield from start("sh", "-c", _REWRITE, "iotrial-load", node, str(COUNT), within=600.0)
    for _ in range(ROUNDS):
        for scheduler in there:
            yield from select(node, scheduler)
    yield from join(load, within=600.0)
    after = yield from run("sh", "-c", _SUM, "iotrial-sum", node, str(COUNT))
    yield from note(f"{ROUNDS} rounds through {', '.join(there)}")
    expect(before.stdout == after.stdout, "what is on the device changed under the load")


SUITE = suite_of(__name__, "I/O schedulers take and restore every setting")
