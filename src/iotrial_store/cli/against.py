"""``iotrial run --against``: a run, compared with what is stored."""

from __future__ import annotations

from pathlib import Path

from iotrial.cli.compare import against
from iotrial.cli.output import Output
from iotrial.model.results import Results
from iotrial_store.cli import store_at


def reachable(url: str | None) -> None:
    """Raises UsageError, ExtraMissing or StoreError for a store that cannot be asked."""
    with store_at(url) as store:
        store.query("SELECT count(*) FROM results")


def compared(  # noqa: PLR0913 (options of run)
    output: Output,
    latter: Results,
    which: str,
    *,
    store: str | None,
    junit: Path | None,
    markdown: Path | None,
) -> int:
    """Say what a run comes to beside stored results; the exit code.  Raises UsageError where there
    are none of this study on this machine, and StoreError."""
    from iotrial_store.against import former_results

    with former_results(store, latter, which) as (former, between):
        output.answer("", f"against {which}: {len(former)} stored sessions")
        files = {"--junit": junit, "--markdown": markdown}
        return against(output, former, latter, between, files)
