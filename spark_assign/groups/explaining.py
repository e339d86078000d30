"""The story of one partition, in a sentence or two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.facts import topic_counts
from spark_assign.groups.planning import Plan
from spark_assign.spark.java_order import string_order
from spark_assign.spark.partition_slices import contains_partition
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import GROUP_KEY

_WHY = {
    "topic-gone": "the topic does not exist any more",
    "partition-gone": "the topic has fewer partitions now",
    "new": "nobody owned it",
    "member-left": "{from} has left the group",
    "claim-conflict": "{claimers} members claim it, and {from} is not the one that keeps it",
    "unsubscribed": "{from} does not subscribe to {topic} any more",
    "unassigned": "nobody is given it",
    "over-quota": "{from} owned {owned}, its quota is {quota}, and of what it owned this is number {rank} "
    "by partition and topic",
    "rack-mismatch": "it has no replica in the rack of {from}",
    "balancing": "{from} owned {owned} and {to} {next_owned}; moving it made them more even",
    "over-load": "{from} has more load than its bound",
    "makes-room": "another partition gets its place, which fits nowhere else",
    "rebalanced": "the assignor deals all partitions afresh",
}
_WITHHELD = " It is withheld in this round: {from} gives it up first, and the next round assigns it."

_BY_BROKER = {
    "over-quota": "{from} owned {owned} and its quota is {quota}; which of them it gives up, Java's hash orders say",
}
_WITHHELD_BY_BROKER = " It is withheld until {from} has given it up."
_ORDER_DEPENDENT = " That hangs on an order which the fleet does not say: in Kafka another member may get it."


def explain(plan: Plan, group_id: str, topic: str, partition: int, *, cluster: str | None = None) -> str:
    """Why one partition goes where it goes.

    Args:
        plan: any plan.
        group_id, topic, partition: which one.
        cluster: needed where several clusters have a group of that id.

    Returns:
        a sentence or two for each claimer of the partition, with the numbers behind the decision: what the owner owned,
        the group's quota, and the partition's rank among what the owner owned.

    Raises:
        SourceError: the group is not in the plan, is in several clusters, or nothing is known of the partition.

    Examples:
        >>> print(explain(plan(fleet, "cooperative-sticky"), "payments-eu", "t", 2))
        t-2 of c/payments-eu: goes from payments-eu-0 to payments-eu-1, since payments-eu-0 owned 3, its quota is
        1 to 2, and of what it owned this is number 3 by partition and topic. It is withheld in this round:
        payments-eu-0 gives it up first, and the next round assigns it.
    """
    found, assignor = _planned(plan, group_id, cluster)
    facts = _gather(plan, found, group_id, topic, partition, by_broker=assignor in SERVER_ASSIGNORS)
    return f"{topic}-{partition} of {found}/{group_id}: {_told(facts, topic, partition)}"


def _planned(plan: Plan, group_id: str, cluster: str | None) -> tuple[str, str]:
    """The group's cluster and its assignor."""
    asked = F.col("group_id") == group_id
    asked = asked if cluster is None else asked & (F.col("cluster") == cluster)
    rows = plan.groups.where(asked).limit(10).collect()  # ten at most: the clusters that have a group of this name
    found = sorted((row["cluster"], row["assignor"]) for row in rows)
    if len(found) == 1:
        return found[0]
    if found:
        clusters = ", ".join(cluster for cluster, _ in found)
        raise SourceError(f"group {group_id} is in several clusters: {clusters}. Say which")
    rejected = plan.rejected.where(asked).limit(1).collect()  # one row
    why = f": it is rejected, {rejected[0]['code']}: {rejected[0]['detail']}" if rejected else ""
    raise SourceError(f"group {group_id} is not planned{why}")


@dataclass(frozen=True)
class _Facts:
    """What is known of one partition of one group.

    Attributes:
        moves: its rows of `Plan.moves`.
        numbers: per kind of fact and member (null: of the group) a number.
        by_broker: whether an assignor of the broker has planned it.
    """

    moves: list[Row]
    numbers: dict[str, dict[str | None, int]]
    by_broker: bool

    def of(self, fact: str, member: str | None = None) -> int:
        return self.numbers.get(fact, {}).get(member, 0)

    def who(self, fact: str) -> str | None:
        return next(iter(self.numbers.get(fact, {})), None)


