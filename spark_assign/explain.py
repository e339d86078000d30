"""The story of one partition, in a sentence or two."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.errors import SourceError
from spark_assign.java_order import string_order
from spark_assign.plan import Plan
from spark_assign.runs import expand, holds

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
    "rebalanced": "{assignor} deals all partitions afresh",
}
_WITHHELD = " It is withheld in this round: {from} gives it up first, and the next round assigns it."


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
    """
    clusters = _clusters(plan, group_id, cluster)
    this = (F.col("cluster") == clusters) & (F.col("group_id") == group_id)
    story = _Story(plan, this, topic, partition)
    return f"{topic}-{partition} of {clusters}/{group_id}: {story.told()}"


def _clusters(plan: Plan, group_id: str, cluster: str | None) -> str:
    """The cluster of the group."""
    asked = F.col("group_id") == group_id
    asked = asked if cluster is None else asked & (F.col("cluster") == cluster)
    found = sorted(row["cluster"] for row in plan.groups.where(asked).select("cluster").limit(10).collect())
    if len(found) == 1:
        return str(found[0])
    if found:
        raise SourceError(f"group {group_id} is in several clusters: {', '.join(found)}. Say which")
    rejected = plan.rejected.where(asked).limit(1).collect()
    why = f": it is rejected, {rejected[0]['code']}: {rejected[0]['detail']}" if rejected else ""
    raise SourceError(f"group {group_id} is not planned{why}")


class _Story:
    """What is known of one partition of one group. Everything collected here is a row per member at most."""

    def __init__(self, plan: Plan, this: Column, topic: str, partition: int) -> None:
        self.plan = plan
        self.this = this
        self.topic = topic
        self.partition = partition

    def told(self) -> str:
        moves = self.plan.moves.where(self.this & (F.col("topic") == self.topic))
        rows = moves.where(F.col("partition") == self.partition).orderBy("from_member_id").collect()
        owner = self._holder(self.plan.target)
        if not rows and owner is None:
            raise SourceError(f"{self.topic}-{self.partition} is neither owned nor assigned in that group")
        if not rows:
            assert owner is not None
            return f"stays with {owner}, which owned {self._owned(owner)} (quota {self._quota()})."
        waits = self.plan.withheld is not None and self._holder(self.plan.withheld) is not None
        return " ".join(self._told(row, len(rows), waits) for row in rows)

    def _told(self, row: Any, claimers: int, waits: bool) -> str:
        giver, receiver, reason = row["from_member_id"], row["to_member_id"], row["reason"]
        facts: dict[str, Any] = {"from": giver, "to": receiver, "topic": self.topic, "claimers": claimers}
        if reason in ("over-quota", "balancing"):
            facts |= {"owned": self._owned(giver), "next_owned": self._owned(receiver)}
        if reason == "over-quota":
            facts |= {"quota": self._quota(), "rank": self._rank(giver)}
        if reason == "rebalanced":
            facts["assignor"] = self.plan.groups.where(self.this).select("assignor").collect()[0]["assignor"]
        way = f"from {giver} to {receiver}" if giver and receiver else f"to {receiver}" if receiver else f"from {giver}"
        told = f"goes {way}, since {_WHY[reason].format_map(facts)}."
        return told + (_WITHHELD.format_map(facts) if waits and giver else "")

    def _holder(self, runs: DataFrame) -> str | None:
        here = holds(F.lit(self.partition), F.col("first"), F.col("step"), F.col("count"))
        row = runs.where(self.this & (F.col("topic") == self.topic) & here).select("member_id").first()
        return None if row is None else str(row["member_id"])

    def _claims(self, member: str | None) -> DataFrame | None:
        claims = self.plan.fleet.claims()
        return None if claims is None else claims.where(self.this & F.col("member_id").eqNullSafe(F.lit(member)))

    def _owned(self, member: str | None) -> int:
        claims = self._claims(member)
        row = None if claims is None else claims.agg(F.sum("count").alias("owned")).first()
        return 0 if row is None else row["owned"] or 0

    def _rank(self, member: str) -> int:
        """The partition's number among the member's, by (partition, topic)."""
        claims = self._claims(member)
        assert claims is not None
        partition, topic = F.col("partition"), string_order("topic")
        before = (partition < self.partition) | (
            (partition == self.partition) & (topic <= string_order(F.lit(self.topic)))
        )
        return expand(claims).where(before).count()

    def _quota(self) -> str:
        row = self.plan.metrics.where(self.this).select("members", "partitions", "unassigned").first()
        assert row is not None
        total = row["partitions"] + row["unassigned"]
        least, more = divmod(total, row["members"])
        return f"{least} to {least + 1}" if more else f"{least}"
