"""Every table of a plan of share groups, declared once; the rules of `spark_assign.schemas` hold, as do its inputs."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from spark_assign.kernels.share import plan_groups
from spark_assign.kernels.share.group_metrics import FIGURES
from spark_assign.schema_fields import required
from spark_assign.schemas import ASSIGNMENTS, REJECTED, RUNS

_GROUP = ASSIGNMENTS.fields[:2]


CHANGES = StructType([*ASSIGNMENTS.fields, *required(change=StringType(), reason=StringType())])
"""A row per partition that a member is `given` or that is `taken` from it; reasons: `kernels.share.plan_groups`."""

DECIDED = from_arrow_schema(plan_groups.DECIDED)
"""Everything that a plan holds, a row per run, group or refusal; `kind` says which columns a row uses
(`kernels.share.plan_groups`). The tables of a plan are projections of it."""

METRICS = StructType([*_GROUP, *(StructField(name, DECIDED[name].dataType, nullable=False) for name in FIGURES)])
"""A row per planned group. `partitions`: those of its topics that may be assigned; `assignments`: each partition once
for each of its members; `given`, `taken`: assignments that come and go (of members that are there).
`…_per_member`: partitions, `…_per_partition`: members of a partition. `unassigned`: partitions without a member,
`under_shared`: with fewer than they should have. `not_assignable`: assignments of partitions that may not be assigned
anew, and stay. `unknown_topics`: subscribed topics without metadata."""

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "runs": RUNS,
    "changes": CHANGES,
    "metrics": METRICS,
    "rejected": REJECTED,
}
