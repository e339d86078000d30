"""What the coordinator of a KIP-848 group asks an assignor, with everybody in the order in which it sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.groups.assignors.server.coordinator_hash_order import iteration_order, map_capacity
from spark_assign.groups.assignors.server.heterogeneous import NO_MEMBER, rebalance
from spark_assign.groups.assignors.server.homogeneous import compute_quotas
from spark_assign.groups.assignors.server.range import assign_server_ranges
from spark_assign.java.hash_map import java_key
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.simulation.kernel.assignment_request import CODE_BITS
from spark_assign.simulation.kernel.consumer_group_members import ConsumerGroupMember, ConsumerGroupMembers
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
    id_walk,
)

_KERNELS = {"range": SERVER_RANGE}
"""Names of the broker's assignors here, where they are others."""


@dataclass(frozen=True, slots=True)
class TargetAssignmentBuilder:
    """What a group knows (`TargetAssignmentBuilder`)."""

    members: ConsumerGroupMembers
    metadata: TopicsImage
    regexes: Regexes
    config: GroupConfig

    def ask(
        self,
        assignor: str,
        listed: Sequence[str],
        mine: str,
        replaced: str | None,
        sent: Sequence[str] | None,
        homogeneous: bool,
    ) -> TargetRequest:
        """The ask for a target.

        Args:
            assignor: the one that most prefer.
            listed: the coordinator's table before this heartbeat.
            mine: whose heartbeat it is. It comes last if it is new.
            replaced: whom it replaces; null: nobody.
            sent: the names that it subscribes to as it sends them now; null: it does not.
            homogeneous: whether all subscribe to the same.
        """
        before = len(listed) + (mine not in listed)
        seen = [each for each in listed if each != replaced or each == mine]
        if mine not in seen:
            seen.append(mine)
        # Before 4.4 the member that is replaced is put in, and taken out again.
        capacity = map_capacity(before if self.config.before_4_4 else len(seen))
        by_id = self.members.by_id
        members: list[MemberSubscriptionAndAssignment] = []
        hashes = [by_id[each].hash_code for each in seen]
        for each in iteration_order(seen, hashes, capacity, java_key, map_capacity(0)):
            member, target = by_id[each], self.members.target(each)
            names = len(self.regexes.subscription(member.names, member.regex))
            topics = self._topic_walk(member, sent if each == mine else None)
            members.append(MemberSubscriptionAndAssignment(each, member.instance_id, topics, names, target))
        kernel = _KERNELS.get(assignor, assignor)
        if homogeneous and kernel == UNIFORM:
            asked = id_walk(members[0].subscribed, members[0].names)
        else:
            asked = list({topic.number: topic for each in members for topic in each.subscribed}.values())
        return TargetRequest(kernel, members, asked, homogeneous, self.members.taken)

    def _topic_walk(self, member: ConsumerGroupMember, sent: Sequence[str] | None) -> list[Topic]:
        """The topics that a member subscribes to, in the walk of its set of names.

        Args:
            member: the member.
            sent: the names as it sends them now; null: as they were written.
        """
        metadata = self.metadata
        walked = metadata.written_walk(member.names) if sent is None else metadata.name_walk(list(dict.fromkeys(sent)))
        if not member.regex:
            return walked
        meant = self.regexes.topics_of(member.regex)
        more = metadata.written_walk(meant)
        # `UnionSet` walks the larger one first, the second one if they are of a size.
        large, small = (walked, more) if len(member.names) > len(meant) else (more, walked)
        return [*large, *(each for each in small if each not in large)]


_PARTITION = (1 << CODE_BITS) - 1


def assign_targets(asks: Sequence[TargetRequest]) -> list[TargetResponse]:
    """Answer all asks, in their order; no answer depends on the asks beside it."""
    answers = [TargetResponse() for _ in asks]
    ranged, alike = [], []
    for at, ask in enumerate(asks):
        if not ask.topics:
            answers[at] = _nothing(ask)
        elif ask.assignor == SERVER_RANGE:
            ranged.append(at)
        elif ask.homogeneous:
            alike.append(at)
        else:
            answers[at] = _mixed(ask)
    for some, assign in ((ranged, _ranges), (alike, _alike)):
        if some:
            for at, answer in zip(some, assign([asks[at] for at in some]), strict=True):
                answers[at] = answer
    return answers


def _nothing(ask: TargetRequest) -> TargetResponse:
    """Nobody subscribes to a topic that there is."""
    return TargetResponse({member.member_id: NOTHING for member in ask.members if member.target.codes})


# --- uniform, homogeneous -----------------------------------------------------------------------------------------


def _alike(asks: Sequence[TargetRequest]) -> list[TargetResponse]:
    """Step 1 of all groups at once, the others one by one: they concern few members."""
    sizes = np.array([len(ask.members) for ask in asks])
    topics = np.array([len(ask.topics) for ask in asks])
    known = [frozenset(topic.number for topic in ask.topics) for ask in asks]
    walks = [[member.target.within(here) for member in ask.members] for ask, here in zip(asks, known, strict=True)]
    number = np.arange(len(asks))
    partitions = np.array([topic.partitions for ask in asks for topic in ask.topics])
    had = np.array([len(each) for walk in walks for each in walk])
    quota = compute_quotas(np.repeat(number, sizes), np.repeat(number, topics), partitions, had).tolist()
    ends = np.cumsum(sizes).tolist()
    begins = [0, *ends]
    return [
        _deal(ask, walk, quota[begin:end]) for ask, walk, begin, end in zip(asks, walks, begins, ends, strict=False)
    ]


