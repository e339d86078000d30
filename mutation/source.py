"""The mutants of a source file: mutmut's operators on every line, and a few that it lacks.

mutmut's own run mutates the bodies of functions without decorators only; constants, defaults and properties, in which
many of Kafka's numbers stand, would go unseen. Left out here: annotations, decorators, imports, docstrings, and what
does not compile. Of a string one mutant is made, not three.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

from mutation.session import ROOT

NEVER = ("len", "isinstance", "cast", "TypeVar", "NewType")
"""Calls of which mutants only break, or only concern types."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: path from the root.
        function: qualified name of what it is in, empty at the top of a file.
        line: where the changed node begins.
        lines: of the statement (of its head, if it has a body) that is changed.
        was: the lines that change, without indentation.
        becomes: what they change to.
        nth: which one, of those in the same function that read the same.
        in_body: inside the body of a function, so that its code can be exchanged after the import.
        start: where the change begins, in bytes.
        end: where it ends.
        text: what is put there.
    """

    file: str
    function: str
    line: int
    lines: range
    was: str
    becomes: str
    nth: int
    in_body: bool
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What names it while lines above it come and go."""
        return self.file, self.function, self.was, self.becomes, self.nth

    @property
    def source(self) -> str:
        """The whole file with the change."""
        return _changed((ROOT / self.file).read_bytes(), self.start, self.end, self.text)

    @property
    def is_one(self) -> bool:
        """Whether it compiles, and says something else than the file does."""
        try:
            tree = ast.parse(self.source)
            compile(tree, self.file, "exec", dont_inherit=True)
        except SyntaxError:
            return False
        return ast.dump(tree) != ast.dump(ast.parse((ROOT / self.file).read_bytes()))

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line} {self.function}".rstrip()]
        lines += [f"  - {line}" for line in self.was.split("\n")] + [f"  + {line}" for line in self.becomes.split("\n")]
        return "\n".join(lines)


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file that differ in their text; some may not compile."""
    text = path.read_bytes()
    file = str(path.relative_to(ROOT))
    found: list[Mutant] = []
    counted: dict[tuple[str, str, str], int] = {}
    visitor = _Visitor()
    wrapper = MetadataWrapper(cst.parse_module(text))
    wrapper.visit(visitor)
    seen = {text.decode()}
    for place, node in visitor.changes:
        put = wrapper.module.code_for_node(node)
        source = _changed(text, place.start, place.end, put)
        if source in seen:
            continue
        seen.add(source)
        was, becomes = _difference(text.decode(), source)
        key = (place.function, was, becomes)
        counted[key] = counted.get(key, -1) + 1
        where = place.function, place.line, place.lines
        found.append(Mutant(file, *where, was, becomes, counted[key], place.in_body, place.start, place.end, put))
    return found


def _changed(text: bytes, start: int, end: int, put: str) -> str:
    return (text[:start] + put.encode() + text[end:]).decode()


def _difference(old: str, new: str) -> tuple[str, str]:
    """The lines that differ by more than spaces."""
    was, becomes = ([" ".join(line.split()) for line in text.splitlines()] for text in (old, new))
    while was and becomes and was[-1] == becomes[-1]:
        del was[-1], becomes[-1]
    same = 0
    while same < min(len(was), len(becomes)) and was[same] == becomes[same]:
        same += 1
    was, becomes = was[same:], becomes[same:]
    gone, come = [], []
    for kind, left, right, up, to in difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes():
        if kind != "equal":
            gone += was[left:right]
            come += becomes[up:to]
    return "\n".join(gone), "\n".join(come)


@dataclass(frozen=True)
class _Place:
    function: str
    line: int
    lines: range
    in_body: bool
    start: int
    end: int


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, ByteSpanPositionProvider)

    def __init__(self) -> None:
        self.changes: list[tuple[_Place, cst.CSTNode]] = []
        self._names: list[str] = []
        self._bodies = 0
        self._statement = range(1, 2)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_out(node):
            return False
        if isinstance(node, cst.Assign) and not self._names and isinstance(node.value, cst.Subscript):
            return False  # the name of a type
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._names.append(node.name.value)
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.Else):
            self._statement = self._lines(node)
        for changed in _changes(node):
            self.changes.append((self._place(node), changed))
        if isinstance(node, cst.If | cst.While | cst.CompIf | cst.IfExp) and _is_a_fact(node.test):
            self.changes.append((self._place(node.test), _negated(node.test)))
        if isinstance(node, cst.FunctionDef):  # defaults first: they are no part of the body
            for parameter in node.params.children:
                parameter.visit(self)
            self._bodies += 1
            node.body.visit(self)
            self._bodies -= 1
            self._names.pop()
            return False
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.ClassDef):
            self._names.pop()

    def _place(self, node: cst.CSTNode) -> _Place:
        span = self.get_metadata(ByteSpanPositionProvider, node)
        line = self.get_metadata(PositionProvider, node).start.line
        lines = range(min(line, self._statement.start), max(line + 1, self._statement.stop))
        name = ".".join(self._names)
        return _Place(name, line, lines, bool(self._bodies), span.start, span.start + span.length)

    def _lines(self, node: cst.CSTNode) -> range:
        whole = self.get_metadata(PositionProvider, node)
        body = getattr(node, "body", None)
        if isinstance(body, cst.IndentedBlock):
            return range(whole.start.line, self.get_metadata(PositionProvider, body.body[0]).start.line)
        return range(whole.start.line, whole.end.line + 1)


def _is_left_out(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.TypeAlias):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in NEVER:
        return True
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString):
        return True  # a docstring
    if isinstance(node, cst.AnnAssign):
        return "TypeAlias" in str(getattr(node.annotation.annotation, "value", ""))
    return isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"


def _is_a_fact(test: cst.BaseExpression) -> bool:
    """A condition that no other operator turns round."""
    return not isinstance(test, cst.Comparison | cst.UnaryOperation | cst.BooleanOperation | cst.NamedExpr)


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    return cst.UnaryOperation(cst.Not(), test, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            changed: Iterable[cst.CSTNode] = operator(node)
            yield from [*changed][:1] if operator is operator_string else changed
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        yield cst.Pass()
    if isinstance(node, cst.Name) and node.value in ("min", "max"):
        yield node.with_changes(value="max" if node.value == "min" else "min")


@cache
def mutants_under(folder: Path) -> tuple[Mutant, ...]:
    """Of all files below a folder, or of one file."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    return tuple(mutant for file in files for mutant in mutants_of(file))
