"""The partitions that each step of an operation changes: restarts and crashes of brokers, and reassignments.

Each function returns cluster, topic, partition, step, event, broker_id, and the counts of
`tables.replicas.GROUP_EVENT_ROWS`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.replicas.kernel import group_effects as rules
from spark_assign.replicas.reassignment import Reassignment
from spark_assign.spark.dataframes import with_brokers, with_leaders
from spark_assign.tables.replicas import GROUP_EVENT_ROWS

COUNTS = GROUP_EVENT_ROWS.names[GROUP_EVENT_ROWS.names.index("hosted") : GROUP_EVENT_ROWS.names.index("group_type")]


def restarted_partitions(replicas: DataFrame, order: DataFrame, event: str, *, stays: bool) -> DataFrame:
    """Returns the partitions that each restart or crash changes: those with a replica on the broker.

    Args:
        replicas: all partitions.
        order: cluster, brokers (in the order of their restarts).
        event: what happens to the brokers.
        stays: whether a leader that moved stays where it is. Otherwise, leaders that aren't the preferred ones return
            at the first visit, too.
    """
    rows = with_leaders(replicas).join(F.broadcast(order), "cluster")
    rows = rows.withColumn("visited", F.array_intersect("brokers", "replicas"))
    single, first = F.size("replicas") == 1, F.get("replicas", F.lit(0))
    moved = _moved_from(F.col("replicas"), F.col("leader_id"), F.col("visited"))
    returns = (F.col("leader_id") != first) & ~single

    def visit(broker: Column) -> Column:
        leaders = F.when(F.array_contains(moved, broker), 1)
        if not stays:
            leaders = F.when(returns & (broker == F.get("visited", F.lit(0))), 1).when((broker == first) & ~single, 2)
        return F.struct(broker.alias("broker"), leaders.otherwise(0).alias("leaders"))

    visits = F.explode(F.transform("visited", visit)).alias("visit")
    broker = F.col("visit.broker")
    steps = order.select("cluster", F.posexplode("brokers").alias("place", "broker_id"))
    # Joined: each visit would have a copy of the lists of its partition.
    visited = rows.select("cluster", "topic", "partition", single.alias("single"), visits).withColumn(
        "broker_id", broker
    )
    return _changes(
        visited.join(F.broadcast(steps), ["cluster", "broker_id"]),
        event=F.lit(event),
        step=F.col("place") + 1,
        broker_id=broker,
        hosted=F.lit(1),
        offline=F.col("single").cast("long"),
        min_leaders=F.col("visit.leaders"),
        max_leaders=F.col("visit.leaders"),
    )


def _moved_from(replicas: Column, leader: Column, visited: Column) -> Column:
    """Returns the brokers that move the leader when they restart, if it stays there: see `kernel.restart_order`."""

    def visit(state: Column, broker: Column) -> Column:
        moves = (state["leader"] == broker) & (F.size(replicas) > 1)
        following = F.get(F.filter(replicas, lambda other: other != broker), F.lit(0))
        moved = F.concat(state["moved"], F.when(moves, F.array(broker)).otherwise(F.array().cast("array<int>")))
        return F.struct(F.when(moves, following).otherwise(state["leader"]).alias("leader"), moved.alias("moved"))

    start = F.struct(leader.alias("leader"), F.array().cast("array<int>").alias("moved"))
    return F.aggregate(visited, start, visit, lambda state: state["moved"])


def reassigned_partitions(reassignment: Reassignment) -> DataFrame:
    """Returns the partitions that a reassignment changes (step 1), and its new partitions (step 2)."""
    leaders = with_leaders(reassignment.fleet.replicas).select("cluster", "topic", "partition", "leader_id")
    named = {"old": F.col("previous_replicas"), "new": F.col("replicas")}
    named["added"] = F.array_except("replicas", "previous_replicas")
    rows = reassignment.changes.join(leaders, ["cluster", "topic", "partition"], "left").select(
        "cluster", "topic", "partition", "leader_id", *(column.alias(name) for name, column in named.items())
    )
    before, after = _racks(reassignment.fleet.brokers), _racks(reassignment.after.brokers)
    for name, brokers in (("old", before), ("new", after), ("added", after)):
        rows = with_brokers(rows, f"{name}_brokers", name, brokers)
    old_racks, new_racks, added = (_racks_of(f"{name}_brokers") for name in named)
    both = F.concat(old_racks, added)
    removed = F.size(new_racks) != F.size(both)
    sets = [F.sort_array(F.array_distinct(racks)) for racks in (old_racks, both, new_racks)]
    leader = F.col("leader_id")
    moved = _changes(
        rows.where(F.col("old").isNotNull() & (F.col("old") != F.col("new"))),
        event=F.lit(rules.REASSIGN),
        step=F.lit(1),
        min_leaders=(~F.array_contains("new", leader)).cast("long"),
        max_leaders=(F.get("new", F.lit(0)) != leader).cast("long"),
        min_hash=(F.sort_array(old_racks) != F.sort_array(new_racks)).cast("long"),
        max_hash=(F.size(added) > 0).cast("long") + removed.cast("long"),
        min_racks=(sets[0] != sets[2]).cast("long"),
        max_racks=(sets[0] != sets[1]).cast("long") + (sets[1] != sets[2]).cast("long"),
    )
    grown = _changes(rows.where(F.col("old").isNull()), event=F.lit(rules.GROW), step=F.lit(2), grown=F.lit(1))
    return moved.unionByName(grown)


def _racks(brokers: DataFrame) -> DataFrame:
    return brokers.select("cluster", "broker_id", "rack_id").distinct()


def _racks_of(brokers: str) -> Column:
    """Returns the racks of brokers; a broker without a rack counts for nothing (`partitionRacks`)."""
    return F.array_compact(F.transform(brokers, lambda broker: broker["rack_id"]))


def _changes(rows: DataFrame, **values: Column) -> DataFrame:
    """Returns cluster, topic, partition, step, event, broker_id, and counts; missing counts are 0."""
    counts = [values.get(name, F.lit(0)).cast("long").alias(name) for name in COUNTS]
    step, broker = values["step"].cast("int"), values.get("broker_id", F.lit(None)).cast("int")
    event = [step.alias("step"), values["event"].alias("event"), broker.alias("broker_id")]
    return rows.select("cluster", "topic", "partition", *event, *counts)