def _deal(ask: TargetRequest, walks: Sequence[Sequence[int]], quota: Sequence[int]) -> TargetResponse:
    """Steps 2 to 4: who has too much gives the end of its walk, who has too little takes the front of what is free."""
    surplus = [each for owned, most in zip(walks, quota, strict=True) for each in owned[most:]]
    missing = sum(quota) > sum(map(len, walks))
    free = (_untaken(ask) if missing else []) + surplus
    by_number = {topic.number: topic for topic in ask.topics}
    changed, begin = {}, 0
    for member, owned, most in zip(ask.members, walks, quota, strict=True):
        lacks = max(most - len(owned), 0)
        added, begin = free[begin : begin + lacks], begin + lacks
        if added or len(owned) > most or len(owned) < len(member.target.walk):
            kept = set(owned[:most])
            changes = [(each, False) for each in member.target.walk if each not in kept]
            changes += [(each, True) for each in added]
            changed[member.member_id] = follow(member.target, changes, by_number)
    return TargetResponse(changed)


def _untaken(ask: TargetRequest) -> list[int]:
    """Step 3: what nobody was to have so far; topics in their walk, partitions ascending."""
    free: list[int] = []
    for topic in ask.topics:
        first = topic.number << CODE_BITS
        free += [code for code in range(first, first + topic.partitions) if code not in ask.taken]
    return free


# --- uniform, heterogeneous ---------------------------------------------------------------------------------------


def _mixed(ask: TargetRequest) -> TargetResponse:
    number = {topic.number: at for at, topic in enumerate(ask.topics)}
    subscribers: list[list[int]] = [[] for _ in ask.topics]
    owners = [[NO_MEMBER] * topic.partitions for topic in ask.topics]
    changes: list[list[tuple[int, bool]]] = []
    loads = []
    for at, member in enumerate(ask.members):
        for topic in member.subscribed:
            subscribers[number[topic.number]].append(at)
        kept = member.target.within(frozenset(topic.number for topic in member.subscribed))
        for each in kept:
            owners[number[each >> CODE_BITS]][each & _PARTITION] = at
        loads.append(len(kept))
        left = member.target.codes.difference(kept) if len(kept) < len(member.target.walk) else ()
        changes.append([(each, False) for each in left])
    for place, partition, from_member, to_member in rebalance(
        owners, loads, subscribers, [topic.id_rank for topic in ask.topics]
    ):
        each = ask.topics[place].number << CODE_BITS | partition
        if from_member != NO_MEMBER:
            changes[from_member].append((each, False))
        changes[to_member].append((each, True))
    by_number = {topic.number: topic for topic in ask.topics}
    sizes = {topic.number: -(-topic.partitions // len(subscribers[number[topic.number]])) for topic in ask.topics}
    changed = {}
    for member, some in zip(ask.members, changes, strict=True):
        if some:
            target = follow(member.target, some, by_number, sizes)
            if target.codes != member.target.codes:
                changed[member.member_id] = target
    return TargetResponse(changed)


# --- range --------------------------------------------------------------------------------------------------------


def _ranges(asks: Sequence[TargetRequest]) -> list[TargetResponse]:
    """All groups at once: member by member, topic by topic."""
    of_member: list[int] = []
    of_topic: list[int] = []
    served: list[int] = []
    partitions: list[int] = []
    numbers: list[int] = []
    for ask in asks:
        place = {topic.number: len(numbers) + at for at, topic in enumerate(ask.topics)}
        for at, member in enumerate(ask.members, len(served)):
            topics = _asked(ask, member)
            of_member += [at] * len(topics)
            of_topic += [place[topic.number] for topic in topics]
        served += _served(ask.members)
        partitions += [topic.partitions for topic in ask.topics]
        numbers += [topic.number for topic in ask.topics]
    columns = [np.array(each, np.int64) for each in (of_member, of_topic, served, partitions)]
    assigned = _codes(assign_server_ranges(*columns).expand(), np.array(numbers, np.int64), len(served))
    answers, begin = [], 0
    for ask in asks:
        answers.append(_in_request_order(ask, assigned[begin : begin + len(ask.members)]))
        begin += len(ask.members)
    return answers


def _served(members: Sequence[MemberSubscriptionAndAssignment]) -> list[int]:
    """Of each member its place: static ones first, by instance id; then the others, by member id."""
    order = sorted(
        range(len(members)),
        key=lambda at: (members[at].instance_id is None, java_key(members[at].instance_id or members[at].member_id)),
    )
    places = [0] * len(order)
    for place, at in enumerate(order):
        places[at] = place
    return places


def _in_request_order(ask: TargetRequest, assigned: Sequence[Sequence[int]]) -> TargetResponse:
    by_number = {topic.number: topic for topic in ask.topics}
    changed = {}
    for member, has in zip(ask.members, assigned, strict=True):
        if member.target.codes != frozenset(has):
            there, asked = {each >> CODE_BITS for each in has}, _asked(ask, member)
            topics = [topic.number for topic in asked if topic.number in there]
            made_for = len(asked) if ask.homogeneous else member.names
            changed[member.member_id] = fresh(has, topics, by_number, made_for)
    return TargetResponse(changed)


def _asked(ask: TargetRequest, member: MemberSubscriptionAndAssignment) -> Sequence[Topic]:
    """The topics that a member gets something of: in a homogeneous group those of the member that is served first."""
    return ask.members[_served(ask.members).index(0)].subscribed if ask.homogeneous else member.subscribed


def _codes(rows: PartitionSlices, numbers: IntArray, members: int) -> list[list[int]]:
    """Of each member its partitions, ascending."""
    codes = numbers[rows.topic] << CODE_BITS | rows.first
    order = np.lexsort((codes, rows.member))
    sorted_codes = codes[order].tolist()
    ends = np.cumsum(np.bincount(rows.member, minlength=members)).tolist()
    return [sorted_codes[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
