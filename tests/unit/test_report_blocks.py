"""Blocks: each kind has every shape, and no text in one becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markupsafe import Markup

from iotrial.report.blocks import (
    Block,
    BulletList,
    Callout,
    Collapsible,
    Column,
    Contents,
    Document,
    Figure,
    Figures,
    Heading,
    Picture,
    PrebuiltMarkup,
    Preformatted,
    RowGroup,
    Section,
    ShapeOnly,
    Table,
    Text,
    TextSpan,
    joined,
    pieces,
)
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown

SVG = Markup("<svg></svg>")
RENDERER = MarkdownIt("commonmark").enable("table")


def every(text: str) -> tuple[Block, ...]:
    """Each kind of block, with the text wherever it takes one."""
    span = TextSpan(text, "strong", text)
    words = (text, span, TextSpan(text, "small"), TextSpan(text, "code"), Picture(SVG, text))
    rows = (RowGroup(words), (text, words))
    return (
        Heading(words, 3, text),
        Text(words, "note"),
        Text(text, "alert"),
        BulletList((text, words)),
        Table((Column(text, "head"), Column(text, "n")), rows, text, text),
        Table((Column(text, "strip"),), (), text, text),
        Callout(text, (Text(words), Text(text)), text),
        Callout(text, (Text(text),)),
        Preformatted(text, "said"),
        Collapsible(words, (Text(text),), open=True),
        Figures((Figure("trials", SVG, text, text), Figure("x", SVG, text, text)), (Text(text),)),
        Contents(((text, text),)),
        PrebuiltMarkup(Markup("<hr>")),
        ShapeOnly("html", Text(text)),
        ShapeOnly("markdown", Text(text)),
        Section(words, (Text(text),), text, text),
    )


def document(text: str) -> Document:
    return Document(text, every(text), every(text), text)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_there_is_one_of_each_kind() -> None:
    assert {type(block) for block in every("x")} == set(get_args(Block))


@pytest.mark.parametrize("text", ["x", "<b onclick=y>&\"'</b>|[a](b)*_`#\n- 1", "a\nb"])
def test_no_text_becomes_markup(text: str) -> None:
    page, plain = Tags(html(document(text))), Tags(html(document("x")))
    assert page.open == []
    assert [tag for tag in page.tags if tag != "br"] == plain.tags


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20))
def test_in_markdown_neither(text: str) -> None:
    rendered = RENDERER.render(markdown(Document("t", (Text(text), BulletList((text, "end"))), ())))
    assert rendered.count("<li>") == 2
    assert "<a " not in rendered
    assert "<h2" not in rendered


def test_a_shape_leaves_out_what_is_for_another_alone() -> None:
    of = Document("t", (ShapeOnly("html", Text("page")), ShapeOnly("markdown", Text("wiki"))), ())
    assert "page" in html(of)
    assert "wiki" not in html(of)
    assert "wiki" in markdown(of)
    assert "page" not in markdown(of)


def test_markdown_leaves_out_what_a_page_folds_away_and_says_pictures_in_characters() -> None:
    row = (Picture(SVG, "--o--"), Picture(SVG))
    of = Document(
        "t",
        (Collapsible("more", (Text("evidence"),)), Table((Column("a"), Column("b")), (row,))),
        (),
    )
    assert "evidence" not in markdown(of)
    assert "| `--o--` | – |" in markdown(of)
    assert "<details><summary>more</summary>\n<p>evidence</p>" in html(of)


def test_callouts_that_follow_one_another_are_one_list_and_groups_are_bodies_of_their_own() -> None:
    text = Text("said")
    of = Document(
        "t",
        (Callout("one", (text,)), Callout("two", (text,), "EXCLUDED"), text),
        (Table((Column("a"),), (("first",), RowGroup("g"), ("second",))),),
    )
    page = html(of)
    assert page.count('<ul class="doubts">') == 1
    assert page.count("<tbody") == 2
    assert page.count('<tbody class="group">') == 1
    assert "- **two** (excluded): said" in markdown(of)


def test_words_are_joined_with_what_stands_between_them() -> None:
    link = TextSpan("b", href="x")
    assert joined(["a", link, ("c", "d")]) == ("a", ", ", link, ", ", "c", "d")
    assert pieces("a") == ("a",)
