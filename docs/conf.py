"""Makes a site of these pages, by Sphinx: `./dev docs`.

The source folder is the checkout, so that a link leads to the same here and on a code host."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from posixpath import normpath

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "iotrial"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md"]
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:func", "json.*")]  # not public, or Python's own
myst_heading_anchors = 6
highlight_language = "none"
smartquotes = False
suppress_warnings = ["myst.header"]  # a level that is left out is the page's own affair

html_theme = "furo"
html_title = f"iotrial {metadata.version('iotrial')}"
html_copy_source = html_show_copyright = html_use_index = html_domain_indices = False
html_show_search_summary = False  # from a disk a page may not read another
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

PUBLIC = """
## Names

```{eval-rst}
.. autofunction:: iotrial.store.open_results
.. autofunction:: iotrial.judgement.judge
.. autofunction:: iotrial.report.document.document
.. autoclass:: iotrial.judgement.Judged
   :members: doubts
.. autoclass:: iotrial.model.finding.Comparison
.. autoclass:: iotrial.model.finding.Finding
.. autoclass:: iotrial.model.finding.RankVerdict
.. autoclass:: iotrial.model.trial.Doubt
.. autoexception:: iotrial.errors.IotrialError
```
"""
"""What docs/python.md calls public, from the docstrings."""


def navigation() -> str:
    """The groups of docs/README.md, where they are written, as tables of contents."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    text = "\n```{toctree}\n:hidden:\ndocs/README\n```\n"
    for name, group in re.findall(r"^##+ ([\w-]+)(.*?)(?=^##|\Z)", index, re.MULTILINE | re.DOTALL):
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n"
        for title, page in re.findall(r"^[|-] \[(.+?)\]\((\S+)\.md\)", group, re.MULTILINE):
            text += f"{title} <{normpath(f'/docs/{page}')}>\n"
        text += "```\n"
    return text


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Add what is on the site alone; leave only the text of a link to what is no page or file."""

    def link(found: re.Match[str]) -> str:
        target = (ROOT / name).parent / found[2]
        page = app.project.path2doc(target.resolve())
        lost = target.is_dir() or (target.is_file() and page and page not in app.project.docnames)
        return found[1] if lost else found[0]

    source[0] = re.sub(r"\[([^]]+)\]\(([\w./-]+)\)", link, source[0])
    if name == root_doc:
        source[0] += navigation()
    if name == "docs/python":
        source[0] += PUBLIC


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)
