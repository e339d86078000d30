"""Says what an operation on brokers or replicas does to consumer groups: who rebalances, what stops, in which order.

    operation ─ partitions that change, per step ─ topics ─ groups that subscribe to them ─ effects (kernel)

`replicas.kernel.group_effects` has the rules of a group, with their sources; `replicas.kernel.restart_order` has the
order of a rolling restart. All else is DataFrame operations on (partition, step), (topic, step), and (group, step).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import broker_releases
from spark_assign.assignors.server import UNIFORM
from spark_assign.fleet import FleetTables
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES
from spark_assign.groups.kernel.client_settings import find_refusals
from spark_assign.groups.planning import plan
from spark_assign.replicas.assignor_times import assignor_times
from spark_assign.replicas.coordinators import (
    OFFSETS_TOPIC,
    coordinator_rows,
    leader_move_rows,
    partition_loads,
    share_partitions,
    uncounted_clusters,
)
from spark_assign.replicas.kernel import group_effects as rules
from spark_assign.replicas.kernel.restart_order import FEWEST, GIVEN, restart_orders
from spark_assign.replicas.partition_changes import COUNTS, reassigned_partitions, restarted_partitions
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.spark.dataframes import (
    dataframe_of_rows,
    map_arrow_batches,
    run_pass,
    to_arrow_schema,
    union,
    with_leaders,
)
from spark_assign.spark.engine import cached
from spark_assign.spark.shell_patterns import matches
from spark_assign.stores.result import Result
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.replicas import (
    CLUSTER_REJECTED,
    EFFECTS,
    GROUP_EVENT_ROWS,
    OPERATED_GROUPS,
    OPERATION_TABLES,
    ORDERS,
    STEPS,
)
from spark_assign.tables.schema_fields import schema

BROKER_RELEASES = broker_releases()
ALL: Literal["all"] = "all"
_GROUP = ["cluster", "group_id"]
_EVENT = ["step", "event", "broker_id"]
_ORDER_FACTS = schema(
    "cluster string, replicas array<int>, leader_id int, groups long, partitions long, brokers array<int>"
)
_HASHED = schema("cluster string, group_id string, members long, racked_members long, hash long")
_MAX_NAMED = 10


@dataclass(frozen=True)
class Operation(Result):
    """The result of `operate` (schemas: `tables.replicas`).

    Attributes:
        steps: one row per step of the operation.
        groups: one row per group with members: rebalances, epochs, moves of its coordinator, and what to change before.
        effects: one row per group, step, and cause, with the rule that it follows from.
        orders: of a restart: the given order of brokers, and the one with the fewest moves; else empty.
        coordinators: what each broker coordinates before the operation.
        leader_moves: moves of leaders of internal topics that would spread this load.
        assignor_times: how long the assignor of each group takes, and the timeout that it must meet.
        rejected: clusters that the reassignment rejected, or (`too-many-partitions`, groups) with too many share
            partitions to count.
    """

    schemas: ClassVar = OPERATION_TABLES

    steps: DataFrame
    groups: DataFrame
    effects: DataFrame
    orders: DataFrame
    coordinators: DataFrame
    leader_moves: DataFrame
    assignor_times: DataFrame
    rejected: DataFrame


def operate(
    fleet: FleetTables,
    *,
    restart: Sequence[int] | Literal["all"] | None = None,
    down: int | None = None,
    reassignment: Reassignment | None = None,
    cluster: str = "*",
    leaders_return: bool = True,
    downtime_seconds: float = 60.0,
    broker_release: str = "4.4",
    history: Mapping[str, DataFrame] | None = None,
) -> Operation:
    """Computes what an operation does to the groups of a fleet. Give one of `restart`, `down`, and `reassignment`.

    The leader of a partition is the current one, if the fleet has it (`replicas.leader_id`), else the first of its
    replicas. Every replica is taken to be in sync.

    Args:
        fleet: groups, members, subscriptions, topics, replicas, and brokers, for example a snapshot.
        restart: IDs of brokers that restart one after the other in this order, or `all`, in the order with the fewest
            moves.
        down: ID of a broker that crashes and stays down.
        reassignment: result of `reassign`; new partitions are added after it.
        cluster: shell pattern of the clusters with a restart or a crash.
        leaders_return: whether leaders return to their preferred broker after each restart
            (`auto.leader.rebalance.enable`).
        downtime_seconds: time that each restarted broker is down.
        broker_release: release of the brokers, such as 4.4 or 4.2.1. With 4.0, racks of replicas don't matter.
        history: tables of a history (`History.tables`), for the commits and rebalances per second of coordinators, and
            the timeouts of members.

    Raises:
        ConfigError: not exactly one operation is given, a number is negative, or the release is unknown.
        FleetError: the fleet has no replicas or brokers, no cluster matches, or a cluster doesn't have a broker.
    """
    if sum(each is not None for each in (restart, down, reassignment)) != 1:
        raise ConfigError("expected exactly one of restart, down, and reassignment")
    if downtime_seconds < 0:
        raise ConfigError(f"downtime_seconds is {downtime_seconds}, expected 0 or more")
    if broker_release not in BROKER_RELEASES:
        raise ConfigError(f"broker_release is {broker_release!r}, expected 4.0 to 4.4, with or without a patch")
    if missing := [name for name in ("replicas", "brokers") if getattr(fleet, name) is None]:
        remedy = "Take a snapshot, which has it, or give it with --table"
        raise FleetError([Fault(name, "*", "the table is missing", remedy) for name in missing])
    _ = fleet.sizes  # raises FleetError for rows that belong to no group
    groups = cached(_group_facts(fleet))
    spark = fleet.topics.sparkSession
    orders, rejected = (dataframe_of_rows(spark, [], table) for table in (ORDERS, CLUSTER_REJECTED))
    if reassignment is not None:
        changes, rejected = reassigned_partitions(reassignment), reassignment.rejected
    else:
        clusters = fleet.brokers.where(matches(cluster=cluster))  # type: ignore[union-attr]
        named = [down] if down is not None else None if restart == ALL else list(restart or ())
        order = _given_order(clusters, named, cluster)
        if down is None:
            orders = _restart_orders(fleet, groups, order)
            chosen = (F.col("order") == (FEWEST if restart == ALL else GIVEN)) & F.col("leaders_return")
            order = orders.where(chosen).select("cluster", "brokers")
        stays = down is not None or not leaders_return
        event = rules.RESTART if down is None else rules.DOWN
        changes = restarted_partitions(fleet.replicas, order, event, stays=stays)  # type: ignore[arg-type]
    changes = cached(changes)
    events = _group_events(fleet, groups, changes)
    work = partial(
        rules.group_effects,
        schema=to_arrow_schema(EFFECTS),
        broker_release=broker_release,
        downtime_seconds=float(downtime_seconds),
    )
    effects = cached(events.mapInArrow(map_arrow_batches(work), EFFECTS))
    after = fleet if reassignment is None else fleet_after(fleet, reassignment)
    changed = F.broadcast(changes.select("cluster").distinct())
    shared = share_partitions(fleet, groups.join(changed, "cluster", "left_semi"))
    loads = cached(partition_loads(fleet, groups, shared, history).join(changed, "cluster", "left_semi"))
    return Operation(
        _step_rows(changes, effects),
        cached(_group_rows(after, groups, changes, effects)),
        effects,
        orders,
        coordinator_rows(fleet.brokers, loads),  # type: ignore[arg-type]
        leader_move_rows(loads),
        assignor_times(fleet, groups.join(changed, "cluster", "left_semi"), history, broker_release),
        rejected.unionByName(uncounted_clusters(shared)),
    )


# --- brokers that restart or crash ------------------------------------------------------------------------------------


def _given_order(brokers: DataFrame, named: Sequence[int] | None, pattern: str) -> DataFrame:
    """Returns cluster, brokers: the order of each cluster; by ID if no broker is named.

    Raises:
        FleetError: no cluster matches, or a cluster doesn't have a broker.
    """
    known = F.sort_array(F.collect_set("broker_id"))
    clusters = brokers.groupBy("cluster").agg(known.alias("known"))
    if named is None:
        if clusters.isEmpty():
            raise FleetError([_no_cluster(pattern)])
        return clusters.select("cluster", F.col("known").alias("brokers"))
    wanted = F.lit(list(named)).cast("array<int>")
    found = clusters.select("cluster", "known", F.array_except(wanted, "known").alias("unknown"))
    rows = found.orderBy(F.desc(F.size("unknown")), "cluster").limit(_MAX_NAMED).collect()  # 10 at most
    faults = [
        Fault(
            "brokers",
            "broker_id",
            f"cluster {row['cluster']} has no broker {', '.join(map(str, row['unknown']))}",
            f"Name brokers of {', '.join(map(str, row['known'][:_MAX_NAMED]))}, or name the cluster (--cluster)",
        )
        for row in rows
        if row["unknown"]
    ]
    if not rows:
        faults = [_no_cluster(pattern)]
    if len(set(named)) < len(named):
        faults.append(Fault("brokers", "broker_id", "a broker is named twice", "Name each broker once"))
    if faults:
        raise FleetError(faults)
    return clusters.select("cluster", wanted.alias("brokers"))


def _no_cluster(pattern: str) -> Fault:
    return Fault("brokers", "cluster", f"no cluster matches {pattern}", "Change --cluster, or add the brokers")


def _restart_orders(fleet: FleetTables, groups: DataFrame, order: DataFrame) -> DataFrame:
    """Returns `tables.replicas.ORDERS` (cached)."""
    coordinated = groups.groupBy("cluster", F.col("coordinator_partition").alias("partition")).agg(
        F.count(F.lit(1)).alias("groups")
    )
    offsets = coordinated.withColumn("topic", F.lit(OFFSETS_TOPIC))
    weights = (
        with_leaders(fleet.replicas)  # type: ignore[arg-type]
        .join(offsets, ["cluster", "topic", "partition"], "left")
        .groupBy("cluster", "replicas", "leader_id")
        .agg(F.coalesce(F.sum("groups"), F.lit(0)).alias("groups"), F.count(F.lit(1)).alias("partitions"))
        .where(F.size("replicas") > 0)
    )
    facts = union([weights.join(F.broadcast(order), "cluster", "left_semi"), order]).select(*_ORDER_FACTS.names)
    return run_pass(facts, ["cluster"], 4, restart_orders, ORDERS)


# --- groups -----------------------------------------------------------------------------------------------------------


def fleet_after(fleet: FleetTables, reassignment: Reassignment) -> FleetTables:
    """Returns the fleet after a reassignment; clusters that it doesn't plan are missing in `replicas`."""
    grown = reassignment.placement.groupBy("cluster", "topic").agg(F.count(F.lit(1)).cast("int").alias("planned"))
    topics = fleet.topics.join(grown, ["cluster", "topic"], "left")
    topics = topics.withColumn("partitions", F.greatest("partitions", "planned")).drop("planned")
    after = reassignment.after
    return replace(fleet, topics=topics, replicas=after.replicas, brokers=after.brokers.drop("fenced"))


