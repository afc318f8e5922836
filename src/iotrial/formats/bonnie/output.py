"""bonnie++'s output, its CSV of every version and its table → recordings.

Metrics, after bonnie++'s own words, so that bytes one by one and blocks are never mixed up:
``putc.bw`` (per character), ``write.bw`` (block), ``rewrite.bw``, ``getc.bw`` (per character),
``read.bw`` (block), ``seek.rate``; for files ``create``, ``stat`` (the column "Read") and
``delete``, each ``.seq.rate`` and ``.random.rate``.  Beside each: ``.cpu``, a share of one core
(it may exceed 1), and from 1.9x on ``.lat.max``, the longest single operation.  K is KiB.

What was too fast to tell (``+++++``) is a lower bound, censored: see :mod:`.bonnie_run`.  A table
of 2.00 rounds (``1.4g``), and its rates of files are not rates: they are left out.

A file may hold many runs, and text around them.  Where a table and a line of CSV are of the same
run, the CSV is read, and the table must agree with it; a line that stands there twice counts
once.

Sources: bonnie++(8) and readme.html of 2.00a; recordings of 2.00a in ``tests/data/bonnie``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats.bonnie.csv_line import likely, rows
from iotrial.formats.bonnie.run import AGAIN, FILES, IO, Row, Run, run_of, too_fast
from iotrial.formats.bonnie.table import blocks, original, table
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed
from iotrial.model.trial import Doubt

__all__ = ["FILES", "FORMAT", "IO", "Run", "parse", "runs"]

_TAKE = "Take the line of CSV of the same run."
_NEAR = 3  # lines between a table and its line of CSV
_ROUNDING = 0.06


@dataclass(frozen=True, slots=True)
class _Table:
    """One run of a table: its row, the line after the table, and whether bonnie wrote it."""

    row: Row
    end: int
    original: bool


class Bonnie:
    """The plugin."""

    name = "bonnie++"
    title = "bonnie++, CSV and text"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        text = head.decode("utf-8", "replace")
        if "Sequential Output---" in text or "Sequential Create---" in text:
            return 3
        found = [line for line in text.splitlines() if likely(line.strip("> \t"))]
        if not found:
            return 0
        words = any(",+++" in line or line.startswith(("1.9", "2.0")) for line in found)
        return 3 if words else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        return tuple(
            Recording(
                tool=tool,
                workload=tool,
                measurements=run.measurements,
                name=run.name,
                version=run.version,
                line=run.line,
                treatment=run.treatment,
                doubts=run.doubts,
            )
            for tool, run in _found(text_of(data, raw), raw)
        )


FORMAT = Bonnie()


def parse(data: bytes, raw: str) -> Parsed:
    """The one run in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several:
    which of them is meant, nobody can tell; :func:`runs` gives them all."""
    found = runs(data, raw)
    if len(found) != 1:
        lines = ", ".join(str(each.line) for each in found)
        raise FormatError(f"{raw}: {len(found)} runs of bonnie++ (lines {lines}); one is wanted")
    return Parsed(found[0].measurements, found[0].doubts)


def runs(data: Buffer, raw: str) -> tuple[Run, ...]:
    """Every run in ``data``, in order.  Raises :class:`~iotrial.errors.FormatError` with the
    line."""
    return tuple(run for _, run in _found(text_of(data, raw), raw))


def _found(text: str, raw: str) -> list[tuple[str, Run]]:
    """Every run and the tool that wrote it, in the order of the file."""
    lines = text.split("\n")
    written, again = _once(rows(lines, raw))
    found = [
        ("bonnie++", row.line, run_of(row, raw, _repeated(again.get(row.line, 0))))
        for row in written
    ]
    tables, unread = _tables(lines, raw, strict=not written)
    for each in tables:
        if not any(_agree(each.row, row) for row in written):
            _contradicts(each, written, raw)
            tool = "bonnie" if each.original else "bonnie++"
            found.append((tool, each.row.line, _drawn(each.row, raw)))
    if not found:
        message = f"{raw}: neither CSV nor a table of bonnie++ in {len(lines)} lines"
        raise FormatError(message, advice=AGAIN)
    found.sort(key=lambda each: each[1])
    for _, line, run in found:
        if not run.measurements and not run.censored:
            raise FormatError(f"{raw}: line {line}: bonnie++ measured nothing", advice=AGAIN)
    tool, line, run = found[0]
    found[0] = (tool, line, replace(run, doubts=(*run.doubts, *unread)))
    return [(tool, run) for tool, _, run in found]


def _once(found: Iterable[tuple[Row, str]]) -> tuple[list[Row], dict[int, int]]:
    """Rows without copies of them, and how many copies a row (by its line) has.  The time, or all
    the numbers, are the same in no two runs."""
    first: dict[str, Row] = {}
    again: dict[int, int] = {}
    for row, text in found:
        if text in first:
            line = first[text].line
            again[line] = again.get(line, 0) + 1
        first.setdefault(text, row)
    return list(first.values()), again


def _repeated(times: int) -> tuple[Doubt, ...]:
    if not times:
        return ()
    what = f"the same line stands in the file {times + 1} times, and counts once"
    return (
        Doubt("copy", what, "No two runs are the same in every number: look where it is from."),
    )


def _tables(
    lines: Sequence[str], raw: str, *, strict: bool
) -> tuple[list[_Table], tuple[Doubt, ...]]:
    """The runs in tables; where there is CSV (not ``strict``), a table that cannot be read is a
    doubt."""
    found: list[_Table] = []
    unread: list[Doubt] = []
    for span in blocks(lines):
        try:
            by_bonnie = original(lines, span)
            found.extend(_Table(row, span.stop, by_bonnie) for row in table(lines, span, raw))
        except FormatError as error:
            if strict:
                raise
            unread.append(Doubt("bonnie-table", f"a table was left out: {error.message}", AGAIN))
    return found, tuple(unread)


def _agree(drawn: Row, row: Row) -> bool:
    """Whether a table may be the picture of a line of CSV."""
    if not row.name.startswith(drawn.name) and drawn.name not in row.name:
        return False
    for number, (one, other) in enumerate(zip(drawn.cells, row.cells, strict=True)):
        is_garbage = drawn.rounded and number >= len(IO)
        if not is_garbage and not _same(one, other, rounded=drawn.rounded):
            return False
    return True


def _same(one: tuple[str, str], other: tuple[str, str], *, rounded: bool) -> bool:
    (value, cpu), (exact, exact_cpu) = one, other
    if cpu != exact_cpu or bool(value) != bool(exact) or too_fast(value) != too_fast(exact):
        return False
    try:
        printed, meant = _number(value), _number(exact)
    except ValueError:
        return value == exact
    return abs(printed - meant) <= (_ROUNDING * meant if rounded else 0.5001)


def _number(text: str) -> float:
    scale = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}.get(text[-1:])
    return float(text if scale is None else text[:-1]) * (scale or 1.0)


def _contradicts(each: _Table, written: Sequence[Row], raw: str) -> None:
    """Raises FormatError where the line of CSV that follows a table is that of another run by
    the same name: bonnie++ writes both from the same numbers."""
    last = each.row.line
    near = [row for row in written if last < row.line <= each.end]
    if near and each.row.name == near[0].name and each.row.name:
        between = near[0].line - last
        if between <= _LONGEST + _NEAR:
            message = f"{raw}: line {near[0].line}: not the numbers of the table on line {last}"
            raise FormatError(message, advice="one of the two was changed: take the original")


_LONGEST = 12  # lines of a table


def _drawn(row: Row, raw: str) -> Run:
    """A table's run, without what its version prints wrong."""
    doubts: list[Doubt] = []
    if row.rounded:
        if any(value[:1].isdecimal() for value, _ in row.cells[len(IO) :]):
            what = "this table's rates of files are numbers of files, and were left out"
            doubts.append(Doubt("bonnie-table", what, _TAKE))
        blank = tuple(cell if too_fast(cell[0]) else ("", "") for cell in row.cells[len(IO) :])
        row = replace(row, cells=(*row.cells[: len(IO)], *blank))
        if any(value[-1:] in ("k", "m", "g") for value, _ in row.cells):
            doubts.append(Doubt("bonnie-table", "the table is rounded, by up to 5 %", _TAKE))
    return run_of(row, raw, doubts)
