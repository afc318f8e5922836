"""Is a test given up?  What tests said at former commits, against what they say and what is run.

    ./dev test --given-up [COMMIT…]

Every assertion of the tests at COMMIT must be here, and in a part of the tests that `./dev test` or
`./dev test --all` runs; so must every number and every parametrised case; and no way to end without
having judged may be new.  What is not so is named in tests/given_up.txt with its reason, which is
held against what is here; a text of the program that was reworded is named there once, as
`said OLD => NEW`.  Without COMMIT: the commits that this file names.

`./dev` says on standard input which parts it runs: a line of pytest's arguments for each.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assertions import Item, Said, by_place, said_in

LIST = "tests/given_up.txt"
FEWER = " fewer cases"
TELLING = 30  # characters of an assertion that another test does not repeat by chance


@dataclass(frozen=True)
class Gone:
    """Something that was said and is not: at FILE:LINE of the commit, and what is nearest to it."""

    where: str
    text: str
    at: str
    now: Item | None = None

    @property
    def key(self) -> str:
        return f"{self.where} | {self.text}"


@dataclass
class Entry:
    """One line of the list: what is gone, and what is said to be in its place."""

    line: int
    key: str
    now: list[str] = field(default_factory=list)
    needed: bool = False


class Names:
    """Classes that were renamed.  Former names and present ones become one word on both sides: a
    former name may have been that of several classes."""

    WORD = re.compile(r"\b[A-Za-z_]\w*\b")

    def __init__(self, joined: Iterable[Sequence[str]]) -> None:
        self._of: dict[str, str] = {}
        for kept, *others in joined:
            for name in others:
                self._join(self(kept), self(name), name)

    def _join(self, kept: str, gone: str, name: str) -> None:
        self._of |= {each: kept for each, of in self._of.items() if of == gone}
        self._of |= {name: kept, gone: kept, kept: kept}

    def __call__(self, name: str) -> str:
        return self._of.get(name, name)

    def text(self, text: str) -> str:
        return self.WORD.sub(lambda found: self(found[0]), text)

    def said(self, said: Said) -> Said:
        return replace(
            said,
            assertions=[replace(each, text=self.text(each.text)) for each in said.assertions],
            numbers=[replace(each, text=self.text(each.text)) for each in said.numbers],
            ways_out=[replace(each, text=self.text(each.text)) for each in said.ways_out],
        )


@dataclass
class Reworded:
    """One line ``said OLD => NEW``: a text of the program that many assertions repeat."""

    line: int
    old: str
    new: str
    needed: bool = False


class Listed:
    def __init__(self, text: str) -> None:
        self.bases: list[str] = []
        self.entries: list[Entry] = []
        self.reworded: list[Reworded] = []
        self.faults: list[str] = []
        lines = text.splitlines()
        self.names = Names(line.split()[1:] for line in lines if line.startswith("names "))
        reason = False
        for number, line in enumerate(map(self.names.text, lines), 1):
            if line.startswith("base "):
                self.bases.append(line.split()[1])
            elif line.startswith("names "):
                continue
            elif line.startswith("  now ") and self.entries:
                self.entries[-1].now.append(line.removeprefix("  now "))
            elif line.startswith("# "):
                reason = True
            elif line:
                old, arrow, new = line.removeprefix("said ").partition(" => ")
                if line.startswith("said ") and arrow and new:
                    self.reworded.append(Reworded(number, old, new))
                else:
                    self.entries.append(Entry(number, line))
                if not reason:
                    self.faults.append(f"{LIST}:{number}: no reason stands above it")
            else:
                reason = False

    def has(self, gone: Gone) -> bool:
        keys = {gone.key}
        if gone.text.startswith("case "):
            keys.add(f"{gone.where} | case *")
        if gone.text.endswith(FEWER):
            keys.add(f"{gone.where} |{FEWER}")
        found = [each for each in self.entries if {each.key, self.said_now(each.key)} & keys]
        for each in found:
            each.needed = True
        return bool(found)

    def said_now(self, text: str) -> str:
        """A text of a former commit, in the words that the program has now."""
        for each in sorted(self.reworded, key=lambda each: -len(each.old)):
            if each.old in text:
                each.needed = True
                text = text.replace(each.old, each.new)
        return text

    def in_new_words(self, base: Said) -> Said:
        def new(items: Iterable[Item]) -> list[Item]:
            return [replace(item, text=self.said_now(item.text)) for item in items]

        return replace(
            base,
            assertions=new(base.assertions),
            numbers=new(base.numbers),
            ways_out=new(base.ways_out),
        )


# --- what was said, and what is ------------------------------------------------------------------


def renamed(base: Said, head: Said) -> dict[str, str]:
    """A test that is gone, and a new one that asserts all that it did."""
    was, now = by_place(base.assertions), by_place(head.assertions)
    new = [each for each in now if each not in base.scopes]
    found: dict[str, str] = {}
    for where in was:
        if where in head.scopes:
            continue
        texts = Counter(item.text for item in was[where])
        for each in sorted(new, key=lambda each: (_file(each) != _file(where), each)):
            if texts <= Counter(item.text for item in now[each]):
                found[where] = each
                new.remove(each)
                break
    return found


def _file(where: str) -> str:
    return where.partition("::")[0]


def _is_test(where: str) -> bool:
    return where.rpartition("::")[2].startswith("test_")


class Left:
    """What is said here and nothing of the commit has been found in yet."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = list(items)

    def take(self, text: str, where: Iterable[str]) -> bool:
        places = set(where)
        for item in self.items:
            if item.text == text and item.where in places:
                self.items.remove(item)
                return True
        return False

    def nearest(self, text: str, places: Iterable[str]) -> Item | None:
        for place in places:
            here = {each.text: each for each in self.items if each.where == place}
            close = difflib.get_close_matches(text, here, 1, 0.3)
            if close:
                return here[close[0]]
        return None


