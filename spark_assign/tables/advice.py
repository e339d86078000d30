"""The tables of the advisers, declared once."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.tables.groups import LOADS, REJECTED
from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()

_GROUP = required(cluster=_STRING, group_id=_STRING)

# --- loads: between two snapshots ---------------------------------------------------------------------------

LOADS_TABLES: dict[str, StructType] = {"loads": LOADS}

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
        *nullable(moved=_LONG, paused_partition_seconds=_DOUBLE),
    ]
)
"""A row per group and assignor. `verdict`: `enough`, `too-few`, `too-many`, `cannot` or `unknown`
(`advice.kernel.size`). `members` are there today, `needed` are the fewest that keep up, null where none do or
nobody knows what a member can handle; at `knee` the curve bends, and with more than `no_more_use` the most loaded
member has no less. `bound_by` says why: `partitions`, `hot-partition` or `assignor`. `partitions_needed`: so many
members would have to share the load evenly. Loads are messages a second: `load` and `load_high` of the whole group, on
average and at the quantile; `max_load` and `max_load_needed` of its most loaded member, today's number and `needed`;
`hot_load` of its hottest partition. `capacity` is what a member can handle, `given` or `measured`. `drain_seconds` as
in METRICS. `moved` partitions get another owner on the way to `needed` members, which costs
`paused_partition_seconds`."""

CURVES = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, members=_LONG, now=BooleanType(), max_load=_DOUBLE, max_load_high=_DOUBLE),
        *nullable(load_max_over_mean=_DOUBLE, drain_seconds=_DOUBLE),
        *required(idle=_LONG, unassigned=_LONG, moved=_LONG, paused_partition_seconds=_DOUBLE),
        *nullable(keeps_up=BooleanType()),
    ]
)
"""A row per group, assignor and number of `members` that was looked at; `now`: that of today. `max_load`,
`max_load_high`: of the most loaded member, on average and at the quantile; `idle` members have nothing; `unassigned`
partitions nobody has, where those who stay do not subscribe to all topics; `keeps_up`: whether everything is read, and
the most loaded member can handle its load with the headroom, null where nobody knows what a member can handle.
The others as in SIZES."""

SIZE_TABLES: dict[str, StructType] = {"sizes": SIZES, "curves": CURVES, "rejected": REJECTED}

# --- membership: static or not, and how long a session -----------------------------------------------------

MEMBERSHIPS = StructType(
    [
        *_GROUP,
        *required(recommendation=_STRING, sentence=_STRING),
        *nullable(settings=_STRING, warnings=_STRING, warning=_STRING, clients=_STRING, assignor=_STRING),
        *required(members=_LONG, static_members=_LONG, restarts_played=_LONG, partitions=_LONG, restart_ms=_LONG),
        *required(membership=_STRING, protocol=_STRING, session_timeout_ms=_LONG),
        *required(to_membership=_STRING, to_protocol=_STRING, to_session_timeout_ms=_LONG),
        *required(restart_pause_seconds=_DOUBLE, to_restart_pause_seconds=_DOUBLE),
        *required(restart_longest_seconds=_DOUBLE, to_restart_longest_seconds=_DOUBLE),
        *required(restart_rebalances=_INT, to_restart_rebalances=_INT),
        *nullable(crash_pause_seconds=_DOUBLE, to_crash_pause_seconds=_DOUBLE),
        *nullable(crash_longest_seconds=_DOUBLE, to_crash_longest_seconds=_DOUBLE),
        *required(expected_pause_seconds=_DOUBLE, to_expected_pause_seconds=_DOUBLE),
        *required(gain_seconds=_DOUBLE, cost_seconds=_DOUBLE, saved_seconds=_DOUBLE),
    ]
)
"""A row per group of consumers. `recommendation`: `keep`, or what changes: `static`, `dynamic`, `cooperative`, two of
these (`static-cooperative`), or `session` alone; `sentence` says it with its figures, `settings` has the lines to
paste, in the words of the group's client library; null: nothing changes. `warnings` are codes, `warning` says them in
sentences; null: none. `membership` is `dynamic`, `static` or `mixed`, `protocol` `eager`, `cooperative` or `consumer`
(KIP-848). Columns with `to_` are of what is recommended, those without of today. Pauses are partition-seconds in which
nobody consumes: of a rolling restart of all members, each away for `restart_ms` (`restarts_played` of them were played,
the pause is scaled to all), and of a crash of one member that does not come back, null where it is the only one;
`…_longest_…` seconds of a single partition. `expected_…` is that of a restart and of as many crashes as there are
for each. `gain_seconds` is what the restart saves, `cost_seconds` what crashes cost more, `saved_seconds` the
difference."""

OPTIONS = StructType(
    [
        *_GROUP,
        *required(membership=_STRING, protocol=_STRING),
        *nullable(assignor=_STRING),
        *required(session_timeout_ms=_LONG, restart_ms=_LONG, now=BooleanType()),
        *required(restart_pause_seconds=_DOUBLE, restart_longest_seconds=_DOUBLE, restart_rebalances=_INT),
        *nullable(crash_pause_seconds=_DOUBLE, crash_longest_seconds=_DOUBLE),
        *required(expected_pause_seconds=_DOUBLE),
    ]
)
"""A row per group, way to run (`membership`, `protocol`, `assignor`), session timeout and restart time, with the
figures of `MEMBERSHIPS`. `now`: the group runs so. Also what is not to be recommended: too short a session, ids that
change."""

MEMBERSHIP_TABLES: dict[str, StructType] = {
    "memberships": MEMBERSHIPS,
    "options": OPTIONS,
    "rejected": REJECTED,
}

# --- zones: what crosses a zone -----------------------------------------------------------------------------

_FLAG = BooleanType()

ZONES = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, follower_fetching=_FLAG, members=_LONG, members_without_rack=_LONG),
        *nullable(
            partitions=_LONG,
            partitions_without_bytes=_LONG,
            partitions_without_rack=_LONG,
            moved=_LONG,
            bytes_per_day=_LONG,
            cross_zone_bytes_per_day=_LONG,
            cross_zone_bytes_at_least=_LONG,
            cross_zone_bytes_at_most=_LONG,
            cross_zone_share=_DOUBLE,
            cost_per_day=_DOUBLE,
            cost_at_least=_DOUBLE,
            cost_at_most=_DOUBLE,
            saved_per_day=_DOUBLE,
        ),
        *required(currency=_STRING, recommended=_FLAG, reason=_STRING),
    ]
)
"""A row per group and way in which it may read. `assignor`: `today` (who has what now), or one that knows racks;
`follower_fetching`: whether members read from a replica in their rack. `partitions` have a member that reads them,
`moved` of these another one than today. Bytes are those of a day, of partitions whose bytes are known
(`partitions_without_bytes`: the others). `cross_zone_…`: what of them crosses a zone, and `cost_…` in `currency`; null
where it hangs on a rack that nobody knows (`partitions_without_rack`, `members_without_rack`): then it is between
`…_at_least` and `…_at_most`. `saved_per_day`: against today, negative where it costs more. Without members or bytes,
and where Kafka's class throws (`reason`), figures are null. At most one way is `recommended` per group."""

