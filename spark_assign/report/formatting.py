"""Numbers, names, and tables as the reports write them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from spark_assign.tables.errors import count as count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

P = ParamSpec("P")
T = TypeVar("T")
Row = Mapping[str, Any]
Rows = Sequence[Row]

_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?=~|$)", re.IGNORECASE)
_UUID_IN_TEXT = re.compile(r"-([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Unicode's control and format characters (Cc, Cf), line and paragraph separators, halves of surrogate pairs, and what
XML can't have (U+FFFE, U+FFFF)."""
_LIKE_CODE = re.compile(r"\\(?=x(?:[0189a][0-9a-f]|5c|7f)|u[0-9a-f]{4}|U000[1e][0-9a-f]{4})")
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
DASH = "–"
"""Text for null."""

_LISTED: ContextVar[dict[str, list[Row]] | None] = ContextVar("_LISTED", default=None)

_CLUSTERS: ContextVar[tuple[Callable[[], Collection[str]], ...]] = ContextVar("_CLUSTERS", default=())
"""Functions that return the clusters of what is printed (`name_clusters`)."""

_MAX_WIDTH = 1_000
"""Maximum width of a column: names can have 64 kB, which would be multiplied by the number of rows."""

MAX_REJECTED = 10
"""Maximum number of rejected groups that a summary lists."""


def visible(text: str, *, escaped: str = "") -> str:
    """Returns the text with a code (`\\x1b`, `\\u202e`) for each character that a terminal obeys instead of showing it.

    Names of groups, clients, and topics come from anyone who can join a group. Line ends and tabs stay, except those
    in `escaped`.
    """
    for character in escaped:
        text = text.replace(character, character.encode("unicode_escape").decode())
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def distinct(text: str) -> str:
    """Returns the text as `visible` does, but so that no two texts become one: a carriage return is `\\x0d`, and a
    backslash before what looks like such a code is `\\x5c`.
    """
    return visible(_LIKE_CODE.sub(r"\\x5c", text).replace("\r", "\\x0d"))


@contextmanager
def record_listed() -> Iterator[dict[str, list[Row]]]:
    """Returns the rows that are listed inside the context, by the name of their table."""
    tables: dict[str, list[Row]] = {}
    token = _LISTED.set(tables)
    try:
        yield tables
    finally:
        _LISTED.reset(token)


def listed(name: str, rows: Rows) -> Rows:
    """Records rows of a table that is printed (`record_listed`), each row once, and returns them.

    Args:
        name: name of the stored table, with the prefix of its kind, or one that docs/settings.md describes.
        rows: some of its rows.
    """
    if (tables := _LISTED.get()) is not None:
        known = tables.setdefault(name, [])
        texts = set(map(repr, known))
        known += [row for row in rows if repr(row) not in texts] if known else rows
    return rows


def name_clusters(find: Callable[[], Collection[str]]) -> None:
    """Omits the cluster from names that this context prints from now on, if there is only one (`in_cluster`).

    Args:
        find: returns the clusters, or at least two of them. It is called once, when the first name is printed. Those of
            several calls are added.
    """
    _CLUSTERS.set((*_CLUSTERS.get(), cache(find)))


def name_clusters_of(*tables: DataFrame | None, unless_known: bool = False) -> None:
    """Omits the cluster from the names that the current context prints, if the tables have only one (`in_cluster`).

    One query reads it when the first name is printed, from the tables with a row per group, member, or broker, if any.

    Args:
        tables: tables of a fleet or of a result.
        unless_known: whether to do nothing if the context knows its clusters, of a complete fleet, already.
    """

    def find() -> set[str]:
        from pyspark.sql import functions as F

        from spark_assign.spark.dataframes import union

        present = [table for table in tables if table is not None and "cluster" in table.columns]
        rows = [table.select("cluster") for table in present if "topic" not in table.columns]
        rows = rows or [table.select("cluster") for table in present]
        ends = union(rows).agg(F.min("cluster").alias("first"), F.max("cluster").alias("last")) if rows else None
        return set() if ends is None else {*ends.collect()[0]} - {None}  # one row

    if not (unless_known and _CLUSTERS.get()):
        name_clusters(find)


