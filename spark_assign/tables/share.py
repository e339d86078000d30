"""Schemas of the tables of a plan of share groups; the rules of `spark_assign.tables.groups` apply, which has the
input tables."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from spark_assign.tables.groups import ASSIGNMENT_SLICES, ASSIGNMENTS, REJECTED
from spark_assign.tables.schema_fields import required

_LONG, _DOUBLE = LongType(), DoubleType()

CHANGES = StructType([*ASSIGNMENTS.fields, *required(change=StringType(), reason=StringType())])
"""One row per partition that a member gets (`change` is `assigned`) or loses (`revoked`); `share.kernel.plan_groups`
lists the reasons."""

METRICS = StructType(
    [
        *ASSIGNMENTS.fields[:2],
        *required(members=_LONG, partitions=_LONG, assignments=_LONG, assigned=_LONG, revoked=_LONG),
        *required(min_per_member=_LONG, max_per_member=_LONG, mean_per_member=_DOUBLE),
        *required(min_per_partition=_LONG, max_per_partition=_LONG, mean_per_partition=_DOUBLE),
        *required(unassigned=_LONG, under_shared=_LONG, not_assignable=_LONG),
        *required(members_without_subscription=_LONG, unknown_topics=_LONG),
    ]
)
"""One row per planned group. `partitions`: assignable partitions. `assignments`: pairs of a member and a partition.
`assigned`, `revoked`: assignments that start and end, without those of departed members. `…_per_member`: partitions of
a member; `…_per_partition`: members of a partition. `unassigned`: partitions without a member; `under_shared`:
partitions with too few members. `not_assignable`: assignments of partitions that aren't initialized, which stay.
`unknown_topics`: subscribed topics without metadata."""

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "assignment_slices": ASSIGNMENT_SLICES,
    "changes": CHANGES,
    "metrics": METRICS,
    "rejected": REJECTED,
}
