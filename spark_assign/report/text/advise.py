"""What to do, on one screen: the first pieces of advice with what they gain, cost and risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.advice_items import BALANCE, BEHIND, MATTERS, MONEY, NOTHING, PAUSE, UNKNOWN
from spark_assign.report.formatting import NONE, count, rejected_lines
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]

TITLES = {
    BEHIND: "Groups that fall behind",
    MONEY: "Money",
    PAUSE: "Pauses",
    BALANCE: "Balance",
    UNKNOWN: "To be known first",
}


@progress("gathering advice", 1)
def summarize_advice(advice: DataFrame, not_advised: DataFrame, rejected: DataFrame, top: int) -> str:
    """How much there is, and the first pieces of it. Reads a screenful of rows.

    Args:
        advice, not_advised, rejected: those of `Advised`, or read back.
        top: how many pieces of advice to list.
    """
    counted = {row["matter"]: row["count"] for row in advice.groupBy("matter").count().collect()}  # five
    rows = [row.asDict() for row in advice.orderBy("rank").limit(top).collect()]  # `top`
    silent = not_advised.where(F.col("code") != NOTHING).groupBy("code").count().orderBy(F.desc("count"), "code")
    why = ", ".join(f"{row['count']:,} {row['code']}" for row in silent.collect())  # a dozen
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(10).collect()]  # a screenful
    total = sum(counted.values())
    told = ", ".join(f"{counted[matter]:,} {matter}" for matter in MATTERS if matter in counted)
    lines = [
        f"Advice: {count(total, 'piece')} ({told})" if total else "Nothing is worth a change",
        *advice_in_words(rows),
    ]
    lines += [f"… and {total - len(rows):,} more, in the table advice"] if total > len(rows) else []
    lines += ["", f"Not advised: {why}, in the table not_advised"] if why else []
    return "\n".join([*lines, *rejected_lines(refused, rejected.count())])


def advice_in_words(rows: Sequence[Row]) -> list[str]:
    """Each piece of advice, under the title of its matter.

    Args:
        rows: of `advice`, by rank.
    """
    lines: list[str] = []
    matter = None
    for row in rows:
        if row["matter"] != matter:
            matter = row["matter"]
            lines += ["", f"{TITLES[matter]}:"]
        lines.append(f"{row['rank']:>4}. {where(row)}: {row['kind']}. {row['what']}")
        if row["gain"] is not None:
            paid = "" if row["pays_after"] is None else f", has paid after {months(row['pays_after'])}"
            lines.append(f"      gain {figure(row, 'gain')}, cost {figure(row, 'cost')}{paid}")
        lines.append(f"      risk {row['risk']}")
        lines += [f"      set  {line}" for line in (row["settings"] or "").splitlines()]
        lines.append(f"      see  {row['command']}")
    return lines


def where(row: Row) -> str:
    """The group with its cluster, or the cluster."""
    return row["cluster"] if row["group_id"] is None else f"{row['cluster']}/{row['group_id']}"


def figure(row: Row, name: str) -> str:
    """A gain or a cost with its unit; – for null."""
    value, unit = row[name], row[f"{name}_unit"]
    if value is None:
        return NONE
    digits = 0 if unit.startswith(("partition-seconds", "messages", "%")) else 2
    return f"{value:,.{digits}f} {unit}"


def months(value: float) -> str:
    """`2 days`, `3.4 months`."""
    return f"{value * 30:,.0f} days" if value < 2 else f"{value:,.1f} months"


def silence_in_words(rows: Sequence[Row]) -> list[str]:
    """What is not advised, and why.

    Args:
        rows: of `not_advised`.
    """
    told = sorted(rows, key=lambda row: (row["cluster"], row["group_id"] or "", row["of"], row["code"], row["detail"]))
    return (
        ["", "Not advised:", *(f"  {where(row)}, {row['of']}: {row['code']}. {row['detail']}" for row in told)]
        if told
        else []
    )
