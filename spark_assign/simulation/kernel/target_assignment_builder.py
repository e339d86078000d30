"""Builds the target requests of KIP-848 groups, with members in the coordinator's order, and computes the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np

from spark_assign.assignors.range import range_slices
from spark_assign.assignors.server import SERVER_RANGE
from spark_assign.assignors.server.coordinator_order import iteration_order, map_capacity
from spark_assign.assignors.server.uniform import NO_MEMBER, compute_quotas, rebalance
from spark_assign.java.hash_map import java_key
from spark_assign.numeric.arrays import PartitionSlices, invert, row_numbers
from spark_assign.simulation.kernel.assignment_request import CODE_BITS, PARTITION_MASK, CodeLists, codes_by_member
from spark_assign.simulation.kernel.consumer_group_members import ConsumerGroupMembers
from spark_assign.simulation.kernel.consumer_group_regexes import Regexes
from spark_assign.simulation.kernel.settings import GroupConfig
from spark_assign.simulation.kernel.target_assignment import (
    NOTHING,
    MemberSubscriptionAndAssignment,
    TargetRequest,
    TargetResponse,
    Topic,
    TopicsImage,
    follow,
    fresh,
)

_KERNELS = {"range": SERVER_RANGE}
"""The kernels of the broker's assignors that have another name in this package."""


@dataclass(frozen=True, slots=True)
class TargetAssignmentBuilder:
    """The state of a group from which target requests are built (`TargetAssignmentBuilder`)."""

    members: ConsumerGroupMembers
    metadata: TopicsImage
    regexes: Regexes
    config: GroupConfig

    def build_request(
        self,
        assignor: str,
        listed: Sequence[str],
        sender_id: str,
        replaced: str | None,
        sent: Sequence[str] | None,
        homogeneous: bool,
    ) -> TargetRequest:
        """Returns the request for a target.

        Args:
            assignor: the assignor that most members prefer.
            listed: the member IDs in the coordinator's table before this heartbeat.
            sender_id: the member that sent the heartbeat. It comes last if it is new.
            replaced: the member that it replaces, or None.
            sent: the topic names in the heartbeat, or None if it has none.
            homogeneous: whether all members subscribe to the same topics.
        """
        before = len(listed) + (sender_id not in listed)
        seen = [each for each in listed if each != replaced or each == sender_id]
        if sender_id not in seen:
            seen.append(sender_id)
        # Before 4.4, the replaced member is added and then removed.
        capacity = map_capacity(before if self.config.before_4_4 else len(seen))
        by_id = self.members.by_id
        members: list[MemberSubscriptionAndAssignment] = []
        hashes = [by_id[each].hash_code for each in seen]
        targets = self.members.targets
        topic_walk, subscription = cache(self._topic_walk), cache(self.regexes.subscription)
        for each in iteration_order(seen, hashes, capacity, java_key, map_capacity(0)):
            member = by_id[each]
            topics = topic_walk(member.names, member.regex)
            names = len(subscription(member.names, member.regex))
            if each == sender_id and sent is not None:
                topics = self._topic_walk(member.names, member.regex, sent)
            target = targets.get(each, NOTHING)
            members.append(MemberSubscriptionAndAssignment(each, member.instance_id, topics, names, target))
        return TargetRequest(_KERNELS.get(assignor, assignor), members, homogeneous, self.members.taken)

    def _topic_walk(self, names: frozenset[str], regex: str | None, sent: Sequence[str] | None = None) -> list[Topic]:
        """Returns the topics of a subscription, in the iteration order of its set of names.

        Args:
            names, regex: the subscription.
            sent: the names in the order of the heartbeat. None: in the order of the record.
        """
        metadata = self.metadata
        walked = metadata.written_walk(names) if sent is None else metadata.name_walk(list(dict.fromkeys(sent)))
        if not regex:
            return walked
        matched = self.regexes.topics_of(regex)
        more = metadata.written_walk(matched)
        # `UnionSet` iterates over the larger set first, and over the second one if both have the same size.
        large, small = (walked, more) if len(names) > len(matched) else (more, walked)
        return [*large, *(each for each in small if each not in large)]


