"""The parts that sections of the HTML report consist of: tables, cells with bars, and charts with headings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_assign.report.formatting import Row, Rows, cell, group_key, number
from spark_assign.report.text.history import format_time

if TYPE_CHECKING:
    from markupsafe import Markup


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


TableColumn = tuple[str, bool, Callable[[Row], str | Length]]
"""A column of a table: title, whether it is numeric, and the cell of a row."""


def words(title: str, name: str, text: Callable[[Any], str] = cell) -> TableColumn:
    """Returns a column of text, from the column `name` of the rows."""
    return title, False, lambda row: text(row[name])


def figure(title: str, name: str, text: Callable[[Any], str | Length] = number) -> TableColumn:
    """Returns a numeric column, from the column `name` of the rows."""
    return title, True, lambda row: text(row[name])


def figures(*names: str) -> list[TableColumn]:
    """Returns numeric columns, from the columns of the rows with these names."""
    return [figure(title_of(name), name) for name in names]


def table_of(caption: str, rows: Rows, columns: Sequence[TableColumn], note: str = "") -> Table:
    """Returns a table with a line per row."""
    cells = [[text(row) for _, _, text in columns] for row in rows]
    return Table(caption, [(title, numeric) for title, numeric, _ in columns], cells, note)


def bars(title: str, name: str, kind: str, rows: Rows, scale: Sequence[str]) -> TableColumn:
    """Returns a column of numbers with bars, relative to the largest number in the columns `scale` of the rows."""
    most = max((row[column] or 0 for row in rows for column in scale), default=0) or 1
    return figure(title, name, lambda value: Length(kind, number(value), wide=100 * (value or 0) / most))


def time_cell(time: datetime) -> Markup:
    """Returns a time in UTC, to the second, as HTML that doesn't wrap."""
    from markupsafe import Markup

    return Markup("<time>{}</time>").format(format_time(time))


def title_of(column: str) -> str:
    """Returns the title of a column of a table."""
    return column.replace("_", " ").capitalize()


def rejected_table(rows: Rows, total: int | None = None) -> Table:
    """Returns the table of rejected groups or clusters, with code and remedy."""
    total = len(rows) if total is None else total
    more = f"Shows the first {len(rows):,} of {total:,}; the table rejected contains all." if total > len(rows) else ""
    columns = [("What", False, _rejected_name), words("Code", "code"), words("Detail", "detail")]
    return table_of("Rejected", rows, columns, more)


def _rejected_name(row: Row) -> str:
    return "/".join(cell(row[name]) for name in row if name not in ("code", "detail"))


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

    sentences: Sequence[str]
    tables: Sequence[Table]
    drawings: Sequence[Drawing] = ()
