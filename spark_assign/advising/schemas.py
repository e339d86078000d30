"""The tables of the advisers, declared once."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.fields import nullable, required
from spark_assign.kernels.size import size
from spark_assign.schemas import REJECTED

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()
_GROUP = required(cluster=_STRING, group_id=_STRING)

# --- size: how many consumers ------------------------------------------------------------------------------

SIZES = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, verdict=_STRING, reason=_STRING, members=_LONG, partitions=_LONG),
        *nullable(needed=_LONG),
        *required(knee=_LONG, no_more_use=_LONG, bound_by=_STRING),
        *nullable(partitions_needed=_LONG),
        *required(load=_DOUBLE, load_high=_DOUBLE, max_load=_DOUBLE),
        *nullable(max_load_needed=_DOUBLE, capacity=_DOUBLE, capacity_is=_STRING),
        *nullable(drain_seconds=_DOUBLE, drain_seconds_needed=_DOUBLE),
        *required(hot_topic=_STRING, hot_partition=_LONG, hot_load=_DOUBLE),
        *nullable(moved=_LONG, partition_seconds_paused=_DOUBLE),
    ]
)
"""A row per group and assignor. `verdict`: `enough`, `too-few`, `too-many`, `cannot` or `unknown`
(`kernels.size.answer`). `members` are there today, `needed` are the fewest that keep up, null where none do or nobody
knows what a member can handle; at `knee` the curve bends, and with more than `no_more_use` the most loaded member has
no less. `bound_by` says why: `partitions`, `hot-partition` or `assignor`. `partitions_needed`: so many members would
have to share the load evenly. Loads are messages a second: `load` and `load_high` of the whole group, on average and at
the quantile; `max_load` and `max_load_needed` of its most loaded member, today's number and `needed`; `hot_load` of its
hottest partition. `capacity` is what a member can handle, `given` or `measured`. `drain_seconds` as in METRICS. `moved`
partitions get another owner on the way to `needed` members, which costs `partition_seconds_paused`."""

CURVES = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, members=_LONG, now=BooleanType(), max_load=_DOUBLE, max_load_high=_DOUBLE),
        *nullable(load_max_over_mean=_DOUBLE, drain_seconds=_DOUBLE),
        *required(idle=_LONG, unassigned=_LONG, moved=_LONG, partition_seconds_paused=_DOUBLE),
        *nullable(keeps_up=BooleanType()),
    ]
)
"""A row per group, assignor and number of `members` that was looked at; `now`: that of today. `max_load`,
`max_load_high`: of the most loaded member, on average and at the quantile; `idle` members have nothing; `unassigned`
partitions nobody has, where those who stay do not subscribe to all topics; `keeps_up`: whether everything is read, and
the most loaded member can handle its load with the headroom, null where nobody knows what a member can handle.
The others as in SIZES."""

SIZED = from_arrow_schema(size.SIZED)
"""All of it, a row per group, number of members or refusal; `kind` says which columns a row uses (`kernels.size`)."""

SIZE_TABLES: dict[str, StructType] = {"sizes": SIZES, "curves": CURVES, "rejected": REJECTED}

# --- membership: static or not, and how long a session -----------------------------------------------------

# --- zones: what crosses a zone -----------------------------------------------------------------------------

# --- advise: all of it, ranked ------------------------------------------------------------------------------