REPLICA_MOVES = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, partition=_INT, follower_fetching=_FLAG, kind=_STRING),
        *nullable(from_rack=_STRING),
        *required(
            to_rack=_STRING,
            previous=ArrayType(_INT),
            replicas=ArrayType(_INT),
            groups=_LONG,
            bytes_per_day=_LONG,
            cross_zone_bytes_per_day=_LONG,
            saved_bytes_per_day=_LONG,
            saved_per_day=_DOUBLE,
            currency=_STRING,
        ),
    ]
)
"""A row per partition and change of its replicas that saves something, as all groups own it today, with and without
follower fetching. `kind`: `reorder` (another of its replicas leads, which copies nothing) or `move` (a replica goes to
another rack, which copies the log once); of the two, take one. `previous` and `replicas`: brokers, the preferred leader
first. `bytes_per_day` are read of it, `cross_zone_bytes_per_day` of them cross a zone for sure, and
`saved_bytes_per_day` less would, whatever the racks are that nobody knows."""

ZONES_TABLES: dict[str, StructType] = {"zones": ZONES, "replica_moves": REPLICA_MOVES, "rejected": REJECTED}

# --- advise: all of it, ranked ------------------------------------------------------------------------------

ADVICE = StructType(
    [
        *required(rank=_INT, matter=_STRING, cluster=_STRING),
        *nullable(group_id=_STRING),
        *required(kind=_STRING, what=_STRING),
        *nullable(gain=_DOUBLE, gain_unit=_STRING, cost=_DOUBLE, cost_unit=_STRING, pays_after=_DOUBLE),
        *required(risk=_STRING, command=_STRING),
        *nullable(settings=_STRING),
    ]
)
"""A row per thing to do, `rank` 1 first. `matter`: what it is about, the most pressing first: `behind` (a group falls
behind), `money`, `pause`, `balance`, `unknown` (what has to be known first). `group_id` null: it is for the whole
cluster. `kind`: `scale-up`, `scale-down`, `more-partitions`, `assignor`, `rebalance`, what `membership` recommends
(`static`, `dynamic`, `cooperative`, `session`, …), `follower-fetching`, `replicas-reorder`, `replicas-move`,
`readings`, `capacity` or `racks`. `what` says it with its figures. `gain` and `cost` in their units; null: not known.
`pays_after`: months until the gain has paid the cost, null where these are not of one kind. `command`: the job with its
flags that shows more, or writes the files for it; `settings`: lines to paste."""

NOT_ADVISED = StructType(
    [
        *required(cluster=_STRING),
        *nullable(group_id=_STRING),
        *required(of=_STRING),
        *nullable(kind=_STRING),
        *required(code=_STRING, detail=_STRING),
        *nullable(gain=_DOUBLE, gain_unit=_STRING, cost=_DOUBLE, cost_unit=_STRING),
    ]
)
"""A row per thing that was looked at and is not advised. `of`: `size`, `assignor`, `membership`, `zones` or `replicas`.
`code`: `below-cost`, `superseded` (by what, says `detail`), `included` (another advice brings it as well),
`falls-behind`, `costs-more`, `not-possible`, `not-known`, `nothing-to-do`, or that of the adviser which refused the
group. The others as in ADVICE."""

ADVISE_TABLES: dict[str, StructType] = {"advice": ADVICE, "not_advised": NOT_ADVISED, "rejected": REJECTED}
