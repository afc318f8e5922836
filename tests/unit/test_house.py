"""Rules of the house that no linter of ours knows."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
WINGS = [path.name for path in SOURCE.iterdir() if path.name.startswith("iotrial_")]
BELOW_CLI = [
    path
    for path in MODULES
    if SOURCE / "iotrial" / "cli" not in path.parents
    and not (path.parent.name in WINGS and path.stem.startswith("cli"))
    and not (path.parent.name == "cli" and path.parents[1].name in WINGS)
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [ROOT / "dev", ROOT / ".ci" / "run"]
LONGEST_MODULE = 1000
"""Lines.  A subject stays whole; what one must hold in one's head is a function, and ruff bounds
those."""


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Module:
    calls: list[tuple[str, str]]
    """What is called, and what it is told of a shell."""
    raised: list[str]
    classes: list[str]
    docstring: str
    said: list[str]
    """Its texts: strings without docstrings, but those of decorated functions."""
    imported: list[tuple[str, str]]
    """What it imports at its top, for types alone, or in a function: ("a.b", "c") of ``from a.b
    import c``, ("a.b", "") of ``import a.b``."""


@cache
def module(path: Path) -> Module:
    """What the rules ask about: each file is parsed once, and its syntax is not kept."""
    tree = ast.parse(text_of(path))
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return Module(
        [(named(call.func), keywords(call)) for call in calls],
        [ast.unparse(node) for node in nodes if isinstance(node, ast.Raise)],
        [node.name for node in nodes if isinstance(node, ast.ClassDef)],
        ast.get_docstring(tree) or "",
        list(texts(nodes)),
        list(imported(nodes)),
    )


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)


def named(function: ast.expr) -> str:
    """``a.b.c``; empty for what has no such name."""
    parts = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([function.id, *reversed(parts)]) if isinstance(function, ast.Name) else ""


def keywords(call: ast.Call) -> str:
    return " ".join(f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords if k.arg == "shell")


def those(paths: list[Path], says: Callable[[Path], list[Any]]) -> dict[str, list[Any]]:
    """Name → what is wrong there.  One test a rule: one a file would be thousands."""
    return {short(path): wrong for path in paths if (wrong := says(path))}


def test_the_source_is_found() -> None:
    """Else all that follows would hold for nothing."""
    assert len(MODULES) > 30
    assert len(BELOW_CLI) < len(MODULES)
    assert len(TESTS) > 30


def prints(path: Path) -> list[str]:
    forbidden = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write"}
    called = [name for name, _ in module(path).calls if name in forbidden]
    return called + [each for each in module(path).raised if "SystemExit" in each]


def test_nothing_prints_or_exits_below_the_command_line() -> None:
    assert those(BELOW_CLI, prints) == {}
    assert those(MODULES, prints), "what cli/ does is seen, so it would be seen elsewhere"


def shells(path: Path) -> list[str]:
    return [
        f"{name} {shell}"
        for name, shell in module(path).calls
        if name in {"os.system", "os.popen"} or shell not in {"", "shell=False"}
    ]


def test_no_command_goes_through_a_shell() -> None:
    assert those(MODULES, shells) == {}


def test_nothing_is_left_to_do() -> None:
    """Unfinished work is an issue, not a comment."""
    sign = re.compile(rf"\b(?:{'TO' + 'DO'}|{'FIX' + 'ME'}|{'X' + 'XX'})\b")
    assert those([*MODULES, *TESTS, *SCRIPTS], lambda path: sign.findall(text_of(path))) == {}


def test_a_module_is_short_and_says_what_it_is() -> None:
    lengths = {short(path): len(text_of(path).splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}
    said = {short(path): module(path).docstring for path in MODULES}
    assert [name for name, docstring in said.items() if len(docstring) <= 15] == []


def test_no_name_without_a_meaning() -> None:
    stem = re.compile(r"(utils?|helpers?|managers?|misc|common)$")
    assert those(MODULES, lambda path: stem.findall(path.stem)) == {}
    name = re.compile(r"(Manager|Handler|Helper|Utils?)$")
    assert those(MODULES, lambda path: list(filter(name.search, module(path).classes))) == {}


def test_what_needs_root_is_run_alone() -> None:
    """./dev test runs tests/integration serially and everything else side by side."""
    beside = [path for path in TESTS if "integration" not in path.parts and path != Path(__file__)]
    assert those(beside, lambda path: re.findall(r"\bmark\.root\b", text_of(path))) == {}


def test_the_core_alone_has_tests_that_ask_for_no_wing() -> None:
    """`./dev test --all --only core`, whose collection ends with the first that does."""
    words = ["--quiet", "-p", "no:cacheprovider", "--without-wings", "--collect-only"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests/conformance"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    long, wings = (
        set((ROOT / "tests" / name).read_text("utf-8").splitlines())
        for name in ("long.txt", "wings.txt")
    )
    assert not {line for line in long & wings if line.startswith("tests/")}, "left out already"


def test_no_program_is_mocked() -> None:
    mock = re.compile(r"(patch|setattr)\(\s*[\"']?(?:[\w.]+, *[\"'])?subprocess")
    assert those(TESTS, lambda path: mock.findall(text_of(path))) == {}


def test_help_is_fast() -> None:
    """What is slow to import is imported by the verb that needs it."""
    slow = (
        "scipy", "numpy", "altair", "vl_convert", "pandas", "jinja2", "openpyxl", "pyarrow",
        "numba",
    )  # fmt: skip
    listed = f"sorted(set(sys.modules) & set({slow}))"
    code = f"import sys, iotrial.cli.main as m; m.status(['--help']); sys.exit({listed} or 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_what_is_refused_is_refused_before_anything_slow_is_loaded(tmp_path: Path) -> None:
    """NumPy and SciPy take longer to import than all else together: who judges loads them."""
    slow = ("scipy", "numpy", "prometheus_client", "asyncio", "altair")
    verbs = [["plan", "none.toml"], ["run", "none.toml"], ["status", "none"], ["restore"]]
    listed = f"sorted(set(sys.modules) & set({slow}))"
    calls = f"codes = [m.status(words) for words in {verbs}]"
    code = f"import sys, iotrial.cli.main as m; {calls}; sys.exit(repr((codes, {listed})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60,
        cwd=tmp_path, env={**os.environ, "IOTRIAL_STATE": str(tmp_path)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "([2, 2, 2, 0], [])", done.stderr


LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-docs.lock")


def locked(lock: str) -> list[tuple[str, str]]:
    """(name, version) of every entry; some packages have one for each range of Pythons."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE)