def assign_targets(requests: Sequence[TargetRequest]) -> list[TargetResponse]:
    """Returns the responses to all requests, in order. Each depends only on its own request."""
    responses: list[TargetResponse] = [{} for _ in requests]
    range_indexes, homogeneous_indexes = [], []
    for at, request in enumerate(requests):
        if not request.topics:
            responses[at] = _nothing(request)
        elif request.assignor == SERVER_RANGE:
            range_indexes.append(at)
        elif request.homogeneous:
            homogeneous_indexes.append(at)
        else:
            responses[at] = _heterogeneous(request)
    for indexes, assign in ((range_indexes, _ranges), (homogeneous_indexes, _homogeneous)):
        if indexes:
            for at, response in zip(indexes, assign([requests[at] for at in indexes]), strict=True):
                responses[at] = response
    return responses


def _nothing(request: TargetRequest) -> TargetResponse:
    """Returns the response if no member subscribes to an existing topic."""
    return {member.member_id: NOTHING for member in request.members if member.target.codes}


# --- uniform, homogeneous -----------------------------------------------------------------------------------------


def _homogeneous(requests: Sequence[TargetRequest]) -> list[TargetResponse]:
    """Assigns homogeneous groups: step 1 for all groups at once, the others per group, because few members change."""
    sizes = np.array([len(request.members) for request in requests])
    topics = np.array([len(request.topics) for request in requests])
    walks = []
    for request in requests:
        numbers = frozenset(topic.number for topic in request.topics)
        walks.append([member.target.within(numbers) for member in request.members])
    number = np.arange(len(requests))
    partitions = np.array([topic.partitions for request in requests for topic in request.topics])
    had = np.array([len(each) for walk in walks for each in walk])
    quota = compute_quotas(np.repeat(number, sizes), np.repeat(number, topics), partitions, had).tolist()
    ends = np.cumsum(sizes).tolist()
    starts = [0, *ends]
    return [
        _fill_quotas(request, walk, quota[begin:end])
        for request, walk, begin, end in zip(requests, walks, starts, ends, strict=False)
    ]


def _fill_quotas(request: TargetRequest, walks: Sequence[Sequence[int]], quota: Sequence[int]) -> TargetResponse:
    """Steps 2 to 4: members above their quota release the end of their walk; members below it get the first free
    partitions.
    """
    surplus = [each for owned, limit in zip(walks, quota, strict=True) for each in owned[limit:]]
    missing = sum(quota) > sum(map(len, walks))
    free = (_unassigned(request) if missing else []) + surplus
    by_number = {topic.number: topic for topic in request.topics}
    changed, begin = {}, 0
    for member, owned, limit in zip(request.members, walks, quota, strict=True):
        num_missing = max(limit - len(owned), 0)
        added, begin = free[begin : begin + num_missing], begin + num_missing
        if added or len(owned) > limit or len(owned) < len(member.target.walk):
            kept = set(owned[:limit])
            changes = [(each, False) for each in member.target.walk if each not in kept]
            changes += [(each, True) for each in added]
            changed[member.member_id] = follow(member.target, changes, by_number)
    return changed


def _unassigned(request: TargetRequest) -> list[int]:
    """Step 3: returns the partitions without a target; topics in iteration order, partitions ascending."""
    free: list[int] = []
    for topic in request.topics:
        first = topic.number << CODE_BITS
        free += [code for code in range(first, first + topic.partitions) if code not in request.taken]
    return free


# --- uniform, heterogeneous ---------------------------------------------------------------------------------------