def _totals() -> list[Column]:
    """Returns the aggregates of counts: sums, but at least one change of racks is at least one epoch or rebalance."""
    at_least = ("min_hash", "min_racks")
    return [(F.max if name in at_least else F.sum)(name).alias(name) for name in COUNTS]


def _group_facts(fleet: FleetTables) -> DataFrame:
    """Returns one row per group with members: what the rules need of it, and its partition of `__consumer_offsets`."""
    members = fleet.members.groupBy(*_GROUP).agg(
        F.count(F.lit(1)).alias("members"), F.count("rack_id").alias("racked_members")
    )
    partitions = (
        fleet.subscribed_topics.join(fleet.topics.select("cluster", "topic", "partitions"), ["cluster", "topic"])
        .groupBy(*_GROUP)
        .agg(F.sum("partitions").alias("partitions"))
    )
    offsets = fleet.topics.where((F.col("topic") == OFFSETS_TOPIC) & (F.col("partitions") > 0))
    counts = offsets.select("cluster", F.col("partitions").alias("offsets_partitions"))
    hashed = F.col("hash") % F.col("offsets_partitions")
    described = ("group_type", "assignor", "leader_library", "leader_version")
    rows = members.mapInArrow(partial(rules.add_hashes, name="group_id"), _HASHED)
    rows = rows.join(partitions, _GROUP, "left").fillna(0, ["partitions"])
    if fleet.groups is not None:
        rows = rows.join(fleet.groups.select(*_GROUP, *described), _GROUP, "left")
    else:
        rows = rows.withColumns({name: F.lit(None).cast("string") for name in described})
    rows = rows.join(F.broadcast(counts), "cluster", "left")
    return rows.withColumn("coordinator_partition", hashed.cast("int")).drop("hash", "offsets_partitions")


