"""Groups planned as librdkafka's assignors plan them (`groups.assignors.librdkafka`), asked with a `GroupSpecs`.

Most groups go by runs, many at once (`librdkafka_slices`, `librdkafka_undisputed`); the others partition by partition.
What cooperative-sticky gives back of topics that are gone, or that nobody subscribes to, is in no plan.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from spark_assign.groups.assignors.librdkafka.balance import UndefinedBehaviorError
from spark_assign.groups.assignors.librdkafka.balancer_input import (
    Assignment,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    TopicPartition,
    metadata_positions,
    metadata_response_order,
)
from spark_assign.groups.assignors.librdkafka.range import assign_ranges
from spark_assign.groups.assignors.librdkafka.sticky import (
    assign_sticky,
    find_member_racks,
    is_rack_matched,
    resolve_owned,
    withhold,
)
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.retained_partitions import keep_in_owned_order
from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING, KEPT, RACK_MISMATCH
from spark_assign.groups.assignors.sticky.water_filling import fill_up
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.librdkafka_slices import NO_POSITION, range_slices, round_robin_slices
from spark_assign.groups.kernel.sticky_input import UndisputedGroups, find_undisputed
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


def assign_by_librdkafka(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """Plan some groups by librdkafka's `range`, `roundrobin` or `cooperative-sticky`."""
    if assignor == "roundrobin":
        return _stays(round_robin_slices(specs, chosen))
    plain = chosen & ~_with_racks(specs)
    if assignor == "range":
        planned = _stays(range_slices(specs, plain))
    else:
        undisputed = find_undisputed(specs, plain, specs.members.has_subscription)
        plain, planned = undisputed.groups, plan_undisputed(specs, undisputed)
    return planned.concat(_one_by_one(specs, assignor, chosen & ~plain))


def _stays(runs: PartitionSlices) -> GroupAssignments:
    return GroupAssignments(runs, np.full(len(runs), KEPT), np.zeros(len(runs), bool), {})


def _with_racks(specs: GroupSpecs) -> BoolArray:
    """Groups in which racks may matter: a member has one, and so have replicas of a topic."""
    racked = np.zeros(specs.num_groups, bool)
    racked[specs.members.group[specs.members.rack >= 0]] = True
    known = np.zeros(specs.num_groups, bool)
    known[specs.topics.group[list(specs.rack_set)]] = True
    return racked & known