def asked(project: dict[str, Any], group: str) -> Iterator[str]:
    for each in project["dependency-groups"][group]:
        if isinstance(each, str):
            yield each
        else:
            yield from asked(project, each["include-group"])


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_host_and_checks_everything(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.findall(r"^--?\w.*", text, re.MULTILINE)
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked(lock)) > 20
    assert not [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry]


@pytest.mark.parametrize(("lock", "group"), list(zip(LOCKS, ("setup", "dev", "docs"), strict=True)))
def test_the_lock_holds_what_the_project_asks_for(lock: str, group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*asked(project, group)]
    if group != "docs":  # which uses what a run has
        wanted += project["project"]["dependencies"] + project["build-system"]["requires"]
        wanted += (each for extra in ("charts", "xlsx", "parquet") for each in extras[extra])
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        versions = [version for each, version in locked(lock) if each == name]
        assert versions, f"{requirement.name} is not in {lock}: ./dev lock"
        assert all(map(requirement.specifier.contains, versions)), f"{requirement}: {versions}"


def test_what_a_run_needs_is_part_of_what_tests_need() -> None:
    """So that test tools can be added to an environment that is in use."""
    run, tests, docs = (set(locked(lock)) for lock in LOCKS)
    assert run < tests
    both = dict(tests).keys() & dict(docs).keys()
    assert {each for each in docs if each[0] in both} <= tests
    assert "jinja2" in both
    assert not {"pytest", "mypy", "ruff", "numba"} & {name for name, _ in run}


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "9. Accepting Warranty or Additional Liability." in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("path", SCRIPTS, ids=short)
def test_scripts_can_be_executed(path: Path) -> None:
    assert path.stat().st_mode & 0o111 == 0o111


def test_dev_explains_itself_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "dev", "help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    for name in ("demo", "test", "lint", "docs", "bench", "iotrial", "build", "setup", "lock"):
        assert re.search(rf"^\./dev {name}\b", done.stdout, re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_dev_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [ROOT / "dev", "deom"], capture_output=True, text=True, check=False, timeout=10
    )
    assert done.returncode == 2
    assert "no sub-command deom" in done.stderr


