"""Assigns groups as librdkafka's assignors do (`assignors.librdkafka`).

Range and roundrobin differ from Java's in the order of members: ids are compared as bytes, and if a group has static
and dynamic members, the order is the result of C's merge sort (`balance.merge_sort`).

Cooperative-sticky plans most groups on slices, many at once (`plan_undisputed`), and all others partition by partition.
Partitions that it returns of vanished or unsubscribed topics are in no plan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from spark_assign.assignors.group_specs import (
    BALANCING,
    KEPT,
    RACK_MISMATCH,
    GroupAssignments,
    GroupSpecs,
    SubscriberLists,
    assignment_order,
)
from spark_assign.assignors.librdkafka.balance import (
    Assignment,
    LibrdkafkaBalancer,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    TopicPartition,
    UndefinedBehaviorError,
    merge_sort,
    metadata_positions,
    metadata_response_order,
)
from spark_assign.assignors.range import assign_ranges, racks_matter, replace_by_racks
from spark_assign.assignors.roundrobin import assign_in_turn
from spark_assign.assignors.sticky.general import fill_up
from spark_assign.assignors.sticky.sticky_groups import keep_in_owned_order
from spark_assign.assignors.undisputed_groups import UndisputedGroups, find_undisputed
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    PartitionSlices,
    byte_ranks,
    compress,
    invert,
    mask_from_indexes,
    ranges_by_length,
    row_numbers,
)


def assign_by_librdkafka(specs: GroupSpecs, assignor: str, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups by librdkafka's `range`, `roundrobin`, or `cooperative-sticky`."""
    if assignor == "roundrobin":
        return GroupAssignments.of(_assign_round_robin(specs, selected))
    if assignor == "range":
        return GroupAssignments.of(_assign_range(specs, selected))
    undisputed = find_undisputed(specs, selected & ~specs.groups_with_racks, specs.members.has_subscription)
    return plan_undisputed(specs, undisputed).concat(_one_by_one(specs, selected & ~undisputed.groups))


# --- range and round robin ---------------------------------------------------------------------------------------


def _assign_range(specs: GroupSpecs, selected: BoolArray) -> PartitionSlices:
    """Assigns by range: each topic in consecutive ranges, by rack if racks matter."""
    lists = _list_subscribers(specs, on_ring=False)
    slices = assign_ranges(lists, specs.topics.partitions_to_assign(selected))
    return replace_by_racks(specs, selected, slices, lists, like_librdkafka=True) if specs.rack_set else slices


def _assign_round_robin(specs: GroupSpecs, selected: BoolArray) -> PartitionSlices:
    """Assigns all topics, by name, in turn on the ring of members with a subscription."""
    lists, partitions = _list_subscribers(specs, on_ring=True), specs.topics.partitions_to_assign(selected)
    return assign_in_turn(specs, lists, partitions, byte_ranks(specs.topic))


def _list_subscribers(specs: GroupSpecs, *, on_ring: bool) -> SubscriberLists:
    """Returns the subscribers of each topic in the order in which they are assigned to.

    Args:
        specs: the groups.
        on_ring: whether the members with a subscription are sorted once per group; otherwise once per topic. That makes
            a difference if a group has static and dynamic members.
    """
    group, has_subscription = specs.members.group, specs.members.has_subscription
    name, is_static = byte_ranks(specs.member_id), specs.instance_id.is_valid().to_numpy(zero_copy_only=False)
    ordered = assignment_order(group, name, np.where(is_static, byte_ranks(specs.instance_id), -1))
    ordered = ordered[np.lexsort((~has_subscription[ordered], group[ordered]))]
    num_static, num_dynamic = (
        np.bincount(group[has_subscription & kind], minlength=specs.num_groups) for kind in (is_static, ~is_static)
    )
    is_mixed = (num_static > 0) & (num_dynamic > 0)
    lists = specs.list_subscribers(ordered)
    if not is_mixed.any():
        return lists
    topics = np.flatnonzero(specs.topics.partitions_to_assign(is_mixed))
    used = np.flatnonzero(is_mixed) if on_ring else np.unique(lists.of_topic[topics])
    size = num_static + num_dynamic if on_ring else lists.size
    for start, count in zip(lists.start[used].tolist(), size[used].tolist(), strict=True):
        lists.members[start : start + count] = _merge(specs, lists.members[start : start + count], name)
    return specs.list_subscribers(lists.members[: len(ordered)]) if on_ring else lists


