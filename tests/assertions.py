"""What the files of tests assert, as normalised text: for tests/given_up.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BLOCKS = {"raises", "warns", "deprecated_call"}  # of pytest: a with block that is an assertion
SKIPS = {"skip", "skipif", "xfail", "importorskip"}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Item:
    """One thing that a test says: an assertion, numbers, or a way to end without having judged."""

    where: str  # FILE::FUNCTION, FILE::CLASS::METHOD, or FILE for what is outside of them
    text: str
    line: int
    numbers: tuple[str, ...] = ()


@dataclass
class Said:
    """What all files of tests say, by kind; ``scopes`` are the places where something is said."""

    scopes: set[str] = field(default_factory=set)
    assertions: list[Item] = field(default_factory=list)
    numbers: list[Item] = field(default_factory=list)
    ways_out: list[Item] = field(default_factory=list)


def words(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def last(node: ast.expr) -> str:
    """``raises`` of ``pytest.raises(…)``, ``skipif`` of ``pytest.mark.skipif``."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def numbers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Those in strings too: studies and job files are text.  But not which of several is meant."""
    for node in nodes:
        indices = {id(each.slice) for each in ast.walk(node) if isinstance(each, ast.Subscript)}
        for each in ast.walk(node):
            if id(each) in indices:
                continue
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield from NUMBER.findall(each.value)
            elif isinstance(each, ast.Constant) and type(each.value) in {int, float}:
                yield repr(each.value)


class _Unnumbered(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        numeric = type(node.value) in {int, float}
        return ast.copy_location(ast.Name("N"), node) if numeric else node


def unnumbered(node: ast.expr) -> str:
    """How often an assertion is made is a number of its own, and so told once."""
    return words(_Unnumbered().visit(ast.parse(ast.unparse(node), mode="eval").body))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods; what is nested in one belongs to it."""
    nodes: list[tuple[str, ast.AST]] = [("", tree)]
    while nodes:
        name, node = nodes.pop()
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name + each.name, each
            elif isinstance(each, ast.ClassDef):
                nodes.append((f"{name}{each.name}::", each))
            elif isinstance(each, ast.If | ast.Try):
                nodes.append((name, each))


@dataclass
class Module:
    file: str
    tree: ast.Module
    local: dict[str, str] = field(default_factory=dict)  # a name here: MODULE.NAME


def _without_limits(tree: ast.Module) -> ast.Module:
    """How long a test waits for what hangs judges nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [
                each for each in node.keywords if each.arg not in {"timeout", "within"}
            ]
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [
                each
                for each in node.decorator_list
                if not ast.unparse(each).startswith("pytest.mark.timeout(")
            ]
    return tree


def modules(folder: Path) -> list[Module]:
    found = []
    for path in sorted((folder / "tests").rglob("*.py")):
        tree = _without_limits(ast.parse(path.read_text("utf-8")))
        module = Module(str(path.relative_to(folder)), tree)
        module.local = {
            name: f"{path.stem}.{name}" for name, _ in functions(module.tree) if "::" not in name
        }
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                origin = node.module.rpartition(".")[2]
                for name in node.names:
                    module.local[name.asname or name.name] = f"{origin}.{name.name}"
        found.append(module)
    return found


def called(call: ast.Call, module: Module) -> str:
    """MODULE.NAME of a function of the tests; of a method only its name, with a dot before."""
    if isinstance(call.func, ast.Name):
        return module.local.get(call.func.id, "")
    if isinstance(call.func, ast.Attribute):
        of = call.func.value
        if isinstance(of, ast.Name) and of.id in module.local:
            return f".{call.func.attr}"
        return f"{of.id}.{call.func.attr}" if isinstance(of, ast.Name) else f".{call.func.attr}"
    return ""


def is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Raise):
        return node.exc is not None and last(node.exc) == "AssertionError"
    return isinstance(node, ast.Call) and last(node) in BLOCKS | {"fail"} and _of_pytest(node)


def _of_pytest(call: ast.Call) -> bool:
    of = call.func
    return isinstance(of, ast.Name) or (
        isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "pytest"
    )


