"""Every table that spark_assign reads or writes, declared once.

A nullable field of an input table may be null or may be left out altogether; the others must be there and
hold no null. Nullability is checked by value, not by schema: Parquet reads everything back as nullable.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_assign.errors import Fault
from spark_assign.kernels.group import decide, drift

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()


def _required(**fields: DataType) -> list[StructField]:
    return [StructField(name, kind, nullable=False) for name, kind in fields.items()]


def _nullable(**fields: DataType) -> list[StructField]:
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]


_GROUP = _required(cluster=_STRING, group_id=_STRING)
_MEMBER = [*_GROUP, *_required(member_id=_STRING)]
_RUN = _required(topic=_STRING, first=_INT, step=_INT, count=_INT)

# --- the Fleet ------------------------------------------------------------------------------------------

TOPICS = StructType([*_required(cluster=_STRING, topic=_STRING, partitions=_INT), *_nullable(topic_id=_STRING)])
"""`topic_id` is the topic's id as Kafka prints it; only the broker's assignors look at it (`uniform`)."""

MEMBERS = StructType(
    [
        *_MEMBER,
        *_nullable(
            group_instance_id=_STRING,
            client_id=_STRING,
            client_host=_STRING,
            rack_id=_STRING,
            generation_id=_INT,
            user_data_generation_id=_INT,
            position=_INT,
        ),
    ]
)

SUBSCRIPTIONS = StructType([*_MEMBER, *_required(topic=_STRING)])

OWNED = StructType([*_MEMBER, *_required(topic=_STRING, partition=_INT)])

OWNED_RUNS = StructType([*_MEMBER, *_RUN])
"""Partitions first, first + step, … (count of them) of one topic, owned by one member."""

REPLICAS = StructType(
    _required(cluster=_STRING, topic=_STRING, partition=_INT, replicas=ArrayType(_INT, containsNull=True))
)
"""`replicas` holds broker ids, the preferred leader first."""

BROKERS = StructType([*_required(cluster=_STRING, broker_id=_INT), *_nullable(rack_id=_STRING)])

GROUPS = StructType([*_GROUP, *_nullable(assignor=_STRING, group_type=_STRING, state=_STRING)])
"""What a snapshot knows of a group itself. `assignor` is the strategy that the group runs with now, by Kafka's
name; `group_type` is `classic` or `consumer` (KIP-848)."""

INPUT_TABLES: dict[str, StructType] = {
    "topics": TOPICS,
    "members": MEMBERS,
    "subscriptions": SUBSCRIPTIONS,
    "owned": OWNED,
    "owned_runs": OWNED_RUNS,
    "replicas": REPLICAS,
    "brokers": BROKERS,
    "groups": GROUPS,
}
REQUIRED_TABLES = ("topics", "members", "subscriptions")

# --- what a snapshot writes beside the Fleet ------------------------------------------------------------

OFFSETS = StructType(
    [
        *_GROUP,
        *_required(topic=_STRING, partition=_INT),
        *_nullable(committed_offset=_LONG, end_offset=_LONG, lag=_LONG),
    ]
)
"""Records: the group's committed offset, the partition's end offset, and their difference."""

UNDESCRIBED = StructType([*_GROUP, *_required(error=_STRING)])
"""Groups that the cluster listed but would not describe, with what it said."""

SNAPSHOT_TABLES: dict[str, StructType] = {
    **{name: schema for name, schema in INPUT_TABLES.items() if name != "owned"},
    "offsets": OFFSETS,
    "undescribed": UNDESCRIBED,
}

SNAPSHOTS = StructType(
    [*_required(cluster=_STRING, taken_at=TimestampType()), *_nullable(kafka_cluster_id=_STRING, content=_STRING)]
)
"""In a catalog, a row per cluster: when it was read, the id of the Kafka cluster, and as JSON what `snapshot.json` says
in a folder. For Connect clusters the table is `connect_snapshots`, and its first column `connect_cluster`."""

# --- the Plan -------------------------------------------------------------------------------------------

ASSIGNMENTS = StructType([*_MEMBER, *_required(topic=_STRING, partition=_INT)])

RUNS = StructType([*_MEMBER, *_RUN])

REVOCATIONS = StructType([*_MEMBER, *_required(topic=_STRING, partition=_INT), *_nullable(next_member_id=_STRING)])

MOVES = StructType(
    [
        *_GROUP,
        *_required(topic=_STRING, partition=_INT),
        *_nullable(from_member_id=_STRING, to_member_id=_STRING),
        *_required(reason=_STRING),
    ]
)

METRICS = StructType(
    [
        *_GROUP,
        *_required(
            assignor=_STRING,
            members=_LONG,
            partitions=_LONG,
            min_per_member=_LONG,
            max_per_member=_LONG,
            mean_per_member=_DOUBLE,
            stddev_per_member=_DOUBLE,
        ),
        *_nullable(max_over_mean=_DOUBLE),
        *_required(
            moved=_LONG,
            revoked=_LONG,
            unassigned=_LONG,
            withheld=_LONG,
            members_without_subscription=_LONG,
            unknown_topics=_LONG,
            owned_topic_gone=_LONG,
            owned_beyond_count=_LONG,
            claim_conflicts=_LONG,
        ),
        *_nullable(rack_matched=_LONG),
    ]
)
"""A row per planned group. All counts are of partitions, but `members`, `members_without_subscription` (members)
and `unknown_topics` (subscribed topics without metadata). `withheld`, part of `unassigned`, have a next owner
that gets them a round later. `max_over_mean` is null where nothing is assigned;
`rack_matched` is null where racks are unknown."""

ROUNDS = StructType(
    [
        *_GROUP,
        *_required(
            round=_INT,
            assignor=_STRING,
            assigned=_LONG,
            revoked=_LONG,
            moved=_LONG,
            unowned=_LONG,
            stable=BooleanType(),
        ),
    ]
)
"""A row per group and round of `converge`; counts are of partitions. `assigned` has an owner after the round;
`revoked` is given up by living owners for it (eager: all they own); `moved` gets another owner than it had;
`unowned` is consumed by nobody: for an eager group while the round runs, for a cooperative one from its end until
the next; `stable`: no rebalance follows."""

REJECTED = StructType([*_GROUP, *_required(code=_STRING, detail=_STRING)])

COMPARISON = StructType(
    [
        *_GROUP,
        *_required(assignor=_STRING, change=_STRING),
        *_nullable(
            members=_LONG,
            partitions=_LONG,
            max_over_mean=_DOUBLE,
            stddev_per_member=_DOUBLE,
            moved=_LONG,
            revoked=_LONG,
            unassigned=_LONG,
            rounds=_INT,
            stable=BooleanType(),
            partition_seconds_paused=_DOUBLE,
            rack_matched=_LONG,
            cross_rack_share=_DOUBLE,
            configured=BooleanType(),
            rejected=_STRING,
        ),
        *_required(recommended=BooleanType(), reason=_STRING),
        *_nullable(runs_with=_STRING, clients=_STRING, way=_STRING),
    ]
)
"""A row per group, assignor and change of `compare`. Counts are of partitions, but `members` and `rounds`; they hold
for the end, when everybody has what was withheld from it. `moved` and `revoked` as in METRICS, of all rounds;
`rounds`: 1 under the eager protocol, and `stable` whether no further one follows; `partition_seconds_paused`:
partition-seconds, see `kernels.pauses`; `cross_rack_share`: of 1, of all `partitions`, null where racks are
unknown, as is `rack_matched`. `configured`: whether the group runs with it now, null where that is unknown.
`rejected`: why there is no plan (a code of REJECTED), null where there is one; the figures are null then, and `reason`
has the detail. `runs_with`: the assignor that the group runs with now, null where unknown. `clients`: the libraries
that its members run on, as far as their client ids tell, with the number of members (`kernels.clients`). `way`: how to
switch to the recommended assignor, where the group runs with another one or that is not known."""

COMPARE_REJECTED = StructType([*_GROUP, *_required(assignor=_STRING, change=_STRING, code=_STRING, detail=_STRING)])

COMPARE_TABLES: dict[str, StructType] = {"comparison": COMPARISON, "rejected": COMPARE_REJECTED}

DECIDED = from_arrow_schema(decide.DECIDED)
"""Everything that a plan holds, a row per run, group or refusal; `kind` says which columns a row uses
(`kernels.group.decide`). The tables of a plan are projections of it."""

PLAN_TABLES: dict[str, StructType] = {
    "assignments": ASSIGNMENTS,
    "runs": RUNS,
    "revocations": REVOCATIONS,
    "moves": MOVES,
    "metrics": METRICS,
    "rejected": REJECTED,
}

# --- what changed between two fleets or plans ------------------------------------------------------------

DRIFT_GROUPS = StructType(
    [
        *_GROUP,
        *_required(change=_STRING),
        *_nullable(
            assignor_before=_STRING,
            assignor_after=_STRING,
            members_before=_LONG,
            members_after=_LONG,
        ),
        *_required(came=_LONG, went=_LONG, restarted=_LONG),
        *_nullable(partitions_before=_LONG, partitions_after=_LONG),
        *_required(moved=_LONG, newly_owned=_LONG, no_longer_owned=_LONG),
        *_nullable(
            max_over_mean_before=_DOUBLE, max_over_mean_after=_DOUBLE, rejected_before=_STRING, rejected_after=_STRING
        ),
    ]
)
"""A row per group of either side. `change`: `came`, `went`, `changed` or `same`. `members_…`, `came`, `went` and
`restarted` count members, the other counts partitions: owned then, with another owner, owned by nobody before or after.
A side is null where the group is not there or is rejected (`rejected_…` has the code). `max_over_mean_…` is null where
nothing is owned."""

DRIFT_MEMBERS = StructType(
    [
        *_MEMBER,
        *_required(change=_STRING),
        *_nullable(previous_member_id=_STRING, group_instance_id=_STRING, client_id=_STRING, client_host=_STRING),
    ]
)
"""A row per member that `came`, `went` or `restarted`: a static member (`group_instance_id`) that has another id now,
its earlier one in `previous_member_id`."""

DRIFT_OWNERSHIP = StructType(
    [
        *_GROUP,
        *_required(topic=_STRING, partition=_INT),
        *_nullable(from_member_id=_STRING, to_member_id=_STRING),
        *_required(change=_STRING),
    ]
)
"""A row per partition that has another owner: `moved`, `newly-owned` (nobody owned it) or `no-longer-owned`. A static
member that restarted is the same owner."""

DRIFT_TOPICS = StructType(
    [
        *_required(cluster=_STRING, topic=_STRING, change=_STRING),
        *_nullable(partitions_before=_INT, partitions_after=_INT),
    ]
)
"""A row per topic that was `created`, `deleted`, has `grown` or `shrunk`."""

DRIFTED = from_arrow_schema(drift.DRIFTED)
"""All of it but the topics, a row per group, member or run; `kind` says which columns a row uses
(`kernels.group.drift`). The tables of a drift are projections of it."""

DRIFT_TABLES: dict[str, StructType] = {
    "groups": DRIFT_GROUPS,
    "members": DRIFT_MEMBERS,
    "ownership": DRIFT_OWNERSHIP,
    "topics": DRIFT_TOPICS,
}

ALERTS = StructType(
    [
        *_GROUP,
        *_required(alert=_STRING),
        *_nullable(max_over_mean_before=_DOUBLE, max_over_mean_after=_DOUBLE),
        *_required(detail=_STRING),
    ]
)
"""A row per group beyond a threshold. `alert`: `rejected` (`detail` has code and remedy) or `imbalance`: its largest
over mean has grown."""

# --- the manifest of written tables ----------------------------------------------------------------------

MANIFEST = StructType(
    _required(
        run_id=_STRING,
        attempt=_STRING,
        finished_at=TimestampType(),
        duration_s=_DOUBLE,
        content=_STRING,
    )
)
"""One row per finished attempt; the newest of a run_id is the run. `content` is JSON: inputs, counts, versions."""


# --- the one check of an input table ----------------------------------------------------------------------

GROUP_KEY = ["cluster", "group_id"]
MEMBER_KEY = [*GROUP_KEY, "member_id"]

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def conform(table: str, df: DataFrame, schema: StructType | None = None) -> tuple[DataFrame, list[Fault]]:
    """Bring one input table into its declared shape, without reading a row.

    Columns of the schema come first, in its order and types; columns that it does not know are carried along. Any
    integral type is taken for an int (a value beyond int becomes null, which the value checks then report). A
    nullable column that is not there is added as null. The schema is that of the Fleet's table of this name, unless
    another is given.

    Returns the table and the faults found: a missing column, a wrong type.
    """
    present = {field.name: field.dataType for field in df.schema.fields}
    columns: list[Column] = []
    faults: list[Fault] = []
    schema = schema or INPUT_TABLES[table]
    for field in schema.fields:
        want = field.dataType.simpleString()
        have = present.get(field.name)
        if have is None and field.nullable:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        elif have is None:
            remedy = f"Add it as {want}; the table has {', '.join(present) or 'no columns'}"
            faults.append(Fault(table, field.name, "the column is missing", remedy))
        elif not _fits(have, field.dataType):
            problem = f"the type is {have.simpleString()}, expected {want}"
            faults.append(Fault(table, field.name, problem, f"Cast the column to {want}"))
        elif have == field.dataType:
            columns.append(F.col(field.name))
        else:
            columns.append(F.col(field.name).try_cast(field.dataType).alias(field.name))
    if faults:
        return df, faults
    known = {field.name for field in schema.fields}
    return df.select(*columns, *(F.col(f"`{name}`") for name in present if name not in known)), []


def _fits(have: DataType, want: DataType) -> bool:
    if isinstance(want, IntegerType | LongType):
        return isinstance(have, _INTEGERS)
    if isinstance(want, ArrayType):
        return isinstance(have, ArrayType) and _fits(have.elementType, want.elementType)
    if isinstance(want, StructType):
        return (
            isinstance(have, StructType)
            and have.names == want.names
            and all(_fits(*both) for both in zip(_types(have), _types(want), strict=True))
        )
    if isinstance(want, StringType):
        return isinstance(have, StringType | NullType)
    return have == want


def _types(struct: StructType) -> list[DataType]:
    return [field.dataType for field in struct.fields]
