"""Text of advice: a summary of the fleet, and all advice of selected groups."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.advice_items import CATEGORIES, Category, Code
from spark_assign.report.formatting import DASH, Row, Rows, count, group_name
from spark_assign.report.listed_groups import collected, count_by, read_rejected_lines
from spark_assign.spark.progress import progress

TITLES = {
    Category.BEHIND: "Groups that fall behind",
    Category.MONEY: "Cost",
    Category.PAUSE: "Pauses",
    Category.BALANCE: "Balance",
    Category.UNKNOWN: "Missing data",
}
"""Title of each category of advice."""


@progress("gathering advice", 1)
def summarize_advice(advice: DataFrame, not_recommended: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the number of recommendations, and the first of them. Reads a screenful of rows.

    Args:
        advice: `Advice.advice`, computed or read back.
        not_recommended: `Advice.not_recommended`, computed or read back.
        rejected: `Advice.rejected`, computed or read back.
        limit: Maximum number of recommendations listed.
    """
    counts = count_by(advice, "category")
    rows = collected(advice.orderBy("rank").limit(limit))  # `limit`
    by_code = count_by(not_recommended.where(F.col("code") != Code.NOTHING), "code")
    codes = ", ".join(f"{num:,} {code}" for code, num in by_code.items())
    total = sum(counts.values())
    categories = ", ".join(f"{counts[category]:,} {category}" for category in CATEGORIES if category in counts)
    lines = [
        f"Advice: {count(total, 'recommendation')} ({categories})" if total else "No change is worth its cost",
        *format_advice(rows),
    ]
    lines += [f"… and {total - len(rows):,} more, in the table advice"] if total > len(rows) else []
    lines += ["", f"Not recommended: {codes}, in the table not_recommended"] if codes else []
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def format_advice(rows: Rows) -> list[str]:
    """Returns the lines of each recommendation, below the title of its category.

    Args:
        rows: Rows of `advice`, sorted by rank.
    """
    lines: list[str] = []
    category = None
    for row in rows:
        if row["category"] != category:
            category = row["category"]
            lines += ["", f"{TITLES[category]}:"]
        lines.append(f"{row['rank']:>4}. {subject_name(row)}: {row['action']}. {row['description']}")
        if row["gain"] is not None:
            payback = (
                "" if row["payback_months"] is None else f", pays for itself after {months(row['payback_months'])}"
            )
            lines.append(f"      gain {amount_with_unit(row, 'gain')}, cost {amount_with_unit(row, 'cost')}{payback}")
        lines.append(f"      risk {row['risk']}")
        lines += [f"      set  {line}" for line in (row["settings"] or "").splitlines()]
        lines.append(f"      see  {row['command']}")
    return lines


def subject_name(row: Row) -> str:
    """Returns `cluster/group_id`, or the cluster if the advice is about all of it."""
    return row["cluster"] if row["group_id"] is None else group_name(row)


def amount_with_unit(row: Row, name: str) -> str:
    """Returns a gain or a cost with its unit, or a dash for None."""
    value, unit = row[name], row[f"{name}_unit"]
    if value is None:
        return DASH
    digits = 0 if unit.startswith(("partition-seconds", "messages", "%")) else 2
    return f"{value:,.{digits}f} {unit}"


def months(value: float) -> str:
    """Returns a number of months such as `2 days` (below two months) or `3.4 months`."""
    return f"{value * 30:,.0f} days" if value < 2 else f"{value:,.1f} months"


def format_not_recommended(rows: Rows) -> list[str]:
    """Returns one line per adviser that has no advice for a group, with the reason.

    Args:
        rows: Rows of `not_recommended`.
    """
    if not rows:
        return []
    ordered = sorted(
        rows, key=lambda row: (row["cluster"], row["group_id"] or "", row["adviser"], row["code"], row["detail"])
    )
    lines = [f"  {subject_name(row)}, {row['adviser']}: {row['code']}. {row['detail']}" for row in ordered]
    return ["", "Not recommended:", *lines]
