"""Range and round robin of many groups at once, laid out by windows over their subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.range import consecutive, rank_subscribers
from spark_assign.assignors.roundrobin import in_turn, number_partitions
from spark_assign.schemas import MEMBER_KEY

BY_WINDOWS: dict[str, Callable[[], list[Column]]] = {"range": consecutive, "roundrobin": in_turn}
"""Kafka's assignors that windows lay out, but for what `kernels.group.deal` does; each one's last step."""


def lay_out(lines: DataFrame, assignors: Collection[str], chosen: Column | None = None) -> DataFrame:
    """Every topic laid out over its subscribers.

    Args:
        lines: cluster, group_id, topic, partitions, member_id, group_instance_id; a row per subscription.
        assignors: names of `BY_WINDOWS`.
        chosen: the assignor of the line's group; null: each group by each of these assignors.

    Returns:
        cluster, group_id, member_id, topic, first, step, count, assignor; a row for whoever gets something.
    """
    lines = lines if chosen is None else lines.withColumn("chosen", chosen).where(F.col("chosen").isin(*assignors))
    ranked = rank_subscribers(lines)
    ranked = number_partitions(ranked) if "roundrobin" in assignors else ranked
    laid = [F.struct(F.lit(name).alias("assignor"), *BY_WINDOWS[name]()) for name in assignors]
    rows = ranked.select("*", F.explode(F.array(*laid)).alias("laid")).where(F.col("laid.count") > 0)
    rows = rows if chosen is None else rows.where(F.col("laid.assignor") == F.col("chosen"))
    return rows.select(*MEMBER_KEY, "topic", "laid.first", "laid.step", "laid.count", "laid.assignor")