def lost_assertions(base: Said, head: Said, names: Mapping[str, str]) -> Iterator[Gone]:
    left = Left(head.assertions)
    first = [
        item
        for item in base.assertions
        if not left.take(item.text, [names.get(item.where, item.where)])
    ]
    for item in first:
        # Elsewhere in its file: a helper, or a new test where this can be no chance.
        gone = item.where not in head.scopes
        places = [
            each
            for each in head.scopes
            if _file(each) == _file(item.where)
            and (
                gone
                or not _is_test(each)
                or (each not in base.scopes and len(item.text) >= TELLING)
            )
        ]
        if left.take(item.text, places):
            continue
        near = left.nearest(item.text, [names.get(item.where, item.where), *sorted(places)])
        yield Gone(item.where, item.text, f"{_file(item.where)}:{item.line}", near)


def lost_numbers(base: Said, head: Said, names: Mapping[str, str]) -> Iterator[Gone]:
    """Numbers of a test that are neither there nor in what its file says beside tests."""
    was, now = by_place(base.numbers), by_place(head.numbers)
    old = {names.get(where, where): items for where, items in was.items()}
    left = {where: _without(items, old.get(where, ())) for where, items in now.items()}
    beside: dict[str, Counter[str]] = defaultdict(Counter)
    for where, items in left.items():
        if not _is_test(where):
            beside[_file(where)].update(_numbers(items))
    asserted = {item.where for item in base.assertions}
    for where, items in was.items():
        here = names.get(where, where)
        if here not in head.scopes and where in asserted:
            continue  # told assertion by assertion
        own = _numbers(left.get(here, ()))
        for item in _without(items, now.get(here, ())):
            missing = [each for each in item.numbers if not _take(each, own, beside[_file(here)])]
            if missing:
                text = f"{', '.join(missing)} in {_short(item.text)}"
                near = Left(left.get(here, ())).nearest(item.text, [here])
                yield Gone(where, text, f"{_file(where)}:{item.line}", near)


def _without(items: Iterable[Item], others: Iterable[Item]) -> list[Item]:
    rest = Left(others)
    return [item for item in items if not rest.take(item.text, [each.where for each in rest.items])]


def _numbers(items: Iterable[Item]) -> Counter[str]:
    return Counter(number for item in items for number in item.numbers)


def _take(number: str, *pools: Counter[str]) -> bool:
    for pool in pools:
        if pool[number]:
            pool[number] -= 1
            return True
    return False


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:80]} … {text[-18:]}"


def new_ways_out(base: Said, head: Said, names: Mapping[str, str]) -> Iterator[Gone]:
    """In tests that were there: those that are new may end as they like."""
    were = Counter((names.get(item.where, item.where), item.text) for item in base.ways_out)
    known = {names.get(each, each) for each in base.scopes}
    for item in head.ways_out:
        if were[item.where, item.text]:
            were[item.where, item.text] -= 1
        elif item.where in known:
            at = f"here at {_file(item.where)}:{item.line}"
            yield Gone(item.where, f"new: {item.text}", at, None)


def differences(base: Said, head: Said, names: Mapping[str, str]) -> list[Gone]:
    return [
        *lost_assertions(base, head, names),
        *lost_numbers(base, head, names),
        *new_ways_out(base, head, names),
    ]


# --- what is run ---------------------------------------------------------------------------------


def collected(root: Path, arguments: Sequence[str]) -> set[str]:
    """The names of the tests that pytest would run; -n 0 because nothing is."""
    environment = dict(os.environ, PYTHONPATH=str(root / "src"))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts="]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments, "-n", "0"],
        cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if done.returncode not in {0, 5}:  # 5: no test in it
        sys.exit(f"given_up: pytest {shlex.join(arguments)} in {root}: {done.stdout[-2000:]}")
    lines = done.stdout.splitlines()
    return {line for line in lines if line.startswith("tests/") and "::" in line}


def everything(root: Path) -> set[str]:
    """Of all folders, one by one: each may have a conftest of its own."""
    folders = sorted({path.parent for path in (root / "tests").rglob("test_*.py")})
    return set().union(
        *(collected(root, ["--all", str(each.relative_to(root))]) for each in folders)
    )