def _gather(plan: Plan, cluster: str, group_id: str, topic: str, partition: int, *, by_broker: bool) -> _Facts:
    """Two queries; what they collect is a row per member of the group at most."""
    this = (F.col("cluster") == cluster) & (F.col("group_id") == group_id)
    of_topic = this & (F.col("topic") == topic)
    here = of_topic & contains_partition(F.lit(partition), F.col("first"), F.col("step"), F.col("count"))
    fleet, nobody = plan.fleet, F.lit(None).cast("string")
    one, member = F.lit(1), F.col("member_id")
    asked = fleet.subscriptions.where(this).select(*GROUP_KEY, "topic").distinct()
    asked = asked.join(topic_counts(fleet).where(F.col("partitions") > 0), ["cluster", "topic"])
    wanted = [
        _fact("members", fleet.members.where(this), nobody, one),
        _fact("partitions", asked, nobody, F.col("partitions")),
        _fact("assigned to", plan.target.where(here), member, one),
        _fact("withheld from", plan.withheld.where(here), member, one),
    ]
    if by_broker:
        wanted.append(_fact("order_dependent", plan.order_dependent.where(here), member, one))
    claims = _claims(fleet)
    if claims is not None:
        mine = claims.where(this)
        after_topic = string_order("topic") > string_order(F.lit(topic))
        end = F.lit(partition) + F.when(after_topic, 0).otherwise(1)
        upto = F.greatest(F.lit(0), F.least(F.col("count"), F.ceil((end - F.col("first")) / F.col("step"))))
        wanted.append(_fact("owned", mine, member, F.col("count")))
        wanted.append(_fact("rank", mine, member, upto))
        wanted.append(_fact("claimed by", mine.where(here), member, one))
    numbers: dict[str, dict[str | None, int]] = {}
    for row in reduce(DataFrame.unionByName, wanted).collect():  # at most seven rows per member of the one group
        numbers.setdefault(row["fact"], {})[row["member"]] = row["number"]
    moves = plan.moves.where(of_topic & (F.col("partition") == partition)).orderBy("from_member_id")
    rows = moves.collect()  # a row per claimer of the one partition
    return _Facts(rows, numbers, by_broker)


def _claims(fleet: Fleet) -> DataFrame | None:
    """What members own, and what members owned that have left."""
    runs = fleet.runs()
    if runs is None or fleet.departed is None:
        return runs if fleet.departed is None else fleet.departed
    return runs.unionByName(fleet.departed.select(*runs.columns))


def _fact(fact: str, rows: DataFrame, member: Column, number: Column) -> DataFrame:
    numbered = rows.select(member.alias("member"), number.cast("long").alias("number"))
    return numbered.groupBy("member").agg(F.sum("number").alias("number")).withColumn("fact", F.lit(fact))


def _told(facts: _Facts, topic: str, partition: int) -> str:
    order_dependent = _ORDER_DEPENDENT if facts.who("order_dependent") is not None else ""
    if facts.moves:
        return " ".join(_move_told(facts, row) for row in facts.moves) + order_dependent
    owner = facts.who("assigned to")
    if owner is None:
        raise SourceError(f"{topic}-{partition} is neither owned nor assigned in that group")
    return f"stays with {owner}, which owned {facts.of('owned', owner)} (quota {_quota(facts)}).{order_dependent}"


def _move_told(facts: _Facts, move: Row) -> str:
    from_member, receiver = move["from_member_id"], move["to_member_id"]
    told = {
        "from": from_member,
        "to": receiver,
        "topic": move["topic"],
        "claimers": len(facts.numbers.get("claimed by", {})),
        "owned": facts.of("owned", from_member),
        "next_owned": facts.of("owned", receiver),
        "quota": _quota(facts),
        "rank": facts.of("rank", from_member),
    }
    way = (
        f"from {from_member} to {receiver}"
        if from_member and receiver
        else f"to {receiver}"
        if receiver
        else f"from {from_member}"
    )
    waits = from_member is not None and facts.who("withheld from") is not None
    why = _WHY | (_BY_BROKER if facts.by_broker else {})
    late = (_WITHHELD_BY_BROKER if facts.by_broker else _WITHHELD) if waits else ""
    return f"goes {way}, since {why[move['reason']].format_map(told)}.{late.format_map(told)}"


def _quota(facts: _Facts) -> str:
    """How many partitions each member gets, if all of them subscribe to the same topics."""
    least, more = divmod(facts.of("partitions"), facts.of("members"))
    return f"{least} to {least + 1}" if more else f"{least}"
