"""Explains the planned owner of one partition in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import topic_counts
from spark_assign.groups.planning import Plan
from spark_assign.groups.windows import WINDOW_SLICES, rank_subscribers
from spark_assign.spark import subscription_lists
from spark_assign.spark.dataframes import contains_partition
from spark_assign.spark.java_order import string_order
from spark_assign.tables.errors import SourceError, count, in_one_line
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY

_REASONS = {
    "topic-gone": "the topic no longer exists",
    "partition-gone": "the topic now has fewer partitions",
    "new": "no member owned it",
    "member-left": "{from} has left the group",
    "claim-conflict": "{claimers} members claim it, and {from} doesn't keep it",
    "unsubscribed": "{from} no longer subscribes to {topic}",
    "unassigned": "no member gets it",
    "over-quota": "{from} owned {owned}, its quota is {quota}, and this is number {rank} of them by partition "
    "and topic",
    "rack-mismatch": "it has no replica in the rack of {from}",
    "balancing": "{from} owned {owned} and {to} {next_owned}, and the move makes them more even",
    "over-load": "the load of {from} exceeds its bound",
    "makes-room": "a larger partition that fits nowhere else takes its place",
    "rebalanced": "the assignor assigns all partitions again",
}
_UNKNOWN_OWNERS = {"new": "what members own isn't known (owned, owned_slices, owned_lists)"}
_WITHHELD = " It is withheld in this round: {from} revokes it first, and the next round assigns it."

_BROKER_REASONS = {
    "over-quota": "{from} owned {owned} and its quota is {quota}; Java's hash order determines which of them it revokes"
}
_WITHHELD_BY_BROKER = " It is withheld until {from} has revoked it."
_MAX_MOVES = 10
"""Maximum number of members that claim the partition and are explained."""
_ORDER_DEPENDENT = " This depends on an order that the fleet doesn't specify, so Kafka might choose another member."


def explain(plan: Plan, group_id: str, topic: str, partition: int, *, cluster: str | None = None) -> str:
    """Explains why one partition goes to its planned owner.

    Args:
        plan: any plan.
        group_id: ID of the group, or CLUSTER/GROUP_ID.
        topic, partition: the partition.
        cluster: cluster of the group, if several clusters have a group with that ID.

    Returns:
        a sentence or two per member that claims the partition, with the numbers behind the decision: what the owner
        owned, the group's quota, and the partition's rank among the partitions that the owner owned. For range and
        round robin, also the owner's rank, and the numbers of their rule.

    Raises:
        SourceError: the group is not in the plan, is in several clusters, or the partition is unknown.

    Examples:
        >>> print(explain(plan(fleet, "cooperative-sticky"), "payments-eu", "t", 2))
        t-2 of c/payments-eu: moves from payments-eu-0 to payments-eu-1, because payments-eu-0 owned 3, its quota is
        1 to 2, and this is number 3 of them by partition and topic. It is withheld in this round: payments-eu-0
        revokes it first, and the next round assigns it.
    """
    rows = explain_moves(plan, group_id, topic, partition, cluster=cluster)
    name = "{topic}-{partition} of {cluster}/{group_id}".format_map(rows[0])
    return in_one_line(f"{name}: {' '.join(row['explanation'] for row in rows)}")


def explain_moves(
    plan: Plan, group_id: str, topic: str, partition: int, *, cluster: str | None = None
) -> list[dict[str, Any]]:
    """Returns a row for each member that claims the partition: the columns of `moves`, and `explanation`. If there are
    more than ten, the last one says how many are left out.

    If the partition stays, there is one row, with the same member twice and no reason. For the arguments and errors,
    see `explain`.
    """
    found_cluster, found_group, assignor = _find_group(plan, group_id, cluster)
    facts = _gather(plan, found_cluster, found_group, topic, partition, by_broker=assignor in SERVER_ASSIGNORS)
    key = {"cluster": found_cluster, "group_id": found_group, "topic": topic, "partition": partition}
    rows = [{**key, **each} for each in _explanations(facts, topic, partition)]
    owner = rows[-1]["to_member_id"]
    if owner is not None and assignor.partition("@")[0] in WINDOW_SLICES:
        rows[-1]["explanation"] += _rule(plan.fleet, rows[-1], assignor.partition("@")[0], owner)
    if facts.who("order_dependent") is not None:
        rows[-1]["explanation"] += _ORDER_DEPENDENT
    if facts.left_out:
        rows[-1]["explanation"] += f" Left out: {count(facts.left_out, 'other claim')}."
    return rows


def _rule(fleet: FleetTables, row: Mapping[str, Any], assignor: str, owner: str) -> str:
    """Returns the rule of range or round robin with its numbers for one partition, in one query of one row.

    Racks and different subscriptions change what the rule gives; then only that is said.
    """
    is_group = (F.col("cluster") == row["cluster"]) & (F.col("group_id") == row["group_id"])
    topic = F.lit(row["topic"])
    only_topic = F.array_intersect("topics", F.array(topic))
    members = fleet.members.where(is_group).select(*MEMBER_KEY, F.col("group_instance_id").alias("instance"))
    # Only of this topic: members times topics can be too many rows.
    rows, lists = fleet.subscriptions, fleet.subscription_lists
    subscribed = subscription_lists.all_rows(
        None if rows is None else rows.where(is_group & (F.col("topic") == row["topic"])),
        None if lists is None else lists.where(is_group).withColumn("topics", only_topic),
    )
    subscribed = subscribed.join(members, MEMBER_KEY).join(topic_counts(fleet), ["cluster", "topic"])
    earlier = fleet.subscribed_topics.where(is_group & (string_order("topic") < string_order(topic)))
    earlier = earlier.join(topic_counts(fleet), ["cluster", "topic"])
    before = earlier.agg(F.coalesce(F.sum("partitions"), F.lit(0)).alias("row_number"))
    numbered = rank_subscribers(subscribed, GROUP_KEY).crossJoin(before)
    sliced = numbered.select("*", *(value.alias(name) for name, value in WINDOW_SLICES[assignor]().items()))
    has_partition = contains_partition(F.lit(row["partition"]), F.col("first"), F.col("step"), F.col("count"))
    found = sliced.where(has_partition).limit(1).collect()  # the one member to which the rule gives the partition
    if not found or found[0]["member_id"] != owner:
        return f" Racks, or different subscriptions, decide here instead of the rank that {assignor} goes by."
    rank, members_, partitions = (int(found[0][name]) for name in ("rank", "members", "partitions"))
    of_rank = f" By {assignor}, {owner} has rank {rank + 1} of {members_}"
    if assignor == "range":
        quota, extra = divmod(partitions, members_)
        more = f", the first {extra} get one more" if extra > 1 else ", the first one gets one more" if extra else ""
        return f"{of_rank}; {count(partitions, 'partition')}: quota {quota}{more}."
    number = int(found[0]["row_number"]) + row["partition"]
    return f"{of_rank}; this is partition {number} of all topics, from 0, and {number} modulo {members_} is {rank}."


def is_group_named(name: str, cluster: str | None = None) -> Column:
    """Returns the condition that a row is of a group with this ID or, as CLUSTER/GROUP_ID, of this cluster."""
    if cluster is not None:
        return (F.col("group_id") == name) & (F.col("cluster") == cluster)
    return (F.col("group_id") == name) | (F.concat_ws("/", "cluster", "group_id") == name)


def exact_first(rows: Sequence[Any], name: str) -> Sequence[Any]:
    """Returns the rows of the group that has the name as CLUSTER/GROUP_ID, or else all rows."""
    return [row for row in rows if f"{row['cluster']}/{row['group_id']}" == name] or rows


def _find_group(plan: Plan, group_id: str, cluster: str | None) -> tuple[str, str, str]:
    """Returns the group's cluster, ID, and assignor."""
    is_group = is_group_named(group_id, cluster)
    found = plan.groups.where(is_group).orderBy(F.col("group_id") == group_id)  # so that CLUSTER/GROUP_ID is first
    rows = exact_first(found.limit(10).collect(), group_id)  # ten at most: the groups of this name
    matches = sorted((row["cluster"], row["group_id"], row["assignor"]) for row in rows)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join("/".join(match[:2]) for match in matches)
        raise SourceError(in_one_line(f"Several clusters have a group {group_id}. Use one of: {names}."))
    rejected = plan.rejected.where(is_group).limit(1).collect()  # one row
    reason = f": it is rejected, {rejected[0]['code']}: {rejected[0]['detail']}" if rejected else ""
    raise SourceError(in_one_line(f"group {group_id} is not planned{reason}"))


