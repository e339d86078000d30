"""Groups that a report lists (the worst ones, or those whose id matches a pattern), and queries that reports share.

The worst groups have the most affected partitions. A partition is affected if it gets another owner or is revoked, if
no member gets it, or if it is above its member's even share. The even share is the minimum that the largest member can
have: partitions divided by members, rounded up. A group of eight members and five partitions with max over mean 1.60 is
therefore perfectly even.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from spark_assign.comparison.kernel.compare import PREFERRED
from spark_assign.report import formatting
from spark_assign.report.formatting import (
    MAX_REJECTED,
    Row,
    Rows,
    count,
    listed,
    number,
    rejected_lines,
    share,
)
from spark_assign.spark.dataframes import bounded_sum
from spark_assign.spark.engine import divide
from spark_assign.spark.shell_patterns import any_true, matches
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import in_text

SUMS = ("members", "partitions", "moved", "revoked", "unassigned", "withheld")
"""Metrics that are summed over groups."""

REASONS = {
    "topic-gone": "the topic no longer exists",
    "partition-gone": "the topic has fewer partitions now",
    "new": "it had no owner",
    "member-left": "its owner has left the group",
    "claim-conflict": "several members claim it, and this one doesn't keep it",
    "unsubscribed": "its owner no longer subscribes to the topic",
    "unassigned": "no member gets it",
    "over-quota": "its owner has more than its share",
    "rack-mismatch": "it has no replica in its owner's rack",
    "balancing": "its next owner had at least two partitions fewer",
    "over-load": "its owner has more load than its bound",
    "makes-room": "another partition, which fits nowhere else, takes its place",
    "rebalanced": "the assignor gives it to another member",
}
"""Explanations of `Plan.moves.reason`."""


def even_share(row: Row) -> int:
    """Returns the minimum number of partitions of a group's largest member."""
    return math.ceil(row["partitions"] / row["members"]) if row["members"] else 0


def over_share(row: Row) -> int:
    """Returns the number of partitions that the largest member has above the even share."""
    return max(0, int(row["max_per_member"]) - even_share(row))


def num_unowned(row: Row) -> int:
    """Returns the number of partitions that no member gets, in this rebalance or the next."""
    return int(row["unassigned"] - row["withheld"])


def group_facts(row: Row, silent: int = 0) -> str:
    """Returns the description of a group, from its row of `tables.groups.METRICS`."""
    parts = [
        f"{row['assignor']} gives {count(row['partitions'], 'partition')} to {count(row['members'], 'member')}, "
        f"{number(row['min_per_member'])} to {number(row['max_per_member'])} each"
    ]
    if over := over_share(row):
        share_of = count(even_share(row), "partition")
        parts.append(f"the largest has {number(over)} more than an even share of {share_of}")
    if row["moved"]:
        parts.append(
            f"{number(row['moved'])} ({share(row['moved'], row['partitions'] + row['withheld'])}) change owner"
        )
    if silent:
        parts.append(f"{number(silent)} have no traffic: no record was ever written to them")
    if row["withheld"]:
        parts.append(f"{number(row['withheld'])} get their next owner in the next rebalance")
    if left := num_unowned(row):
        parts.append(f"{number(left)} without an owner")
    if row["rack_matched"] is not None:
        parts.append(f"{share(row['rack_matched'], row['partitions'])} have a replica in their member's rack")
    return "; ".join(parts) + "."


def over_share_column() -> Column:
    """Returns `over_share` as a column of `tables.groups.METRICS`."""
    even = F.ceil(divide(F.col("partitions"), F.col("members")))
    return F.greatest(F.col("max_per_member") - F.when(even.isNull(), 0).otherwise(even), F.lit(0))


def worst_first(metrics: DataFrame) -> DataFrame:
    """Returns the metrics sorted by affected partitions, most first. Names break ties."""
    unowned = F.col("unassigned") - F.col("withheld")
    order = F.desc(F.greatest("moved", "revoked") + unowned + over_share_column())
    return metrics.orderBy(order, F.desc_nulls_last("max_over_mean"), *GROUP_KEY)


def collected(table: DataFrame, name: str | None = None, limit: int | None = None) -> list[Row]:
    """Returns the rows of a table that the caller has limited in size.

    Args:
        table: the table.
        name: name under which the first `limit` rows are listed (`formatting.listed`); None if they aren't.
        limit: number of rows that the report lists; None: all.

    Raises:
        SourceError: a time of a stored table is outside the years that Python's `datetime` has.
    """
    try:
        rows: list[Row] = [row.asDict() for row in table.collect()]  # callers limit it, to ten thousand rows at most
        for value in (value for row in rows for value in row.values() if isinstance(value, datetime)):
            value.astimezone(UTC)
    except PySparkException as error:
        if not re.search("ARITHMETIC_OVERFLOW|Arithmetic overflow|Overflow happened", str(error)):
            raise
        raise SourceError("a sum of stored numbers is beyond a long. Correct or remove the rows with them") from error
    except (OverflowError, ValueError) as error:
        times = [field.name for field in table.schema.fields if isinstance(field.dataType, TimestampType)]
        if not times:
            raise
        remedy = "Correct or remove that row of the stored tables"
        raise SourceError(f"{' or '.join(times)}: a time isn't in the years 1 to 9999. {remedy}") from error
    if name is not None:
        listed(name, rows[:limit])
    return rows


