"""Counts lines of code, so that growth is a decision: `python -m tests.ratchet` renews tests/ratchet.toml.

The file has the lines that each room of the folders in COUNTED may have: those of today, rounded up to the next ten.
tests/unit/test_ratchet.py fails if a room has more.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".toml")
COUNTED = ("spark_assign", "jobs", "tests", "benchmarks", "mutation")
STEP = 10


def code_lines(text: str) -> int:
    """Returns the number of a module's lines that are not blank, a comment, or a string that stands for itself."""
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    statements: list[ast.AST] = [ast.parse(text)]
    while statements:
        each = statements.pop()
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            lines -= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(each, block, ())
            statements += inside if isinstance(inside, list) else ()
    return len(lines)


def counted() -> dict[str, int]:
    """Returns the lines of each room: a folder of one of them, or the files beside its folders."""
    rooms: Counter[str] = Counter()
    for folder in COUNTED:
        for path in (ROOT / folder).rglob("*.py"):
            if path.is_symlink():  # counted where it is
                continue
            room = path.relative_to(ROOT).parts[:2]
            rooms["/".join(room if (ROOT / folder / room[1]).is_dir() else room[:1])] += code_lines(
                path.read_text(encoding="utf-8")
            )
    return dict(rooms)


def allowed() -> dict[str, int]:
    """Returns the lines that each room may have."""
    return dict(tomllib.loads(FILE.read_text(encoding="utf-8"))["lines"])


def text(rooms: dict[str, int]) -> str:
    """Returns the text of the file."""
    lines = (f'"{room}" = {-(-count // STEP) * STEP}' for room, count in sorted(rooms.items()))
    head = "# Lines of code that each folder may have. Written by `python -m tests.ratchet`."
    return "\n".join((head, "[lines]", *lines)) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(counted()), encoding="utf-8")
