"""``iotrial import``: old results → a results folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from iotrial.cli.output import Output, common, writing
from iotrial.errors import FormatError, UsageError
from iotrial.model.trial import Doubt
from iotrial.units import format_bytes
from iotrial_import.files import GivenFile
from iotrial_import.legend import ImportMap, OriginalFile

_LARGE = 64 * 2**20  # bytes: a moment


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="The results folder to make."
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What the files do not say.",
)
@click.option("--format", "format_name", metavar="NAME", help="Read every file as this format.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="FACTOR=LABEL,…",
    help="A label for each run, in order.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="FACTOR=LABEL",
    help="What a factor's levels are compared with; else its first.",
)
@click.option(
    "--merge",
    metavar="FACTOR",
    default="",
    help="Runs that differ in it alone (host, or file) ran side by side: make one of them.",
)
@click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    help="The decimal mark of a table's numbers, where they may mean two (1,234).",
)
@click.option(
    "--print-map",
    is_flag=True,
    help="Say what the columns of a table are taken for, as a --map file, and import nothing.",
)
@common
def command(  # noqa: PLR0913, PLR0917 (click's parameters)
    output: Output,
    files: tuple[Path, ...],
    out: Path | None,
    map_file: Path | None,
    format_name: str | None,
    labels: tuple[str, ...],
    baselines: tuple[str, ...],
    merge: str,
    decimal: str | None,
    print_map: bool,  # noqa: FBT001 (click's)
) -> int:
    """Read results that other tools left in FILES (or folders), and make a results folder.

    Formats are recognised by what is in the files; packed ones (gz, bz2, xz) are unpacked.  The
    originals are kept beside the numbers.  `compare` and `report` then work on the folder.  A fio
    job file among FILES says how many I/Os can be in flight.  The logs that one run of fio left are
    one run.

    \b
    Example:
      iotrial import fio-*.json
      iotrial import table.csv --print-map > map.toml
      iotrial import bonnie.csv --label scheduler=cfq,deadline,anticipatory,noop
      iotrial import results/*.txt --map map.toml --out old
      iotrial import box1.json box2.json --merge file
    """
    from rich.text import Text

    from iotrial_import import copies, fio_logs, plausible
    from iotrial_import import files as reading
    from iotrial_import import folder as keeping
    from iotrial_import.cells import cells
    from iotrial_import.legend import said_twice, with_decimal

    _known(format_name)
    legend = with_decimal(_legend(map_file, labels, baselines), decimal or "")
    doubts = list(said_twice(legend))
    found = reading.given(files)
    folder = out or Path("results") / f"{time.strftime('%Y-%m-%d')}-{_title(found)}"
    if not print_map and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already", advice="Name another with --out.")
    originals, in_flight, unread = _read(output, found, legend, format_name or "")
    if print_map:
        text = _map([original for _, original in originals.values()])
        output.document({"map": text})
        if not output.json:
            output.text(text)
        return 0
    every = [original for _, original in originals.values()]
    doubts += reading.by_plugins(every)
    if not merge:
        every, copied = copies.sole(every, reading.prints(found), leave=legend.of_each)
        doubts += copied
    of_runs = fio_logs.together(every)
    placed = cells(of_runs, legend, merge)
    if not placed.runs:
        more = f": {unread[0].what}" if unread else ""
        raise UsageError(f"these files contain no run{more}")
    text = keeping.study_text(placed, legend, _title(found))
    done = keeping.records(placed, legend, in_flight)
    doubts += [*unread, *placed.doubts, *plausible.of_study(placed.runs, legend)]
    with writing(folder):
        merged = keeping.merged(placed, done)
        keeping.keep(folder, keeping.ImportedFolder(text, done, originals, doubts, merged))
    output.document(keeping.document(folder, placed, done, originals, doubts))
    for line in keeping.told(folder, placed, done, originals, doubts):
        output.answer(Text(line))  # no markup: [columns], names of files
    return 0


def _read(
    output: Output, found: list[GivenFile], legend: ImportMap, format_name: str
) -> tuple[dict[str, tuple[Path, OriginalFile]], float, list[Doubt]]:
    """The files by name, what job files allow in flight, and doubts on what no format knows."""
    from iotrial_import import files as reading

    originals: dict[str, tuple[Path, OriginalFile]] = {}
    unread: list[Doubt] = []
    in_flight = 0.0
    for each in found:
        if (size := each.path.stat().st_size) > _LARGE:
            output.note(f"reading {each.name} ({format_bytes(size)}) …")
        try:
            original = reading.read(each.name, each.path, legend, format_name)
        except FormatError as error:
            if each.named:
                raise
            unread.append(Doubt("unread", error.message, "Name the file to insist on it."))
            continue
        originals[each.name] = (each.path, original)
        if original.format == reading.JOBFILE:
            in_flight = max(in_flight, reading.in_flight(each.path))
    unread.sort(key=lambda each: "no format knows" in each.what)  # damaged results come first
    return originals, in_flight, unread


def _map(originals: list[OriginalFile]) -> str:
    """What the columns of the tables are, as TOML.  Raises UsageError for none, and for several
    tables that differ: a map is of one."""
    from iotrial_import.formats.table_columns import to_toml

    every = {columns: each.file for each in originals for columns in each.columns}
    if not every:
        raise UsageError("--print-map: none of these files is a table")
    if len(every) > 1:
        files = ", ".join(dict.fromkeys(every.values()))
        what = f"--print-map: there are tables with {len(every)} sets of columns ({files})"
        raise UsageError(what, advice="A map is of one set of columns: give one table at a time.")
    return to_toml(next(iter(every)))


def _known(name: str | None) -> None:
    from iotrial.formats import formats
    from iotrial.plan.problem import choices

    if name and name not in formats():
        alike = [each for each in formats() if each.startswith(f"{name}-")]
        advice = choices(name, list(formats()), "there are")
        if alike:
            advice = f"There are {', '.join(alike)}; without --format each file says which it is."
        raise UsageError(f"no format {name!r}", advice=advice)


def _legend(path: Path | None, labels: tuple[str, ...], baselines: tuple[str, ...]) -> ImportMap:
    from dataclasses import replace

    from iotrial.files import read_given
    from iotrial_import.legend import parse

    legend = ImportMap()
    if path is not None:
        try:
            legend = parse(read_given(path, 1 << 20).decode("utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"--map {path}: {why}", advice="--print-map writes one.") from error
    told = tuple((name, tuple(each.split(","))) for name, each in _pairs("--label", labels))
    against = tuple(_pairs("--baseline", baselines))
    return replace(legend, labels=(*legend.labels, *told), baselines=(*legend.baselines, *against))


def _pairs(option: str, texts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for each in texts:
        name, _, value = each.partition("=")
        if not name or not value:
            raise UsageError(f"{option} {each}: not of the form FACTOR=LABEL")
        yield name, value


def _title(found: list[GivenFile]) -> str:
    """A name for the folder: of the only file, else of the folder they are in."""
    path = found[0].path
    name = path.name.partition(".")[0] if len(found) == 1 else path.parent.name
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name) or "imported"
