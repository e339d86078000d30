"""Rows as aligned columns of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> list[str]:
    """A line per row, two blanks in front; the columns in `words` to the left, the others, numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = (cell.ljust(width) if at in words else cell.rjust(width) for at, (cell, width) in enumerate(cells))
        lines.append(("  " + "  ".join(padded)).rstrip())
    return lines
