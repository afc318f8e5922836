"""``iotrial run DIR --more-blocks N``: more of a study whose results did not tell."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import click

from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.extend import check_extendable, extend, reached, under_way
from iotrial.report.words import count
from iotrial.store import check, open_results, written_study
from iotrial.store import extend as note_extension
from iotrial.units import parse_fraction

SHARE = click.types.FuncParamType(parse_fraction)


@dataclass(frozen=True, slots=True)
class ExtensionRequest:
    """By how many blocks a study is to be extended: ``more`` of them, or as many as tell a
    difference of ``until``."""

    more: int | None
    until: float | None

    def asked(self, study: Path) -> bool:
        """Whether an extension is asked for.  Raises UsageError for half of the request."""
        if self.more is not None and self.until is not None:
            raise click.UsageError("--more-blocks and --until exclude each other")
        if self.until is not None and not self.until > 0:
            raise click.UsageError("--until 0 is not a difference; for example --until 5%")
        asked = self.more is not None or self.until is not None
        if asked and not (study / "plan.jsonl").is_file():
            raise UsageError(
                f"{study} is not a results folder; only results can be extended",
                advice="Name the folder that `iotrial run` printed: iotrial run DIR"
                " --more-blocks N. For a study that has not started, set [design]"
                " blocks.",
            )
        if not asked and study.is_dir():
            raise UsageError(
                f"{study} is a folder, not a study file",
                advice=f"To resume its study: iotrial run {study}/study.toml --out {study}."
                f" To extend it: iotrial run {study} --more-blocks N.",
            )
        return asked


def lengthened(output: Output, folder: Path, wish: ExtensionRequest, *, pretend: bool) -> Study:
    """The study of ``folder``, extended as wished; that is on disk then.

    One that is not at its end goes on as it is: the same command again, after a run was killed,
    adds nothing twice.  Raises UsageError.
    """
    results = open_results(folder)
    check(folder, replace(results.study, pretended=pretend))
    check_extendable(results)
    if under_way(results):
        output.note(f"{folder} is unfinished: its study is resumed, not extended")
        return written_study(folder)
    more = wish.more if wish.more is not None else _until(results, wish.until or 0.0)
    longer = extend(results, more)
    note_extension(folder, longer)
    output.note(f"extended: from {count(longer.before, 'block')} to {longer.blocks}")
    if not results.study.design.looked and results.study.design.kind != "race":
        output.note("its intervals now hold simultaneously at all looks, and are wider")
    return written_study(folder)


def _until(results: Results, difference: float) -> int:
    """How many more blocks tell such a difference, in every comparison."""
    from iotrial.stats.judge import blocks_until  # SciPy is slow to import

    blocks = blocks_until(results, math.log1p(difference))
    more = blocks - reached(results)
    if more < 1:
        raise UsageError(
            f"{results.folder} has {reached(results)} blocks; this difference needs {blocks}",
            advice="Give a smaller difference, or a number of blocks: --more-blocks N.",
        )
    return more