def _heterogeneous(request: TargetRequest) -> TargetResponse:
    """Assigns a heterogeneous group."""
    number = {topic.number: at for at, topic in enumerate(request.topics)}
    subscribers: list[list[int]] = [[] for _ in request.topics]
    owners = [[NO_MEMBER] * topic.partitions for topic in request.topics]
    changes: list[list[tuple[int, bool]]] = []
    loads = []
    for at, member in enumerate(request.members):
        for topic in member.subscribed:
            subscribers[number[topic.number]].append(at)
        kept = member.target.within(frozenset(topic.number for topic in member.subscribed))
        for each in kept:
            owners[number[each >> CODE_BITS]][each & PARTITION_MASK] = at
        loads.append(len(kept))
        left = member.target.codes.difference(kept) if len(kept) < len(member.target.walk) else ()
        changes.append([(each, False) for each in left])
    for place, partition, from_member, to_member in rebalance(
        owners, loads, subscribers, [topic.id_rank for topic in request.topics]
    ):
        each = request.topics[place].number << CODE_BITS | partition
        if from_member != NO_MEMBER:
            changes[from_member].append((each, False))
        changes[to_member].append((each, True))
    by_number = {topic.number: topic for topic in request.topics}
    sizes = {topic.number: -(-topic.partitions // len(subscribers[number[topic.number]])) for topic in request.topics}
    changed = {}
    for member, member_changes in zip(request.members, changes, strict=True):
        if member_changes:
            target = follow(member.target, member_changes, by_number, sizes)
            if target.codes != member.target.codes:
                changed[member.member_id] = target
    return changed


# --- range --------------------------------------------------------------------------------------------------------


def _ranges(requests: Sequence[TargetRequest]) -> list[TargetResponse]:
    """Assigns ranges of all groups at once, by member and topic."""
    of_member: list[int] = []
    of_topic: list[int] = []
    ranks: list[int] = []
    partitions: list[int] = []
    numbers: list[int] = []
    for request in requests:
        place = {topic.number: len(numbers) + at for at, topic in enumerate(request.topics)}
        for at, topics in enumerate(_assignable_topics(request), len(ranks)):
            of_member += [at] * len(topics)
            of_topic += [place[topic.number] for topic in topics]
        ranks += _member_ranks(request.members)
        partitions += [topic.partitions for topic in request.topics]
        numbers += [topic.number for topic in request.topics]
    columns = [np.array(each, np.int64) for each in (of_member, of_topic, ranks, partitions)]
    order = np.lexsort((columns[2][columns[0]], columns[1]))
    subscriber, topic = columns[0][order], columns[1][order]
    num_subscribers = np.bincount(topic, minlength=len(partitions))[topic]
    first, count = range_slices(row_numbers(topic), num_subscribers, columns[3][topic])
    rows = PartitionSlices(subscriber, topic, first, np.ones_like(first), count).take(count > 0).expand()
    codes = np.array(numbers, np.int64)[rows.topic] << CODE_BITS | rows.first
    assigned = codes_by_member(rows.member, codes, CodeLists.of([[] for _ in ranks]))
    remaining = iter(assigned)
    return [_in_request_order(request, list(islice(remaining, len(request.members)))) for request in requests]


def _member_ranks(members: Sequence[MemberSubscriptionAndAssignment]) -> list[int]:
    """Returns the rank of each member: static members first, by instance ID, then the others, by member ID."""
    order = sorted(
        range(len(members)),
        key=lambda at: (members[at].instance_id is None, java_key(members[at].instance_id or members[at].member_id)),
    )
    ranks: list[int] = invert(order, len(order)).tolist()
    return ranks


def _in_request_order(request: TargetRequest, assigned: Sequence[Sequence[int]]) -> TargetResponse:
    """Returns the changed targets, with topics in the order of the request."""
    by_number = {topic.number: topic for topic in request.topics}
    changed = {}
    for member, topics_of_member, has in zip(request.members, _assignable_topics(request), assigned, strict=True):
        if member.target.codes != frozenset(has):
            assigned_topics = {each >> CODE_BITS for each in has}
            topics = [topic.number for topic in topics_of_member if topic.number in assigned_topics]
            num_names = len(topics_of_member) if request.homogeneous else member.names
            changed[member.member_id] = fresh(has, topics, by_number, num_names)
    return changed


def _assignable_topics(request: TargetRequest) -> list[Sequence[Topic]]:
    """Returns the topics that each member can get. In a homogeneous group, they are those of the first member."""
    if not request.homogeneous:
        return [member.subscribed for member in request.members]
    first = request.members[_member_ranks(request.members).index(0)]
    return [first.subscribed] * len(request.members)
