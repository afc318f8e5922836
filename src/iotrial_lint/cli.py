"""``iotrial lint``: settings that cannot work, in files or on a host."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from iotrial.called import as_root
from iotrial.cli.machine import HERE, file_or_host, machine, means_a_file, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.errors import UsageError
from iotrial.files import read_given
from iotrial_lint.judge import counted, judged, judged_host
from iotrial_lint.known import version
from iotrial_lint.machine import host_scene, scene_of
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.rule import (
    KINDS,
    NEWEST,
    ConfigFile,
    Kind,
    LintContext,
    LintMessage,
    Severity,
    Version,
)

STYLE: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "cyan"}
LARGEST = 4 * 2**20
"""Bytes of a file of settings: more is something else."""


@click.command()
@click.argument("what", nargs=-1, type=click.Path())  # shells complete it with files
@click.option(
    "--as",
    "kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    help=f"Take the files for this kind: {', '.join(KINDS)}.",
)
@click.option(
    "--kernel",
    metavar="VERSION",
    help="Judge for this kernel, such as 6.1; else this host's, or HOST's.",
)
@pretend
@common
def command(
    output: Output, what: tuple[str, ...], kind: Kind | None, kernel: str | None, *, pretend: bool
) -> int:
    """List the settings in FILEs, or on HOST, that cannot work, with the reason and the remedy.

    WHAT is files or folders; or one ssh host.  [default: this host]  It only reads.  Exit code 1:
    errors found; 2: no errors, but a file could not be read.

    \b
    Example:
      iotrial lint /etc/sysctl.d multipath.conf my.fio
      iotrial lint --kernel 6.1 --as udev copied-from-a-report.txt
      iotrial lint root@box7
    """
    meant = _kernel(kernel)
    files = _files(what, kind)
    if files is None:
        host = what[0] if what else None
        with file_or_host(host), machine(pretend=pretend, place=place_of(host)) as here:
            scene = host_scene(here, kernel=meant)
        return _say(output, scene.sheets, judged_host(scene), scene)
    taken: set[Path] = set()
    read, unread = _read(files, kind, taken)
    # What another one includes was read in its place, and need be no file by itself.
    sheets = [sheet for path, sheet in read if path.resolve() not in taken]
    with machine(pretend=pretend, place=HERE) as here:
        scene = scene_of(here, sheets, kernel=meant)
    found = _say(output, sheets, judged(sheets, scene), scene, unread)
    return found or 2 * bool(unread)


def _read(
    files: list[Path], kind: Kind | None, taken: set[Path]
) -> tuple[list[tuple[Path, ConfigFile]], list[UsageError]]:
    """The files that can be read, and why others cannot.  Raises UsageError where none can."""
    read: list[tuple[Path, ConfigFile]] = []
    unread: list[UsageError] = []
    for path in files:
        try:
            read.append((path, _sheet(path, kind, taken)))
        except UsageError as error:
            unread.append(error)
    if not read and unread:
        raise unread[0]
    return read, unread


def _kernel(text: str | None) -> Version:
    if text is None:
        return NEWEST
    found = version(text)
    if len(found) < 2:  # noqa: PLR2004 (major and minor)
        raise UsageError(f"--kernel {text}: it is not a version", advice="Such as: --kernel 6.1")
    return found


def _files(what: tuple[str, ...], kind: Kind | None) -> list[Path] | None:
    """The files that are meant; None for a host."""
    found: list[Path] = []
    for word in what:
        path = Path(word)
        if path.is_dir():
            found.extend(_inside(path, kind))
        elif path.exists():
            found.append(path)
        elif len(what) == 1 and kind is None and not _looks_like_a_file(word):
            return None  # a host
        else:
            raise UsageError(f"file {word} does not exist", advice="Check its name.")
    if what and not found:
        known = "The names of its files do not tell their kind: give it with --as KIND."
        raise UsageError(f"nothing to read in {', '.join(what)}", advice=known)
    return found or None


def _inside(folder: Path, kind: Kind | None) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if kind or kind_of(str(path.absolute()))]


def _looks_like_a_file(word: str) -> bool:
    return means_a_file(word) or kind_of(word) is not None


def _included(name: str, taken: set[Path]) -> str:
    """The text of a file that another one includes.  Raises OSError."""
    path = Path(name)
    if not path.is_file():
        raise OSError(errno.ENOENT, "the file does not exist")
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, "too large for a file of settings")
    taken.add(path.resolve())
    return data.decode("utf-8", "replace")


def _sheet(path: Path, kind: Kind | None, taken: set[Path]) -> ConfigFile:
    """The file, parsed; ``taken`` gets those that it includes."""
    meant = kind or kind_of(str(path.absolute()))
    if meant is None:
        advice = f"Give its kind: --as {'|'.join(KINDS)}."
        raise UsageError(f"{path}: its place and name do not tell what it is", advice=advice)
    try:
        data = read_given(path, LARGEST)
    except OSError as error:
        if error.errno == errno.EFBIG:
            why = f"{path}: too large for a file of settings"
            raise UsageError(why, advice="Name another file.") from error
        advice = f"Check its owner and mode, or ask as root: {as_root()} lint …"
        raise UsageError(f"{path} cannot be read: {error.strerror}", advice=advice) from error
    return parsed(meant, data, str(path), lambda name: _included(name, taken))


def _say(
    output: Output,
    sheets: tuple[ConfigFile, ...] | list[ConfigFile],
    remarks: tuple[LintMessage, ...],
    scene: LintContext,
    unread: Sequence[UsageError] = (),
) -> int:
    counts = counted(remarks)
    output.document(
        {
            "kernel": None if scene.kernel == NEWEST else ".".join(map(str, scene.kernel)),
            "files": [{"file": sheet.file, "kind": sheet.kind} for sheet in sheets],
            "unread": [*scene.unread, *(error.message for error in unread)],
            "counts": dict(counts),
            "remarks": [_row(remark) for remark in remarks],
        }
    )
    if scene.unread:
        output.note(f"not read, only root may: {', '.join(scene.unread)}")
    for error in unread:
        output.notice(f"not read: {error.message}. {error.advice}")
    if not output.json:
        _show(output, remarks, _summary(counts, len(sheets)))
    return 1 if counts["error"] else 0


def _show(output: Output, remarks: tuple[LintMessage, ...], summary: str) -> None:
    """A line is a line, however long, for grep and editors; styled on a terminal only."""
    if not output.answers.is_terminal:
        lines = ["".join(_head(each)) + _below_it(each, output) for each in remarks]
        output.text("\n".join([*lines, summary]))
        return
    for each in remarks:
        place, severity, words = _head(each)
        head = Text.assemble((place, "bold"), (severity, STYLE[each.severity]), words)
        output.answers.print(head.append(_below_it(each, output)), soft_wrap=True)
    output.answers.print(Text(summary, style="bold"))


def _row(remark: LintMessage) -> dict[str, object]:
    return {
        "file": remark.file,
        "line": remark.line or None,
        "key": remark.key,
        "severity": remark.severity,
        "rule": remark.rule.name,
        "what": remark.what,
        "why": remark.rule.reason,
        "fix": remark.fix,
        "source": remark.rule.source,
    }


def _head(remark: LintMessage) -> tuple[str, str, str]:
    key = f"{_shown(remark.key)}: " if remark.key else ""
    return f"{_shown(remark.place)}: ", remark.severity, f": {key}{_shown(remark.what)}"


def _below_it(remark: LintMessage, output: Output) -> str:
    fix = f"\n    fix: {_shown(remark.fix)}" if remark.fix else ""
    source = f"; source: {remark.rule.source}" if output.verbose else ""
    return f"\n    why: {remark.rule.reason}{fix}\n    rule: {remark.rule.name}{source}"


def _shown(text: str) -> str:
    """What came from a file, without what would act on a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _summary(counts: dict[Severity, int], files: int) -> str:
    parts = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items()]
    return f"{', '.join(parts)} in {files} file{'' if files == 1 else 's'}"
