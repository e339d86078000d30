"""From a comparison of assignors, and from a drift, to the rows of a report (bounds: `rows`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.recommend import KAFKA_DEFAULT
from spark_assign.comparison.what_if import AS_IS
from spark_assign.report.html.bounded_collect import any_of, collected, only
from spark_assign.report.html.report_data import (
    DRAWN_GROUPS,
    MOST_GROUPS,
    MOST_ROWS,
    AdviceRows,
    CompareRows,
    DriftRows,
    Rows,
)
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables.groups import GROUP_KEY

_FIGURES = ("max_over_mean", "moved", "revoked", "partition_seconds_paused")
_CLIENTS = ("runs_with", "clients", "way")
"""Columns that a comparison stored by an earlier release lacks."""


def compare_rows(comparison: DataFrame, listed: Rows = ()) -> CompareRows:
    """What the page shows of a comparison of assignors.

    Args:
        comparison: as `compare` gives it (`tables.groups.COMPARISON`), or read back.
        listed: groups (cluster, group_id) of the plan that the page lists; what is recommended for them is told there.
    """
    none = F.lit(None).cast("string")
    # Not withColumns, which Spark Connect refuses where there is nothing to add.
    comparison = comparison.select("*", *(none.alias(name) for name in _CLIENTS if name not in comparison.columns))
    able = F.col("rejected").isNull() & (F.col("members") > 0)
    totals = comparison.groupBy("change", "assignor").agg(
        F.count(F.when(able, 1)).alias("groups"),
        F.count("rejected").alias("rejected"),
        F.count(F.when(F.col("recommended"), 1)).alias("recommended"),
        F.avg("max_over_mean").alias("max_over_mean"),
        *(F.sum(name).alias(name) for name in _FIGURES[1:]),
    )
    groups = cached(_groups(comparison, able))
    changes = collected(groups.select("change").distinct().orderBy("change").limit(MOST_ROWS))
    names = [row["change"] for row in changes]
    first = AS_IS.name if AS_IS.name in names else names[0] if names else None
    advice = groups.where((F.col("change") == F.lit(first)) & F.col("best").isNotNull())
    rows = CompareRows(
        totals=collected(totals.orderBy("change", "assignor").limit(MOST_ROWS)),
        verdicts=collected(_verdicts(groups).limit(MOST_ROWS)),
        sums=collected(_sums(groups).limit(MOST_ROWS)),
        gains=collected(_gains(groups).limit(MOST_ROWS)),
        ways=collected(_ways(groups).limit(MOST_ROWS)),
        advice=collected(_advice(only(advice, listed)).limit(MOST_GROUPS)) if listed else (),
        advised_for=first or "",
    )
    uncached(groups)
    return rows


def _groups(comparison: DataFrame, able: Column) -> DataFrame:
    """A row per group and change: `best`, what it runs with (`now`), what that is held against, and the verdict."""
    figures = F.struct("assignor", "rounds", *_FIGURES, "reason", "clients", "way")
    rows = comparison.groupBy(*GROUP_KEY, "change").agg(
        F.max_by(figures, F.when(F.col("recommended"), 1)).alias("best"),
        F.max_by(figures, F.when(able & F.col("configured"), 1)).alias("now"),
        F.max_by(figures, F.when(able & (F.col("assignor") == KAFKA_DEFAULT), 1)).alias("default"),
        F.bool_or("configured").alias("compared"),
        F.max("runs_with").alias("runs_with"),
    )
    verdict = (
        F.when(F.col("best").isNull(), "none")
        .when(F.col("compared").isNull(), "unknown")
        .when(~F.col("compared"), "elsewhere")
        .when(F.col("best.assignor") == F.col("now.assignor"), "keep")
        .otherwise("change")
    )
    return rows.withColumns({"verdict": verdict, "against": F.coalesce("now", "default")})


def _verdicts(groups: DataFrame) -> DataFrame:
    rows = groups.groupBy("change", "verdict", F.col("best.assignor").alias("assignor"))
    return rows.agg(F.count(F.lit(1)).alias("groups")).orderBy("change", F.desc("groups"), "verdict", "assignor")


def _sums(groups: DataFrame) -> DataFrame:
    """Per change: all groups that have both, as they are now and as recommended."""
    both = groups.where(F.col("best").isNotNull() & F.col("against").isNotNull())
    figures = [
        (F.avg if name == "max_over_mean" else F.sum)(f"{end}.{name}").alias(f"{prefix}{name}")
        for end, prefix in (("best", ""), ("against", "now_"))
        for name in _FIGURES
    ]
    return both.groupBy("change").agg(F.count(F.lit(1)).alias("groups"), *figures).orderBy("change")


def _gains(groups: DataFrame) -> DataFrame:
    """Groups that should run with something else, those that gain most first: in balance, then in moves."""
    others = groups.where("verdict <> 'none' and verdict <> 'keep'").where(
        ~F.col("best.assignor").eqNullSafe(F.col("against.assignor"))
    )
    balance = F.coalesce(F.round(F.col("against.max_over_mean") - F.col("best.max_over_mean"), 1), F.lit(0))
    spared = F.coalesce(F.col("against.moved") - F.col("best.moved"), F.lit(0))
    return others.orderBy(F.desc(balance), F.desc(spared), "cluster", "group_id", "change").select(
        *GROUP_KEY,
        "change",
        "verdict",
        *(F.col(f"best.{name}").alias(name) for name in ("assignor", "rounds", *_FIGURES, "reason", "clients", "way")),
        F.coalesce("now.assignor", "runs_with").alias("now"),
        *(F.col(f"against.{name}").alias(f"now_{name}") for name in ("assignor", *_FIGURES)),
    )


def _advice(groups: DataFrame) -> DataFrame:
    now = F.coalesce("runs_with", "now.assignor").alias("now")
    return groups.select(*GROUP_KEY, "verdict", "best.assignor", "best.reason", "best.clients", "best.way", now)


def _ways(groups: DataFrame) -> DataFrame:
    """How groups switch, and how many of them; the commonest first."""
    going = groups.where(F.col("best.way").isNotNull()).groupBy("change", F.col("best.way").alias("way"))
    name = F.concat_ws("/", *GROUP_KEY)
    return going.agg(F.count(F.lit(1)).alias("groups"), F.min(name).alias("example")).orderBy(
        "change", F.desc("groups"), "way"
    )


# --- drift ------------------------------------------------------------------------------------------------------

CHANGES = ("moved", "newly_owned", "no_longer_owned", "came", "went", "restarted")
WORSE = 0.005
"""So much more of max over mean is worse; less is not seen in two digits."""


def drift_rows(tables: Mapping[str, DataFrame], about: Mapping[str, str] | None = None) -> DriftRows:
    """What the page shows of what changed between two runs.

    Args:
        tables: `tables.comparison.DRIFT_TABLES`, those that are there.
        about: `from` and `to`, the names of the two runs, if they are known.
    """
    found: dict[str, Rows] = {}
    if "groups" in tables:
        groups = tables["groups"]
        sums = (F.sum(name).alias(name) for name in CHANGES)
        by_change = groups.groupBy("change").agg(F.count(F.lit(1)).alias("groups"), *sums)
        found["changes"] = collected(by_change.orderBy("change").limit(MOST_ROWS))
        many = reduce(Column.__add__, map(F.col, CHANGES))
        changed = groups.where("change <> 'same'").orderBy(F.desc(many), *GROUP_KEY)
        found["groups"] = collected(changed.limit(MOST_ROWS))
        grown = F.col("max_over_mean_after") - F.col("max_over_mean_before")
        worse = groups.where(grown > WORSE).orderBy(F.desc(grown), *GROUP_KEY)
        found["worse"] = collected(worse.limit(MOST_ROWS))
        if "ownership" in tables:
            most = [row for row in found["groups"] if row["moved"]][:DRAWN_GROUPS]
            found["pairs"] = collected(_pairs(tables["ownership"].where(any_of(most)))) if most else ()
    if "members" in tables:
        found["members"] = collected(tables["members"].orderBy(*GROUP_KEY, "change", "member_id").limit(MOST_ROWS))
    if "topics" in tables:
        found["topics"] = collected(tables["topics"].orderBy("cluster", "topic").limit(MOST_ROWS))
    return DriftRows(**found, about=dict(about or {}))


def _pairs(ownership: DataFrame) -> DataFrame:
    """Who had it and who has it, of some groups: those pairs that most partitions went between."""
    pairs = ownership.groupBy(*GROUP_KEY, "from_member_id", "to_member_id")
    counted = pairs.agg(F.count(F.lit(1)).alias("partitions"))
    return counted.orderBy(F.desc("partitions"), *GROUP_KEY, "from_member_id", "to_member_id").limit(MOST_ROWS)


def advice_rows(advice: DataFrame) -> AdviceRows:
    """What the page shows of `Advised.advice`, or of the table read back."""
    matters = advice.groupBy("matter").agg(F.count(F.lit(1)).alias("number"))
    return AdviceRows(collected(advice.orderBy("rank").limit(MOST_ROWS)), collected(matters))
