"""Assignors that look at one group at a time, in plain Python: the way in for an assignor of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.kernels.runs import compress_sorted
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY, OWNED_RUNS

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class Member:
    """One member as the group's leader sees it (Kafka's `ConsumerPartitionAssignor.Subscription`)."""

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    generation_id: int | None
    user_data: bytes | str | None
    topics: list[str] = field(default_factory=list)
    owned: list[TopicPartition] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """One group: its members as the coordinator lists them, and the partition counts of their topics with metadata."""

    cluster: str
    group_id: str
    members: list[Member]
    partitions: dict[str, int]


class GroupAssignor(ABC):
    """Base of assignors that plan group by group, as Kafka's `ConsumerPartitionAssignor` does.

    Each group is one unit of work on one executor; groups run in parallel. `user_data` is what the fleet's `members`
    table has in an extra column of that name (binary or string), else null.
    """

    @abstractmethod
    def assign_group(self, group: Group) -> Mapping[str, Iterable[TopicPartition]]:
        """Decide who gets what: the topic partitions of each member, by member id.

        Members left out get nothing. What Kafka's consumer would choke on (an unknown member, a partition that does
        not exist or goes to two members) puts the group into `rejected`, as does an exception.
        """

    def assign(self, groups: Groups) -> Outcome:
        """Run `assign_group` over all groups."""

        def decide(facts: pa.Table) -> pa.Table:  # Spark counts a bound method's self as an argument
            return self._plan_group(facts)

        decided = _facts(groups).groupBy(*GROUP_KEY).applyInArrow(decide, _DECIDED)
        runs = decided.where(F.col("code").isNull()).select(*MEMBER_KEY, "topic", "first", "step", "count")
        rejected = decided.where(F.col("code").isNotNull()).select(*GROUP_KEY, "code", "detail")
        return Outcome(runs, rejected)

    def _plan_group(self, facts: pa.Table) -> pa.Table:
        group = _read_group(facts)
        try:
            assignment = {member: list(given) for member, given in self.assign_group(group).items()}
            _check_assignment(group, assignment)
        except Exception as error:  # whatever a user's assignor does must not sink the other groups
            return _rejection(group, f"{type(self).__name__}: {type(error).__name__}: {error}")
        return _as_runs(group, assignment)


_RUN_FIELDS = [StructField(each.name, each.dataType) for each in OWNED_RUNS.fields]
_DECIDED = StructType([*_RUN_FIELDS, StructField("code", StringType()), StructField("detail", StringType())])


def _facts(groups: Groups) -> DataFrame:
    """All that is known of each group in one table, a `kind` of row for each kind of fact."""
    fleet = groups.fleet
    user_data = F.col("user_data") if "user_data" in fleet.members.columns else F.lit(None)
    members = groups.only(fleet.members).select(
        *GROUP_KEY,
        F.lit("member").alias("kind"),
        "member_id",
        "group_instance_id",
        F.when(F.col("rack_id") != "", F.col("rack_id")).alias("rack_id"),
        "generation_id",
        user_data.alias("user_data"),
        "position",
    )
    subscribed = groups.only(fleet.subscriptions).select(
        *GROUP_KEY, F.lit("subscription").alias("kind"), "member_id", "topic"
    )
    topics = groups.topics.select(*GROUP_KEY, F.lit("topic").alias("kind"), "topic", F.col("partitions").alias("count"))
    facts = members.unionByName(subscribed, allowMissingColumns=True).unionByName(topics, allowMissingColumns=True)
    claims = fleet.claims()
    if claims is None:
        none = F.lit(None).cast(IntegerType())
        return facts.withColumn("first", none).withColumn("step", none)
    living = groups.only(claims.where(~F.col("departed")))
    owned = living.select(*MEMBER_KEY, F.lit("owned").alias("kind"), "topic", "first", "step", "count")
    return facts.unionByName(owned, allowMissingColumns=True)


def _read_group(facts: pa.Table) -> Group:
    kinds = {
        kind: facts.filter(pc.equal(facts["kind"], kind)).to_pylist()
        for kind in ("member", "subscription", "topic", "owned")
    }
    listed = sorted(kinds["member"], key=lambda row: (row["position"] is None, row["position"] or 0, row["member_id"]))
    members = {
        row["member_id"]: Member(
            row["member_id"], row["group_instance_id"], row["rack_id"], row["generation_id"], row["user_data"]
        )
        for row in listed
    }
    for row in sorted(kinds["subscription"], key=lambda row: (row["member_id"], row["topic"])):
        topics = members[row["member_id"]].topics
        if row["topic"] not in topics[-1:]:
            topics.append(row["topic"])
    for row in sorted(kinds["owned"], key=lambda row: (row["member_id"], row["topic"], row["first"])):
        last = row["first"] + row["step"] * row["count"]
        members[row["member_id"]].owned.extend((row["topic"], p) for p in range(row["first"], last, row["step"]))
    return Group(
        cluster=facts["cluster"][0].as_py(),
        group_id=facts["group_id"][0].as_py(),
        members=list(members.values()),
        partitions={row["topic"]: row["count"] for row in sorted(kinds["topic"], key=lambda row: str(row["topic"]))},
    )


def _check_assignment(group: Group, assignment: Mapping[str, list[TopicPartition]]) -> None:
    known = {member.member_id for member in group.members}
    owners: dict[TopicPartition, str] = {}
    for member, given in assignment.items():
        if member not in known:
            raise ValueError(f"it assigns to {member!r}, which is no member of the group")
        for topic, partition in given:
            if not 0 <= partition < group.partitions.get(topic, 0):
                raise ValueError(f"it assigns {topic}-{partition}, which does not exist or nobody subscribes to")
            if (topic, partition) in owners:
                raise ValueError(f"it assigns {topic}-{partition} to {owners[topic, partition]!r} and to {member!r}")
            owners[topic, partition] = member


def _rejection(group: Group, detail: str) -> pa.Table:
    row = {"cluster": group.cluster, "group_id": group.group_id, "code": "assignor-failed", "detail": detail}
    return pa.Table.from_pylist([row], schema=_arrow_schema())


def _as_runs(group: Group, assignment: Mapping[str, list[TopicPartition]]) -> pa.Table:
    given = sorted((m, t, p) for m, partitions in assignment.items() for t, p in partitions)
    keys = sorted({(m, t) for m, t, _ in given})
    number = {key: n for n, key in enumerate(keys)}
    key, first, step, count = compress_sorted(
        pa.array([number[m, t] for m, t, _ in given], pa.int64()).to_numpy(),
        pa.array([p for _, _, p in given], pa.int64()).to_numpy(),
    )
    rows = [
        {
            "cluster": group.cluster,
            "group_id": group.group_id,
            "member_id": keys[k][0],
            "topic": keys[k][1],
            "first": int(f),
            "step": int(s),
            "count": int(c),
        }
        for k, f, s, c in zip(key, first, step, count, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=_arrow_schema())


def _arrow_schema() -> pa.Schema:
    text, number = pa.string(), pa.int32()
    kinds = {"first": number, "step": number, "count": number}
    return pa.schema([(field.name, kinds.get(field.name, text)) for field in _DECIDED.fields])