def lost_cases(
    base: set[str], head: set[str], names: Mapping[str, str], gone: set[str]
) -> Iterator[Gone]:
    """A test that had no cases may have some now."""
    there = {each.partition("[")[0] for each in head}
    for each in sorted(base - head):
        where, bracket, case = each.partition("[")
        here = names.get(where, where)
        if where not in gone and (
            here not in there if not case else here + bracket + case not in head
        ):
            yield Gone(where, f"case {bracket}{case}" if case else "the test", _file(where))


def fewer_cases(
    base: set[str], head: set[str], names: Mapping[str, str], lost: Iterable[Gone]
) -> Iterator[Gone]:
    """Cases that are named all at once (``case *``) may have other names, and not be fewer, unless
    that is named too (``fewer cases``)."""
    for where in sorted({each.where for each in lost if each.text.startswith("case ")}):
        here = names.get(where, where)
        were, are = (
            sum(each.startswith(f"{of}[") for each in run)
            for of, run in ((where, base), (here, head))
        )
        if are < were:
            yield Gone(where, f"{were - are} of {were}{FEWER}", _file(where))


def not_run(run: set[str], said: Said) -> list[str]:
    known = {each.partition("[")[0] for each in run}
    return sorted(each for each in said.scopes - known if _is_test(each))


# --- the answer ----------------------------------------------------------------------------------


def against(commit: str, root: Path, head: Said, run: set[str], listed: Listed) -> list[Gone]:
    with tempfile.TemporaryDirectory(prefix="given-up-") as folder:
        packed = subprocess.run(
            ["git", "-C", str(root), "archive", commit], capture_output=True, check=False
        )
        if packed.returncode:
            sys.exit(f"given_up: {packed.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        base = listed.in_new_words(listed.names.said(said_in(Path(folder))))
        cases = set(map(listed.names.text, everything(Path(folder))))
        were = {each if each in run else listed.said_now(each) for each in cases}
    names = renamed(base, head)
    gone = {each for each in base.scopes if names.get(each, each) not in head.scopes}
    told = {item.where for item in base.assertions} & gone
    say(
        f"{commit}: {len(base.assertions)} assertions in {len(base.scopes)} places,"
        f" {len(were)} cases of tests; {len(names)} tests have another name now"
    )
    lost = list(lost_cases(were, run, names, told))
    return [*differences(base, head, names), *lost, *fewer_cases(were, run, names, lost)]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def tell(commit: str, gone: Gone) -> None:
    say(f"\n{gone.at}: {gone.where}")
    if not gone.text.startswith("new: "):
        say(f"  was at {commit}: {gone.text}")
    if gone.now:
        say(f"  nearest now:    {gone.now.text}\n    at {_file(gone.now.where)}:{gone.now.line}")
    say(f"  bring it back, or name it in {LIST} below its reason:\n{gone.key}")
    if gone.now:
        say(f"  now {gone.now.where} | {gone.now.text}")


def main(words: Sequence[str], parts: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(prog="given_up")
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    asked = parser.parse_args(words)
    listed = Listed((asked.root / LIST).read_text("utf-8"))
    arguments = [shlex.split(line) for line in parts if line.strip()]
    names = listed.names
    head = names.said(said_in(asked.root))
    run = set().union(*(collected(asked.root, ["--all", *each]) for each in arguments))
    cases = set(map(names.text, run))
    idle = not_run(run, head)
    for where in idle:
        say(f"{_file(where)}: no part of the tests runs {where}")
    wrong = len(idle)
    for commit in asked.commits or listed.bases:
        for gone in against(commit, asked.root, head, cases, listed):
            if not listed.has(gone):
                tell(commit, gone)
                wrong += 1
    faults = [*listed.faults, *replaced(listed, head)]
    if not asked.commits:
        faults += [
            f"{LIST}:{each.line}: nothing needs it any more: {each.key}"
            for each in listed.entries
            if not each.needed
        ]
        faults += [
            f"{LIST}:{each.line}: nothing needs it any more: said {each.old}"
            for each in listed.reworded
            if not each.needed
        ]
    for fault in faults:
        say(fault)
    say(
        f"\n{len(run)} cases of tests are run by all parts;"
        f" {len(listed.entries)} changes are named with a reason"
    )
    say(f"given up without a reason: {wrong}" if wrong else "no test is given up")
    return 1 if wrong or faults else 0


def replaced(listed: Listed, head: Said) -> Iterator[str]:
    """What is said to be in the place of something must be there."""
    said = {f"{each.where} | {each.text}" for each in (*head.assertions, *head.numbers)}
    for entry in listed.entries:
        for now in entry.now:
            if not {now, listed.said_now(now)} & said:
                yield f"{LIST}:{entry.line}: is not there: {now}"
    texts = [each.text for each in (*head.assertions, *head.numbers)]
    for each in listed.reworded:
        if not any(each.new in text for text in texts):
            yield f"{LIST}:{each.line}: is not there: said {each.new}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin))
