"""Names of files: which are copies of others, and what the words of the others tell.  Pure.

Copies: a file that is another one under another name says nothing new.  Two files are one where
their bytes are the same, or where the runs in them began at the same moment and have the same name
and the same numbers throughout (the same output, indented otherwise).  Of a file that does not say
when its runs were, another date in its name says so: few rounded numbers are soon the same on two
days.  Logs of fio are so only where they are of the same kind and job: with blocks of 1 KiB a log
of bandwidth is that of the IOPS.

Which of them is the copy nobody can know.  The one is kept whose name is most like those of other
files: it has as many words, and fewer of its own (``cfq-run1`` beside ``cfq-run2``, not ``backup``,
``cfq (copy)`` or ``old/cfq``); then the oldest, then the first.

Words: names and folders tell files apart that differ in nothing else.  A word stands in a *place*:
the folder it is of, counted from the file, and its number in that name.  Where the names of files
have unlike numbers of words, those of a level are put together (``mq-deadline``) if that makes the
names a full crossing, and the number of a repeat is a word of its own also where only some names
set it apart (``ext4_1``, ``xfs1``); if nothing does, what is left of them after what all begin and
all end with is one word, and the operation another.

A place tells nothing new where its word follows from the workload and the factors of its run: of a
file ``randread-32.json`` that says itself that it was a ``randread`` at a depth of 32.  A place
that counts (``run1``, ``RUN2``, ``rep-3``, ``(2)``, or just 1, 2, 3 …) numbers repeats; so does one
of dates or days of the week, unless nothing else differs.  Every other place is a factor, but for
one that follows from another place: both are one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from iotrial.formats.fio.log import log_name
from iotrial.model.recording import FEW
from iotrial.model.trial import Doubt
from iotrial_import.legend import FILE, FOLDER, ImportedRun, OriginalFile, some

_COUNTER = (
    "run|runs|rep|repeat|repetition|iter|iteration|pass|trial|take|round|try|attempt|sample|copy|"
    "session|day|night|week|series|r|no|n"
)
_REPEAT = re.compile(rf"(?:{_COUNTER})[#-]?\d{{1,5}}|\(\d{{1,5}}\)", re.IGNORECASE)
_LETTER = re.compile(r"(?:r|n|no)[#-]?0*(\d{1,5})", re.IGNORECASE)  # RAID 5 is r5, too
_NUMBERED = re.compile(rf"(?:{_COUNTER})", re.IGNORECASE)
_DATE = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)")
_DAY = re.compile(r"20\d{6}|(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?", re.IGNORECASE)
_COUNT = re.compile(r"#?0*(\d{1,5})")
_AMOUNTS = frozenset(
    (
        "qd", "iodepth", "depth", "numjobs", "jobs", "job", "threads", "thread", "procs",
        "processes", "clients", "nodes", "tasks", "ppn", "bs", "size", "record", "concurrency",
        "streams",
    )
)  # fmt: skip
"""Words before a number that is an amount, and counts no repeats."""
_NUMBER_AT_END = re.compile(r"(.*?)#?(\d{1,5})", re.DOTALL)
_OPERATIONS = frozenset(
    (
        "read", "write", "rdwr", "rw", "readwrite", "randread", "randwrite", "randrw", "seqread",
        "seqwrite", "seqrw", "seq", "rand", "random", "sequential", "trim", "reread", "rewrite",
    )
)  # fmt: skip
_ENDS = re.compile(
    r"(?<=[^/])(\.(txt|text|json|csv|tsv|log|out|output|stdout|dat|data|md|html?|xlsx?|ods|terse|raw|"
    r"res|results?|gz|bz2|xz))+$",
    re.IGNORECASE,
)

Place = tuple[int, int]
"""Folders above the file (0: the file itself), and the number of the word in that name."""
Words = Mapping[Place, str]


def factors(runs: Sequence[ImportedRun]) -> dict[str, list[str]]:
    """Factors that only the names of files tell: a label for each run, by the factor's name
    (``folder``, ``file``; ``file2`` …).  Empty where files tell nothing more."""
    found: dict[str, list[str]] = {}
    for places, labels in _told(runs):
        kind = FILE if any(up == 0 for up, _ in places) else FOLDER
        number = sum(name.startswith(kind) for name in found) + 1
        found[kind if number == 1 else f"{kind}{number}"] = labels
    return found


def by_file(runs: Sequence[ImportedRun]) -> dict[int, str]:
    """All of that as one label for each run; empty where files tell nothing more."""
    found = list(factors(runs).values())
    return {index: "-".join(each[index] for each in found) for index in range(len(runs)) if found}


def date_of(file: str) -> str:
    """The dates in a file's name and in its folders' names, ``20261120``; empty where none is."""
    return " ".join("".join(found[n] for n in (1, 3, 4)) for found in _DATE.finditer(file))


def words_of(file: str) -> tuple[str, ...]:
    """All words of a file's name and of its folders' names."""
    return tuple(word for name in _stem(file).split("/") for word in _words(name))


def _told(runs: Sequence[ImportedRun]) -> Iterator[tuple[list[Place], list[str]]]:
    """The places of each factor, and what they say of each run."""
    if len({run.file for run in runs}) < 2:  # noqa: PLR2004 (one file)
        return
    words = _placed([run.file for run in runs])
    known: list[Hashable] = [(run.workload, run.treatment) for run in runs]
    own = list(dict.fromkeys(place for each in words for place in each))
    own.sort(key=lambda place: (-place[0], place[1]))
    told: list[tuple[list[Place], list[str]]] = []
    days: list[tuple[list[Place], list[str]]] = []
    for place in own:
        said = [each.get(place, "") for each in words]
        if all(_DAY.fullmatch(word) for word in said):
            days += [([place], said)] * (len(set(said)) > 1)
            continue
        if len(set(said)) < 2 or _follows(said, known) or _counts(said, place, words):  # noqa: PLR2004
            continue
        same = next((each for each in told if _alike(said, each[1])), None)
        if same is None:
            told.append(([place], said))
        elif _longer(said, same[1]):
            same[0].append(place)
            same[1][:] = ["-".join(filter(None, pair)) for pair in zip(same[1], said, strict=True)]
    alike = len(set(known)) == len({run.workload for run in runs})
    yield from told or days[: int(alike)]


def _follows(said: Sequence[str], known: Sequence[Hashable]) -> bool:
    """Whether what is known of a run says the word."""
    words: dict[Hashable, str] = {}
    return all(words.setdefault(each, word) == word for each, word in zip(known, said, strict=True))


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether each of the two follows from the other, or one from the other."""
    return _follows(one, other) or _follows(other, one)