@dataclass(frozen=True)
class _Facts:
    """Facts about one partition of one group.

    Attributes:
        moves: rows of `Plan.moves` for the partition, the first `_MAX_MOVES` by member.
        left_out: number of its other rows.
        numbers: a number by kind of fact and member (None: the group).
        by_broker: whether an assignor of the broker planned the partition.
        owners_known: whether the fleet has what members own.
    """

    moves: list[Row]
    left_out: int
    numbers: dict[str, dict[str | None, int]]
    by_broker: bool
    owners_known: bool

    def of(self, fact: str, member: str | None = None) -> int:
        return self.numbers.get(fact, {}).get(member, 0)

    def who(self, fact: str) -> str | None:
        return next(iter(self.numbers.get(fact, {})), None)


def _gather(plan: Plan, cluster: str, group_id: str, topic: str, partition: int, *, by_broker: bool) -> _Facts:
    """Runs two queries, each with at most one row per explained member and kind of fact."""
    is_group = (F.col("cluster") == cluster) & (F.col("group_id") == group_id)
    is_topic = is_group & (F.col("topic") == topic)
    has_partition = is_topic & contains_partition(F.lit(partition), F.col("first"), F.col("step"), F.col("count"))
    fleet, no_member = plan.fleet, F.lit(None).cast("string")
    one, member = F.lit(1), F.col("member_id")
    topics = fleet.subscribed_topics.where(is_group)
    topics = topics.join(topic_counts(fleet).where(F.col("partitions") > 0), ["cluster", "topic"])
    queries = [
        _fact("members", fleet.members.where(is_group), no_member, one),
        _fact("partitions", topics, no_member, F.col("partitions")),
        _fact("assigned to", plan.target.where(has_partition), member, one),
        _fact("withheld from", plan.withheld.where(has_partition), member, one),
    ]
    if by_broker:
        queries.append(_fact("order_dependent", plan.order_dependent.where(has_partition), member, one))
    moves = plan.moves.where(is_topic & (F.col("partition") == partition)).orderBy("from_member_id")
    rows = moves.limit(_MAX_MOVES).collect()
    claims = _claims(fleet)
    if claims is not None:
        owned = claims.where(is_group)
        claimers = owned.where(has_partition).select("member_id").distinct()
        queries.append(_fact("claimed by", claimers, no_member, one))
        if names := {row[name] for row in rows for name in ("from_member_id", "to_member_id")} - {None}:
            owned = owned.where(member.isin(*names))
        else:  # the partition stays with the only member that claims it
            owned = owned.join(claimers, "member_id", "left_semi")
        after_topic = string_order("topic") > string_order(F.lit(topic))
        end = F.lit(partition).cast("long") + F.when(after_topic, 0).otherwise(1)
        rank = F.greatest(F.lit(0), F.least(F.col("count"), F.ceil((end - F.col("first")) / F.col("step"))))
        queries.append(_fact("owned", owned, member, F.col("count")))
        queries.append(_fact("rank", owned, member, rank))
    numbers: dict[str, dict[str | None, int]] = {}
    for row in reduce(DataFrame.unionByName, queries).collect():  # at most five rows per member
        numbers.setdefault(row["fact"], {})[row["member"]] = row["number"]
    left_out = moves.count() - len(rows) if len(rows) == _MAX_MOVES else 0
    return _Facts(rows, left_out, numbers, by_broker, claims is not None)


