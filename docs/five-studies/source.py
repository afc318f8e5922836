"""A study's file as data: what ``iotrial import`` makes of it, and ``iotrial compare`` says."""

from __future__ import annotations

import contextlib
import io
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from iotrial.cli.main import status
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.stats.paired import judge_recorded
from iotrial.store import open_results

DATA = Path(__file__).resolve().parent / "data"
MAPS = {
    "redhawk": 'session = ["storage", "queue_depth", "os_tuned"]\n',
    "violin": "[limits]\nin_flight = {in_flight}\n",
    "cluster-md-fio": '[limits]\nlink = "0.95Gbit/s"\n',
}
Keep = Callable[[dict[str, str]], bool]


@dataclass(frozen=True)
class Study:
    """One imported file."""

    results: Results
    document: Mapping[str, Any]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return judge_recorded(self.results).findings

    def only(self, keep: Keep | None = None, **levels: str) -> Study:
        """The runs at these levels, and those that ``keep`` wants by their treatment."""
        records = tuple(
            record
            for record in self.results.records
            if levels.items() <= (treatment := dict(record.trial.treatment)).items()
            and (keep is None or keep(treatment))
        )
        return Study(replace(self.results, records=records), self.document)

    def find(self, **wanted: object) -> Finding:
        """The only finding with these attributes."""
        (found,) = [f for f in self.findings if all(getattr(f, k) == v for k, v in wanted.items())]
        return found

    def doubts(self, check: str) -> list[Mapping[str, Any]]:
        return [doubt for doubt in self.document["doubts"] if doubt["check"] == check]


def imported(folder: Path, name: str, *options: str) -> Study:
    """``iotrial import data/NAME.csv`` into ``folder``."""
    if text := MAPS.get(name):
        load = settings("violin")["load"]
        most = load["hosts"] * load["numjobs"] * max(load["iodepth"].values())
        (folder / "map.toml").write_text(text.format(in_flight=most), encoding="utf-8")
        options = (*options, "--map", str(folder / "map.toml"))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        arguments = ["import", str(DATA / f"{name}.csv"), "--out", str(folder / name)]
        code = status([*arguments, "--json", *options])
    if code:
        raise SystemExit(f"import of {name} failed: {said.getvalue()}")
    return Study(open_results(folder / name), json.loads(said.getvalue()))


def settings(name: str) -> Any:  # noqa: ANN401 (what TOML holds)
    """What is in data/NAME-settings.toml, or data/NAME.toml."""
    for file in (DATA / f"{name}-settings.toml", DATA / f"{name}.toml"):
        if file.exists():
            return tomllib.loads(file.read_text(encoding="utf-8"))
    raise FileNotFoundError(name)
