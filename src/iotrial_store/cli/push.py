"""``iotrial push``: results folders into a store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotrial.cli.output import Output, common
from iotrial.errors import FormatError, UsageError
from iotrial.report.words import count
from iotrial_store.cli import store_at, store_option
from iotrial_store.errors import StoreError

if TYPE_CHECKING:
    from iotrial_store.content import StoreContent
    from iotrial_store.model import ResultStore
    from iotrial_store.reading import FolderContents, FolderProblem

_TAG = re.compile(r"[^\s,-][^\s,]{0,63}")


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, readable=False))
@store_option
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A name for these results.")
@click.option(
    "--migrate",
    is_flag=True,
    help="First make an older store one of this iotrial's version; an earlier iotrial cannot use"
    " it afterwards.  Works without FOLDERS.",
)
@common
def command(
    output: Output,
    folders: tuple[Path, ...],
    url: str | None,
    tags: tuple[str, ...],
    migrate: bool,  # noqa: FBT001 (click's)
) -> int:
    """Add results FOLDERS to a store: trials, settings, findings, doubts and machines.

    Raw files stay where they are; the store has their digest and place.  The same folder pushed
    twice is there once; one whose study went on replaces what was there.  A folder that cannot be
    read is told, and the others are added.

    \b
    Example:
      iotrial push results/*
      iotrial push results/2026-11-20-scheduler --tag before-upgrade
      iotrial push results/* --store postgresql://db.example.org/iotrial
      iotrial push --migrate
    """
    from iotrial_store import schema
    from iotrial_store.model import PushCounts
    from iotrial_store.reading import FolderProblem, contents_of

    if not folders and not migrate:
        raise UsageError("name results folders", advice="For example: iotrial push results/*")
    _check_tags(tags)

    wrong: dict[Path, FolderProblem] = {}
    pretended: list[Path] = []

    def contents(read: FolderContents) -> Iterator[StoreContent]:
        for number, (folder, content) in enumerate(read, 1):
            if isinstance(content, FolderProblem):
                wrong[folder] = content
                continue
            if len(content.trials) < (before := there.get(content.result, 0)):
                wrong[folder] = _fewer(len(content.trials), before)
                continue
            told = count(len(content.trials), "trial")
            if content.pretended:
                pretended.append(folder)
                told += ", pretended: nothing was measured"
            output.note(f"{number}/{len(folders)}  {folder}: {told}")
            yield content

    said = []
    with contents_of(folders, tags) as read, store_at(url) as store:
        document: dict[str, object] = {"store": store.url}
        if migrate:
            former = store.migrate()
            document["migrated"] = former
            said.append(
                f"version {schema.VERSION} of the schema already"
                if former == schema.VERSION
                else f"migrated from version {former} of the schema to {schema.VERSION}"
            )
        there = _trials_of(store) if folders else {}
        counts = store.push(contents(read)) if folders else PushCounts()
    output.document({
        **document, "added": counts.added, "replaced": counts.replaced, "same": counts.same,
        "pretended": list(map(str, pretended)),
        "wrong": {str(folder): str(problem) for folder, problem in wrong.items()},
    })  # fmt: skip
    said += [
        f"{number} {word}"
        for number, word in (
            (counts.added, "added"),
            (counts.replaced, "replaced"),
            (counts.same, "there already"),
        )
        if number
    ]
    said = said or ["0 added"]
    if pretended:
        said.append(f"{len(pretended)} of them pretended")
    output.answer(f"{', '.join(said)}; store {store.url}")
    return _told(output, wrong)


def _check_tags(tags: tuple[str, ...]) -> None:
    from iotrial_store.against import PARTS

    if bad := [tag for tag in tags if not (_TAG.fullmatch(tag) and tag.isprintable())]:
        raise UsageError(
            f"{bad[0]!r} cannot be a tag",
            advice="Use a word of at most 64 characters, without a comma and no option.",
        )
    if bad := [tag for tag in tags if tag in PARTS]:
        raise UsageError(
            f"{bad[0]!r} cannot be a tag: run --against {bad[0]} means other results",
            advice="Use another word.",
        )


def _trials_of(store: ResultStore) -> dict[str, int]:
    """How many trials the store has of each results folder; where there is none yet, a push makes
    it, and tells what else is wrong."""
    with suppress(StoreError):
        rows = store.query("SELECT result, trials FROM results").rows
        return {str(result): int(str(trials)) for result, trials in rows}
    return {}


def _fewer(trials: int, before: int) -> FolderProblem:
    """Of a folder that lost trials: a study that goes on never has fewer."""
    from iotrial_store.reading import FolderProblem

    return FolderProblem(
        f"it has {count(trials, 'trial')}, and the store {before} of the same run",
        "Files of it are gone: push a whole copy.  The store keeps what it has.",
        FormatError.exit_code,
    )


def _told(output: Output, wrong: Mapping[Path, FolderProblem]) -> int:
    """Says which folders were not added, and why; the exit code."""
    for folder, problem in wrong.items():
        named = "" if str(folder) in problem.message else f"{folder}: "
        output.notice(f"not added: {named}{problem.message}")
    for advice in dict.fromkeys(_advice(folder, problem) for folder, problem in wrong.items()):
        if advice:
            output.notice(advice)
    return max((problem.exit_code for problem in wrong.values()), default=0)


def _advice(folder: Path, problem: FolderProblem) -> str:
    """What to do about it, such as where the results are in folders below this one."""
    with suppress(OSError):
        below = [each.parent for each in sorted(folder.glob("*/plan.jsonl"))]
        if below and not (folder / "plan.jsonl").exists():
            return f"{folder} has {count(len(below), 'results folder')}: iotrial push {folder}/*"
    return problem.advice
