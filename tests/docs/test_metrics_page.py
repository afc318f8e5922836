"""The page of metrics is what the catalogue and the tools say, and describes what tools gave.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from iotrial.errors import IotrialError
from iotrial.formats import formats
from iotrial.model.measurement import split
from pages.metrics import reference

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "metrics.md"
REMAKE = "IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_metrics_page.py"
LARGE = 50_000
FORMATS = {
    "bonnie++": "bonnie++", "dd": "dd", "elbencho": "elbencho", "fio": "fio-json", "ior": "ior",
    "iozone": "iozone", "iperf3": "iperf3", "mdtest": "mdtest",
}  # fmt: skip
"""Tool → the format in which iotrial reads it."""


def rows(heading: str) -> dict[str, list[str]]:
    """First cell → the others, of the table below a heading."""
    part = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| `([^|`]+)` \| (.*) \|$", part, re.MULTILINE)
    return {name: rest.split(" | ") for name, rest in cells}


def test_the_page_is_what_the_catalogue_says() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(reference(), "utf-8")
    assert PAGE.read_text("utf-8") == reference(), f"remake it: {REMAKE}"


def test_what_recorded_outputs_give_is_on_the_page_with_the_tool_that_gave_it() -> None:
    operations, quantities, latencies = map(rows, ("Operations", "Quantities", "Latencies"))
    given: dict[str, set[str]] = {}
    for file in sorted((ROOT / "tests" / "data").rglob("*")):
        for tool, name in FORMATS.items():
            if file.is_file() and file.stat().st_size < LARGE and tool[:3] in str(file):
                data = file.read_bytes()
                if formats()[name].recognises(data, file.name):
                    with suppress(IotrialError):  # recorded broken
                        runs = formats()[name].read(data, file.name)
                        found = {m.metric for run in runs for m in run.measurements}
                        given.setdefault(tool, set()).update(found)
    assert set(given) == set(FORMATS)
    for tool, metrics in given.items():
        for metric in metrics:
            operation, quantity = split(metric)
            assert operation.partition(".")[0] in operations, metric
            (kind, dot, _) = quantity.partition(".")
            told = latencies[kind][0] if dot and kind in latencies else quantities[quantity][2]
            assert tool in told.split(", "), (tool, metric)


def test_a_metric_has_its_unit_and_direction() -> None:
    quantities = rows("Quantities")
    assert quantities["iops"][:2] == ["1/s", "higher"]
    assert quantities["per_io"][:2] == ["s", "lower"]
    assert quantities["depth"][:3] == ["number", "–", "imports"]
