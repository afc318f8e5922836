"""The schema says the whole contract, describes every key, and knows every table."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrial.errors import StudyError
from iotrial.plan.load import parse_study
from iotrial.plan.schema import json_schema
from iotrial.plan.validate import TABLES, allowed, validate

CONTRACT = Path(__file__).parents[1] / "data" / "studies" / "contract.toml"


def tables(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "StudyFile", schema
    yield from schema["$defs"].items()


def test_the_whole_contract_is_sayable() -> None:
    spec, problems = validate(tomllib.loads(CONTRACT.read_text("utf-8")))
    assert problems == []
    assert spec is not None
    assert spec.design.budget == 1800.0
    assert spec.factors["rsize"].range is not None
    assert spec.factors["rsize"].range.start == 20480


def test_the_contract_uses_every_key_there_is() -> None:
    """So that the test above is about all of them."""
    text = CONTRACT.read_text("utf-8")
    for model in TABLES.values():
        for name, field in model.model_fields.items():
            key = field.alias or name
            if (model.__name__, key) != ("MountTable", "options"):
                assert re.search(rf"\b{key}\b( =|\.|\])", text), f"{model.__name__}.{key}"


def test_what_this_version_does_not_execute_is_refused_and_nothing_is_ignored() -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(CONTRACT.read_text("utf-8"), "contract.toml", lambda _name: "")
    refused = set(re.findall(r"(\S+): \w+ is not supported by this version", str(caught.value)))
    assert refused == {"exclude[0].factor"}


def test_the_published_schema_is_json_and_describes_every_key_with_an_example() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    for name, table in tables(schema):
        assert table["additionalProperties"] is False, name
        assert table["description"], name
        for key, field in table["properties"].items():
            assert field.get("description"), f"{name}.{key}"
            assert field.get("examples"), f"{name}.{key}"


def test_every_example_in_the_schema_is_accepted_where_it_stands() -> None:
    for model in TABLES.values():
        for name, field in model.model_fields.items():
            for example in field.examples or []:
                partial = {field.alias or name: example}
                _, problems = _validate(model.__name__, partial)
                assert [p for p in problems if p.path[-1:] == (field.alias or name,)] == [], name


def _validate(model: str, partial: dict[str, Any]) -> tuple[object, list[Any]]:
    path = next(path for path, found in TABLES.items() if found.__name__ == model)
    data: Any = partial
    for part in reversed(path):
        data = [data] if part == "*" and path[0] == "stage" else {part.replace("*", "x"): data}
    spec, problems = validate(data)
    wrong = [p for p in problems if p.message != "is missing"]
    return spec, wrong


def test_every_table_of_the_schema_is_known_by_its_place() -> None:
    named = {name for name, _ in tables(json_schema())}
    assert {model.__name__ for model in TABLES.values()} == named


def test_the_keys_allowed_at_a_place_are_those_of_its_table() -> None:
    assert allowed(("factors", "depth", "range")) == ["from", "to", "step"]
    assert allowed(("stage", 3))[:3] == ["vary", "fix", "then"]
    assert allowed(("stage", 3, "range")) == ["from", "to", "step"]
    assert "loop" in allowed(("targets", "any name"))
    assert allowed(("workloads", "w", "options")) == []
