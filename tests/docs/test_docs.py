"""The documentation is a test: links resolve, what exists is described, sessions are real.

The verbs of wings (iotrial_lint and others) too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import iotrial.errors
from iotrial.cli.main import describe, status
from iotrial.formats import formats
from iotrial.plan.template import templates
from iotrial.tools import tools
from iotrial.tunables import families

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "command-line.md"
VERBS = describe()
COMMON = {"--json", "--quiet", "--verbose", "--help", "-h", "-q", "-v"}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- links -------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.strip().replace(" ", "-") for text in words}


def links(path: Path) -> Iterator[str]:
    """Links to our own files: not to the web, and not in code."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not link.startswith(("https://", "mailto:")):
            yield link


@pytest.mark.parametrize("path", PAGES, ids=short)
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


SOURCES = [ROOT, *(ROOT / "src").iterdir(), ROOT / "docs"]


@pytest.mark.parametrize("path", [p for p in PAGES if p.parent == ROOT / "docs"], ids=short)
def test_source_files_that_a_page_names_are_there(path: Path) -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|sh|toml))`", path.read_text("utf-8"))
    assert [name for name in named if not any((base / name).exists() for base in SOURCES)] == []


def test_every_page_can_be_found_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert not set((ROOT / "docs").rglob("*.md")) - linked - {index}


def test_the_index_has_four_groups_and_each_page_is_in_one() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    kinds = re.findall(r"^## (\w[\w-]*): (?:.*)$", index, re.MULTILINE)
    assert kinds == ["Tutorial", "How-to", "Reference", "Explanation"]
    groups = index[index.index("\n## Tutorial") : index.index("\n### Decisions")]
    listed = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", groups, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted(pages)


# --- what exists is described ------------------------------------------------------------------


@cache
def sections() -> dict[str, str]:
    """Heading of the second level → text below it, of the command-line page."""
    parts = re.split(r"^## +", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    pairs = (part.partition("\n") for part in parts)
    return {heading.strip().strip("`"): text for heading, _, text in pairs}


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    """A verb's, and those of its own sub-commands."""
    yield from command.params
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        yield from parameters(each)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_described_with_all_its_options(verb: str) -> None:
    text = sections()[verb]
    for parameter in parameters(VERBS[verb]):
        if isinstance(parameter, click.Argument):
            assert parameter.human_readable_name in text
        else:
            names = [name for name in parameter.opts if name.startswith("--")]
            assert set(names) <= COMMON or any(f"`{name}" in text for name in names), names


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_is_described_that_does_not_exist(verb: str) -> None:
    known = {name for parameter in parameters(VERBS[verb]) for name in parameter.opts} | COMMON
    used = {
        word
        for command in re.findall(rf"iotrial {verb}\b[^`\n]*", sections()[verb])
        for word in re.findall(r"(?<=\s)--[a-z-]+", command)
    }
    assert used <= known


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_an_example(verb: str) -> None:
    found = [VERBS[verb]]
    for each in found:
        example = (each.help or "").partition("Example:")[2]
        assert re.search(rf"\biotrial\S* {verb}\b", example), each.name
        found += each.commands.values() if isinstance(each, click.Group) else ()


def exit_codes() -> set[int]:
    kinds: list[type[iotrial.errors.IotrialError]] = [iotrial.errors.IotrialError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.exit_code for kind in kinds} | {0, 1}


@pytest.mark.parametrize("page", [REFERENCE, ROOT / "README.md"], ids=short)
def test_every_exit_code_is_described_and_no_other(page: Path) -> None:
    listed = re.findall(r"^\| *(\d+) *\|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(code) for code in listed} == exit_codes()
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("error", [n for n in vars(iotrial.errors) if n[0].isupper()])
def test_every_error_is_in_the_drawn_tree(error: str) -> None:
    if issubclass(getattr(iotrial.errors, error, object), iotrial.errors.IotrialError):
        assert re.search(rf"\b{error}\b", iotrial.errors.__doc__ or "")


def test_every_format_is_listed() -> None:
    text = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
    assert not [name for name in formats() if f"`{name}`" not in text]


def test_templates_tools_and_families_are_listed() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for name, _ in templates():
        assert f"`{name}`" in sections()["init"]
    for name in tools():
        assert f"`{name}`" in text
    for family in families():
        assert f"`{family}`" in sections()["knobs"]


def test_the_two_commands_are_the_first_thing_to_try() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 0 < text.index("./dev demo") < text.index("./dev test")


# --- sessions ----------------------------------------------------------------------------------

SESSION = re.compile(r"<!-- runs -->\n+```console\n(.*?)```", re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, list[str]]]:
    """(command, lines it is said to print) of a session."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, [line for line in printed.splitlines() if line.strip()]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def as_pattern(line: str) -> str:
    """``…`` stands for anything; blanks are as wide as they like."""
    return ".*?".join(re.escape(plain(part)) for part in line.split("…"))


def sessions() -> list[Path]:
    return [path for path in PAGES if SESSION.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", sessions(), ids=short)
def test_sessions_are_real(
    page: Path,
    tmp_path: Path,
    state: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command of the page, in order, in one empty folder; what is shown is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    last = 0
    for block in SESSION.findall(page.read_text(encoding="utf-8")):
        for command, expected in steps(block):
            if command == "echo $?":
                assert [str(last)] == expected
                continue
            words = shlex.split(command)
            assert words[0] == "iotrial", "only iotrial is executed from the documentation"
            last = status(words[1:])
            printed = capfd.readouterr()
            said = plain(f"{printed.out} {printed.err}")
            pattern = ".*?".join(map(as_pattern, expected))
            assert re.search(pattern, said, re.DOTALL), f"$ {command}\n{printed}"


def test_the_pages_hold_sessions() -> None:
    assert len(sessions()) >= 2
