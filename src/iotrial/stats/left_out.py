"""What an analysis of several factors leaves out since there would be too much of it, in words.

Nothing is left out silently: a reader of a report without interactions must not take it that there
are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.model.results import Results
from iotrial.model.trial import Treatment
from iotrial.stats import anova, interactions
from iotrial.stats.alias import estimable
from iotrial.stats.effects import coordinates, varied
from iotrial.stats.knees import crowded
from iotrial.stats.optimal import parameters
from iotrial.stats.responses import counted, responses


def left_out(results: Results) -> Iterator[str]:
    """A sentence for each workload and each of: interactions, shares of the variation; and for
    each factor whose knee is not looked for."""
    yield from crowded(results)
    study, by_workload = results.study, counted(results)
    for workload, metric in study.decide.primary:
        cells = responses(by_workload.get(workload, ()), metric, study).cells
        own = varied(cells, study.factors)
        if (many := interactions.possible(own)) > interactions.MOST:
            yield (
                f"{workload}: {many:,} interactions of two factors are possible, more than"
                f" {interactions.MOST:,}: none is estimated."
            )
        if why := _too_much(cells, own):
            yield f"{workload}: what explains the variation is not told (ANOVA): {why}."


def left_out_of_race(results: Results) -> Iterator[str]:
    """A sentence, where several factors race together: what one might look for, and why not."""
    if sum(len(factor.levels) > 1 for factor in results.study.factors) > 1:
        yield (
            "A race compares whole treatments: main effects, interactions, shares of the variation"
            " (ANOVA) and knees are not estimated, for what was dropped early was measured too"
            " seldom; a full design tells them."
        )


def _too_much(cells: Sequence[Treatment], own: interactions.Varied) -> str:
    """Why there is no table of shares; '' if that is not for its size."""
    if len(own) < 2:  # noqa: PLR2004 (one factor explains all)
        return ""
    if len(cells) > anova.MOST_CELLS:
        return f"{len(cells):,} treatments are more than {anova.MOST_CELLS:,}"
    counts = [len(labels) for _, labels in own]
    if parameters(counts, 2) <= anova.MOST_PARAMETERS:
        return ""
    wide = estimable(coordinates(cells, own), counts).matrix.shape[1]
    if wide <= anova.MOST_PARAMETERS:
        return ""
    return f"its model has {wide:,} parameters, more than {anova.MOST_PARAMETERS:,}"
