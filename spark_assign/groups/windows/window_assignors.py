"""Range and round robin of many groups at once, laid out by windows over their subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.windows.range import consecutive, rank_subscribers
from spark_assign.groups.windows.roundrobin import in_turn, number_partitions

BY_WINDOWS: dict[str, Callable[[], dict[str, Column]]] = {"range": consecutive, "roundrobin": in_turn}
"""Kafka's assignors that windows lay out, but for what `groups.kernel.range_roundrobin_fallback` does; each one's last
step."""


def lay_out(lines: DataFrame, assignors: Collection[str], group: Sequence[str], *, static: bool = True) -> DataFrame:
    """Every topic laid out over its subscribers, by each of these assignors.

    Args:
        lines: facts, of which a subscription has member_id, topic and partitions, a member group_instance_id; the
            facts of a group are in one task, where the windows leave them.
        assignors: names of `BY_WINDOWS`.
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
    runs = {f"{name}_{part}": value for name in assignors for part, value in BY_WINDOWS[name]().items()}
    return lines.select(*given, *(value.cast("int").alias(name) for name, value in runs.items()))
