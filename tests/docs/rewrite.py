"""Rewrites the output that pages show, where it differs from what the commands print now.

    SPARK_ASSIGN_REWRITE_DOCS=1 .venv/bin/python -m pytest tests/docs/test_documented.py -k simulate.md

The tests still fail for each page that they rewrote: read the difference before you commit it. What a page leaves out
(…) stays left out, and text that varies from run to run stays as the page has it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from tests.docs import shown as matching
from tests.docs.pages import ROOT, Step
from tests.docs.terminal import Line

VARIABLE = "SPARK_ASSIGN_REWRITE_DOCS"


def rewrite(step: Step, lines: Sequence[str]) -> None:
    """Replaces what the page shows under a step, if the variable is set and the page still has it."""
    if not os.environ.get(VARIABLE) or not step.shown:
        return
    page = ROOT / step.page
    before = page.read_text(encoding="utf-8").split("\n")
    old = list(step.shown)
    starts = sorted(range(len(before) - len(old) + 1), key=lambda start: abs(start - step.line))  # nearest first
    for start in starts:
        found = before[start : start + len(old)]
        indent = " " * (len(found[0]) - len(found[0].lstrip()) - (len(old[0]) - len(old[0].lstrip())))
        if [line.removeprefix(indent) for line in found] == old:
            after = [f"{indent}{line}".rstrip() for line in lines]
            page.write_text("\n".join([*before[:start], *after, *before[start + len(old) :]]), encoding="utf-8")
            return


def printed_lines(shown: Sequence[str], printed: Sequence[Line]) -> list[str]:
    """Returns what a page should show of the lines that a command printed."""
    progress = any(matching.PROGRESS.match(line) for line in shown)
    actual = [line.text.rstrip() for line in printed if progress or not line.logged]
    while actual and not actual[0]:
        del actual[0]
    while actual and not actual[-1]:
        del actual[-1]
    if not any(line.strip() == matching.LEFT_OUT for line in shown):
        return [_kept(line, shown) for line in actual]
    result: list[str] = []
    start = 0
    for piece in _pieces(shown):
        if piece == [matching.LEFT_OUT]:
            result += piece
            continue
        start = _best_start(piece, actual, start)
        result += [_kept(line, piece) for line in actual[start : start + len(piece)]]
        start += len(piece)
    return result


def table_lines(shown: Sequence[str], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a table as `DataFrame.show` draws it, with as many rows as the page has if it leaves some out."""
    body = [line for line in shown if line.strip().startswith("|")][1:]
    if not any(line.strip() == matching.LEFT_OUT for line in shown):
        return matching.drawn([list(columns), *map(list, rows)]).split("\n")
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in body]
    kept = [row for row in rows if list(row) in cells] or list(rows[: len(body)])
    lines = matching.drawn([list(columns), *map(list, kept)]).split("\n")
    return [*lines[:-1], matching.LEFT_OUT, lines[-1]]


def _pieces(shown: Sequence[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == matching.LEFT_OUT:
            pieces += [[matching.LEFT_OUT], []]
        else:
            pieces[-1].append(line)
    return [piece for piece in pieces if piece]


def _best_start(piece: Sequence[str], actual: Sequence[str], start: int) -> int:
    """Returns where the lines begin that are most like a piece of the page."""
    text = "\n".join(piece)
    starts = range(start, max(start, len(actual) - len(piece)) + 1)
    likeness = {a: difflib.SequenceMatcher(None, text, "\n".join(actual[a : a + len(piece)])).ratio() for a in starts}
    return max(likeness, key=likeness.__getitem__)


def _kept(line: str, shown: Sequence[str]) -> str:
    """Returns the page's own form of a line whose varying text is all that differs."""
    return next((each for each in shown if each.strip() and matching.pattern(each.rstrip()).fullmatch(line)), line)
