"""Copies: a file that is another one under another name says nothing new.  Pure.

Two files are one where their bytes are the same, or where the runs in them began at the same moment
and have the same name and the same numbers throughout (the same output, indented otherwise).  Of a
file that does not say when its runs were, another date in its name says so: few rounded numbers are
soon the same on two days.  Logs
of fio are so only where they are of the same kind and job: with blocks of 1 KiB a log of bandwidth
is that of the IOPS.

Which of them is the copy nobody can know.  The one is kept whose name is most like those of other
files: it has as many words, and fewer of its own (``cfq-run1`` beside ``cfq-run2``, not ``backup``,
``cfq (copy)`` or ``old/cfq``); then the oldest, then the first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from iotrial.formats.fio.log_name import log_name
from iotrial.model.recording import FEW
from iotrial.model.trial import Doubt
from iotrial_import.file_words import date_of, words_of
from iotrial_import.run import Original, some


@dataclass(frozen=True, slots=True)
class Print:
    """``digest`` is of a file's bytes, '' where no other file is as large; ``modified`` is seconds
    since the epoch."""

    digest: str
    modified: float


def sole(
    originals: Sequence[Original], prints: Mapping[str, Print], *, leave: bool = False
) -> tuple[list[Original], list[Doubt]]:
    """The files without copies of others, and a doubt that names these.  ``prints`` are by the
    file's name.  ``leave``: a person says of each file what it is, so that all of them count."""
    groups: dict[Hashable, list[Original]] = defaultdict(list)
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


def _identity(original: Original, prints: Mapping[str, Print]) -> Hashable:
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


def _is_layout(members: Sequence[Original], held: Mapping[str, int]) -> bool:
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


def _folder(original: Original) -> str:
    return original.file.rpartition("/")[0]


def _likeliest(members: Sequence[Original], every: _Names, prints: Mapping[str, Print]) -> Original:
    """The one that the others are copies of."""
    others = every - _Names.of([words_of(each.file) for each in members])
    return min(members, key=lambda each: _strangeness(each.file, others, prints))


def _strangeness(file: str, others: _Names, prints: Mapping[str, Print]) -> tuple[int, int, float]:
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
        "A copy is no repeat and no level. Where its name is the right one, leave out the other.",
    )


def _counted(copies: Sequence[str]) -> Doubt:
    return Doubt(
        "maybe-copies",
        f"the same file under other names, and all count as labels or names say: {some(copies)}",
        "Leave out what is a copy: it is no repeat and no level.",
    )
