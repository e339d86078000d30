"""A written plan on one screen: totals, the least balanced groups, what could not be planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.groups.kernel.leader_rules import count_rules, format_rule_sources
from spark_assign.report.formatting import duration, ratio
from spark_assign.stores.local_parquet import read_rows
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.groups import METRICS, REJECTED

_REJECTED_SHOWN = 10
_READ = {"metrics", "rejected"}
_RULED = ("assignor", "led_by")
_SMALL = 10_000
"""Rows that Python goes through faster than Spark begins a query."""


def summarize(stored: StoredRun, place: str, top: int = 10) -> str:
    """The text. Reads only metrics and rejected, of each at most a screenful of rows.

    Args:
        stored: a plan read back with `read_plan`.
        place: where it was written, for the last line.
        top: how many groups to list, those with the highest max_over_mean first.
    """
    sums = ("members", "partitions", "moved", "revoked", "unassigned", "withheld")
    refused = stored.manifest.rows["rejected"]
    found = _read_here(stored, sums, top)
    [totals], worst, shown_refusals, ruled, loaded = (
        _read(stored.tables["metrics"], stored.tables["rejected"], sums, top) if found is None else found
    )
    waiting = f" ({totals['withheld']:,} until the next round)" if totals["withheld"] else ""
    lines = [
        f"Plan {stored.manifest.run_id}: {_n(totals['groups'], 'group')} planned, {refused:,} rejected, "
        f"{_n(totals['members'], 'member')}, {_n(totals['partitions'], 'partition')} assigned, "
        f"{totals['moved']:,} moved, {totals['revoked']:,} revoked, {totals['unassigned']:,} unassigned{waiting}",
    ]
    if rules := format_rule_sources(count_rules((row["assignor"], row["led_by"], row["groups"]) for row in ruled)):
        lines.append(rules)
    if top and totals["groups"]:
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
    if loaded:
        lines += ["", *_by_load_lines(loaded)]
    if refused:
        lines += ["", "Rejected groups:"]
        for row in shown_refusals:
            detail = " ".join(str(row["detail"]).split())[:300]
            lines.append(f"  {row['cluster']}/{row['group_id']}: {row['code']}: {detail}")
        if refused > _REJECTED_SHOWN:
            lines.append(f"  … and {refused - _REJECTED_SHOWN:,} more, in the table rejected")
    tables = ", ".join(f"{name} {count:,}" for name, count in sorted(stored.manifest.rows.items()))
    lines += ["", f"Rows: {tables}", f"Written to {place} in {stored.manifest.duration_s:.1f} s"]
    return "\n".join(lines)


def _read_here(stored: StoredRun, sums: Sequence[str], top: int) -> tuple[list[dict[str, Any]], ...] | None:
    """What `_read` reads, of small tables that are files on this machine; null where they are not."""
    if _READ - set(stored.folders) or sum(stored.manifest.rows[name] for name in _READ) > _SMALL:
        return None
    metrics = read_rows(stored.folders["metrics"], METRICS.names)
    rejected = read_rows(stored.folders["rejected"], REJECTED.names)
    if metrics is None or rejected is None:
        return None
    totals = {"groups": len(metrics)} | {name: sum(row[name] or 0 for row in metrics) for name in sums}
    ruled = [{name: row[name] for name in _RULED} | {"groups": 1} for row in metrics if row["members"]]
    loaded = sorted((row for row in metrics if row["load_max_over_mean"] is not None), key=_by_load)[:top]
    worst, refused = sorted(metrics, key=_by_balance)[:top], sorted(rejected, key=_by_name)[:_REJECTED_SHOWN]
    return [totals], worst, refused, ruled, loaded


def _read(metrics: DataFrame, rejected: DataFrame, sums: Sequence[str], top: int) -> tuple[list[Row], ...]:
    """In one query: sums, the least balanced groups, rejected ones, by whose rules how many, and by load."""
    of_all = [F.count(F.lit(1)).alias("groups"), *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums)]
    order: list[Column | str] = [F.desc_nulls_last("max_over_mean"), "cluster", "group_id"]
    parts = [
        metrics.agg(*of_all),
        metrics.orderBy(*order).limit(top),
        rejected.orderBy("cluster", "group_id", "code").limit(_REJECTED_SHOWN),
        metrics.where("members > 0").groupBy(*_RULED).agg(F.count(F.lit(1)).alias("groups")),
        metrics.where("load_max_over_mean IS NOT NULL").orderBy(F.desc("load_max_over_mean"), *order[1:]).limit(top),
    ]
    numbered = [part.withColumn("part", F.lit(at)) for at, part in enumerate(parts)]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), numbered)
    rows = every.collect()  # a screenful
    keys: tuple[Callable[[Any], Any], ...] = (lambda row: 0, _by_balance, _by_name, lambda row: 0, _by_load)
    return tuple(sorted((row for row in rows if row["part"] == at), key=key) for at, key in enumerate(keys))


def _by_name(row: Mapping[str, Any] | Row) -> tuple[str, str, str]:
    return row["cluster"], row["group_id"], row["code"]


def _by_balance(row: Mapping[str, Any] | Row) -> tuple[float, str, str]:
    uneven = row["max_over_mean"]
    return (0.0 if uneven is None else -uneven, row["cluster"], row["group_id"])


def _by_load(row: Mapping[str, Any] | Row) -> tuple[float, str, str]:
    return -row["load_max_over_mean"], row["cluster"], row["group_id"]


def _by_load_lines(rows: Sequence[Mapping[str, Any] | Row]) -> list[str]:
    """A line per group whose load is known: messages a second, and how evenly members share them."""
    header = ["group", "assignor", "load/s", "max/s", "max/mean", "by count", "drained in"]
    table = [
        [
            f"{row['cluster']}/{row['group_id']}",
            row["assignor"],
            f"{row['load']:,.0f}",
            f"{row['max_load_per_member']:,.0f}",
            ratio(row["load_max_over_mean"]),
            ratio(row["max_over_mean"]),
            duration(row["drain_seconds"]),
        ]
        for row in rows
    ]
    return ["By load (least balanced first):", *_table(header, table)]


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
