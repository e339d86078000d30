"""Sticky and cooperative-sticky (Kafka's `StickyAssignor`, KIP-54, and `CooperativeStickyAssignor`, KIP-429).

Principle: everybody keeps what it owns as far as balance allows; only the rest changes hands.

Both assignors decide alike. They differ in
    - what a member owns: sticky is an eager protocol, whose members tell their past (and its generation) in the
      assignor's user data; cooperative-sticky reads the subscription itself;
    - what is assigned: cooperative-sticky withholds a partition that another member still owns. Its owner gives it up
      after this round, and a second round gives it to the next one.

Example: a owns t-0 t-1 t-2 t-3 and b joins. Both leave t-0 t-1 with a. Sticky gives t-2 t-3 to b at once, for a has
given up everything beforehand; cooperative-sticky gives b nothing yet, and t-2 t-3 to nobody.

The decision itself is a kernel over whole groups (`kernels.sticky`), as it hangs on the order in which partitions are
looked at; here its facts are gathered, in as few rows as possible, and many groups are handed to it at once. Where
Java's hash order decides: who keeps one partition more, who wins a claim, which old claimer is remembered, which
partition of a topic moves back (`kernels.java_hash`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, StringType, StructField, StructType

from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.assignors.replica_racks import replica_racks
from spark_assign.census import Census
from spark_assign.kernels.sticky import plan_batch
from spark_assign.kernels.sticky_rounds import rounds
from spark_assign.kernels.sticky_table import (
    CLASS,
    LEFT,
    MEMBER,
    OWNED,
    TOPIC,
    read_sheet,
    write_decided,
    write_rounds,
)
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY, ROUNDS
from spark_assign.subscribers import CLASS_KEY

ROWS_PER_TASK = 250_000
"""So many facts are handed to the kernel at once (a group is never parted), which bounds what a worker holds."""

PARTITIONS_PER_ROW = 100
"""A fact is about as much work as so many partitions that have to be dealt out."""

KAFKA_FAILS = "kafka-fails"
"""Code of groups for which Kafka's class throws."""


class StickyAssignor:
    """Kafka's `StickyAssignor`."""

    cooperative = False

    def assign(self, groups: Groups) -> Outcome:
        """Plan the groups."""
        decided = groups.census.keep(_whole_groups(groups).mapInArrow(_decider(self.cooperative), _DECIDED))
        runs = [*MEMBER_KEY, "topic", "first", "step", "count"]
        planned = decided.where(F.col("detail").isNull())
        kafka = "CooperativeStickyAssignor" if self.cooperative else "StickyAssignor"
        detail = F.concat(F.lit(f"Kafka's {kafka} throws here: "), "detail")
        return Outcome(
            runs=planned.where(~F.col("withheld")).select(*runs),
            rejected=decided.where(F.col("detail").isNotNull()).select(
                *GROUP_KEY, F.lit(KAFKA_FAILS).alias("code"), detail.alias("detail")
            ),
            withheld=planned.where("withheld").select(*runs) if self.cooperative else None,
            reasons=planned.where(F.col("reason").isNotNull()).select(
                *GROUP_KEY, "topic", "first", "step", "count", "reason"
            ),
        )


class CooperativeStickyAssignor(StickyAssignor):
    """Kafka's `CooperativeStickyAssignor`."""

    cooperative = True

    def rounds(self, groups: Groups, limit: int) -> DataFrame:
        """Rebalance the groups until they are stable, `limit` times at most, as clients of the protocol would.

        Returns:
            a row per group and round: cluster, group_id, round, assigned, revoked, moved, unowned, stable; units as in
            `schemas.ROUNDS`. Groups for which Kafka's class throws have none.
        """
        return groups.census.keep(_whole_groups(groups, history=True).mapInArrow(_follower(limit), _ROUNDS))


_NUMBERS = [StructField(name, IntegerType()) for name in ("first", "step", "count")]
_NAMES = [StructField(name, StringType()) for name in (*MEMBER_KEY, "topic")]
_DECIDED = StructType(
    [
        *_NAMES,
        *_NUMBERS,
        StructField("reason", StringType()),
        StructField("withheld", BooleanType()),
        StructField("detail", StringType()),
    ]
)


_ROUNDS = StructType([field for field in ROUNDS.fields if field.name != "assignor"])


