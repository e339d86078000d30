"""A table of the report, as the templates take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """A cell with a bar (`was`, `is`, `flow`, `bad`) beside its words; left and wide in per cent of the column."""

    kind: str
    words: str
    wide: float
    left: float = 0.0


@dataclass(frozen=True)
class Table:
    """Any table: columns with whether they are numbers, and rows of text or bars; the first cell heads its row."""

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str | Length]]
    note: str = ""

    @property
    def drawn(self) -> bool:
        """Whether there are bars in it."""
        return any(isinstance(value, Length) for row in self.rows[:1] for value in row)
