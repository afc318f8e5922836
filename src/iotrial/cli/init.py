"""``iotrial init``: a study to edit."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.text import Text

from iotrial.cli.output import Output, common
from iotrial.errors import UsageError


@click.command()
@click.argument("template", required=False)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON Schema of study files instead.")
@common
def command(output: Output, template: str | None, file: Path | None, *, schema: bool) -> None:
    """Write a study from TEMPLATE to FILE (or stdout); without TEMPLATE, list the templates.

    \b
    Example:
      iotrial init scheduler study.toml
      iotrial init --schema > study.schema.json
    """
    if schema:
        from iotrial.plan.schema import json_schema

        output.text(json.dumps(json_schema(), indent=2))
        return
    from iotrial.plan import template as templates

    if template is None:
        found = templates.templates()
        output.document({"templates": [{"name": n, "summary": s} for n, s in found]})
        for name, summary in found:
            output.answer(Text.assemble((f"{name:12}", "bold"), summary))
        return
    text = templates.template(template)
    if file is None:
        output.document({"template": template, "study": text})
        if not output.json:
            output.text(text)
        return
    _write(file, text)
    output.document({"template": template, "file": str(file)})
    output.answer(f"{file} is written. Look at it, then: iotrial plan {file}")


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(
            f"{file} exists and is left alone", advice="Name another file, or remove it."
        ) from None