def _decider(cooperative: bool) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The work of one task; a closure of plain values, as it is sent to the executors."""

    def decide(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received = list(batches)
        if received:
            facts = pa.Table.from_batches(received)
            received.clear()
            sheet = read_sheet(facts, user_data=not cooperative, cooperative=cooperative)
            yield from write_decided(sheet, plan_batch(sheet.batch)).to_batches(max_chunksize=100_000)

    return decide


def _follower(limit: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The same for rounds of the cooperative protocol."""

    def follow(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received = list(batches)
        if received:
            sheet = read_sheet(pa.Table.from_batches(received), user_data=False, cooperative=True)
            received.clear()
            for table in write_rounds(sheet, rounds(sheet.batch, sheet.claimed, sheet.departed, limit)):
                yield from table.to_batches(max_chunksize=100_000)

    return follow


# --- the facts; their columns are described in kernels.sticky_table --------------------------------------------


def _whole_groups(groups: Groups, *, history: bool = False) -> DataFrame:
    """The facts, all of a group in one task; with `history` also those that only matter to what is counted."""
    return gather_facts(groups, history=history).repartition(_tasks(groups.census), *GROUP_KEY)


def gather_facts(groups: Groups, *, history: bool = False) -> DataFrame:
    """All that the kernel is told of the groups, a row per fact (`kernels.sticky_table`); `history` as above."""
    fleet, census = groups.fleet, groups.census
    topics = groups.only(census.topics)
    facts = [
        _fact(
            groups.only(fleet.members),
            MEMBER,
            member_id=F.col("member_id"),
            rack_id=F.when(F.col("rack_id") != "", F.col("rack_id")),
            first=F.col("generation_id"),
            step=F.col("user_data_generation_id"),
            count=F.col("position"),
        )
    ]
    subscribers = F.concat_ws(":", *(F.col(f"subscribers.{name}") for name in ("number", "low", "high", "other")))
    named_class = {"subscribers": subscribers} if census.partial_classes else {}
    layout: dict[str, Column] = {}
    if fleet.racks_known and census.racked_members:
        layout = {"at": F.col("at"), "racks": F.col("racks")}
        racked = groups.only(fleet.members.where(F.col("rack_id") != "")).select(*GROUP_KEY).distinct()
        layouts = (
            topics.join(racked, GROUP_KEY, "left_semi")
            .select(*GROUP_KEY, "topic")
            .join(replica_racks(groups), ["cluster", "topic"])
        )
        topics = topics.join(layouts, [*GROUP_KEY, "topic"], "left")
    facts.append(_fact(topics, TOPIC, topic=F.col("topic"), count=F.col("partitions"), **named_class, **layout))
    if census.partial_classes:
        asked = groups.members.join(topics.select(*CLASS_KEY).distinct(), CLASS_KEY, "left_semi")
        facts.append(_fact(asked, CLASS, member_id=F.col("member_id"), **named_class))
    run = {name: F.col(name) for name in ("topic", "first", "step", "count")}
    if census.ownership is not None:
        facts.append(_fact(groups.only(census.ownership.runs), OWNED, member_id=F.col("member_id"), **run))
    if history and fleet.departed is not None:
        facts.append(_fact(groups.only(fleet.departed), LEFT, **run))
    return reduce(DataFrame.unionByName, [_padded(each, bool(named_class), bool(layout)) for each in facts])


def _fact(rows: DataFrame, kind: int, **columns: Column) -> DataFrame:
    return rows.select(
        *GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *(value.alias(name) for name, value in columns.items())
    )


def _padded(facts: DataFrame, with_classes: bool, with_racks: bool) -> DataFrame:
    """The same with all columns of a fact, null where this kind has none."""
    columns: dict[str, DataType] = {name: StringType() for name in ("member_id", "topic", "rack_id")}
    columns |= {name: IntegerType() for name in ("first", "step", "count")}
    columns |= {"subscribers": StringType()} if with_classes else {}
    columns |= {"at": ArrayType(IntegerType()), "racks": ArrayType(ArrayType(StringType()))} if with_racks else {}
    present = (
        (F.col(name) if name in facts.columns else F.lit(None)).cast(kind).alias(name) for name, kind in columns.items()
    )
    return facts.select(*GROUP_KEY, "kind", *present)


def _tasks(census: Census) -> int:
    """In how many tasks the kernel does its work."""
    facts = census.all_members + census.group_topics + census.owned_runs
    return max(1, -(-(facts + census.partitions // PARTITIONS_PER_ROW) // ROWS_PER_TASK))