def test_no_two_files_of_tests_have_one_name() -> None:
    """They are modules without packages: the second of a name cannot be imported."""
    names = Counter(path.name for path in TESTS if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


# -- the words of texts for users -----------------------------------------------------------------

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IMITATED = SOURCE / "iotrial" / "hosts" / "fake"
"""What other programs say is not ours to word."""
FEWEST_ROWS = 25
INNER = {"property", "cache", "contextmanager", "classmethod", "staticmethod"}
"""Decorators of functions whose docstring no user sees: those of a verb or a check are shown."""


def word_list() -> list[str]:
    """The variants of the left column."""
    section = text_of(ROOT / "CONTRIBUTING.md").partition("## Words\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!not \|)([^|-][^|]*) \| [^|]+ \|$", section, re.MULTILINE)
    assert len(rows) >= FEWEST_ROWS
    return [variant for row in rows for variant in row.split(" / ")]


@cache
def dialect() -> re.Pattern[str]:
    def pattern(variant: str) -> str:
        words = re.sub(r"\bN\b", r"[\\d.,]+", re.escape(variant))
        words = words.replace("…", r"(?:\S+\ ){0,2}\S+")
        return rf"\b{words}" + (r"\b" if variant[-1].isalnum() else "")

    return re.compile("|".join(map(pattern, word_list())), re.IGNORECASE)


def said_to_users(path: Path) -> list[str]:
    return module(path).said


def texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    hidden: set[int] = set()
    for node in nodes:
        first = getattr(node, "body", None)
        if isinstance(node, ast.FunctionDef) and any(map(shown, node.decorator_list)):
            first = node.body[1:]
        for each in first if isinstance(first, list) else []:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                hidden.add(id(each.value))
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(each) for each in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in hidden
        ):
            yield node.value


def shown(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) not in INNER


def dialect_of(texts: Iterable[str]) -> list[str]:
    return [found for text in texts for found in dialect().findall(" ".join(text.split()))]


def test_the_strings_of_the_source_keep_to_the_word_list() -> None:
    modules = [path for path in MODULES if IMITATED not in path.parents]
    assert those(modules, lambda path: dialect_of(said_to_users(path))) == {}


@pytest.mark.parametrize("path", PAGES, ids=short)
def test_a_page_keeps_to_the_word_list(path: Path) -> None:
    assert dialect_of([text_of(path)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "So long after the link to it is lost, the machine puts everything back itself.",
        "not beaten in read.iops and read.clat.p99 together",
        "doubt drift (1 trial, which does not count)",
        "Any net will do",
        "these trials could tell differences from 9.4 % up",
        "read 54.1 k/s",
    ],
)
def test_the_word_list_finds_the_former_sentences(text: str) -> None:
    assert dialect_of([text])


# -- no import leads in a circle ------------------------------------------------------------------


def imports() -> dict[str, set[str]]:
    """Module → the modules of ours that it imports."""
    names = {".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in MODULES}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        full = ((f"{source}.{each}", source) for source, each in module(path).imported)
        found[name] = {one if one in names else package for one, package in full} & set(names)
        found[name] -= {name}
    return found


def circles(of: Mapping[str, set[str]]) -> list[list[str]]:
    """What stays when all that leads nowhere is taken away, again and again."""
    left = {name: set(told) for name, told in of.items()}
    while gone := {name for name, told in left.items() if not told & set(left)}:
        left = {name: told for name, told in left.items() if name not in gone}
    leading = {name: {n for n, told in left.items() if name in told} for name in left}
    while gone := {name for name, told in leading.items() if not told & set(leading)}:
        leading = {name: told for name, told in leading.items() if name not in gone}
    return [sorted(leading)] if leading else []


def test_no_import_leads_in_a_circle() -> None:
    """Nor one that is for types alone, or in a function: to understand one module is to need only
    those below it."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set(), "d": {"a"}}) == []
    assert circles(imports()) == []


# -- one trial passes through few files -----------------------------------------------------------

WALK = """
import json, sys, threading
from pathlib import Path

from iotrial.execute import runner
from iotrial.execute.interruption import Interruption
from iotrial.hosts.fake.host import FakeHost
from iotrial.plan.load import load_study

passed = set()


def noting(do):
    def trial(*words):
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return do(*words)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def note(frame, event, _):
        if event == "call":
            passed.add(frame.f_code.co_filename)

    return trial


runner.execute_trial = noting(runner.execute_trial)
with Interruption() as stop:
    runner.execute_study(load_study(Path(sys.argv[1])), FakeHost(), Path("out"), interruption=stop)
print(json.dumps(sorted(passed)))
"""
STUDY = """
question = "Does read-ahead matter?"
targets.disk.loop.size = "64MiB"
workloads.read = { tool = "fio", options = { rw = "read", bs = "64k", runtime = "1s" } }
factors.ahead = { tunable = "queue.read_ahead_kb", levels = [128, 512], baseline = 128 }
design.blocks = 1
"""


def test_the_walk_of_one_trial_is_short_and_the_page_that_describes_it_is_true(
    tmp_path: Path,
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-c", WALK, "study.toml"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    own = f"{SOURCE / 'iotrial'}/"
    files = {path.removeprefix(own) for path in json.loads(done.stdout) if path.startswith(own)}
    on_disk = {"store.py", "rows.py", "files.py", "trial_files.py"}
    walk = {path for path in files if path.startswith("execute/") or path in on_disk}
    page = text_of(ROOT / "ARCHITECTURE.md")
    table = page.partition("The walk of one trial")[2].partition("\n4. ")[0]
    assert set(re.findall(r"`([a-z_/]+\.py)`", table)) == walk
    assert len(walk) <= 20
