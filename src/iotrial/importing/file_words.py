"""What tells files apart that differ in nothing else: the words of their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from iotrial.formats.fio.log_name import log_name
from iotrial.importing.run import Run
from iotrial.model.trial import Treatment

_REPEAT = re.compile(
    r"[-_. ]?(?:run|rep|repeat|iter|iteration|pass|trial|take|round|try)[-_. ]?\d+$"
)
_OPERATIONS = frozenset(
    (
        "read", "write", "rdwr", "rw", "readwrite", "randread", "randwrite", "randrw", "seqread",
        "seqwrite", "seqrw", "seq", "rand", "random", "sequential", "trim", "reread", "rewrite",
    )
)  # fmt: skip


def by_file(runs: Sequence[Run]) -> dict[int, str]:
    """A label for each run by its file, where files differ in nothing else; else nothing."""
    files: dict[tuple[str, Treatment], set[str]] = defaultdict(set)
    for run in runs:
        files[run.workload, run.treatment].add(run.file)
    if all(len(found) == 1 for found in files.values()):
        return {}
    of_workload: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        of_workload[run.workload].add(run.file)
    short = {workload: _shortened(found) for workload, found in of_workload.items()}
    told = {index: short[run.workload][run.file] for index, run in enumerate(runs)}
    several = len(set(told.values())) > 1
    return told if several else {}


def _shortened(files: set[str]) -> dict[str, str]:
    """What tells files apart: their names without what all begin or all end with."""
    names = {file: _REPEAT.sub("", _stem(file)) for file in files}
    split = {file: _words(name) for file, name in names.items()}
    lists = list(split.values())
    fewest = min(map(len, lists))
    head = next((i for i in range(fewest) if len({each[i] for each in lists}) > 1), fewest)
    rest = fewest - head
    tail = next((i for i in range(rest) if len({each[-1 - i] for each in lists}) > 1), rest)
    return {
        file: "-".join(each[head : len(each) - tail]) or "-".join(each)
        for file, each in split.items()
    }


def _words(name: str) -> list[str]:
    """The words of a name, without those that say the operation: the workload says it."""
    words = re.split(r"[-_./ ]+", name)
    return [word for word in words if word.lower() not in _OPERATIONS] or words


def _stem(file: str) -> str:
    if log := log_name(file):
        return log.folder + log.name
    path = PurePosixPath(file)
    return str(path.with_suffix("")) if path.suffix and not path.suffix[1:].isdigit() else file
