"""Schemas of the tables of a plan of share groups; the rules of `spark_assign.tables.groups` apply, which has the
input tables."""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.groups import ASSIGNMENT_SLICES, ASSIGNMENTS, REJECTED
from spark_assign.tables.schema_fields import columns, schema

CHANGES = StructType([*ASSIGNMENTS.fields, *columns("change string, reason string")])
"""One row per partition that a member gets or loses; `share.kernel.plan_groups` lists the reasons. `change`:
`assigned` or `revoked`."""

METRICS = schema(
    "cluster string, group_id string",
    "members long, partitions long, assignments long, assigned long, revoked long",
    "min_per_member long, max_per_member long, mean_per_member double",
    "min_per_partition long, max_per_partition long, mean_per_partition double",
    "unassigned long, under_shared long, not_assignable long",
    "members_without_subscription long, unknown_topics long",
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
