"""Moves and cooperative revocations: a pandas UDF turns each topic in which an owner changes into slices.

The pass over whole groups returns a row for each such topic (`groups.kernel.changed_topics`). The UDF compares what is
owned with what is planned, in the task that has the row; nothing is shuffled.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from spark_assign.groups.kernel.changed_topics import find_deltas
from spark_assign.groups.kernel.ownership_changes import REASONS
from spark_assign.tables.groups import GROUP_KEY

_LISTS = ("from_member", "to_member", "first", "step", "count", "reason")
_DELTAS = StructType([StructField(name, ArrayType(IntegerType(), containsNull=False)) for name in _LISTS])
_FROM_ROW = ("partitions", "member_flags", "owned", "planned")


def moved_slices(changed: DataFrame) -> DataFrame:
    """Returns every change of owner, as slices.

    Args:
        changed: the rows of the plan of the kind `changed_topic`.

    Returns:
        cluster, group_id, topic, from_member_id (null: no owner before), to_member_id (null: no owner after), first,
        step, count, reason.
    """
    return _with_deltas(changed, revocations=False).select(*GROUP_KEY, "topic", F.inline("slices"))


def moved_loads(changed: DataFrame) -> DataFrame:
    """Returns a row for each partition that changes its owner, with its load.

    Args:
        changed: as for `moved_slices`; `loads` has the rate of each partition of the topic.

    Returns:
        cluster, group_id, topic, partition, from_member_id, to_member_id, reason, load (messages per second that are
        written to the partition; null if unknown).
    """

    def partitions(piece: Column) -> Column:
        return F.transform(F.sequence(F.lit(0), piece["count"] - 1), lambda at: _partition(piece, at))

    def _partition(piece: Column, at: Column) -> Column:
        partition = piece["first"] + piece["step"] * at
        owners = (piece[name].alias(name) for name in ("from_member_id", "to_member_id", "reason"))
        return F.struct(partition.alias("partition"), *owners, F.get("loads", partition).alias("load"))

    rows = _with_deltas(changed, revocations=False)
    return rows.select(*GROUP_KEY, "topic", F.inline(F.flatten(F.transform("slices", partitions))))


def revoked_slices(changed: DataFrame) -> DataFrame:
    """Returns what live members must give up (KIP-429): the columns of `moved_slices`.

    `to_member_id` gets the slice next; it may be the member that gives it up.
    """
    return _with_deltas(changed, revocations=True).select(*GROUP_KEY, "topic", F.inline("slices"))


def _with_deltas(changed: DataFrame, *, revocations: bool) -> DataFrame:
    """Adds the slices of each row, as an array of structs."""
    import pandas as pd  # half of the time that a job takes to check its options

    def find(partitions: Any, member_flags: Any, owned: Any, planned: Any) -> Any:
        lists = (column.tolist() for column in (member_flags, owned, planned))
        return pd.DataFrame(find_deltas(partitions.to_numpy("int64"), *lists, revocations=revocations))

    find.__annotations__ = {name: pd.DataFrame if name == "return" else pd.Series for name in find.__annotations__}
    deltas = pandas_udf(find, _DELTAS)  # type: ignore[call-overload]
    loads = [name for name in changed.columns if name == "loads"]
    rows = changed.select(*GROUP_KEY, "topic", "member_ids", *loads, deltas(*_FROM_ROW).alias("delta"))
    reasons = F.array(*(F.lit(reason) for reason in REASONS))
    columns = {
        "from_member_id": _names("member_ids", "from_member"),
        "to_member_id": _names("member_ids", "to_member"),
        **{name: F.col(f"delta.{name}") for name in ("first", "step", "count")},
        "reason": _names(reasons, "reason"),
    }
    rows = rows.select(*GROUP_KEY, "topic", *loads, *(column.alias(name) for name, column in columns.items()))
    return rows.withColumn("slices", F.arrays_zip(*columns))


def _names(names: Column | str, indexes: str) -> Column:
    """Returns the names at the indexes of a list of the delta; null where an index is -1."""
    return F.transform(F.col(f"delta.{indexes}"), lambda index: F.get(names, index))
