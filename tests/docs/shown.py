"""Whether a step gave what its page shows under it: all of it, in its order, and nothing besides.

What a page leaves out it says: a line `…` stands for any number of lines or rows, `…` within a line for any text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tests.docs.terminal import Line

LEFT_OUT = "…"
PROGRESS = re.compile(r"\d\d:\d\d:\d\d ")
ENGINE = "engine: "
VARIES = re.compile(
    rf"(…|{ENGINE}.*|"
    r"\d{8}T\d{12}Z-[0-9a-f]{6}|\d{8}T\d{6}Z|\b(?:in|by) [\d.]+ s\b|\b[\d.]+ MB\b|^\d\d:\d\d:\d\d )"
)
"""The engine of a job. Times and what depends on them: an attempt, the default run id, seconds, the size of a page that
holds times."""

Shown = TypeVar("Shown")
There = TypeVar("There")
Row = list[str]


def lost(shown: Sequence[str], printed: Iterable[Line]) -> str | None:
    """Where a page and a terminal part: what the page has there, and what the terminal; None if nowhere.

    Empty lines do not count. Lines of progress count where the page shows some; elsewhere it shows what is printed.
    """
    wanted = [line.rstrip() for line in shown if line.strip()]
    progress = any(PROGRESS.match(line) for line in wanted)
    there = [line.text.rstrip() for line in printed if line.text.strip() and (progress or not line.logged)]
    return _parting(wanted, there, lambda line, each: pattern(line).fullmatch(each) is not None, _is_left_out)


def pattern(text: str) -> re.Pattern[str]:
    """A text of a page as a regular expression."""
    parts = VARIES.split(text)
    parts[0::2] = [re.escape(part) for part in parts[0::2]]
    parts[1::2] = [_any_time(part) for part in parts[1::2]]
    return re.compile("".join(parts))


def _any_time(part: str) -> str:
    if part == LEFT_OUT or part.startswith(ENGINE):
        return ".*" if part == LEFT_OUT else f"{ENGINE}.*"
    time, attempt, its_own = part.partition("Z-")
    return re.sub(r"\d+", r"\\d+", re.escape(time)) + ("Z-[0-9a-f]{6}" if attempt else its_own)


def differs(shown: Sequence[str], value: Any, *, ordered: bool = False) -> str | None:
    """How what a page shows under a Python block differs from its last expression; None if it does not.

    A DataFrame is drawn as `show` does, with all its columns; its rows may stand in another order, unless it is
    `ordered`. Of a text the page may break the lines.
    """
    if hasattr(value, "collect"):
        rows = [[cell_text(each) for each in row] for row in value.collect()]
        wrong = _rows_differ(shown, value.columns, rows, ordered)
        return wrong and f"{wrong}\nit is:\n{drawn([value.columns, *rows])}"
    expected, printed = " ".join(" ".join(shown).split()), " ".join(str(value).split())
    return None if pattern(expected).fullmatch(printed) else f"{expected!r} and not {printed!r}"


def _rows_differ(shown: Sequence[str], columns: list[str], there: list[Row], ordered: bool) -> str | None:
    lines = [line.strip() for line in shown if line.strip() and not re.fullmatch(r"\s*\+[-+]+\+\s*", line)]
    strange = [line for line in lines if not (_is_left_out(line) or (line.startswith("|") and line.endswith("|")))]
    if strange or not lines:
        return f"no table as show draws it: {strange or shown}"
    header, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if header != columns:
        return f"the columns are {columns} and not {header}"
    if ordered:
        return _parting(rows, there, lambda row, each: row == each, lambda row: row == [LEFT_OUT])
    wanted = Counter(tuple(row) for row in rows if row != [LEFT_OUT])
    besides, missing = Counter(map(tuple, there)), wanted.copy()
    missing.subtract(besides)
    besides.subtract(wanted)
    gone, more = list((+missing).elements()), list((+besides).elements())
    if gone or bool(more) != ([LEFT_OUT] in rows):
        return f"on the page only: {gone}; not on the page: {more}"
    return None


def _is_left_out(line: str) -> bool:
    return line.strip() == LEFT_OUT


def _parting(
    wanted: Sequence[Shown],
    there: Sequence[There],
    same: Callable[[Shown, There], bool],
    left_out: Callable[[Shown], bool],
) -> str | None:
    """Where two sequences part, as words; what is left out is one or more, each piece between stands in one."""
    pieces: list[list[Shown]] = [[]]
    for each in wanted:
        if left_out(each):
            pieces.append([])
        else:
            pieces[-1].append(each)
    at = 0
    for number, piece in enumerate(pieces):
        latest = len(there) - len(piece)
        if number == 0:
            starts = range(1)
        elif number == len(pieces) - 1:
            starts = range(max(at + 1, latest), latest + 1)
        else:
            starts = range(at + 1, latest + 1)
        found = next((start for start in starts if _differing(piece, there[start:], same) is None), None)
        if found is None:
            rest = there[max(at, latest) :] if number else list(there)
            place = _differing(piece, rest, same)
            if place is None:
                return f"more is left out\nand there is: {rest[0] if rest else 'nothing'!r}"
            return f"{piece[place]!r}\nand there is: {rest[place] if place < len(rest) else 'nothing'!r}"
        at = found + len(piece)
    return None if at == len(there) else f"nothing more\nand there is: {there[at]!r}"


def _differing(piece: Sequence[Shown], there: Sequence[There], same: Callable[[Shown, There], bool]) -> int | None:
    """The place of the first one that is not there; None if all are."""
    return next((n for n, each in enumerate(piece) if n >= len(there) or not same(each, there[n])), None)


def drawn(rows: list[Row]) -> str:
    """Rows, the first of which are the columns, as `show` draws them."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    border = "+" + "".join("-" * width + "+" for width in wide)
    lines = ["|" + "".join(f"{cell:<{width}}|" for cell, width in zip(row, wide, strict=True)) for row in rows]
    return "\n".join([border, lines[0], border, *lines[1:], border])


def cell_text(value: object) -> str:
    """As `show` draws it."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{', '.join(map(cell_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
