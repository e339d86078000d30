"""Assignors of a user's own, asked group by group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.partition_slices import PartitionSlices, compress_sorted

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class Member:
    """One member as the group's leader sees it (Kafka's `ConsumerPartitionAssignor.Subscription`).

    Examples:
        >>> Member("m1", None, "rack-a", None, None, topics=["t"], owned=[("t", 0)]).topics
        ['t']
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    generation_id: int | None
    user_data: bytes | str | None
    topics: list[str] = field(default_factory=list)
    owned: list[TopicPartition] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """One group: its members as the coordinator lists them, and the partition counts of their topics with metadata.

    Examples:
        >>> Group("shop-prod", "payments-eu", [Member("m1", None, None, None, None, ["t"])], {"t": 3}).partitions
        {'t': 3}
    """

    cluster: str
    group_id: str
    members: list[Member]
    partitions: dict[str, int]


class GroupAssignor(ABC):
    """Base of assignors that plan group by group, as Kafka's `ConsumerPartitionAssignor` does.

    Each group is one unit of work on one executor; groups run in parallel. `user_data` is what the fleet's `members`
    table has in an extra column of that name (binary or string), else null.

    Examples:
        >>> class FirstMemberOnly(GroupAssignor):
        ...     def assign_group(self, group):
        ...         every = [(topic, n) for topic, count in group.partitions.items() for n in range(count)]
        ...         return {group.members[0].member_id: every}
        >>> FirstMemberOnly().assign_group(Group("c", "g", [Member("m1", None, None, None, None, ["t"])], {"t": 2}))
        {'m1': [('t', 0), ('t', 1)]}
    """

    @abstractmethod
    def assign_group(self, group: Group) -> Mapping[str, Iterable[TopicPartition]]:
        """Decide who gets what: the topic partitions of each member, by member id.

        Members left out get nothing. What Kafka's consumer would choke on (an unknown member, a partition that does
        not exist or goes to two members) puts the group into `rejected`, as does an exception.
        """


@dataclass(frozen=True)
class CustomAssignment:
    """What an assignor made of one group: runs, or why there are none."""

    group: int
    slices: PartitionSlices
    error: str | None = None


def run_custom_assignor(specs: GroupSpecs, group: int, assignor: GroupAssignor) -> CustomAssignment:
    """Ask an assignor for one group; whatever it does must not sink the others."""
    nothing = PartitionSlices(*(np.empty(0, np.int64) for _ in range(5)))
    asked = read_group(specs, group)
    try:
        assignment = {member: list(given) for member, given in assignor.assign_group(asked).items()}
        _check(asked, assignment)
    except Exception as error:
        return CustomAssignment(group, nothing, f"{type(assignor).__name__}: {type(error).__name__}: {error}")
    return CustomAssignment(group, _to_slices(specs, group, assignment))


def read_group(specs: GroupSpecs, group: int) -> Group:
    """One group as an assignor is shown it."""
    begin, end = np.searchsorted(specs.members.group, [group, group + 1]).tolist()
    rows = specs.members.row[begin:end]
    facts, topics = specs.facts.table, max(len(specs.topics), 1)
    listed: list[tuple[bool, int, str, int]] = []
    members = {}
    for number, row in zip(range(begin, end), rows.tolist(), strict=True):
        told = {
            name: column(facts, name)[row].as_py()
            for name in ("member_id", "group_instance_id", "rack_id", "generation_id", "user_data", "position")
        }
        position = told.pop("position")
        mine = slice(*np.searchsorted(specs.subscriptions, [number * topics, (number + 1) * topics]))
        asked = sorted(specs.topic.take(specs.subscriptions[mine] % topics).to_pylist())
        members[number] = Member(**told, topics=asked)
        listed.append((position is None, position or 0, told["member_id"], number))
    claims = specs.owned.take((specs.owned.member >= begin) & (specs.owned.member < end)).expand()
    topic_of = specs.topic.take(claims.topic).to_pylist()
    for topic, partition, member in sorted(zip(topic_of, claims.first.tolist(), claims.member.tolist(), strict=True)):
        members[member].owned.append((topic, partition))
    known = specs.topics.with_metadata
    mine = known[specs.topics.group[known] == group]
    counts = zip(specs.topic.take(mine).to_pylist(), specs.topics.partitions[mine].tolist(), strict=True)
    return Group(
        cluster=specs.cluster[group].as_py(),
        group_id=specs.group_id[group].as_py(),
        members=[members[number] for *_, number in sorted(listed)],
        partitions=dict(sorted(counts)),
    )


def _check(group: Group, assignment: Mapping[str, list[TopicPartition]]) -> None:
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


def _to_slices(specs: GroupSpecs, group: int, assignment: Mapping[str, Iterable[TopicPartition]]) -> PartitionSlices:
    begin, end = np.searchsorted(specs.members.group, [group, group + 1]).tolist()
    member_of = {name: begin + at for at, name in enumerate(specs.member_id[begin:end].to_pylist())}
    mine = np.flatnonzero(specs.topics.group == group)
    topic_of = dict(zip(specs.topic.take(mine).to_pylist(), mine.tolist(), strict=True))
    rows = sorted((member_of[m], topic_of[t], p) for m, partitions in assignment.items() for t, p in partitions)
    member, topic, partition = np.array(rows, np.int64).reshape(-1, 3).T
    size = max(len(specs.topics), 1)
    key, first, step, count = compress_sorted(member * size + topic, partition)
    return PartitionSlices(key // size, key % size, first, step, count)
