"""User-defined assignors, which plan group by group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.numeric.arrays import EMPTY_SLICES, BoolArray, PartitionSlices, compress
from spark_assign.tables.errors import CODE_FAILURES, failure_of_code

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class MemberSubscription:
    """One member as the group's leader sees it (Kafka's `ConsumerPartitionAssignor.Subscription`).

    Members that subscribe to the same topics share the list `topics`. Copy it before you change it.

    Examples:
        >>> MemberSubscription("m1", rack_id="rack-a", topics=["t"], owned=[("t", 0)]).topics
        ['t']
    """

    member_id: str
    group_instance_id: str | None = None
    rack_id: str | None = None
    generation_id: int | None = None
    user_data: bytes | str | None = None
    topics: list[str] = field(default_factory=list)
    owned: list[TopicPartition] = field(default_factory=list)


@dataclass(frozen=True)
class GroupSpec:
    """One group: its members in the order of the coordinator's member list, and the partition counts of topics with
    metadata.

    Examples:
        >>> GroupSpec("shop-prod", "payments-eu", [MemberSubscription("m1", topics=["t"])], {"t": 3}).partitions
        {'t': 3}
    """

    cluster: str
    group_id: str
    members: list[MemberSubscription]
    partitions: dict[str, int]


class GroupAssignor(ABC):
    """Base class of assignors that plan group by group, as Kafka's `ConsumerPartitionAssignor` does.

    Each group is one unit of work on one executor; groups run in parallel. `user_data` is an extra column of the
    fleet's `members` table (binary or string), or None.

    Examples:
        >>> class FirstMemberOnly(GroupAssignor):
        ...     def assign_group(self, group):
        ...         every = [(topic, n) for topic, count in group.partitions.items() for n in range(count)]
        ...         return {group.members[0].member_id: every}
        >>> group = GroupSpec("c", "g", [MemberSubscription("m1", topics=["t"])], {"t": 2})
        >>> FirstMemberOnly().assign_group(group)
        {'m1': [('t', 0), ('t', 1)]}
    """

    @abstractmethod
    def assign_group(self, group: GroupSpec) -> Mapping[str, Iterable[TopicPartition]]:
        """Returns the partitions of each member, by member id.

        Members left out get nothing. The group is rejected if the result is invalid in Kafka (an unknown member, or a
        partition that isn't a whole number, doesn't exist, or has two owners), or if the method raises an exception.
        """


def assign_custom(specs: GroupSpecs, selected: BoolArray, assignor: GroupAssignor) -> GroupAssignments:
    """Assigns the selected groups, one by one. An exception rejects only the group."""
    slices: list[PartitionSlices] = []
    rejected: dict[int, tuple[str, str]] = {}
    for group in np.flatnonzero(selected).tolist():
        group_spec = read_group(specs, group)
        # Copies, because an assignor can change what it gets.
        known = {member.member_id for member in group_spec.members}, dict(group_spec.partitions)
        try:
            assignment = {member: list(partitions) for member, partitions in assignor.assign_group(group_spec).items()}
            _check(*known, assignment)
            slices.append(_to_slices(specs, group, assignment))
        except CODE_FAILURES as error:
            rejected[group] = "assignor-failed", f"{type(assignor).__name__}: {failure_of_code(error)}"
    return GroupAssignments.of(EMPTY_SLICES.concat(*slices), rejected)


def read_group(specs: GroupSpecs, group: int) -> GroupSpec:
    """Returns one group as an assignor sees it."""
    start, end = np.searchsorted(specs.members.group, [group, group + 1]).tolist()
    kind, topics_of_kind = specs.subscription_kinds(group)
    topics = [sorted(specs.topic.take(pa.array(each)).to_pylist()) for each in topics_of_kind]
    names = ("member_id", "group_instance_id", "rack_id", "generation_id", "user_data")
    columns = (specs.facts.column(name, specs.members.row[start:end]).to_pylist() for name in names)
    members = {
        index: MemberSubscription(**dict(zip(names, values, strict=True)), topics=topics[kind[index - start]])
        for index, values in enumerate(zip(*columns, strict=True), start)
    }
    owned = specs.owned.take((specs.owned.member >= start) & (specs.owned.member < end)).expand()
    owned_topics = specs.topic.take(owned.topic).to_pylist()
    for topic, partition, member in sorted(zip(owned_topics, owned.first.tolist(), owned.member.tolist(), strict=True)):
        members[member].owned.append((topic, partition))
    known = specs.topics.with_metadata
    known = known[specs.topics.group[known] == group]
    counts = zip(specs.topic.take(known).to_pylist(), specs.topics.partitions[known].tolist(), strict=True)
    listed = sorted(members, key=lambda index: (specs.list_position[index], members[index].member_id))
    return GroupSpec(
        cluster=specs.cluster[group].as_py(),
        group_id=specs.group_id[group].as_py(),
        members=[members[index] for index in listed],
        partitions=dict(sorted(counts)),
    )


def _check(members: set[str], counts: Mapping[str, int], assignment: Mapping[str, list[TopicPartition]]) -> None:
    """Raises an exception if an assignment is invalid for these members and partition counts."""
    owners: dict[TopicPartition, str] = {}
    for member, partitions in assignment.items():
        if member not in members:
            raise ValueError(f"it assigns to {member!r}, which isn't a member of the group")
        for topic, partition in partitions:
            if partition != int(partition):
                raise ValueError(f"it assigns {topic}-{partition}, which isn't a whole number")
            if not 0 <= partition < counts.get(topic, 0):
                raise ValueError(f"it assigns {topic}-{partition}, which does not exist or nobody subscribes to")
            if (topic, partition) in owners:
                raise ValueError(f"it assigns {topic}-{partition} to {owners[topic, partition]!r} and to {member!r}")
            owners[topic, partition] = member


def _to_slices(specs: GroupSpecs, group: int, assignment: Mapping[str, Iterable[TopicPartition]]) -> PartitionSlices:
    """Compresses an assignment to slices."""
    start, end = np.searchsorted(specs.members.group, [group, group + 1]).tolist()
    member_of = {name: start + index for index, name in enumerate(specs.member_id[start:end].to_pylist())}
    group_topics = np.flatnonzero(specs.topics.group == group)
    topic_of = dict(zip(specs.topic.take(group_topics).to_pylist(), group_topics.tolist(), strict=True))
    rows = [
        (member_of[member_id], topic_of[topic_name], partition)
        for member_id, partitions in assignment.items()
        for topic_name, partition in partitions
    ]
    return compress(*np.array(rows, np.int64).reshape(-1, 3).T)