def with_own_names(run: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function that calls `name_clusters`: the caller's names stay as they are."""

    @wraps(run)
    def run_it(*args: P.args, **given: P.kwargs) -> T:
        return copy_context().run(run, *args, **given)

    return run_it


def in_cluster(cluster: str | None, name: str) -> str:
    """Returns `cluster/name`, or only the name if everything that this context prints is of this cluster."""
    found = {each for find in _CLUSTERS.get() for each in find()}
    return name if found == {cluster} else f"{cluster}/{name}"


def number(value: int | None) -> str:
    """Returns an integer with thousands separators, or a dash for None."""
    return DASH if value is None else f"{value:,}"


def whole(value: float | None) -> str:
    """Returns a number without decimals, or a dash for None."""
    return DASH if value is None else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    """Returns a number with two decimals, or a dash for None."""
    return DASH if value is None else f"{value:.2f}"


def share(value: int, total: int) -> str:
    """Returns `value` as a percentage of `total`.

    A share that only rounds to 0 % or 100 % reads `under 1 %` or `over 99 %`.
    """
    if not total:
        return DASH
    rounded = round(100 * value / total)
    if rounded == 0 < value:
        return "under 1 %"
    if rounded == 100 and value < total:
        return "over 99 %"
    return f"{rounded} %"


def duration(seconds: float | None) -> str:
    """Returns a duration such as `40 s`, `12 min`, `3.4 h`, or `never` (infinity); a dash for None."""
    if seconds is None:
        return DASH
    if math.isinf(seconds):
        return "never"
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def format_time(time: datetime) -> str:
    """Returns a time in UTC, to the second."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def format_bytes(value: int | None) -> str:
    """Returns a number of bytes in decimal units, or a dash for None."""
    if value is None:
        return DASH
    power = min(max(0, (len(str(value)) - 1) // 3), len(_BYTE_UNITS) - 1)
    return f"{value / 1000**power:,.{2 if power else 0}f} {_BYTE_UNITS[power]}"


def group_key(row: Row) -> tuple[str, str]:
    """Returns cluster and group_id of a row."""
    return row["cluster"], row["group_id"]


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> Mapping[Any, list[Row]]:
    """Returns rows by a key, in the order in which keys appear; an empty list for any other key."""
    found: dict[Any, list[Row]] = defaultdict(list)  # `values_by_key` needs NumPy
    for row in rows:
        found[key(row)].append(row)
    return found


def by_group(rows: Iterable[Row]) -> Mapping[tuple[str, str], list[Row]]:
    """Returns the rows of each group, in order; an empty list for any other key (`group_key`)."""
    return grouped(rows, group_key)


def group_name(row: Row) -> str:
    """Returns the name of a row's group (`in_cluster`), with the team that owns the group if the row has it."""
    team = row.get("team")
    return visible(in_cluster(row["cluster"], f"{row['group_id']}{f' ({team})' if team else ''}"), escaped="\n")


def partition_name(row: Row) -> str:
    """Returns the name of a row's partition, `topic-partition` (`in_cluster`)."""
    return in_cluster(row["cluster"], f"{row['topic']}-{row['partition']}")


def listed_order(name: str, names: Sequence[str]) -> tuple[int, str]:
    """Returns the sort key of a name: the listed names in their order, then all others by name."""
    return names.index(name) if name in names else len(names), name


def up_to(least: float, most: float | None) -> str:
    """Returns a number, or a range if the other number is larger: `0–2`."""
    return f"{least:,.0f}–{most:,.0f}" if most is not None and most > least else f"{least:,.0f}"


def change(before: str, after: str) -> str:
    """Returns `before → after`, or the value once if both are equal."""
    return before if before == after else f"{before} → {after}"


def cell(value: Any) -> str:
    """Returns any value of a table as text."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return str(value)


def short_names(member_ids: Collection[str]) -> dict[str, str]:
    """Returns member ids without the UUID that follows the client id, if they stay distinct; by full member id."""
    short = {member: _UUID.sub("", member) for member in member_ids}
    counts = Counter(short.values())
    taken = {*member_ids}
    return {each: name if counts[name] == 1 and name not in taken else each for each, name in short.items()}


def without_uuids(text: str) -> str:
    """Returns the text with each member id's UUID cut to its first four digits: `orders-0-84a6…`."""
    return _UUID_IN_TEXT.sub(r"-\1…", text)


def one_line(text: str) -> str:
    """Returns the text on one line, at most 300 characters of it."""
    return " ".join(text.split())[:300]


def rejected_name(row: Row) -> str:
    """Returns the name of what a row of a table `rejected` rejects: a group, topic, cluster, or Connect cluster."""
    cluster, *name = (cell(row[each]) for each in row if each not in ("code", "detail"))
    return visible(in_cluster(cluster, "/".join(name)) if name else cluster, escaped="\n")


def rejected_line(row: Row, name: Callable[[Row], str] = group_name) -> str:
    """Returns the name of what a row of a table `rejected` rejects, with the code and the detail."""
    return f"{name(row)}: {row['code']}: {one_line(row['detail'])}"


def rejected_lines(
    rows: Rows, num_rejected: int, title: str = "Rejected:", name: Callable[[Row], str] = group_name
) -> list[str]:
    """Returns one line per rejected group, at most `MAX_REJECTED`; an empty list if no group is rejected.

    Args:
        rows: First rows of a table `rejected`.
        num_rejected: Number of rows of that table.
        title: Line above them.
        name: Returns the name of what a row rejects.
    """
    if not num_rejected:
        return []
    lines = [f"  {rejected_line(row, name)}" for row in rows[:MAX_REJECTED]]
    return ["", title, *lines, *more_lines(num_rejected - MAX_REJECTED, "rejected")]


def note_lines(rows: Rows, name: Callable[[Row], str] = group_name) -> list[str]:
    """Returns one line per note of a group, also on whose rules plan it (`rules_note`), each note once."""
    pairs = [(row, row.get("note")) for row in rows]
    pairs += [(row, f"planned {rules}") for row in rows if (rules := row.get("rules_note"))]
    texts = (f"{name(row)}: {note}" for row, note in pairs if note)
    notes = dict.fromkeys(f"  {visible(text, escaped=chr(10))}" for text in texts)
    return ["", "Notes:", *notes] if notes else []


def more_lines(num_more: int, table: str) -> list[str]:
    """Returns a line that says how many rows of a table aren't listed; an empty list if all are."""
    return [f"  … and {num_more:,} more, in the table {table}"] if num_more > 0 else []


def aligned(rows: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> list[str]:
    """Returns one line per row, indented by two blanks: columns in `words` left-aligned, the others right-aligned.

    A cell of more than `_MAX_WIDTH` characters widens only its own row.
    """
    shown = [[visible(cell, escaped="\n") for cell in row] for row in rows]
    widths = [min(max(map(len, column)), _MAX_WIDTH) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        cells = zip(row, widths, strict=True)
        padded = (cell.ljust(width) if i in words else cell.rjust(width) for i, (cell, width) in enumerate(cells))
        lines.append(("  " + "  ".join(padded)).rstrip())
    return lines