def any_of(groups: Rows) -> Column:
    """Returns the condition that a row belongs to one of these groups (a few)."""
    # After `==`, Sail refuses some windows and sorts of a table that is empty or large.
    keys = [[F.col(name).eqNullSafe(row[name]) for name in GROUP_KEY] for row in groups]
    return any_true(cluster & group_id for cluster, group_id in keys)


def only(table: DataFrame, groups: Rows) -> DataFrame:
    """Returns the rows of these groups (up to thousands)."""
    if not groups:  # PySpark infers no schema from a table of Arrow without rows
        return table.limit(0)
    keys = pa.table({name: pa.array([row[name] for row in groups], pa.string()) for name in GROUP_KEY})
    return table.join(F.broadcast(table.sparkSession.createDataFrame(keys)), GROUP_KEY, "left_semi")


def num_rows(name: str) -> Column:
    """Returns the number of rows of a group or table, as an aggregate."""
    return F.count(F.lit(1)).alias(name)


def long_sum(name: str) -> Column:
    """Returns the sum of a column of longs, at most the largest long, as an aggregate (`bounded_sum`)."""
    return bounded_sum(F.col(name)).alias(name)


def total_columns(name: str, sums: Sequence[str]) -> list[Column]:
    """Returns the number of rows, and sums that are 0 if there are no rows, as aggregates."""
    return [num_rows(name), *(F.coalesce(sum_of(column), F.lit(0)).alias(column) for column in sums)]


def sum_of(name: str) -> Column:
    """Returns the sum of a column, as an aggregate: of costs and seconds, which are doubles, or of longs."""
    return F.sum(name).alias(name) if name.startswith("cost_") or name.endswith("_seconds") else long_sum(name)


def count_by(table: DataFrame, column: str) -> dict[str, int]:
    """Returns the number of rows by the values of a column with few values, most frequent first."""
    rows = sorted(collected(table.groupBy(column).count()), key=lambda row: (-row["count"], row[column] or ""))
    return {row[column]: row["count"] for row in rows}


def first_of_each(name: str, rows: DataFrame, column: str, order: Sequence[str | Column], limit: int) -> list[Row]:
    """Returns the first `limit` rows of each value of a column with few values, from the table of this name; GROUP_KEY
    breaks ties of the order.
    """
    nth = F.row_number().over(Window.partitionBy(column).orderBy(*order, *GROUP_KEY))
    first = rows.withColumn("nth", nth).where(F.col("nth") <= limit).orderBy("nth").drop("nth")
    return collected(first, name)


def first_groups_with_steps(
    tables: Mapping[str, DataFrame],
    names: tuple[str, str],
    patterns: Sequence[str],
    order: Sequence[str | Column],
    limit: int,
    step_order: Sequence[str] = ("step",),
) -> tuple[list[Row], list[Row]]:
    """Returns the first groups whose id matches a shell pattern, and their steps in order. Reads at most a screenful.

    Args:
        tables: Tables by name.
        names: The names of the table with a row per group, and of that with a row per step of a group.
        patterns: Shell patterns over group_id.
        order: Sort order of the groups.
        limit: Maximum number of groups.
        step_order: Columns that sort the steps of a group.
    """
    matches = matches_any(patterns)
    groups, steps = (tables[name] for name in names)
    selected = groups.where(matches).orderBy(*order).limit(limit)
    group_rows = collected(selected, names[0])  # `top` groups
    if not group_rows:
        return [], []
    selected_steps = steps.where(matches).join(selected.select(*GROUP_KEY), GROUP_KEY, "left_semi")
    return group_rows, collected(selected_steps.orderBy(*GROUP_KEY, *step_order), names[1])  # at most 120 rows of each


def rows_of_first_groups(
    name: str, rows: DataFrame, patterns: Sequence[str], limit: int, groups: DataFrame | None = None
) -> list[Row]:
    """Returns all rows of the first groups whose id matches a shell pattern, a screenful per group.

    Args:
        name: Name of the table.
        rows: Rows of many groups.
        patterns: Shell patterns over group_id.
        limit: Maximum number of groups.
        groups: The groups of which the first are chosen; None: those of the rows.
    """
    matching = rows.where(matches_any(patterns))
    selected = _matching_groups(rows if groups is None else groups, patterns).orderBy(*GROUP_KEY).limit(limit)
    found = collected(matching.join(selected, GROUP_KEY, "left_semi"), name)  # of `top` groups
    return sorted(found, key=formatting.group_key)


