"""What a person sees of a table, declared once as a `View`, and its two renderers: text, and a table of the page.

    MOVED = View("metrics", "groups with most moves", [GROUP, "members moved=moved_active"], "-moved_active, group_id")
    MOVED.printed(metrics, 10)        # ["", "Groups with most moves:", "  group  members  moved", …]
    MOVED.table(MOVED.read(metrics))  # the same as a table of the page

The page also consists of charts with headings, which are written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    cell,
    change,
    format_time,
    group_name,
    more_lines,
    number,
    partition_name,
    rejected_name,
)
from spark_assign.report.formatting import (
    grouped as grouped,
)
from spark_assign.report.listed_groups import collected
from spark_assign.tables.groups import GROUP_KEY

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_ROWS = 500
"""Maximum number of rows of a table of the page."""


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


@dataclass(frozen=True)
class Column:
    """A column of a view.

    Attributes:
        title: title in lower case, as text has it; the page begins it with a capital letter.
        text: returns the cell of a row.
        is_number: whether the column is aligned to the right.
        drawn: returns, for the rows of the table, the function that makes a cell of the page; None: the text.
        on_page: whether only the page has the column, because text has less room.
        needs: column of the rows. If all rows have null there, this column is left out.
    """

    title: str
    text: Callable[[Row], str]
    is_number: bool = False
    drawn: Callable[[Rows], Callable[[Row], str | Length]] | None = None
    on_page: bool = False
    needs: str = ""


Columns = Sequence[Column | str]
"""Columns of a view; for texts, see `View`."""


def words(title: str, name: str = "", text: Callable[[Any], str] = cell, **more: Any) -> Column:
    """Returns a column of text, from the column `name` of the rows; by default, that of the title."""
    name = name or title.replace(" ", "_")
    return Column(title, lambda row: text(row[name]), **more)


def figure(title: str, name: str = "", text: Callable[[Any], str] = number, **more: Any) -> Column:
    """Returns a numeric column, from the column `name` of the rows; by default, that of the title."""
    return words(title, name, text, is_number=True, **more)


def span(title: str, name: str = "", text: Callable[[Any], str] = number) -> Column:
    """Returns a column of the range of a number (`min_…` and `max_…` of the name, by default that of the title)."""
    ends = [f"{end}_{name or title.replace(' ', '_')}" for end in ("min", "max")]
    return Column(title, lambda row: "–".join(dict.fromkeys(text(row[end]) for end in ends)), is_number=True)


def before_and_after(name: str, title: str = "", text: Callable[[Any], str] = cell) -> Column:
    """Returns a column of a value before and after (`…_before`, `…_after`), such as `4 → 5`; one value if equal."""
    title = title or name.replace("_", " ")
    return Column(title, lambda row: change(text(row[f"{name}_before"]), text(row[f"{name}_after"])), is_number=True)


def bars(title: str, name: str, kind: str, scale: Sequence[str] = (), **more: Any) -> Column:
    """Returns a column of numbers, with bars on the page. The largest number in the columns `scale` has the longest."""

    def drawn(rows: Rows) -> Callable[[Row], Length]:
        most = max((row[column] or 0 for row in rows for column in scale or (name,)), default=0) or 1
        return lambda row: Length(kind, number(row[name]), wide=100 * (row[name] or 0) / most)

    return figure(title, name, drawn=drawn, **more)


GROUP = Column("group", group_name)
PARTITION = Column("partition", partition_name)


@dataclass(frozen=True)
class View:
    """What a person sees of a table.

    Attributes:
        name: name of the table.
        title: what the rows are, and in which order; without a period.
        columns: the columns; a text stands for columns of the table, such as `members moved=moved_active note? +code`:
            the title is before `=`, with underscores for blanks. `?` leaves a column out if all rows have null, 0, or
            "" there, and `+` is one that only the page has. Cells are formatted by their type.
            If there are none, all columns of the rows.
        order: what to sort by, separated by commas: columns, or expressions of Spark that have no comma. A minus before
            one means descending order, with nulls last.
        where: condition of Spark that the displayed rows fulfill.
        note: sentences below the table of the page.
        listed: name of the rows in JSON (`formatting.record_listed`); by default, that of the table.
    """

    name: str
    title: str
    columns: Columns = ()
    order: str = ""
    where: str = ""
    note: str = ""
    listed: str = ""

    def read(self, table: DataFrame, limit: int = MOST_ROWS) -> list[Row]:
        """Returns the first rows of the table."""
        return collected(self.sorted(table).limit(limit))

    def first(self, table: DataFrame, limit: int) -> list[Row]:
        """Returns the first rows of the table, of which it lists `limit` for JSON, and one more if there is one."""
        return collected(self.sorted(table).limit(limit + 1), self.listed or self.name, limit)

    def printed(self, table: DataFrame, limit: int, total: int = 0) -> list[str]:
        """Returns the lines of the first rows of the table, of which `total` is the number of rows, if it is known."""
        return self.lines(self.first(table, limit), limit, total) if limit else []

    def lines(self, rows: Rows, limit: int, total: int = 0) -> list[str]:
        """Returns an empty line, the title, a header, and a line for each of the first rows; nothing without rows."""
        if not rows[:limit]:
            return []
        more = more_lines(total - limit, self.name)
        if len(rows) > limit and not total:
            more = [f"  … and more, in the table {self.name}"]
        columns = [column for column in self._shown(rows[:limit]) if not column.on_page]
        cells = [[column.title for column in columns]]
        cells += [[column.text(row) for column in columns] for row in rows[:limit]]
        left = [index for index, column in enumerate(columns) if not column.is_number]
        return ["", f"{_capitalized(self.title)}:", *aligned(cells, left), *more]

    def table(self, rows: Rows, total: int = 0) -> Table:
        """Returns the table of the page. It says if rows are missing: of a total, or beyond the limit of `read`."""
        columns = self._shown(rows)
        makers = [column.drawn(rows) if column.drawn else column.text for column in columns]
        more = ""
        if self.name and (total > len(rows) or len(rows) == MOST_ROWS):
            more = f"Shown are {len(rows):,}{f' of {total:,}' if total else ''}; the table {self.name} has all. "
        titles = [(_capitalized(column.title), column.is_number) for column in columns]
        cells = [[maker(row) for maker in makers] for row in rows]
        return Table(_capitalized(self.title), titles, cells, f"{more}{self.note}".strip())

    def sorted(self, table: DataFrame) -> DataFrame:
        """Returns all rows of the table that the view displays, in order."""
        rows = table.where(self.where) if self.where else table
        return rows.orderBy(*map(_sort_column, self.order.split(", "))) if self.order else rows

    def _shown(self, rows: Rows) -> list[Column]:
        columns: list[Column] = []
        for spec in self.columns or dict.fromkeys(name for row in rows for name in row):
            columns += [spec] if isinstance(spec, Column) else _columns(spec, rows)
        return [each for each in columns if not each.needs or any(row.get(each.needs) is not None for row in rows)]


def lines_of_each(column: str, views: Mapping[str, View], rows: Rows, counts: Mapping[str, int]) -> list[str]:
    """Returns the lines of rows by the value of a column, in the order of the views.

    Args:
        column: the column that decides which view shows a row.
        views: view by value.
        rows: the first rows of each value.
        counts: number of all rows by value.
    """
    lines: list[str] = []
    for value, view in views.items():
        if found := [row for row in rows if row[column] == value]:
            lines += [*view.lines(found, len(found)), *more_lines(counts[value] - len(found), view.name)]
    return lines


def _columns(words: str, rows: Rows) -> Iterator[Column]:
    """Yields the columns that the words of `View.columns` stand for; that of an ID (`…_id`) is no number."""
    for word in words.split():
        title, _, name = word.strip("+?").rpartition("=")
        values = [row.get(name) for row in rows]
        if word.endswith("?") and not any(values):
            continue
        is_id = name.endswith("_id")
        is_time = any(isinstance(value, datetime) for value in values)
        yield Column(
            (title or name).replace("_", " "),
            partial(_cell, name, _id if is_id else cell),
            not is_id and any(isinstance(value, int | float) and not isinstance(value, bool) for value in values),
            drawn=partial(_time_cells, name) if is_time else None,
            on_page=word.startswith("+"),
        )


def _cell(name: str, text: Callable[[Any], str], row: Row) -> str:
    return text(row.get(name))


def _id(value: Any) -> str:
    return DASH if value is None else str(value)


def _sort_column(order: str) -> SparkColumn:
    name = order.removeprefix("-")
    column = F.col(name) if name.isidentifier() else F.expr(name)
    return column.desc() if order.startswith("-") else column.asc()


def _capitalized(title: str) -> str:
    return title[:1].upper() + title[1:]


def rejected_view(*key: str) -> View:
    """Returns the view of rejected groups or clusters, with code and remedy.

    Args:
        key: the columns that name what is rejected.
    """
    return View("rejected", "rejected", [Column("what", rejected_name), "code detail"], ", ".join((*key, "code")))


REJECTED = rejected_view(*GROUP_KEY)


def table_of(title: str, rows: Rows, columns: Columns, note: str = "") -> Table:
    """Returns a table of the page of rows that are no table's."""
    return View("", title, columns, note=note).table(rows)


def read_views(views: Sequence[View], tables: Mapping[str, DataFrame]) -> dict[str, Rows]:
    """Returns the rows of these views that the page shows, by name; of the tables that are there."""
    return {view.name: view.read(tables[view.name]) for view in views if view.name in tables}


def _time_cells(name: str, _: Rows) -> Callable[[Row], str]:
    """Returns the function that returns a time in UTC, to the second, as HTML that doesn't wrap; a dash for null."""
    from markupsafe import Markup

    return lambda row: DASH if row[name] is None else Markup("<time>{}</time>").format(format_time(row[name]))


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
