"""One look over a fleet's values before anything is planned: how large it is, and what is wrong with it.

Faults are of two kinds. A row that belongs to a group (its cluster and group_id are there) can only spoil that group,
which is then rejected. Any other faulty row belongs to the fleet, and no plan can be trusted: those are raised.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.caching import cached, uncached
from spark_assign.errors import Fault, FleetError
from spark_assign.faults import find_group_faults, find_table_faults, raise_table_faults
from spark_assign.ownership import Ownership, read_ownership
from spark_assign.subscribers import (
    class_members,
    partial_classes,
    partial_subscribers,
    ranked_members,
    subscribed_topics,
)

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet


BROADCAST_ROWS = 2_000_000
"""Up to so many rows (of some 100 bytes) are sent whole to every executor in place of a shuffle."""

LOCAL_ROWS = 10_000
"""Up to so many rejected groups are held on the driver, where they cost later queries nothing."""


@dataclass(frozen=True)
class Census:
    """What was counted, and the tables that every plan of the fleet starts from.

    Attributes:
        all_members: members of the whole fleet.
        racked_members: those that have a rack.
        group_topics: pairs of a group and a topic with metadata that it subscribes to.
        partitions: partitions of all those pairs.
        partial_classes: classes of subscribers that are not simply all members of their group.
        partial_subscribers: their subscribers, added up.
        owned_runs: runs of what members own.
        rejected_groups: groups with a fault.
        topics: see `subscribed_topics`; cached.
        members: see `class_members`; cached.
        rejected: cluster, group_id, code, detail; one row per group with a fault.
        ownership: what members own now, null where the fleet does not say; cached.
        kept: what else has been cached on the way.
    """

    all_members: int
    racked_members: int
    group_topics: int
    partitions: int
    partial_classes: int
    partial_subscribers: int
    owned_runs: int
    rejected_groups: int
    topics: DataFrame
    members: DataFrame
    rejected: DataFrame
    ownership: Ownership | None
    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, table: DataFrame) -> DataFrame:
        """Cache a table of topic-level rows until `release`, where the session can; elsewhere it is computed anew."""
        kept = cached(table)
        self.kept.append(kept)
        return kept

    def release(self) -> None:
        """Give back the executors' memory that the cached tables hold; they are computed anew if needed again."""
        for table in (self.topics, self.members, *self.kept):
            uncached(table)


def take_census(fleet: Fleet) -> Census:
    """Count the fleet and check its values.

    Raises:
        FleetError: the fleet is empty, or rows that belong to no group are faulty. Lists everything found.
    """
    ownership = read_ownership(fleet)
    topics = cached(subscribed_topics(fleet.subscriptions, fleet.topics))
    ranked = ranked_members(fleet.members)
    partial = partial_classes(topics, ranked)
    to_count = _to_count(fleet, topics, partial, ownership)
    looked = find_table_faults(fleet, ownership, beside=to_count).collect()  # a row per kind of fault and per size
    raise_table_faults([row for row in looked if row["problem"] is not None])
    sizes = Counter({row["table"]: row["rows"] or 0 for row in looked})
    if not sizes["all_members"]:
        problem = "the fleet is empty: there are no members"
        raise FleetError([Fault("members", "*", problem, "Give at least one member of one group")])
    some = None
    if sizes["partial_classes"]:
        classes = F.broadcast(partial) if sizes["partial_classes"] <= BROADCAST_ROWS else partial
        some = partial_subscribers(fleet.subscriptions, classes)
    members = cached(class_members(ranked, some))
    if ownership is not None and sizes["repeated"]:
        ownership = ownership.with_repeated(fleet, sizes["repeated_partitions"])
    rejected, rejected_groups = held(find_group_faults(fleet, topics, some, ownership))
    return Census(
        all_members=sizes["all_members"],
        racked_members=sizes["racked_members"],
        group_topics=sizes["group_topics"],
        partitions=sizes["partitions"],
        partial_classes=sizes["partial_classes"],
        partial_subscribers=sizes["partial_subscribers"],
        owned_runs=sizes["owned_runs"],
        rejected_groups=rejected_groups,
        topics=topics,
        members=members,
        rejected=rejected,
        ownership=ownership,
        kept=[ownership.kept] if ownership is not None and ownership.kept is not None else [],
    )


def _to_count(fleet: Fleet, topics: DataFrame, partial: DataFrame, ownership: Ownership | None) -> DataFrame:
    """What adds up to the sizes: name, rows. (One sum over all is one stage, not one for each.)"""
    one = F.lit(1)
    counted = [
        _named(fleet.members, all_members=one, racked_members=(F.col("rack_id") != "").cast("long")),
        _named(topics, group_topics=F.col("partitions").isNotNull().cast("long"), partitions=F.col("partitions")),
        _named(partial, partial_classes=one, partial_subscribers=F.col("subscribers.number")),
    ]
    if ownership is not None:
        counted.append(_named(ownership.runs, owned_runs=one))
        counted.append(_named(ownership.repeated, repeated=one, repeated_partitions=F.col("partitions")))
    return reduce(DataFrame.unionByName, counted)


def _named(rows: DataFrame, **numbers: Column) -> DataFrame:
    each = (F.struct(F.lit(name).alias("name"), number.cast("long").alias("rows")) for name, number in numbers.items())
    return rows.select(F.inline(F.array(*each)))


def held(rejected: DataFrame) -> tuple[DataFrame, int]:
    """The rejected groups and their number; on the driver if they are few, as they nearly always are."""
    rows = rejected.limit(LOCAL_ROWS + 1).collect()
    if len(rows) > LOCAL_ROWS:
        return rejected, rejected.count()
    schema = pa.schema([(name, pa.string()) for name in rejected.columns])
    table = pa.Table.from_pylist([row.asDict() for row in rows], schema=schema)
    return rejected.sparkSession.createDataFrame(table, rejected.schema), len(rows)