def asserting(all_modules: Sequence[Module]) -> set[str]:
    """Functions of the tests that assert, by themselves or by one that they call."""
    calls: dict[str, set[str]] = {}
    found: set[str] = set()
    for module in all_modules:
        for name, node in functions(module.tree):
            owner, _, own = name.rpartition("::")
            if own.startswith("test_"):
                continue
            known = f".{own}" if owner else f"{Path(module.file).stem}.{name}"
            inside = list(ast.walk(node))
            calls.setdefault(known, set()).update(
                called(each, module) for each in inside if isinstance(each, ast.Call)
            )
            if any(map(is_assertion, inside)):
                found.add(known)
    while more := {each for each in calls if each not in found and calls[each] & found}:
        found |= more
    return found


class Reader:
    """Reads one module into ``said``."""

    def __init__(self, said: Said, module: Module, helpers: set[str]) -> None:
        self.said, self.module, self.helpers = said, module, helpers
        self.fixtures = {each.partition(".")[2] for each in helpers}
        self.where = module.file
        self.is_test = False

    def read(self) -> None:
        own = dict(functions(self.module.tree))
        inside = {id(node) for node in own.values()}
        self.said.scopes.add(self.where)
        self.block([each for each in self.module.tree.body if id(each) not in inside], "", inside)
        for name, node in own.items():
            self.where = f"{self.module.file}::{name}"
            self.said.scopes.add(self.where)
            self.is_test = node.name.startswith("test_")
            self.function(node)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.expression(each, "", each)
        for argument in node.args.args if self.is_test else ():
            if argument.arg in self.fixtures:
                self.asserted(f"fixture {argument.arg}", node)
        self.block(node.body, "", set())

    def asserted(self, text: str, node: ast.AST) -> None:
        self.said.assertions.append(Item(self.where, text, node.lineno))  # type: ignore[attr-defined]

    def block(self, body: Sequence[ast.stmt], context: str, apart: set[int]) -> None:
        for node in body:
            if id(node) not in apart:
                self.statement(node, context, apart)

    def statement(self, node: ast.stmt, context: str, apart: set[int]) -> None:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            return
        if is_assertion(node):
            self.asserted(context + words(node), node)
            return
        if isinstance(node, ast.Return) and node.value is None and self.is_test:
            self.said.ways_out.append(Item(self.where, context + words(node), node.lineno))
        blocks = [each for each in ("body", "orelse", "finalbody") if getattr(node, each, None)]
        cases = [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
        if not blocks and not cases:
            self.expression(node, context, node)
            return
        if isinstance(node, ast.With) and any(
            isinstance(each.context_expr, ast.Call) and is_assertion(each.context_expr)
            for each in node.items
        ):
            self.asserted(context + words(node), node)
        else:
            for each in ast.iter_child_nodes(node):
                if not isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
                    self.expression(each, context, node)
        inner = context + self.header(node)
        for name in blocks:
            before = "else of " if name == "orelse" else ""
            self.block(getattr(node, name), f"{before}{inner}", apart)
        for each in cases:
            self.block(each.body, f"{inner}except: ", apart)

    @staticmethod
    def header(node: ast.stmt) -> str:
        """What decides whether, and how often, what is inside is asked."""
        if isinstance(node, ast.For | ast.AsyncFor):
            return f"for {words(node.target)} in {unnumbered(node.iter)}: "
        if isinstance(node, ast.While | ast.If):
            return f"{type(node).__name__.lower()} {unnumbered(node.test)}: "
        if isinstance(node, ast.Match):
            return f"match {unnumbered(node.subject)}: "
        if isinstance(node, ast.Try):
            return "try: " if node.handlers else ""
        quiet = isinstance(node, ast.With) and [
            words(each) for each in node.items if last(each.context_expr) == "suppress"
        ]
        return f"with {', '.join(quiet)}: " if quiet else ""

    def expression(self, node: ast.AST, context: str, at: ast.stmt | ast.expr) -> None:
        """What is no assertion itself: calls that assert, ways out, numbers."""
        within = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and (
                is_assertion(each) or called(each, self.module) in self.helpers
            ):
                self.asserted(context + words(each), each)
            own = isinstance(each, ast.Call | ast.Attribute) and id(each) not in within
            if own and last(each) in SKIPS and "pytest" in words(each):
                self.said.ways_out.append(Item(self.where, context + words(each), each.lineno))
        found = tuple(numbers([node]))
        if found:
            self.said.numbers.append(Item(self.where, words(node), at.lineno, found))


def said_in(folder: Path) -> Said:
    """All of ``folder/tests``."""
    said = Said()
    found = modules(folder)
    helpers = asserting(found)
    for module in found:
        Reader(said, module, helpers).read()
    return said


def by_place(items: Iterable[Item]) -> Mapping[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.where, []).append(item)
    return found