def _group_events(fleet: FleetTables, groups: DataFrame, changes: DataFrame) -> DataFrame:
    """Returns what each step changes in the topics and the coordinator of a group (GROUP_EVENT_ROWS)."""
    topics = changes.groupBy("cluster", "topic", *_EVENT).agg(*_totals()).withColumn("grown", F.sign("grown"))
    subscribed = fleet.subscribed_topics.join(topics, ["cluster", "topic"]).select(*_GROUP, *_EVENT, *COUNTS)
    moved = changes.where((F.col("topic") == OFFSETS_TOPIC) & (F.col("max_leaders") > 0))
    moved = moved.select("cluster", F.col("partition").alias("coordinator_partition"), *_EVENT, *COUNTS)
    coordinated = groups.select(*_GROUP, "coordinator_partition").join(moved, ["cluster", "coordinator_partition"])
    values = {"min_coordinator": F.col("min_leaders"), "max_coordinator": F.col("max_leaders")}
    coordinated = coordinated.select(
        *_GROUP, *_EVENT, *(values.get(name, F.lit(0)).cast("long").alias(name) for name in COUNTS)
    )
    events = subscribed.select(coordinated.columns).unionByName(coordinated).groupBy(*_GROUP, *_EVENT).agg(*_totals())
    rows = events.join(groups, _GROUP)
    return rows.select(*(F.col(field.name).cast(field.dataType) for field in GROUP_EVENT_ROWS))


