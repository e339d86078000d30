"""What the past would have cost otherwise, on one screen: the fleet in every way, and what groups would have saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.history.kernel.replay.recorded_history import ASSIGNORS
from spark_assign.report.formatting import REJECTED_SHOWN, count, number, rejected_lines
from spark_assign.report.text.history import name_of, partition_time
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]

_FIGURES = ("rebalances", "moved", "stopped_ms")
_WAY = ("assignor", "static", "protocol")


@progress("replaying the past", 1)
def summarize_replay(replayed: DataFrame, rejected: DataFrame, top: int) -> str:
    """Totals of each way, and a sentence for each group that would have saved most. Reads a screenful of rows.

    Args:
        replayed: `Replay.replayed`, or read back.
        rejected: `Replay.rejected`, likewise.
        top: how many groups to list.
    """
    figures = [F.sum(name).alias(name) for name in _FIGURES]
    ways = [row.asDict() for row in replayed.groupBy(*_WAY).agg(F.count(F.lit(1)).alias("groups"), *figures).collect()]
    sums = replayed.where("recorded").agg(F.count(F.lit(1)).alias("groups"), *figures).collect()[0].asDict()
    worst = [row.asDict(recursive=True) for row in _by_group(replayed).limit(top).collect()]
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(REJECTED_SHOWN).collect()]
    lines = [_total(sums)]
    if ways:
        lines += ["", "All groups in one way:", *_ways(ways, sums)]
    if worst:
        lines += ["", "Groups that would have saved most:", *(f"  {sentence(row)}" for row in worst)]
        lines += [f"  … and {sums['groups'] - len(worst):,} more"] if sums["groups"] > len(worst) else []
    return "\n".join(lines + rejected_lines(refused, rejected.count()))


def _by_group(replayed: DataFrame) -> DataFrame:
    """A row per group: as it was, and the way that would have stopped least; those first that would have saved most."""
    was, other = F.col("recorded"), ~F.col("recorded")
    rows = replayed.groupBy(*GROUP_KEY).agg(
        F.max(F.when(was, F.struct(*_FIGURES, *_WAY))).alias("was"),
        F.min(F.when(other, F.struct("stopped_ms", "rebalances", *_WAY))).alias("best"),
    )
    saved = F.col("was.stopped_ms") - F.col("best.stopped_ms")
    return rows.orderBy(F.desc_nulls_last(saved), F.desc("was.rebalances"), *GROUP_KEY)


def sentence(row: Row) -> str:
    """What a group's rebalances stopped, and what they would have in its best way.

    Args:
        row: cluster, group_id, `was` and `best`.
    """
    was, best = row["was"], row["best"]
    said = f"{count(was['rebalances'], 'rebalance')} of {name_of(row)} stopped {partition_time(was['stopped_ms'])}"
    if best is None or best["stopped_ms"] >= was["stopped_ms"]:
        return f"{said}; no other way would have stopped less"
    return f"{said}; {in_words(best)}: {partition_time(best['stopped_ms'])}"


def in_words(way: Row) -> str:
    """`cooperative-sticky with static members`."""
    return f"{way['assignor']} with {'static' if way['static'] else 'dynamic'} members"


def _total(sums: Row) -> str:
    if not sums["groups"]:
        return "No group has two generations on record: there is nothing to replay"
    stopped = partition_time(sums["stopped_ms"])
    return f"{count(sums['rebalances'], 'rebalance')} of {count(sums['groups'], 'group')} stopped {stopped}"


def _ways(ways: Sequence[Row], sums: Row) -> list[str]:
    """A line per way, in the order in which Kafka's assignors are told."""
    table = [["way", "protocol", "groups", "rebalances", "moved", "stopped"]]
    table.append(["as it was", "", *(number(sums[name]) for name in ("groups", "rebalances", "moved")), _stopped(sums)])
    places = {name: at for at, name in enumerate(ASSIGNORS)}
    for row in sorted(
        ways, key=lambda each: (places.get(each["assignor"], len(places)), str(each["assignor"]), each["static"])
    ):
        cells = [in_words(row), row["protocol"], *(number(row[name]) for name in ("groups", "rebalances", "moved"))]
        table.append([*cells, _stopped(row)])
    return aligned(table, words=(0, 1))


def _stopped(row: Row) -> str:
    return partition_time(row["stopped_ms"])
