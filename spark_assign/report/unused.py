"""Text of what has no known use: a summary, and the details of selected topics and groups."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.unused import CERTAINTIES, LIKELY, SUBJECTS
from spark_assign.report.formatting import (
    Row,
    Rows,
    aligned,
    count,
    format_bytes,
    in_cluster,
    more_lines,
    number,
    visible,
)
from spark_assign.report.listed_groups import collected, long_sum, num_rows, read_rejected_lines
from spark_assign.spark.progress import progress


@progress("looking for what is unused", 1)
def summarize_unused(unused: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the counts, the first findings with their costs, and the data that is missing. Reads a screenful of rows.

    Args:
        unused: `Unused.unused`, computed or read back.
        rejected: `Unused.rejected`, computed or read back.
        limit: Maximum number of findings listed: those with commands first, then the most certain and expensive ones.
    """
    totals = unused.groupBy("subject", "certainty").agg(num_rows("rows"), *map(long_sum, ("replicas", "disk_bytes")))
    known = {(row["subject"], row["certainty"]): row for row in collected(totals)}  # at most 16
    if not known:
        return "\n".join(["Nothing without a known use was found", *read_rejected_lines(rejected)])
    table = [["", *CERTAINTIES, "replicas", "disk"]]
    for subject in SUBJECTS:
        counts = [known[subject, each]["rows"] if (subject, each) in known else 0 for each in CERTAINTIES]
        table.append([subject, *map(number, counts), *_costs(known.get((subject, LIKELY), {}))])
    order = [F.col("commands").isNull(), _position("certainty", CERTAINTIES), F.desc_nulls_last("disk_bytes")]
    order += [_position("subject", SUBJECTS), *map(F.desc_nulls_last, ("replicas", "committed_partitions"))]
    rows = collected(unused.orderBy(*order, "cluster", "group_id", "topic").limit(limit), "unused")
    lines = ["Without a known use, with replicas and disk of what is likely unused:", *aligned(table), ""]
    table = [["name", "what", "certainty", "replicas", "disk", "committed"]]
    for row in rows:
        cells = [_name(row), row["subject"], row["certainty"], *_costs(row), number(row["committed_partitions"])]
        table.append(cells)
    lines += [f"The first {number(len(rows))}, those that can be removed first:", *aligned(table, words=(0, 1, 2))]
    lines += more_lines(sum(row["rows"] for row in known.values()) - len(rows), "unused")
    missing = unused.where(F.col("missing").isNotNull()).groupBy("missing").agg(num_rows("rows"))
    unknown = collected(missing.orderBy(F.desc("rows"), "missing").limit(5))
    lines += ["", "Not known:"] * bool(unknown)
    lines += [f"  {visible(row['missing'], escaped=chr(10))} ({count(row['rows'], 'row')})" for row in unknown]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _position(column: str, values: tuple[str, ...]) -> Column:
    return F.array_position(F.array(*map(F.lit, values)), F.col(column))


def _costs(row: Row) -> list[str]:
    return [number(row.get("replicas")), format_bytes(row.get("disk_bytes"))]


def _name(row: Row) -> str:
    return in_cluster(row["cluster"], "/".join(dict.fromkeys(row[name] for name in ("group_id", "topic") if row[name])))


def format_unused(rows: Rows) -> str:
    """Returns the reason of each finding, the data that is missing, and the commands that remove it."""
    lines: list[str] = []
    for row in sorted(rows, key=lambda row: (_name(row), row["subject"])):
        lines += ["", f"{visible(_name(row), escaped=chr(10))}: {row['subject']}, {row['certainty']}"]
        lines.append(f"  {visible(row['reason'], escaped=chr(10))}")
        lines += [f"  Not known: {visible(row['missing'], escaped=chr(10))}"] if row["missing"] else []
        lines += [f"  {line}" for line in (row["commands"] or "").splitlines()]
    return "\n".join(lines).lstrip("\n")