_SUMS = ("min_rebalances", "max_rebalances", "min_epochs", "max_epochs")
_SECONDS = ("min_paused_partition_seconds", "max_paused_partition_seconds")


def _sums_of_effects() -> list[Column]:
    """Returns sums of effects; the seconds are null if those of an effect are unknown."""
    unknown = [F.when(F.count(name) == F.count(F.lit(1)), F.sum(name)).alias(name) for name in _SECONDS]
    return [*(F.sum(name).alias(name) for name in _SUMS), *unknown]


def _moves(cause: str) -> Column:
    return F.sum(F.when(F.col("cause") == cause, F.col("max_moves")).otherwise(0))


def _step_rows(changes: DataFrame, effects: DataFrame) -> DataFrame:
    """Returns `tables.replicas.STEPS`."""
    key = ["cluster", *_EVENT]
    steps = changes.groupBy(*key).agg(
        F.count(F.lit(1)).alias("partitions"), F.sum("max_leaders").alias("leaders_moved")
    )
    rebalances = F.count_distinct(F.when(F.col("max_rebalances") > 0, F.col("group_id")))
    sums = effects.groupBy("cluster", "step").agg(
        rebalances.alias("groups"), _moves(rules.COORDINATOR).alias("coordinators_moved"), *_sums_of_effects()
    )
    rows = steps.join(sums, ["cluster", "step"], "left").fillna(0, ["groups", "coordinators_moved", *_SUMS])
    return rows.select(*STEPS.names)


def _group_rows(after: FleetTables, groups: DataFrame, changes: DataFrame, effects: DataFrame) -> DataFrame:
    """Returns `tables.replicas.OPERATED_GROUPS` of the clusters that change."""
    sums = effects.groupBy(*_GROUP).agg(
        F.sort_array(F.collect_set("cause")).alias("causes"),
        _moves(rules.COORDINATOR).alias("coordinator_moves"),
        _moves(rules.LEADERS).alias("leaders_moved"),
        F.max("paused_partitions").alias("paused_partitions"),
        F.sum(F.when(F.col("cause") == rules.BOUNCE, F.col("max_rebalances")).otherwise(0)).alias("bounces"),
        *_sums_of_effects(),
    )
    planned = plan(after).metrics.select(*_GROUP, F.col("moved").alias("moved_partitions"))
    runs = (F.col("max_rebalances") > 0) | (F.col("max_epochs") > 0)
    offsets = after.replicas.where(F.col("topic") == OFFSETS_TOPIC)  # type: ignore[union-attr]
    leaders = with_leaders(offsets).select(
        "cluster", F.col("partition").alias("coordinator_partition"), F.col("leader_id").alias("coordinator")
    )
    zero = ["coordinator_moves", "leaders_moved", "paused_partitions", "bounces", *_SUMS]
    rows = (
        groups.join(F.broadcast(changes.select("cluster").distinct()), "cluster", "left_semi")
        .join(sums, _GROUP, "left")
        .join(planned, _GROUP, "left")
        .join(F.broadcast(leaders), ["cluster", "coordinator_partition"], "left")
        .fillna(0, zero)
        .withColumn("moved_partitions", F.when(runs, F.col("moved_partitions")))
        .withColumn("causes", F.coalesce("causes", F.array().cast("array<string>")))
        .withColumns({name: F.when(F.size("causes") == 0, 0.0).otherwise(F.col(name)) for name in _SECONDS})
    )
    return rows.withColumn("advice", _advice()).select(*OPERATED_GROUPS.names)


def _unpaused() -> Column:
    """Returns how partitions that stay aren't paused, by what the library of the leader has; null if it lacks all."""
    ways = {"cooperative-sticky": COOPERATIVE, "group.protocol=consumer": UNIFORM}
    text, library = F.lit(None).cast("string"), F.col("leader_library")
    for name in (*LIBRARIES, None):
        has = [way for way, assignor in ways.items() if find_refusals(name and f"{name} 1", assignor) is None]
        if has:
            sentence = F.lit(f"With {' or '.join(has)}, partitions that stay aren't paused.")
            text = F.when(library.isNull() if name is None else library == name, sentence).otherwise(text)
    return text


def _advice() -> Column:
    """Returns what to change in the clients of a group before the operation, and what it saves."""
    eager = F.coalesce("group_type", F.lit("classic")) == "classic"
    eager &= F.coalesce("assignor", F.lit("")) != "cooperative-sticky"
    return F.concat_ws(
        " ",
        F.when(
            F.col("bounces") > 0,
            F.format_string("Clients of 4.4.0 or later save up to %s rebalances (KAFKA-20778).", "bounces"),
        ),
        F.when(eager & (F.col("max_rebalances") > 0), _unpaused()),
    )
