"""A written plan on one screen: totals, the least balanced groups, what could not be planned."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_assign.sinks.plan_store import StoredPlan

_REJECTED_SHOWN = 10


def summarize(stored: StoredPlan, place: str, top: int = 10) -> str:
    """The text. Reads only metrics and rejected, of each at most a screenful of rows.

    Args:
        stored: a plan read back with `read_plan`.
        place: where it was written, for the last line.
        top: how many groups to list, those with the highest max_over_mean first.
    """
    metrics, rejected = stored.tables["metrics"], stored.tables["rejected"]
    sums = ("members", "partitions", "moved", "revoked", "unassigned", "withheld")
    totals = metrics.agg(
        F.count(F.lit(1)).alias("groups"), *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums)
    ).collect()[0]  # one row of sums
    refused = stored.manifest.rows["rejected"]
    waiting = f" ({totals['withheld']:,} until the next round)" if totals["withheld"] else ""
    lines = [
        f"Plan {stored.manifest.run_id}: {_n(totals['groups'], 'group')} planned, {refused:,} rejected, "
        f"{_n(totals['members'], 'member')}, {_n(totals['partitions'], 'partition')} assigned, "
        f"{totals['moved']:,} moved, {totals['revoked']:,} revoked, {totals['unassigned']:,} unassigned{waiting}",
    ]
    if top and totals["groups"]:
        order: list[Column | str] = [F.desc_nulls_last("max_over_mean"), "cluster", "group_id"]
        worst = metrics.orderBy(*order).limit(top).collect()
        shown = f"the {len(worst)} least balanced of {totals['groups']:,}"
        lines += ["", f"Groups ({shown if totals['groups'] > top else 'least balanced first'}):"]
        lines += _table(
            ["group", "assignor", "members", "partitions", "per member", "max/mean", "moved"],
            [
                [
                    f"{row['cluster']}/{row['group_id']}",
                    row["assignor"],
                    f"{row['members']:,}",
                    f"{row['partitions']:,}",
                    f"{row['min_per_member']:,}–{row['max_per_member']:,}",
                    "–" if row["max_over_mean"] is None else f"{row['max_over_mean']:.2f}",
                    f"{row['moved']:,}",
                ]
                for row in worst
            ],
        )
    if refused:
        lines += ["", "Rejected groups:"]
        for row in rejected.orderBy("cluster", "group_id", "code").limit(_REJECTED_SHOWN).collect():
            detail = " ".join(str(row["detail"]).split())[:300]
            lines.append(f"  {row['cluster']}/{row['group_id']}: {row['code']}: {detail}")
        if refused > _REJECTED_SHOWN:
            lines.append(f"  … and {refused - _REJECTED_SHOWN:,} more, in the table rejected")
    tables = ", ".join(f"{name} {count:,}" for name, count in stored.manifest.rows.items())
    lines += ["", f"Rows: {tables}", f"Written to {place} in {stored.manifest.duration_s:.1f} s"]
    return "\n".join(lines)


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns; the first two are words, the rest numbers."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
