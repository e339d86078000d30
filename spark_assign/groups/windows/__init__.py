"""Range and round robin as Spark window functions, for many groups at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.windows.range import range_slices, rank_subscribers
from spark_assign.groups.windows.roundrobin import number_partitions, round_robin_slices

WINDOW_SLICES: dict[str, Callable[[], dict[str, Column]]] = {"range": range_slices, "roundrobin": round_robin_slices}
"""The last step of each assignor that windows compute. `groups.assignors` recomputes the groups in which racks or
different subscriptions matter."""


def assign_by_windows(
    rows: DataFrame, assignors: Collection[str], group: Sequence[str], *, static: bool = True
) -> DataFrame:
    """Assigns every topic to its subscribers, by each of the assignors.

    Args:
        rows: facts. A subscription has member_id, topic, and partitions; a member has group_instance_id. All facts of a
            group are in one Spark partition, and the windows keep them there.
        assignors: keys of `WINDOW_SLICES`.
        group: the columns that identify a group.
        static: whether any member is static.

    Returns:
        the facts with the columns `<assignor>_first`, `_step`, and `_count`: the slice of each subscription. A count of
        0 or null means no partitions.
    """
    if not assignors:
        return rows
    columns = rows.columns
    instance = F.col("group_instance_id")
    if static:
        instance = F.max("group_instance_id").over(Window.partitionBy(*group, "member_id"))
    rows = rank_subscribers(rows.withColumn("instance", instance), [*group, "kind"])
    if "roundrobin" in assignors:
        rows = number_partitions(rows, [*group, "kind"])
    slices = {f"{name}_{field}": value for name in assignors for field, value in WINDOW_SLICES[name]().items()}
    return rows.select(*columns, *(value.cast("int").alias(name) for name, value in slices.items()))
