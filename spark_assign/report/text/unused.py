"""Text of what has no known use: a summary, and the details of selected topics and groups."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.unused import CERTAINTIES, LIKELY, SUBJECTS, TOPIC
from spark_assign.report.formatting import DASH, Row, Rows, aligned, count, format_bytes, more_lines, number, visible
from spark_assign.report.listed_groups import collected, long_sum, num_rows, read_rejected_lines
from spark_assign.spark.progress import progress

_MAX_MISSING = 5


@progress("looking for what is unused", 1)
def summarize_unused(unused: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the counts, the first findings with their costs, and the data that is missing. Reads a screenful of rows.

    Args:
        unused: `Unused.unused`, computed or read back.
        rejected: `Unused.rejected`, computed or read back.
        limit: Maximum number of findings listed: those with commands first, then the most certain and expensive ones.
    """
    sums = (long_sum(name) for name in ("replicas", "disk_bytes"))
    totals = collected(unused.groupBy("subject", "certainty").agg(num_rows("rows"), *sums))  # at most 16
    if not totals:
        return "\n".join(["Nothing without a known use was found", *read_rejected_lines(rejected)])
    table = [["", *CERTAINTIES]]
    for subject in SUBJECTS:
        counts = {row["certainty"]: row["rows"] for row in totals if row["subject"] == subject}
        table.append([f"{subject}s".replace("ss", "s"), *(number(counts.get(each, 0)) for each in CERTAINTIES)])
    order = [
        F.col("commands").isNull(),
        _position("certainty", CERTAINTIES),
        F.desc_nulls_last("disk_bytes"),
        _position("subject", SUBJECTS),
    ]
    order += [F.desc_nulls_last(name) for name in ("replicas", "committed_partitions")]
    rows = collected(unused.orderBy(*order, "cluster", "group_id", "topic").limit(limit), "unused")
    lines = ["Without a known use:", *aligned(table), *_cost_lines(totals)]
    lines += [
        "",
        f"The first {number(len(rows))}, those that can be removed first, then the most certain ones:",
        *_finding_lines(rows),
    ]
    lines += more_lines(sum(row["rows"] for row in totals) - len(rows), "unused")
    missing = unused.where(F.col("missing").isNotNull()).groupBy("missing").agg(num_rows("rows"))
    unknown = collected(missing.orderBy(F.desc("rows"), "missing").limit(_MAX_MISSING))
    if unknown:
        lines += ["", "Not known:"]
        lines += [f"  {visible(row['missing'], also=chr(10))} ({count(row['rows'], 'row')})" for row in unknown]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _position(column: str, values: tuple[str, ...]) -> Column:
    return F.array_position(F.array(*map(F.lit, values)), F.col(column))


def _cost_lines(totals: Rows) -> list[str]:
    """Returns the cost of what is likely unused; an empty list if nothing is."""
    likely = [row for row in totals if row["certainty"] == LIKELY and row["subject"] == TOPIC]
    replicas = sum(row["replicas"] or 0 for row in likely)
    known = [row["disk_bytes"] for row in likely if row["disk_bytes"] is not None]
    if not likely:
        return []
    disk = f"at least {format_bytes(sum(known))} on disk" if known else "bytes on disk that aren't known"
    return [f"Topics that are likely unused have {count(replicas, 'replica')} and {disk}"]


def _finding_lines(rows: Rows) -> list[str]:
    table = [["name", "what", "certainty", "days", "replicas", "disk", "committed"]]
    for row in rows:
        days = DASH if row["days"] is None else f"{row['days']:,.1f}"
        disk = DASH if row["disk_bytes"] is None else format_bytes(row["disk_bytes"])
        figures = [DASH if row[name] is None else number(row[name]) for name in ("replicas", "committed_partitions")]
        table.append([_name(row), row["subject"], row["certainty"], days, figures[0], disk, figures[1]])
    return aligned(table, words=(0, 1, 2))


def _name(row: Row) -> str:
    return "/".join(row[name] for name in ("cluster", "group_id", "topic") if row[name])


def format_unused(rows: Rows) -> str:
    """Returns the reason of each finding, the data that is missing, and the commands that remove it."""
    lines: list[str] = []
    for row in rows:
        lines += ["", f"{visible(_name(row), also=chr(10))}: {row['subject']}, {row['certainty']}"]
        lines.append(f"  {visible(row['reason'], also=chr(10))}")
        lines += [f"  Not known: {visible(row['missing'], also=chr(10))}"] if row["missing"] else []
        lines += [f"  {line}" for line in (row["commands"] or "").splitlines()]
    return "\n".join(lines).lstrip("\n")