def _merge(specs: GroupSpecs, members: IntArray, name: IntArray) -> IntArray:
    """Sorts members of one group as C's merge sort does, from the order of the coordinator's list."""
    members = members[np.lexsort((name[members], specs.list_position[members]))]
    columns = (column.take(members).to_pylist() for column in (specs.member_id, specs.instance_id))
    listed = [
        LibrdkafkaMember(member_id, instance, "", index, frozenset(), ())
        for index, (member_id, instance) in enumerate(zip(*columns, strict=True))
    ]
    return members[[member.generation for member in merge_sort(listed)]]


# --- cooperative-sticky -------------------------------------------------------------------------------------------


def _one_by_one(specs: GroupSpecs, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups partition by partition, by `cooperative-sticky`."""
    if not selected.any():
        return GroupAssignments.of(EMPTY_SLICES)
    reader = _Reader(specs, selected)
    rows: list[tuple[int, int, int, int, bool]] = []
    rejected: dict[int, tuple[str, str]] = {}
    for group_index in np.flatnonzero(selected).tolist():
        group = reader.group(group_index)
        try:
            assigned, next_round = withhold(group, assign_sticky(group))
        except UndefinedBehaviorError as error:
            detail = f"librdkafka's cooperative-sticky fails here: {error} (2.6.1 to 2.16; no issue is known)"
            rejected[group_index] = "kafka-fails", detail
            continue
        reasons = _reasons(group, assigned, next_round)
        members, topics = reader.numbers(group_index)
        for assignment, is_withheld in ((assigned, False), (next_round, True)):
            for member, partitions in assignment.items():
                for topic, partition in partitions:
                    if partition >= group.partitions.get(topic, 0):
                        continue
                    reason = reasons.get((topic, partition), KEPT)
                    rows.append((members[member], topics[topic], partition, reason, is_withheld))
    member_column, topic_column, partition_column, reason_column, withheld = np.array(rows, np.int64).reshape(-1, 5).T
    return GroupAssignments.of(EMPTY_SLICES, rejected).concat(
        GroupAssignments.of_partitions(member_column, topic_column, partition_column, reason_column, withheld > 0)
    )


def _reasons(group: LibrdkafkaGroup, assigned: Assignment, withheld: Assignment) -> dict[TopicPartition, int]:
    """Returns why each partition was revoked from a member that could have kept it."""
    owner = {partition: member for member, owned in resolve_owned(group).owned.items() for partition in owned}
    topics, racks = {member.member_id: member.topics for member in group.members}, find_member_racks(group)
    reasons = {}
    for member, partitions in chain(assigned.items(), withheld.items()):
        for partition in partitions:
            previous = owner.get(partition, member)
            if previous != member and partition[0] in topics[previous]:
                is_matched = is_rack_matched(group, racks, previous, partition)
                reasons[partition] = BALANCING if is_matched else RACK_MISMATCH
    return reasons


class _Reader:
    """Converts groups of the specs to librdkafka's input, with names."""

    def __init__(self, specs: GroupSpecs, selected: BoolArray) -> None:
        members, topics = specs.members, specs.topics
        self._specs = specs
        self._ids, self._names = specs.member_id.to_pylist(), specs.topic.to_pylist()
        self._instances = specs.instance_id.to_pylist()
        self._position = specs.list_position
        groups = np.arange(specs.num_groups + 1)
        self._members, self._topics = np.searchsorted(members.group, groups), np.searchsorted(topics.group, groups)
        self._asks: dict[int, frozenset[str]] = {}
        for group in np.flatnonzero(selected).tolist():
            kind, kinds = specs.subscription_kinds(group)
            names = [frozenset(self._names[topic] for topic in each.tolist()) for each in kinds]
            self._asks |= {at: names[of] for at, of in enumerate(kind, int(self._members[group])) if names[of]}
        self._owned: dict[int, list[TopicPartition]] = defaultdict(list)
        claims = specs.owned.take(selected[members.group[specs.owned.member]]).expand()
        for member, topic, partition in zip(*(each.tolist() for each in claims.columns[:3]), strict=True):
            self._owned[member].append((self._names[topic], partition))

    def numbers(self, group: int) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the indexes of the members and topics of a group, by name."""
        members, topics = (range(each[group], each[group + 1]) for each in (self._members, self._topics))
        return {self._ids[at]: at for at in members}, {self._names[at]: at for at in topics}

    def group(self, group: int) -> LibrdkafkaGroup:
        """Returns one group as librdkafka's leader sees it."""
        specs = self._specs
        ordered = sorted(
            range(*self._members[group : group + 2]),
            key=lambda topic_index: (self._position[topic_index], self._ids[topic_index]),
        )
        members = tuple(self._member(topic_index) for topic_index in ordered if topic_index in self._asks)
        topic_indexes = self.numbers(group)[1]
        partitions, racks = {}, {}
        for topic in metadata_response_order(members):
            topic_index = topic_indexes[topic]
            partitions[topic] = max(int(specs.topics.partitions[topic_index]), 0)
            if topic_index in specs.rack_set and any(member.rack for member in members):
                racks[topic] = [frozenset(specs.racks[rack] for rack in each) for each in specs.racks_of(topic_index)]
        return LibrdkafkaGroup(members, partitions, racks)

    def _member(self, member_index: int) -> LibrdkafkaMember:
        members = self._specs.members
        rack = int(members.rack[member_index])
        return LibrdkafkaMember(
            member_id=self._ids[member_index],
            instance=self._instances[member_index],
            rack=self._specs.racks[rack] if rack >= 0 else "",
            generation=int(members.generation[member_index]),
            topics=self._asks[member_index],
            owned=tuple(self._owned.get(member_index, ())),
        )


def plan_undisputed(specs: GroupSpecs, undisputed: UndisputedGroups) -> GroupAssignments:
    """Assigns undisputed groups by cooperative-sticky, many at once.

    Principle: all members keep what they own; a partition without an owner goes to the least loaded member; then the
    most loaded members give partitions to the least loaded.

    Why counts suffice (`assignors.librdkafka`)
        - For each partition, the balancer checks whether any two members differ by two or more, and stops if not.
        - It iterates over partitions from the most loaded member, each time the first one, by topic and partition, of
          the member with most remaining owned partitions. While two members differ by two or more, that member is the
          most
          loaded: members that got partitions have at most one more than the least loaded.
        - So each step moves a partition from the most loaded member (the last by id) to the least loaded (the first by
          id). No member both gets and loses partitions, no partition moves twice, and every move makes loads more even.
    """
    members, topics = specs.members, specs.topics
    name, topic_name = byte_ranks(specs.member_id), byte_ranks(specs.topic)
    subscribers = np.flatnonzero(members.has_subscription & undisputed.groups[members.group])
    group = members.group[subscribers]
    order = _unassigned_order(specs, undisputed, topic_name)
    num_unassigned = np.bincount(topics.group[undisputed.topic], minlength=specs.num_groups)
    to_member = subscribers[fill_up(group, undisputed.load[subscribers], name[subscribers], num_unassigned)]
    new = compress(to_member, undisputed.topic[order], undisputed.partition[order])
    load = undisputed.load + np.bincount(to_member, minlength=len(members))
    from_member, ordinal, moved_to = _find_moves(group, subscribers, load, name, specs.num_groups)
    kept, moved = _split_kept(undisputed.owned, load, from_member, topic_name)
    # `moved` is sorted by member; the ordinals of each member start at 0.
    starts = np.searchsorted(moved.member, from_member)
    moved = moved.take(starts + ordinal)
    moved = compress(moved_to, moved.topic, moved.first)
    return GroupAssignments.of(kept.concat(new)).concat(
        GroupAssignments(moved, np.full(len(moved), BALANCING), np.ones(len(moved), bool))
    )


def _unassigned_order(specs: GroupSpecs, undisputed: UndisputedGroups, topic_name: IntArray) -> IntArray:
    """Returns the order in which partitions without an owner are assigned.

    If no member of the group owns anything, the order is by topic and partition. Otherwise it is the reverse, with
    topics in the order of the Metadata response.
    """
    topics = specs.topics
    group = topics.group[undisputed.topic]
    subscribed = np.flatnonzero(topics.is_subscribed & undisputed.groups[topics.group])
    topic_position = topic_name.copy()
    hashes = specs.topic_hash[subscribed]
    is_reversed = mask_from_indexes(specs.members.group[undisputed.owned.member], specs.num_groups)
    response_order = metadata_positions(topics.group[subscribed], topic_name[subscribed], hashes)
    topic_position[subscribed] = np.where(
        is_reversed[topics.group[subscribed]], -response_order, topic_name[subscribed]
    )
    partition_key = np.where(is_reversed[group], -undisputed.partition, undisputed.partition)
    return np.lexsort((partition_key, topic_position[undisputed.topic], group))


def _find_moves(
    group: IntArray, subscribers: IntArray, load: IntArray, name: IntArray, num_groups: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the moves: from_member, the ordinal of the lost partition, to_member."""
    num_owned, name = load[subscribers], name[subscribers]
    size = np.maximum(np.bincount(group, minlength=num_groups), 1)
    quota = (np.bincount(group, num_owned, num_groups).astype(np.int64) // size)[group]
    num_lost, num_gained = np.maximum(num_owned - quota, 0), np.maximum(quota + 1 - num_owned, 0)
    is_uneven = mask_from_indexes(group[(num_owned < quota) | (num_owned > quota + 1)], num_groups)
    num_lost[~is_uneven[group]] = num_gained[~is_uneven[group]] = 0
    loser = np.repeat(np.arange(len(num_owned)), num_lost)
    ordinal = ranges_by_length(num_lost)
    order = np.lexsort((-name[loser], ordinal - num_owned[loser], group[loser]))
    loser, ordinal = loser[order], ordinal[order]
    gainer = np.repeat(np.arange(len(num_owned)), num_gained)
    levels = num_owned[gainer] + ranges_by_length(num_gained)
    order = np.lexsort((name[gainer], levels, group[gainer]))
    gainer, levels = gainer[order], levels[order]
    # The n-th losing slot is paired with the n-th getting slot while their loads differ by two or more.
    starts = np.searchsorted(group[gainer], np.arange(num_groups + 1))
    match = starts[group[loser]] + row_numbers(group[loser])
    has_match = match < starts[group[loser] + 1]
    loser, ordinal, match = loser[has_match], ordinal[has_match], match[has_match]
    is_move = num_owned[loser] - ordinal > levels[match] + 1
    return subscribers[loser[is_move]], ordinal[is_move], subscribers[gainer[match[is_move]]]


def _split_kept(
    owned: PartitionSlices, load: IntArray, from_member: IntArray, topic_name: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the slices that members keep, and the partitions that they lose, by member, topic, and partition."""
    if not len(from_member):
        return owned, EMPTY_SLICES
    num_lost = np.bincount(from_member, minlength=len(load))
    is_losing = (num_lost > 0)[owned.member]
    by_name, members = np.argsort(topic_name, kind="stable"), np.arange(len(load))
    losing = owned.take(is_losing).renumber(members, invert(by_name, len(by_name)))
    lost, kept = keep_in_owned_order(losing, load, num_lost, EMPTY_SLICES)
    lost = lost.expand()
    lost = lost.take(np.lexsort((lost.first, lost.topic, lost.member)))
    return owned.take(~is_losing).concat(kept.renumber(members, by_name)), lost.renumber(members, by_name)


# --- cooperative-sticky of librdkafka -------------------------------------------------------------------------
#
# Principles: members keep what they own, the rest goes to the member with the fewest partitions, then the group is
# balanced (`balance`). In a cooperative rebalance, a partition that moves is withheld until its owner has revoked it.
#
# Example: topic t has four partitions. C0 owns all of them, and C1 joins.
#
#     target      C0: [t0, t1]    C1: [t2, t3]
#     assigned    C0: [t0, t1]    C1: []          (t2 and t3 are withheld)
#
# Steps
#     1. Resolve conflicts between owners.
#     2. Keep what members own of topics that they subscribe to and, if racks are used, in their rack.
#     3. Assign the other partitions, and balance.
#     4. Withhold partitions that another member still owns.
#
# It follows the sticky assignor of Kafka's clients before 2.5.1, plus racks, with these differences:
#
# - If two members own a partition in the same generation, it is revoked from both, even if a third owns it in a newer
# one.
# - Otherwise the newest generation counts, but the last owner in the member list counts as the owner while balancing.
# - An assignment never counts as initial. Unowned partitions come last topic first, last partition first, unless
#   nothing is owned.
# - In a group with racks, a member without a rack matches none: it gives up all that it owns, and gets what is left.
#
# In step 4, the last owner in the member list counts, even against a newer generation. An owned partition without a new
# owner (its topic was deleted) is returned to this member.


@dataclass
class OwnedPartitions:
    """Partitions that members own.

    Attributes:
        owned: member id to its partitions; the newest generation wins.
        owner: member that counts as the owner of each partition.
        previous_owner: member of the second newest generation, for partitions owned in several generations.
    """

    owned: Assignment
    owner: dict[TopicPartition, str] = field(default_factory=dict)
    previous_owner: dict[TopicPartition, str] = field(default_factory=dict)


def resolve_owned(group: LibrdkafkaGroup) -> OwnedPartitions:
    """Resolves conflicts between owners (step 1)."""
    resolved = OwnedPartitions({member.member_id: [] for member in group.members})
    owners: dict[TopicPartition, list[LibrdkafkaMember]] = {}
    for member in group.members:
        for partition in member.owned:
            owners.setdefault(partition, []).append(member)
            resolved.owner[partition] = member.member_id
    for partition, members in owners.items():
        members.sort(key=lambda member: member.generation)
        if len({member.generation for member in members}) < len(members):
            del resolved.owner[partition]
            continue
        resolved.owned[members[-1].member_id].append(partition)
        if len(members) > 1:
            resolved.previous_owner[partition] = members[-2].member_id
    return resolved


def assign_sticky(group: LibrdkafkaGroup) -> Assignment:
    """Returns the target assignment, before anything is withheld."""
    resolved = resolve_owned(group)
    subscribers = _find_subscribers(group)
    ordered = _sort_partitions(group, resolved, subscribers)
    racks = find_member_racks(group)
    kept: set[TopicPartition] = set()
    has_revoked = False
    topics = {member.member_id: member.topics for member in group.members}
    for member_id, owned in resolved.owned.items():
        still_owned = []
        for partition in owned:
            if not _exists(group, subscribers, partition):
                resolved.owner.pop(partition, None)
            elif partition[0] not in topics[member_id] or not is_rack_matched(group, racks, member_id, partition):
                has_revoked = True
            else:
                still_owned.append(partition)
        kept.update(still_owned)
        resolved.owned[member_id] = still_owned
    balancer = LibrdkafkaBalancer(
        resolved.owned, resolved.owner, resolved.previous_owner, subscribers, group.partitions, racks
    )
    unowned = [partition for partition in ordered if partition not in kept]
    unassigned = unowned
    if racks is not None:
        used = set(racks.values())
        unassigned = [
            partition
            for partition in unowned
            if used.isdisjoint(group.racks_of(partition)) or not balancer.assign(partition, group.racks_of(partition))
        ]
    for partition in unassigned:
        balancer.assign(partition)
    return balancer.run(ordered, unowned, is_initial=not kept, has_revoked=has_revoked)


def _find_subscribers(group: LibrdkafkaGroup) -> dict[str, list[str]]:
    """Returns the subscribers of each topic that has partitions and any. Topics with the same ones share the list."""
    subscriptions = dict.fromkeys(member.topics for member in group.members)
    lists: dict[tuple[int, ...], list[str]] = {}
    subscribers = {}
    for topic in (topic for topic, count in group.partitions.items() if count > 0):
        key = tuple(index for index, topics in enumerate(subscriptions) if topic in topics)
        if key and key not in lists:
            lists[key] = [member.member_id for member in group.members if topic in member.topics]
        if key:
            subscribers[topic] = lists[key]
    return subscribers


def find_member_racks(group: LibrdkafkaGroup) -> dict[str, str] | None:
    """Returns the rack of each member; None if racks aren't used."""
    racks = {member.member_id: member.rack for member in group.members}
    partitions = [group.racks_of((topic, index)) for topic, count in group.partitions.items() for index in range(count)]
    return racks if racks_matter(partitions, set(racks.values()) - {""}) else None


def is_rack_matched(
    group: LibrdkafkaGroup, racks: dict[str, str] | None, member_id: str, partition: TopicPartition
) -> bool:
    """Checks whether racks aren't used, or a replica is in the member's rack."""
    return racks is None or racks[member_id] in group.racks_of(partition)


def _exists(group: LibrdkafkaGroup, subscribers: dict[str, list[str]], partition: TopicPartition) -> bool:
    """Checks whether a partition exists and its topic has subscribers."""
    return partition[0] in subscribers and 0 <= partition[1] < group.partitions[partition[0]]


def _sort_partitions(
    group: LibrdkafkaGroup, resolved: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """Returns all partitions in the order in which they are balanced."""
    descending = [
        (topic, index) for topic in reversed(subscribers) for index in reversed(range(group.partitions[topic]))
    ]
    subscriptions = {topics.intersection(subscribers) for topics in {member.topics for member in group.members}}
    if len(subscriptions) > 1:
        return sorted(descending, key=lambda partition: (len(subscribers[partition[0]]), partition))
    ordered = _sort_owned(group, resolved, subscribers)
    if not ordered:
        return sorted(descending)
    included = set(ordered)
    return ordered + [partition for partition in descending if partition not in included]


def _sort_owned(
    group: LibrdkafkaGroup, resolved: OwnedPartitions, subscribers: dict[str, list[str]]
) -> list[TopicPartition]:
    """Returns the owned partitions, each time one of the member with the most left; those with a previous owner
    first."""
    remaining: dict[str, list[TopicPartition]] = {}
    for member_id, owned in resolved.owned.items():
        existing = [partition for partition in owned if _exists(group, subscribers, partition)]
        if existing:
            existing.sort(key=lambda partition: (partition not in resolved.previous_owner, partition), reverse=True)
            remaining[member_id] = existing
    fullest = sorted((len(owned), member_id) for member_id, owned in remaining.items())
    ordered = []
    while fullest:
        count, member_id = fullest.pop()
        ordered.append(remaining[member_id].pop())
        if count > 1:
            insort(fullest, (count - 1, member_id), bisect_left(fullest, (count - 1, "")))
    return ordered


def withhold(group: LibrdkafkaGroup, assigned: Assignment) -> tuple[Assignment, Assignment]:
    """Returns what members get in this round, and what is withheld (step 4)."""
    owner = {partition: member.member_id for member in group.members for partition in member.owned}
    to_member: dict[TopicPartition, str] = {}
    for member in group.members:
        to_member.update(dict.fromkeys(assigned[member.member_id], member.member_id))
    assigned_now: Assignment = {member.member_id: [] for member in group.members}
    withheld: Assignment = {member.member_id: [] for member in group.members}
    for partition, member_id in to_member.items():
        (assigned_now if owner.get(partition, member_id) == member_id else withheld)[member_id].append(partition)
    for partition, member_id in owner.items():
        if partition not in to_member:
            assigned_now[member_id].append(partition)
    return assigned_now, withheld
