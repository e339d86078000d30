"""Range and round robin of many groups at once, laid out by windows over their subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.windows.range import range_slices, rank_subscribers
from spark_assign.groups.windows.roundrobin import number_partitions, round_robin_slices

WINDOW_SLICES: dict[str, Callable[[], dict[str, Column]]] = {"range": range_slices, "roundrobin": round_robin_slices}
"""Kafka's assignors that windows lay out, but for what `groups.kernel.range_roundrobin_fallback` does; each one's last
step."""


def assign_by_windows(
    lines: DataFrame, assignors: Collection[str], group: Sequence[str], *, static: bool = True
) -> DataFrame:
    """Every topic laid out over its subscribers, by each of these assignors.

    Args:
        lines: facts, of which a subscription has member_id, topic and partitions, a member group_instance_id; the
            facts of a group are in one task, where the windows leave them.
        assignors: names of `WINDOW_SLICES`.
        group: the columns that tell groups apart.
        static: whether there are static members at all.

    Returns:
        the same with `<assignor>_first`, `_step` and `_count` of each subscription's run; count 0 or null: nothing.
    """
    if not assignors:
        return lines
    given = lines.columns
    instance = F.col("group_instance_id")
    if static:
        instance = F.max("group_instance_id").over(Window.partitionBy(*group, "member_id"))
    lines = rank_subscribers(lines.withColumn("instance", instance), [*group, "kind"])
    if "roundrobin" in assignors:
        lines = number_partitions(lines, [*group, "kind"])
    runs = {f"{name}_{part}": value for name in assignors for part, value in WINDOW_SLICES[name]().items()}
    return lines.select(*given, *(value.cast("int").alias(name) for name, value in runs.items()))