def _longer(said: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the words say more than the others do."""
    return len(set(zip(said, other, strict=True))) > len(set(other))


def _counts(said: Sequence[str], place: Place, words: Sequence[Words]) -> bool:
    """Whether the words of a place number repeats."""
    told = [word for word in said if word]
    counts = [_LETTER.fullmatch(word) or _COUNT.fullmatch(word) for word in told]
    if not all(counts) and all(map(_REPEAT.fullmatch, told)):
        return True
    if not all(counts):
        return False
    before = {each.get((place[0], place[1] - 1), "") for each in words}
    if any(map(_NUMBERED.fullmatch, before)):
        return True
    if any(word.lower() in _AMOUNTS for word in before):
        return False
    numbers = sorted({int(each[1]) for each in counts if each})
    return numbers[0] in (0, 1) and all(b - a == 1 for a, b in pairwise(numbers))


def _placed(files: Sequence[str]) -> Sequence[Words]:
    """The words of each file in their places."""
    paths = [_stem(file).split("/")[::-1] for file in files]
    deepest = max(map(len, paths))
    found: list[dict[Place, str]] = [{} for _ in files]
    for up in range(deepest):
        names = [path[up] if up < len(path) else "" for path in paths]
        for words, each in zip(found, _aligned(names), strict=True):
            words.update({(up, at): word for at, word in enumerate(each)})
    return found


def _aligned(names: Sequence[str]) -> list[list[str]]:
    """As many words for each name.  Of names with unlike numbers of them, levels of several words
    (``mq-deadline``) are one word where the names are then a full crossing; else the operation is
    one word, and the middle of the rest."""
    lists = [_words(name) for name in names]
    if _even(lists):
        return lists
    lists = _apart(lists)
    if _even(lists):
        return lists
    numbered = all(len(each) > 1 and _COUNT.fullmatch(each[-1]) for each in lists)
    repeats = [
        each[-1] if numbered or (each and _REPEAT.fullmatch(each[-1])) else "" for each in lists
    ]
    lists = [each[:-1] if last else each for each, last in zip(lists, repeats, strict=True)]
    crossed = _crossed({tuple(each) for each in lists})
    if crossed and _even(crossed.values()) and len(next(iter(crossed.values()))) > 1:
        middle = [list(crossed[tuple(each)]) for each in lists]
    else:
        spoken = ["-".join(filter(_is_operation, each)) for each in lists]
        rest = [[word for word in each if not _is_operation(word)] for each in lists]
        apart = zip(spoken, _between(rest), strict=True)
        middle = [[op, *each] for op, each in apart] if all(rest) else _between(lists)
    return [[*each, last] for each, last in zip(middle, repeats, strict=True)]


def _apart(lists: list[list[str]]) -> list[list[str]]:
    """Without the words that all names end with.  A number that some names have as a last word, and
    others at the end of one (``ext4_1`` beside ``xfs1``), is a word of its own where it numbers
    repeats: they go on from 0 or 1, and each name has the first and another."""
    fewest = min(map(len, lists))
    end = next((i for i in range(fewest) if len({each[-1 - i] for each in lists}) > 1), fewest)
    lists = [each[: len(each) - end] for each in lists]
    ends = [_NUMBER_AT_END.fullmatch(each[-1]) if each else None for each in lists]
    numbers: dict[Name, set[int]] = {}
    split = []
    for each, found in zip(lists, ends, strict=True):
        if found is None:
            return lists
        before = [*each[:-1], *filter(None, [found[1]])]
        numbers.setdefault(tuple(before), set()).add(int(found[2]))
        split.append([*before, found[2]])
    every = set().union(*numbers.values())
    repeats = min(every) <= 1 and len(every) == max(every) - min(every) + 1
    same = all(len(each) > 1 and min(every) in each for each in numbers.values())
    return split if repeats and same and () not in numbers else lists


def _even(lists: Iterable[Sequence[str]]) -> bool:
    return len({len(each) for each in lists}) == 1


def _between(lists: Sequence[list[str]]) -> list[list[str]]:
    """What is left of names after what all begin and all end with, as one word."""
    if _even(lists):
        return list(lists)
    fewest = min(map(len, lists))
    head = next((i for i in range(fewest) if len({each[i] for each in lists}) > 1), fewest)
    rest = fewest - head
    tail = next((i for i in range(rest) if len({each[-1 - i] for each in lists}) > 1), rest)
    return [["-".join(each[head : len(each) - tail])] for each in lists]


Name = tuple[str, ...]


def _crossed(names: set[Name]) -> dict[Name, Name]:
    """The words of each name, as few of them put together as make all names a full crossing of
    what stands in each place; one word where nothing does."""
    first = min(names, key=lambda name: (len(name), name))
    for cut in range(1, len(first)):
        tails = {name[cut:] for name in names if name[:cut] == first[:cut]}
        cuts = {name: _tail(name, tails) for name in names}
        heads = {name[:at] for name, at in cuts.items()}
        if () not in heads and len(heads) * len(tails) == len(names):
            left, right = _crossed(heads), _crossed(tails)
            return {name: left[name[:at]] + right[name[at:]] for name, at in cuts.items()}
    return {name: ("-".join(name),) for name in names}


def _tail(name: Name, tails: set[Name]) -> int:
    """Where the longest of these endings begins; 0 where the name has none."""
    return next((at for at in range(1, len(name)) if name[at:] in tails), 0)


def _words(name: str) -> list[str]:
    spaced = re.sub(r"\(\d+\)", lambda found: f"-{found[0]}-", _DATE.sub(r"\1\3\4", name))
    return [word for word in re.split(r"[-_./ ]+", spaced) if word]


def _is_operation(word: str) -> bool:
    return word.lower() in _OPERATIONS


def _stem(file: str) -> str:
    if log := log_name(file):
        return log.folder + log.name
    return _ENDS.sub("", file)


@dataclass(frozen=True, slots=True)
class FileDigest:
    """``digest`` is of a file's bytes, '' where no other file is as large; ``modified`` is seconds
    since the epoch."""

    digest: str
    modified: float


def sole(
    originals: Sequence[OriginalFile], prints: Mapping[str, FileDigest], *, leave: bool = False
) -> tuple[list[OriginalFile], list[Doubt]]:
    """The files without copies of others, and a doubt that names these.  ``prints`` are by the
    file's name.  ``leave``: a person says of each file what it is, so that all of them count."""
    groups: dict[Hashable, list[OriginalFile]] = defaultdict(list)
    for each in originals:
        groups[_identity(each, prints)].append(each)
    every = _Names.of([words_of(each.file) for each in originals])
    kept: dict[str, str] = {}
    held = Counter(_folder(each) for each in originals)
    for members in groups.values():
        if _is_layout(members, held):
            kept.update((each.file, each.file) for each in members)
            continue
        first = members[0] if len(members) == 1 else _likeliest(members, every, prints)
        kept.update((each.file, first.file) for each in members)
    copies = [f"{name} is {of}" for name, of in kept.items() if name != of]
    if leave or not copies:
        return list(originals), [_counted(copies)] if copies else []
    return [each for each in originals if kept[each.file] == each.file], [_doubt(copies)]


@dataclass(frozen=True, slots=True)
class _Names:
    """How many names have each word, and how many are of each number of words."""

    words: Counter[str]
    lengths: Counter[int]

    @classmethod
    def of(cls, names: Sequence[Sequence[str]]) -> Self:
        return cls(Counter(word for each in names for word in set(each)), Counter(map(len, names)))

    def __sub__(self, other: _Names) -> _Names:
        return _Names(self.words - other.words, self.lengths - other.lengths)


def _identity(original: OriginalFile, prints: Mapping[str, FileDigest]) -> Hashable:
    """What copies of a file have in common with it, and no other file has."""
    runs, found, log = original.recordings, prints.get(original.file), log_name(original.file)
    if runs and not log and all(each.started and each.measurements for each in runs):
        return tuple(
            (
                *(each.tool, each.version, each.name, each.started, each.treatment),
                tuple((m.metric, m.job, m.value) for m in each.measurements),
            )
            for each in runs
        )
    if runs and found and found.digest:
        return (found.digest, date_of(original.file), log and (log.kind, log.job, log.host))
    return original.file


def _is_layout(members: Sequence[OriginalFile], held: Mapping[str, int]) -> bool:
    """Whether files with the same few numbers are repeats by where they lie: of one name, each in a
    folder of its own that holds others too (``mon/cfq.csv``, ``tue/cfq.csv``)."""
    folders = {_folder(each) for each in members}
    names = {each.file.rpartition("/")[2] for each in members}
    few = all(
        not run.started and len(run.measurements) < FEW
        for each in members
        for run in each.recordings
    )
    apart = len(folders) == len(members) > len(names) == 1
    return few and apart and all(folder and held[folder] > 1 for folder in folders)


def _folder(original: OriginalFile) -> str:
    return original.file.rpartition("/")[0]


def _likeliest(
    members: Sequence[OriginalFile], every: _Names, prints: Mapping[str, FileDigest]
) -> OriginalFile:
    """The one that the others are copies of."""
    others = every - _Names.of([words_of(each.file) for each in members])
    return min(members, key=lambda each: _strangeness(each.file, others, prints))


def _strangeness(
    file: str, others: _Names, prints: Mapping[str, FileDigest]
) -> tuple[int, int, float]:
    """How little a name looks as those of other files do."""
    words = words_of(file)
    own = sum(word not in others.words for word in words)
    modified = prints[file].modified if file in prints else 0.0
    return (-others.lengths[len(words)], own, modified)


def _doubt(copies: Sequence[str]) -> Doubt:
    count = "1 file is a copy" if len(copies) == 1 else f"{len(copies)} files are copies"
    return Doubt(
        "copies",
        f"{count} of another one, which counts once: {some(copies)}",
        "A copy is neither a repeat nor a level. If its name is the right one, remove the other.",
    )


def _counted(copies: Sequence[str]) -> Doubt:
    return Doubt(
        "maybe-copies",
        f"the same file under other names, and all count as labels or names say: {some(copies)}",
        "Remove the copy: it is neither a repeat nor a level.",
    )
