"""The parts that sections of the HTML report consist of: tables, cells with bars, and charts with headings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from spark_assign.report.formatting import Row, Rows, cell, group_key, number


@dataclass(frozen=True)
class Length:
    """A cell with a bar (`was`, `is`, `flow`, `bad`) next to its text; left and wide in percent of the column."""

    kind: str
    words: str
    wide: float
    left: float = 0.0


@dataclass(frozen=True)
class Table:
    """A table: columns with a flag for numbers, and rows of text or bars; the first cell is the row's heading."""

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str | Length]]
    note: str = ""

    @property
    def drawn(self) -> bool:
        """Returns whether the table contains bars."""
        return any(isinstance(value, Length) for row in self.rows[:1] for value in row)


def bar(kind: str, value: int | None, most: int) -> Length:
    """Returns a number with its bar, whose length is relative to the largest number."""
    return Length(kind, number(value), wide=100 * (value or 0) / most)


def title_of(column: str) -> str:
    """Returns the title of a column of a table."""
    return column.replace("_", " ").capitalize()


def rejected_table(rows: Rows, total: int | None = None) -> Table:
    """Returns the table of rejected groups or clusters, with code and remedy."""
    total = len(rows) if total is None else total
    more = f"Shows the first {len(rows):,} of {total:,}; the table rejected contains all." if total > len(rows) else ""
    return Table(
        "Rejected",
        [("What", False), ("Code", False), ("Detail", False)],
        [
            ["/".join(cell(row[name]) for name in row if name not in ("code", "detail")), row["code"], row["detail"]]
            for row in rows
        ],
        more,
    )


def any_table(name: str, rows: Rows, note: str = "") -> Table:
    """Returns a table with all columns of the rows."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    numeric = {column for column in columns if any(isinstance(row.get(column), int | float) for row in rows)}
    return Table(
        name,
        [(title_of(column), column in numeric) for column in columns],
        [[cell(row.get(column)) for column in columns] for row in rows],
        note,
    )


def by_group(rows: Rows) -> Mapping[tuple[str, str], list[Row]]:
    """Returns rows by cluster and group_id; no rows for other keys."""
    return grouped(rows, group_key)


def grouped(rows: Rows, key: Callable[[Row], Any]) -> Mapping[Any, list[Row]]:
    """Returns rows by a key, in the order in which keys appear; no rows for other keys."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


@dataclass(frozen=True)
class Drawing:
    """A chart with its heading."""

    heading: str
    picture: Markup


@dataclass(frozen=True)
class Section:
    """Sentences, tables, and charts, in this order. The page omits tables without rows."""

    said: Sequence[str]
    tables: Sequence[Table]
    drawings: Sequence[Drawing] = ()
