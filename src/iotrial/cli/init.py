"""``iotrial init``: a study to edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
from rich.text import Text

from iotrial.cli.completion import of_templates
from iotrial.cli.output import Output, common
from iotrial.errors import UsageError
from iotrial.report.layout import TextTable


@click.command()
@click.argument("template", required=False, shell_complete=of_templates)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--published", is_flag=True, help="List the published studies among the templates.")
@click.option(
    "--full",
    is_flag=True,
    help="The full form, for your own disks and servers (published studies, nvme). Default: a"
    " short form that runs on loop devices in minutes.",
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of study files instead.")
@common
def command(  # noqa: PLR0913 (click hands over every option)
    output: Output,
    template: str | None,
    file: Path | None,
    *,
    published: bool,
    full: bool,
    schema: bool,
) -> None:
    """Write a study from TEMPLATE to FILE (or stdout); without TEMPLATE, list the templates.

    The job files and further studies that it needs are written to the folder of FILE.

    \b
    Example:
      iotrial init scheduler study.toml
      iotrial init --published
      iotrial init redhawk study.toml
      iotrial init redhawk --full study.toml
      iotrial init --schema > study.schema.json
    """
    if schema:
        from iotrial.plan.schema import json_schema

        output.text(json.dumps(json_schema(), indent=2))
        return
    from iotrial.plan import template as templates

    if template is None:
        _list(output, published=published)
        return
    if published:
        raise UsageError(
            "--published lists templates and excludes a TEMPLATE",
            advice=f"Remove one of them: iotrial init {template}",
        )
    form: templates.Form = "full" if full else "small"
    text, beside = templates.template(template, form), templates.beside(template, form)
    if file is None:
        studies = {name: each for name, each in beside.items() if name.endswith(".toml")}
        jobs = {name: each for name, each in beside.items() if name not in studies}
        document = {"template": template, "study": text, "jobfiles": jobs, "studies": studies}
        output.document(document)
        if not output.json:
            output.text(text)
        return
    written = _write({file: text, **{file.parent / name: each for name, each in beside.items()}})
    output.document({"template": template, "file": str(file), "written": written})
    also = f", with {' '.join(written[1:])} in the same folder" if beside else ""
    output.answer(f"{file} is written{also}. Review it, then: iotrial plan {file}")


def _list(output: Output, *, published: bool) -> None:
    """The templates of one kind, and how the others are listed."""
    from iotrial.plan import template as templates

    found = [
        (name, summary)
        for name, summary in templates.templates()
        if (name in templates.PUBLISHED) is published
    ]
    if published:
        found.sort(key=lambda each: templates.PUBLISHED.index(each[0]))
    output.document(
        {"templates": [{"name": n, "summary": s, "published": published} for n, s in found]}
    )
    table = TextTable()
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, summary in found:
        table.add_row(name, Text(summary))
    here, others = "iotrial init", "iotrial init --published"
    told = f"All other templates: {here}" if published else f"Published studies: {others}"
    output.answer(table, Text(f"Write one: iotrial init NAME study.toml.  {told}"))


def _write(texts: Mapping[Path, str]) -> list[str]:
    """All of them or, where one exists already, none."""
    for file in texts:
        if file.exists() or file.is_symlink():
            _refuse(file)
    for file, text in texts.items():
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileExistsError:
            _refuse(file)
    return [str(file) for file in texts]


def _refuse(file: Path) -> None:
    raise UsageError(
        f"{file} exists; it is not overwritten", advice="Name another file, or remove it."
    ) from None