def _claims(fleet: FleetTables) -> DataFrame | None:
    """Returns the slices that live members own and departed members owned."""
    owned = fleet.ownership_slices()
    if owned is None or fleet.departed is None:
        return owned if fleet.departed is None else fleet.departed
    return owned.unionByName(fleet.departed.select(*owned.columns))


def _fact(fact: str, rows: DataFrame, member: Column, number: Column) -> DataFrame:
    numbered = rows.select(member.alias("member"), number.cast("long").alias("number"))
    return numbered.groupBy("member").agg(F.sum("number").alias("number")).withColumn("fact", F.lit(fact))


def _explanations(facts: _Facts, topic: str, partition: int) -> list[dict[str, Any]]:
    names = ("from_member_id", "to_member_id", "reason")
    if facts.moves:
        return [
            {name: move[name] for name in names} | {"explanation": _format_move(facts, move)} for move in facts.moves
        ]
    owner = facts.who("assigned to")
    if owner is None:
        raise SourceError(
            f"{in_one_line(topic)}-{partition} is neither owned nor assigned in that group. Use a partition of a topic "
            "that the group subscribes to, as TOPIC-PARTITION."
        )
    text = f"stays with {owner}, which owned {facts.of('owned', owner)} (quota {_quota(facts)})."
    return [dict(zip(names, (owner, owner, None), strict=True)) | {"explanation": text}]


def _format_move(facts: _Facts, move: Row) -> str:
    """Returns the sentence about a move: its direction, and its reason with the numbers behind it."""
    from_member, to_member = move["from_member_id"], move["to_member_id"]
    values = {
        "from": from_member,
        "to": to_member,
        "topic": move["topic"],
        "claimers": facts.of("claimed by"),
        "owned": facts.of("owned", from_member),
        "next_owned": facts.of("owned", to_member),
        "quota": _quota(facts),
        "rank": facts.of("rank", from_member),
    }
    direction = " ".join(f"{name} {member}" for name, member in (("from", from_member), ("to", to_member)) if member)
    is_withheld = from_member is not None and facts.who("withheld from") is not None
    reasons = _REASONS | (_BROKER_REASONS if facts.by_broker else {})
    reasons |= {} if facts.owners_known else _UNKNOWN_OWNERS
    withheld_text = (_WITHHELD_BY_BROKER if facts.by_broker else _WITHHELD) if is_withheld else ""
    return f"moves {direction}, because {reasons[move['reason']].format_map(values)}.{withheld_text.format_map(values)}"


def _quota(facts: _Facts) -> str:
    """Returns the number of partitions per member if all members subscribe to the same topics."""
    minimum, remainder = divmod(facts.of("partitions"), facts.of("members"))
    return f"{minimum} to {minimum + 1}" if remainder else f"{minimum}"
