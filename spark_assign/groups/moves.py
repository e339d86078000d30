"""Moves and cooperative revocations: a pandas UDF turns each topic in which an owner changes into slices.

The pass over whole groups returns a row for each such topic (`groups.kernel.ownership_changes`). The UDF compares what
is owned with what is planned, in the task that has the row; nothing is shuffled.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from spark_assign.groups.kernel.ownership_changes import REASONS, find_deltas
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
    return _delta_slices(changed, revocations=False)


def revoked_slices(changed: DataFrame) -> DataFrame:
    """Returns what live members must give up (KIP-429): the columns of `moved_slices`.

    `to_member_id` gets the slice next; it may be the member that gives it up.
    """
    return _delta_slices(changed, revocations=True)


def _delta_slices(changed: DataFrame, *, revocations: bool) -> DataFrame:
    """Returns the slices of the deltas of each row."""
    import pandas as pd  # half of the time that a job takes to check its options

    def find(partitions: Any, member_flags: Any, owned: Any, planned: Any) -> Any:
        lists = (column.tolist() for column in (member_flags, owned, planned))
        return pd.DataFrame(find_deltas(partitions.to_numpy("int64"), *lists, revocations=revocations))

    find.__annotations__ = {name: pd.DataFrame if name == "return" else pd.Series for name in find.__annotations__}
    deltas = pandas_udf(find, _DELTAS)  # type: ignore[call-overload]
    rows = changed.select(*GROUP_KEY, "topic", "member_ids", deltas(*_FROM_ROW).alias("delta"))
    reasons = F.array(*(F.lit(reason) for reason in REASONS))
    columns = {
        "from_member_id": _names("member_ids", "from_member"),
        "to_member_id": _names("member_ids", "to_member"),
        **{name: F.col(f"delta.{name}") for name in ("first", "step", "count")},
        "reason": _names(reasons, "reason"),
    }
    rows = rows.select(*GROUP_KEY, "topic", *(column.alias(name) for name, column in columns.items()))
    return rows.select(*GROUP_KEY, "topic", F.inline(F.arrays_zip(*columns)))


def _names(names: Column | str, indexes: str) -> Column:
    """Returns the names at the indexes of a list of the delta; null where an index is -1."""
    return F.transform(F.col(f"delta.{indexes}"), lambda index: F.get(names, index))
