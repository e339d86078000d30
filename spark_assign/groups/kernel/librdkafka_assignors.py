"""Groups planned as librdkafka's assignors plan them (`groups.assignors.librdkafka`), asked with a `GroupSpecs`.

Most groups go by runs, many at once (`librdkafka_slices`, `librdkafka_undisputed`); the others partition by partition.
What cooperative-sticky gives back of topics that are gone, or that nobody subscribes to, is in no plan.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from spark_assign.groups.assignors.librdkafka.balancer_input import (
    Given,
    LibrdkafkaGroup,
    LibrdkafkaMember,
    TopicPartition,
)
from spark_assign.groups.assignors.librdkafka.metadata_order import answered
from spark_assign.groups.assignors.librdkafka.movements import UndefinedBehaviorError
from spark_assign.groups.assignors.librdkafka.ranges import assign_ranges
from spark_assign.groups.assignors.librdkafka.sticky import assign_sticky, near, racks_that_matter, read_claims
from spark_assign.groups.assignors.librdkafka.withhold import withhold
from spark_assign.groups.assignors.sticky.constrained import as_runs
from spark_assign.groups.assignors.sticky.sticky_types import BALANCING, RACK_MISMATCH, STAYS
from spark_assign.groups.kernel.group_assignments import GroupAssignments
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.librdkafka_slices import NO_POSITION, range_slices, round_robin_slices
from spark_assign.groups.kernel.librdkafka_undisputed import plan_undisputed
from spark_assign.groups.kernel.undisputed import find_undisputed
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


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
    return GroupAssignments(runs, np.full(len(runs), STAYS), np.zeros(len(runs), bool), {})


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
        later: Given = {}
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
                    reason = reasons.get((topic, number), STAYS)
                    rows.append((members[who], topics[topic], number, reason, waits))
    whom, what, which, why_taken, withheld = np.array(rows, np.int64).reshape(-1, 5).T
    return GroupAssignments(*as_runs(whom, what, which, why_taken, withheld.astype(bool)), refused)


def _reasons(group: LibrdkafkaGroup, now: Given, later: Given) -> dict[TopicPartition, int]:
    """Of what was taken from a member that could have kept it, why."""
    owner = {partition: who for who, owned in read_claims(group).owned.items() for partition in owned}
    topics, racks = {member.member_id: member.topics for member in group.members}, racks_that_matter(group)
    reasons = {}
    for given in (now, later):
        for who, partitions in given.items():
            for partition in partitions:
                had = owner.get(partition, who)
                if had != who and partition[0] in topics[had]:
                    reasons[partition] = BALANCING if near(group, racks, had, partition) else RACK_MISMATCH
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
        for topic in answered(members):
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
