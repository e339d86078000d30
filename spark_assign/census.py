"""One look over a fleet's values before anything is planned: how large it is, and what is wrong with it.

Faults are of two kinds. A row that belongs to a group (its cluster and group_id are there) can only spoil that group,
which is then rejected. Any other faulty row belongs to the fleet, and no plan can be trusted: those are raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.errors import Fault, FleetError
from spark_assign.faults import find_group_faults, raise_table_faults
from spark_assign.subscribers import partial_classes, ranked_members, subscribed_topics

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet


@dataclass(frozen=True)
class Census:
    """What was counted, and the DataFrames (lazy) that the counts were taken from.

    Attributes:
        members: members of the whole fleet.
        racked_members: those that have a rack.
        group_topics: pairs of a group and a topic with metadata that it subscribes to.
        partitions: partitions of all those pairs.
        widest: the most partitions that any one of those pairs has.
        partial_classes: classes of subscribers that are not simply all members of their group.
        partial_subscribers: their subscribers, added up.
        rejected_groups: groups with a fault.
        topics: see `subscribed_topics`.
        ranked: see `ranked_members`.
        partial: see `partial_classes`.
        rejected: cluster, group_id, code, detail; one row per group with a fault.
    """

    members: int
    racked_members: int
    group_topics: int
    partitions: int
    widest: int
    partial_classes: int
    partial_subscribers: int
    rejected_groups: int
    topics: DataFrame
    ranked: DataFrame
    partial: DataFrame
    rejected: DataFrame


def take_census(fleet: Fleet) -> Census:
    """Count the fleet and check its values, in two passes.

    Raises:
        FleetError: the fleet is empty, or rows that belong to no group are faulty. Lists everything found.
    """
    raise_table_faults(fleet)
    topics = subscribed_topics(fleet.subscriptions, fleet.topics)
    ranked = ranked_members(fleet.members)
    partial = partial_classes(topics, ranked)
    rejected = find_group_faults(fleet, topics, partial)
    row = F.count(F.lit(1))
    racked = F.count(F.when(F.col("rack_id") != "", 1))
    counts = fleet.members.agg(row.alias("members"), racked.alias("racked_members")).crossJoin(
        topics.agg(
            F.count("partitions").alias("group_topics"),
            F.sum(F.col("partitions").cast("long")).alias("partitions"),
            F.max("partitions").alias("widest"),
        )
    )
    counts = counts.crossJoin(
        partial.agg(row.alias("partial_classes"), F.sum("subscribers.number").alias("partial_subscribers"))
    ).crossJoin(rejected.agg(row.alias("rejected_groups")))
    sizes = {name: size or 0 for name, size in counts.collect()[0].asDict().items()}  # one row
    if not sizes["members"]:
        problem = "the fleet is empty: there are no members"
        raise FleetError([Fault("members", "*", problem, "Give at least one member of one group")])
    return Census(**sizes, topics=topics, ranked=ranked, partial=partial, rejected=rejected)
