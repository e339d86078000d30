"""Every table of a plan of share groups, declared once; the rules of `spark_assign.tables.groups` hold, as do its
inputs."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from spark_assign.tables.groups import ASSIGNMENT_SLICES, ASSIGNMENTS, REJECTED
from spark_assign.tables.schema_fields import required

_LONG, _DOUBLE = LongType(), DoubleType()
_GROUP = ASSIGNMENTS.fields[:2]


CHANGES = StructType([*ASSIGNMENTS.fields, *required(change=StringType(), reason=StringType())])
"""A row per partition that a member is `given` or that is `taken` from it; reasons: `share.kernel.plan_groups`."""

METRICS = StructType(
    [
        *_GROUP,
        *required(members=_LONG, partitions=_LONG, assignments=_LONG, given=_LONG, taken=_LONG),
        *required(min_per_member=_LONG, max_per_member=_LONG, mean_per_member=_DOUBLE),
        *required(min_per_partition=_LONG, max_per_partition=_LONG, mean_per_partition=_DOUBLE),
        *required(unassigned=_LONG, under_shared=_LONG, not_assignable=_LONG),
        *required(members_without_subscription=_LONG, unknown_topics=_LONG),
    ]
)
"""A row per planned group. `partitions`: those of its topics that may be assigned; `assignments`: each partition once
for each of its members; `given`, `taken`: assignments that come and go (of members that are there).
`…_per_member`: partitions, `…_per_partition`: members of a partition. `unassigned`: partitions without a member,
`under_shared`: with fewer than they should have. `not_assignable`: assignments of partitions that may not be assigned
anew, and stay. `unknown_topics`: subscribed topics without metadata."""

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "assignment_slices": ASSIGNMENT_SLICES,
    "changes": CHANGES,
    "metrics": METRICS,
    "rejected": REJECTED,
}