def matches_any(patterns: Sequence[str], column: str = "group_id") -> Column:
    """Returns the condition that a column matches one of the shell patterns."""
    return any_true(matches(**{column: pattern}) for pattern in patterns)


def with_undescribed(rejected: DataFrame, undescribed: DataFrame | None) -> DataFrame:
    """Returns rejected groups (cluster, group_id, code, detail) with those of a fleet's `undescribed`, which replace
    others of the same group."""
    if undescribed is None:
        return rejected
    rows = undescribed.select(*GROUP_KEY, F.lit("undescribed").alias("code"), F.col("error").alias("detail"))
    return rejected.join(rows, GROUP_KEY, "left_anti").unionByName(rows)


def read_rejected_lines(
    rejected: DataFrame, num_rejected: int | None = None, key: Sequence[str] = GROUP_KEY, name: str = "rejected"
) -> list[str]:
    """Returns one line per rejected group, at most `MAX_REJECTED`, of which it reads no more.

    Args:
        rejected: Table of rejected groups, or of what else can be rejected.
        num_rejected: Number of its rows, if the caller knows it.
        key: Columns that name what is rejected.
        name: Name of the stored table.
    """
    if num_rejected is None:
        num_rejected = rejected.count()
    first = collected(rejected.orderBy(*key, "code").limit(MAX_REJECTED), name) if num_rejected else []
    name_of = formatting.group_name if key is GROUP_KEY else formatting.rejected_name
    return rejected_lines(first, num_rejected, name=name_of)


def text_of_others(
    rejected: DataFrame, groups: DataFrame, limit: int, key: Sequence[str] = GROUP_KEY, name: str = "rejected"
) -> str:
    """Returns `read_rejected_lines` and `more_groups_lines` as one text."""
    lines = [*read_rejected_lines(rejected, key=key, name=name), *more_groups_lines(groups, limit)]
    return "\n".join(lines).lstrip("\n")


def more_groups_lines(groups: DataFrame, limit: int, start: str = "") -> list[str]:
    """Returns an empty line, and one that says how many groups `--top` leaves out; an empty list if none.

    Args:
        groups: One row per group.
        limit: Number of groups that are printed.
        start: Start of the line, such as `# ` in a file of YAML.
    """
    more = groups.count() - limit
    return (
        ["", f"{start}… and {more:,} more that {'match' if more > 1 else 'matches'} (raise --top)"] if more > 0 else []
    )


def details_text(text: str | None, patterns: Sequence[str], groups: DataFrame, limit: int, start: str = "") -> str:
    """Returns what `--details` prints: the first groups that match, and how many others do; or that no group matches,
    with similar names.

    Args:
        text: Details of the first groups.
        patterns: Shell patterns over group_id.
        groups: Table with all groups, of one or more rows each.
        limit: Maximum number of groups that the text has.
        start: Start of both messages (`more_groups_lines`).
    """
    more = "\n".join(more_groups_lines(_matching_groups(groups, patterns), limit, start))
    if text or more:
        return f"{text or ''}\n{more}".strip("\n")
    similar = "".join(similar_name(groups, "group_id", pattern) for pattern in patterns)
    return f"{start}No group matches {', '.join(patterns)}.{similar} The summary lists the rejected groups."


def _matching_groups(rows: DataFrame, patterns: Sequence[str]) -> DataFrame:
    """Returns the keys of the groups whose id matches a shell pattern, each once. Advice can be of no group."""
    return rows.where(matches_any(patterns) & F.col("group_id").isNotNull()).select(*GROUP_KEY).distinct()


def similar_name(table: DataFrame, column: str, name: str) -> str:
    """Returns the question ` Did you mean …?` with the name in a column that is most similar to `name`.

    It is empty if no name is similar (at most a third of the characters, or two, differ) or contains `name`, if the
    column has the name, and if `name` has wildcards.
    """
    if set("*?[") & set(name):
        return ""
    most = max(2, len(name) // 3)
    contains = F.contains("name", F.lit(name)) if len(name) > 2 else F.lit(False)
    names = table.select(F.col(column).alias("name")).where((F.abs(F.length("name") - len(name)) <= most) | contains)
    distances = names.withColumn("distance", F.levenshtein("name", F.lit(name)))
    near = distances.where((F.col("distance") <= most) | contains)
    near = near.orderBy("distance", "name").limit(1)
    return "".join(f" Did you mean {in_text(row['name'])}?" for row in near.collect() if row["distance"])  # one row


def possible_variants(summary: DataFrame) -> DataFrame:
    """Returns the variants of `replay_summary` that the clients of the group don't refuse, as far as known."""
    return summary.where("refusal IS NULL") if "refusal" in summary.columns else summary


def variant_preference() -> Column:
    """Returns the position of an assignor in `PREFERRED`, which decides between variants that pause equally."""
    position = F.array_position(F.array(*map(F.lit, PREFERRED)), F.col("assignor"))
    return F.when(position > 0, position).otherwise(len(PREFERRED) + 1).alias("preference")