def _one_by_one(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """The same, partition by partition, by `range` or `cooperative-sticky`."""
    if not chosen.any():
        return _stays(EMPTY_SLICES)
    reader = _Reader(specs, chosen)
    rows: list[tuple[int, int, int, int, bool]] = []
    refused: dict[int, tuple[str, str]] = {}
    for at in np.flatnonzero(chosen).tolist():
        group = reader.group(at)
        later: Assignment = {}
        try:
            if assignor == "cooperative-sticky":
                now, later = withhold(group, assign_sticky(group))
            else:
                now = assign_ranges(group)
        except UndefinedBehaviorError as why:
            refused[at] = "kafka-fails", f"librdkafka's {assignor} fails here: {why}"
            continue
        reasons = _reasons(group, now, later) if later else {}
        members, topics = reader.numbers(at)
        for given, waits in ((now, False), (later, True)):
            for who, partitions in given.items():
                for topic, number in partitions:
                    if number >= group.partitions.get(topic, 0):
                        continue
                    reason = reasons.get((topic, number), KEPT)
                    rows.append((members[who], topics[topic], number, reason, waits))
    whom, what, which, why_taken, withheld = np.array(rows, np.int64).reshape(-1, 5).T
    return GroupAssignments(*to_slices(whom, what, which, why_taken, withheld.astype(bool)), refused)


def _reasons(group: LibrdkafkaGroup, now: Assignment, later: Assignment) -> dict[TopicPartition, int]:
    """Of what was taken from a member that could have kept it, why."""
    owner = {partition: who for who, owned in resolve_owned(group).owned.items() for partition in owned}
    topics, racks = {member.member_id: member.topics for member in group.members}, find_member_racks(group)
    reasons = {}
    for given in (now, later):
        for who, partitions in given.items():
            for partition in partitions:
                had = owner.get(partition, who)
                if had != who and partition[0] in topics[had]:
                    reasons[partition] = BALANCING if is_rack_matched(group, racks, had, partition) else RACK_MISMATCH
    return reasons


class _Reader:
    """Groups of specs, by names."""

    def __init__(self, specs: GroupSpecs, chosen: BoolArray) -> None:
        members, topics = specs.members, specs.topics
        facts = specs.facts
        self._specs = specs
        self._ids, self._names = specs.member_id.to_pylist(), specs.topic.to_pylist()
        self._instances = facts.column("group_instance_id", members.row).to_pylist()
        self._position = facts.int_column("position", NO_POSITION)[members.row]
        groups = np.arange(specs.num_groups + 1)
        self._members, self._topics = np.searchsorted(members.group, groups), np.searchsorted(topics.group, groups)
        self._asks: dict[int, list[str]] = defaultdict(list)
        asking = specs.subscriptions // max(len(topics), 1)
        for key in specs.subscriptions[chosen[members.group[asking]]].tolist():
            member, topic = divmod(key, max(len(topics), 1))
            self._asks[member].append(self._names[topic])
        self._owned: dict[int, list[TopicPartition]] = defaultdict(list)
        claims = specs.owned.take(chosen[members.group[specs.owned.member]]).expand()
        for member, topic, partition in zip(*(each.tolist() for each in claims.columns[:3]), strict=True):
            self._owned[member].append((self._names[topic], partition))

    def numbers(self, group: int) -> tuple[dict[str, int], dict[str, int]]:
        """By name the numbers of the members and topics of a group."""
        members, topics = (range(each[group], each[group + 1]) for each in (self._members, self._topics))
        return {self._ids[at]: at for at in members}, {self._names[at]: at for at in topics}

    def group(self, group: int) -> LibrdkafkaGroup:
        """One group as librdkafka's leader has it before it."""
        specs = self._specs
        mine = sorted(range(*self._members[group : group + 2]), key=lambda at: (self._position[at], self._ids[at]))
        members = tuple(self._member(at) for at in mine if at in self._asks)
        numbers = self.numbers(group)[1]
        partitions, racks = {}, {}
        for topic in metadata_response_order(members):
            at = numbers[topic]
            partitions[topic] = max(int(specs.topics.partitions[at]), 0)
            if at in specs.rack_set and any(member.rack for member in members):
                sets = [specs.rack_sets[number] for number in specs.rack_set[at].tolist()]
                racks[topic] = [frozenset(specs.racks[rack] for rack in each) for each in sets]
        return LibrdkafkaGroup(members, partitions, racks)

    def _member(self, at: int) -> LibrdkafkaMember:
        members = self._specs.members
        rack = int(members.rack[at])
        return LibrdkafkaMember(
            member_id=self._ids[at],
            instance=self._instances[at],
            rack=self._specs.racks[rack] if rack >= 0 else "",
            generation=int(members.generation[at]),
            topics=frozenset(self._asks[at]),
            owned=tuple(self._owned.get(at, ())),
        )


# DOC: librdkafka's cooperative-sticky where nothing is in dispute (`undisputed`), many groups at once.
#
# Principle: everybody keeps what it owns; what nobody owns goes to whoever has least; then the fullest give to the
# emptiest.
#
# What the balancing of `groups.assignors.librdkafka` comes to here
#     - It asks for each partition whether any two members differ by two or more, and stops once they do not.
#     - It walks over partitions from the fullest, each time the first one by topic and number of whoever has most
# left of
#       what it owned. As long as two members differ by two or more, that one is the fullest now, too: members that were
#       given something have at most one more than the emptiest, and the emptiest never has less than before.
#     - So each step of the walk moves a partition from the fullest, of these the last by id, to the emptiest, of these
#       the first. Nobody takes that gives, no partition moves twice, and every move makes loads more even.
#


def plan_undisputed(specs: GroupSpecs, undisputed: UndisputedGroups) -> GroupAssignments:
    """Plan these groups."""
    members, topics = specs.members, specs.topics
    name, topic_name = byte_ranks(specs.member_id), byte_ranks(specs.topic)
    subscribers = np.flatnonzero(members.has_subscription & undisputed.groups[members.group])
    group = members.group[subscribers]
    left = _in_turn(specs, undisputed, topic_name)
    free = np.bincount(topics.group[undisputed.topic], minlength=specs.num_groups)
    to_member = subscribers[fill_up(group, undisputed.load[subscribers], name[subscribers], free)]
    filled = np.zeros(len(to_member), np.int64)
    dealt, reason, withheld = to_slices(
        to_member, undisputed.topic[left], undisputed.partition[left], filled, filled.astype(bool)
    )

    load = undisputed.load + np.bincount(to_member, minlength=len(members))
    from_member, turn, getter = _moves(group, subscribers, load, name, specs.num_groups)
    kept, moved = _given(undisputed.owned, load, from_member, topic_name)
    # The moved ones are sorted by member; each member's turns count from 0.
    begin = np.searchsorted(moved.member, from_member)
    moved = moved.take(begin + turn)
    why, waits = np.full(len(moved), BALANCING), np.ones(len(moved), bool)
    taken, why, waits = to_slices(getter, moved.topic, moved.first, why, waits)
    stays = np.full(len(kept), KEPT)
    return GroupAssignments(
        kept.concat(dealt).concat(taken),
        np.concatenate([stays, reason, why]),
        np.concatenate([np.zeros(len(kept), bool), withheld, waits]),
        {},
    )


def _in_turn(specs: GroupSpecs, undisputed: UndisputedGroups, topic_name: IntArray) -> IntArray:
    """What nobody owns in the order in which it is handed out, as places in it.

    Where nobody owns anything that is by topic and number, elsewhere backwards, with topics as the broker answers.
    """
    topics = specs.topics
    group = topics.group[undisputed.topic]
    some = np.flatnonzero(topics.is_subscribed & undisputed.groups[topics.group])
    place = topic_name.copy()
    hashes = string_hashes(specs.facts.topic_names.to_pylist())[topics.name[some]]
    backwards = np.zeros(specs.num_groups, bool)
    backwards[specs.members.group[undisputed.owned.member]] = True
    metadata_response_order = metadata_positions(topics.group[some], topic_name[some], hashes)
    place[some] = np.where(backwards[topics.group[some]], -metadata_response_order, topic_name[some])
    number = np.where(backwards[group], -undisputed.partition, undisputed.partition)
    return np.lexsort((number, place[undisputed.topic], group))


def _moves(
    group: IntArray, subscribers: IntArray, load: IntArray, name: IntArray, number: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Who gives, the how-manieth partition that it gives, and to whom."""
    has, name = load[subscribers], name[subscribers]
    size = np.maximum(np.bincount(group, minlength=number), 1)
    quota = (np.bincount(group, has, number).astype(np.int64) // size)[group]
    gives, gets = np.maximum(has - quota, 0), np.maximum(quota + 1 - has, 0)
    apart = _spread(group, has, number) > 1
    gives[~apart[group]] = gets[~apart[group]] = 0
    high = np.repeat(np.arange(len(has)), gives)
    turn = ranges_by_length(gives)
    order = np.lexsort((-name[high], turn - has[high], group[high]))
    high, turn = high[order], turn[order]
    low = np.repeat(np.arange(len(has)), gets)
    levels = has[low] + ranges_by_length(gets)
    order = np.lexsort((name[low], levels, group[low]))
    low, levels = low[order], levels[order]
    # The n-th that gives goes with the n-th that gets, as long as they differ by two or more.
    begins = np.searchsorted(group[low], np.arange(number + 1))
    at = begins[group[high]] + row_numbers(group[high])
    there = at < begins[group[high] + 1]
    high, turn, at = high[there], turn[there], at[there]
    moves = has[high] - turn > levels[at] + 1
    return subscribers[high[moves]], turn[moves], subscribers[low[at[moves]]]


def _spread(group: IntArray, has: IntArray, number: int) -> IntArray:
    most, least = np.zeros(number, np.int64), np.full(number, np.iinfo(np.int64).max)
    np.maximum.at(most, group, has)
    np.minimum.at(least, group, has)
    spread: IntArray = np.maximum(most - least, 0)
    return spread


def _given(
    owned: PartitionSlices, load: IntArray, from_member: IntArray, topic_name: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """What members keep of what they own, and the partitions that they give up, by member, topic and number."""
    if not len(from_member):
        return owned, EMPTY_SLICES
    gives = np.bincount(from_member, minlength=len(load))
    some = (gives > 0)[owned.member]
    by_name = np.argsort(topic_name, kind="stable")
    rank = np.empty(len(by_name), np.int64)
    rank[by_name] = np.arange(len(by_name))
    runs = owned.take(some)
    first, rest = keep_in_owned_order(
        PartitionSlices(runs.member, rank[runs.topic], *runs.columns[2:]), load, gives, EMPTY_SLICES
    )
    first = first.expand()
    first = first.take(np.lexsort((first.first, first.topic, first.member)))
    kept = PartitionSlices(rest.member, by_name[rest.topic], *rest.columns[2:])
    return owned.take(~some).concat(kept), PartitionSlices(first.member, by_name[first.topic], *first.columns[2:])
