"""Uniform with racks, an assignor that isn't part of Kafka. It shows how much cross-rack traffic uniform could avoid.

Principles, in order of priority
    1. Balance: each member has as many partitions as from uniform (of each topic, if subscriptions differ).
    2. Stickiness: no member gives up more partitions than under uniform. If uniform revokes nothing, nothing moves,
       even if members read across racks.
    3. Racks: as many partitions as possible go to a member that has a replica of them in its rack.
If uniform matches as many racks, its assignment is used.

Example: t has four partitions, p0 and p1 with replicas in rack y, p2 and p3 in rack x. C0 (rack x) owns all of them,
and C1 (rack y) joins.

    uniform         C0: [p0, p1]    C1: [p2, p3]    (all four are read across racks)
    rack-uniform    C0: [p2, p3]    C1: [p0, p1]    (none is)

Steps
    1. Release: a member above its quota keeps matched partitions before others. This never costs a match: a matched
       partition that it gave up to keep another one would be lost here, and gained at most once elsewhere. Which of
       several equally matched partitions it gives up is open.
    2. Flow: a maximum flow decides that. It goes from these members, by the rack sets of their open partitions, to the
       racks of members below their quota. Partitions that are released in any case or unowned flow along.
    3. Fill: partitions that flowed to a rack go to its members in order, the others to any member below its quota.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from spark_assign.assignors.group_specs import BALANCING, KEPT, OVER_QUOTA, GroupSpecs
from spark_assign.assignors.server.uniform import TargetAssignments
from spark_assign.numeric.arrays import (
    BoolArray,
    IntArray,
    PartitionSlices,
    compress_tagged,
    invert,
    key_ranges,
    mask_from_indexes,
    owners_to_slices,
    ranges_by_length,
    row_numbers,
    starts_new_key,
)

_NO_MEMBER = -1


def assign_by_rack(
    previous_owner: IntArray, rack_set: IntArray, quota: IntArray, rack: IntArray, in_set: BoolArray
) -> IntArray:
    """Returns the new owner of each partition of a group, or of one of its topics.

    Args:
        previous_owner: previous owner of each partition, sorted by topic and partition; -1 for none.
        rack_set: rack set of each partition.
        quota: number of partitions that each member gets, in the order in which the assignor processes them. The sum is
            the number of partitions.
        rack: rack of each member; -1 if unknown.
        in_set: whether the rack is in the set, by rack set and rack.
    """
    size = np.bincount(previous_owner[previous_owner >= 0], minlength=len(quota))
    is_owned = previous_owner != _NO_MEMBER
    matched = np.zeros(len(previous_owner), bool)
    matched[is_owned] = is_rack_matched(rack[previous_owner[is_owned]], rack_set[is_owned], in_set)
    is_losing = np.zeros(len(previous_owner), bool)
    is_losing[is_owned] = (size > quota)[previous_owner[is_owned]]
    is_matched_enough = np.bincount(previous_owner[matched], minlength=len(quota)) >= quota
    num_missing = np.maximum(quota - size, 0)
    # Step 1: open partitions, and those that are released in any case.
    is_open = is_losing.copy()
    is_open[is_losing] = matched[is_losing] == is_matched_enough[previous_owner[is_losing]]
    is_released = ~is_owned | (is_losing & ~matched & ~is_open)
    num_required = np.maximum(size - quota, 0) - np.bincount(
        previous_owner[is_released & is_owned], minlength=len(quota)
    )
    rack_demand = np.bincount(rack[rack >= 0], num_missing[rack >= 0], in_set.shape[1]).astype(np.int64)
    by_member, by_rack = _max_rack_matches(
        previous_owner, rack_set, is_open, is_released, num_required, rack_demand, in_set
    )
    is_released |= _select_released(previous_owner, rack_set, is_open, num_required, by_member)
    to_member = np.where(is_released, _NO_MEMBER, previous_owner)
    _assign_unassigned(to_member, rack_set, num_missing, rack, by_rack)
    return to_member


def is_rack_matched(rack: IntArray, rack_set: IntArray, in_set: BoolArray) -> BoolArray:
    """Returns a mask of the partitions with a replica in the rack of their member; rack -1 is unknown."""
    return (rack >= 0) & in_set[rack_set, rack]


def _max_rack_matches(
    previous_owner: IntArray,
    rack_set: IntArray,
    is_open: BoolArray,
    is_released: BoolArray,
    num_required: IntArray,
    rack_demand: IntArray,
    in_set: BoolArray,
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """Returns the maximum flow by member and rack set, and by rack set and rack (step 2)."""
    rack_sets, demand_racks = np.unique(rack_set[is_open | is_released]), np.flatnonzero(rack_demand)
    set_index = invert(rack_sets, len(in_set))
    from_members = np.flatnonzero(num_required)
    member_index = invert(from_members, len(num_required))
    source, sink = 0, 1
    member_node, set_node, rack_node = 2, 2 + len(from_members), 2 + len(from_members) + len(rack_sets)
    network = FlowNetwork(rack_node + len(demand_racks))
    for index, member in enumerate(from_members.tolist()):
        network.add_edge(source, member_node + index, int(num_required[member]))
    is_choice = is_open.copy()
    is_choice[is_open] = num_required[previous_owner[is_open]] > 0
    pairs, num_partitions = np.unique(
        member_index[previous_owner[is_choice]] * len(in_set) + rack_set[is_choice], return_counts=True
    )
    member_edges = {}
    for pair, capacity in zip(pairs.tolist(), num_partitions.tolist(), strict=True):
        index, replica_set = divmod(pair, len(in_set))
        edge = network.add_edge(member_node + index, set_node + int(set_index[replica_set]), capacity)
        member_edges[int(from_members[index]), replica_set] = edge
    for index, capacity in enumerate(np.bincount(set_index[rack_set[is_released]], minlength=len(rack_sets)).tolist()):
        network.add_edge(source, set_node + index, capacity)
    unlimited, rack_edges = len(previous_owner), {}
    for index, rack in enumerate(demand_racks.tolist()):
        network.add_edge(rack_node + index, sink, int(rack_demand[rack]))
        for replica_set in np.flatnonzero(in_set[rack_sets, rack]).tolist():
            rack_edges[int(rack_sets[replica_set]), rack] = network.add_edge(
                set_node + replica_set, rack_node + index, unlimited
            )
    network.max_flow(source, sink)
    by_member, by_rack = (
        {key: network.flow(edge) for key, edge in edges.items()} for edges in (member_edges, rack_edges)
    )
    return by_member, by_rack


def _select_released(
    previous_owner: IntArray,
    rack_set: IntArray,
    is_open: BoolArray,
    num_required: IntArray,
    flow: dict[tuple[int, int], int],
) -> BoolArray:
    """Returns a mask of the open partitions that are released: per rack set as many as the flow, then others as
    required.

    The last partitions are released first.
    """
    partitions = np.flatnonzero(is_open)[::-1]
    order = np.lexsort((np.arange(len(partitions)), rack_set[partitions], previous_owner[partitions]))
    partitions = partitions[order]
    pairs = previous_owner[partitions] * (int(rack_set.max(initial=0)) + 1) + rack_set[partitions]
    keys = zip(previous_owner[partitions].tolist(), rack_set[partitions].tolist(), strict=True)
    amount = np.array([flow.get(key, 0) for key in keys], np.int64)
    is_released = np.zeros(len(previous_owner), bool)
    is_released[partitions] = row_numbers(pairs) < amount
    num_remaining = num_required - np.bincount(previous_owner[is_released], minlength=len(num_required))
    others = np.flatnonzero(is_open & ~is_released)[::-1]
    others = others[np.argsort(previous_owner[others], kind="stable")]
    is_released[others] = row_numbers(previous_owner[others]) < num_remaining[previous_owner[others]]
    return is_released


def _assign_unassigned(
    to_member: IntArray, rack_set: IntArray, num_missing: IntArray, rack: IntArray, flow: dict[tuple[int, int], int]
) -> None:
    """Assigns the partitions without an owner in `to_member`, in place (step 3)."""
    unassigned = np.flatnonzero(to_member == _NO_MEMBER)
    by_rack_set = unassigned[np.argsort(rack_set[unassigned], kind="stable")]
    start = np.searchsorted(rack_set[by_rack_set], np.arange(int(rack_set.max(initial=0)) + 1)).tolist()
    partitions_by_rack: dict[int, list[IntArray]] = {}
    for (set_index, target_rack), amount in sorted(flow.items()):
        partitions_by_rack.setdefault(target_rack, []).append(by_rack_set[start[set_index] : start[set_index] + amount])
        start[set_index] += amount
    num_remaining = num_missing.copy()
    for target_rack, batches in partitions_by_rack.items():
        rack_partitions = np.sort(np.concatenate(batches))
        members = np.flatnonzero(rack == target_rack)
        to_member[rack_partitions] = np.repeat(members, num_missing[members])[: len(rack_partitions)]
        num_remaining -= np.bincount(to_member[rack_partitions], minlength=len(num_remaining))
    to_member[to_member == _NO_MEMBER] = np.repeat(np.arange(len(num_remaining)), num_remaining)


class FlowNetwork:
    """A flow network with nodes 0, 1, … (Dinic's algorithm, deterministic: the same network has the same flow)."""

    def __init__(self, num_nodes: int) -> None:
        """Creates a network without edges."""
        self._edges: list[list[int]] = [[] for _ in range(num_nodes)]
        self._end: list[int] = []
        self._residual: list[int] = []
        self._level: list[int] = []
        self._next: list[int] = []

    def add_edge(self, start: int, end: int, capacity: int) -> int:
        """Adds an edge and returns its index."""
        edge = len(self._end)
        self._end += [end, start]
        self._residual += [capacity, 0]
        self._edges[start].append(edge)
        self._edges[end].append(edge + 1)
        return edge

    def max_flow(self, source: int, sink: int) -> None:
        """Sends as much as possible from source to sink, along the shortest paths first."""
        while self._find_levels(source, sink):
            self._next = [0] * len(self._edges)
            while self._send(source, sink, sum(self._residual[edge] for edge in self._edges[source])):
                pass

    def flow(self, edge: int) -> int:
        """Returns the flow through an edge."""
        return self._residual[edge + 1]

    def _find_levels(self, source: int, sink: int) -> bool:
        """Computes the distance of each node from the source; returns whether the sink is reachable."""
        self._level = [-1] * len(self._edges)
        self._level[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                end = self._end[edge]
                if self._residual[edge] and self._level[end] < 0:
                    self._level[end] = self._level[node] + 1
                    waiting.append(end)
        return self._level[sink] >= 0

    def _send(self, node: int, sink: int, amount: int) -> int:
        """Sends up to `amount` from a node to the sink, one level per step; returns the amount sent."""
        if node == sink or not amount:
            return amount
        edges, sent = self._edges[node], 0
        while self._next[node] < len(edges):
            edge = edges[self._next[node]]
            if self._residual[edge] and self._level[self._end[edge]] == self._level[node] + 1:
                pushed = self._send(self._end[edge], sink, min(amount - sent, self._residual[edge]))
                self._residual[edge] -= pushed
                self._residual[edge ^ 1] += pushed
                sent += pushed
                if sent == amount:
                    return sent
            self._next[node] += 1
        return sent


# --- many groups ----------------------------------------------------------------------------------------------


def improve_uniform_racks(
    specs: GroupSpecs,
    topics: IntArray,
    members: IntArray,
    is_heterogeneous: BoolArray,
    previous: PartitionSlices,
    targets: TargetAssignments,
) -> TargetAssignments:
    """Returns uniform's targets with more partitions in the racks of their members if possible.

    Args:
        specs: the groups.
        topics: indexes of the planned topics, ascending.
        members: members of all groups, in the order in which the assignor sees them.
        is_heterogeneous: mask of heterogeneous groups, in which each topic is optimized separately.
        previous: what members had.
        targets: uniform's targets.
    """
    topics = topics[specs.groups_with_racks[specs.topics.group[topics]]]
    if not len(topics):
        return targets
    partitions = specs.topics.partitions[topics]
    topic, partition = np.repeat(topics, partitions), ranges_by_length(partitions)
    starts = np.zeros(len(specs.topics), np.int64)
    starts[topics] = np.cumsum(partitions) - partitions
    is_planned = mask_from_indexes(topics, len(specs.topics))
    position = np.append(invert(members, len(specs.members)), _NO_MEMBER)
    previous_owner, target_owner = (
        position[slices.take(is_planned[slices.topic]).owners(starts, len(topic))]
        for slices in (previous, targets.slices)
    )
    racks = RackIndex(specs)
    rack_set, near, rack = racks.sets_of(topics), racks.near, racks.of_member[members]
    group = specs.topics.group[topic]
    problem = group * len(specs.topics) + np.where(is_heterogeneous[group], topic, 0)
    new_member = target_owner.copy()
    for first, last in key_ranges(problem):
        span = slice(first, last)
        member_start, member_end = np.searchsorted(
            specs.members.group[members], [group[first], group[first] + 1]
        ).tolist()
        target, member_racks = target_owner[span] - member_start, rack[member_start:member_end]
        current = np.where(previous_owner[span] < 0, -1, previous_owner[span] - member_start)
        if (current == target).all():
            continue
        improved = assign_by_rack(
            current, rack_set[span], np.bincount(target, minlength=len(member_racks)), member_racks, near
        )
        if (
            is_rack_matched(member_racks[improved], rack_set[span], near).sum()
            > is_rack_matched(member_racks[target], rack_set[span], near).sum()
        ):
            new_member[span] = improved + member_start
    # A problem is replaced completely or not at all.
    changed = mask_from_indexes(topic[np.isin(problem, problem[new_member != target_owner])], len(specs.topics))
    is_new = changed[topic]
    moved = np.where(is_heterogeneous[group], BALANCING, OVER_QUOTA)
    reason = np.where((previous_owner >= 0) & (previous_owner != new_member), moved, KEPT)[is_new]
    slices, reason = compress_tagged(members[new_member[is_new]], topic[is_new], partition[is_new], reason)
    unchanged = targets.take(~changed[targets.slices.topic])
    return TargetAssignments(unchanged.slices.concat(slices), np.append(unchanged.reason, reason))


class RackIndex:
    """Racks and rack sets, indexed by sorted names, so that the order of rows has no effect.

    Attributes:
        of_member: rack of each member; -1 for none.
        near: `near[set, rack]`: whether the set contains the rack.
    """

    def __init__(self, specs: GroupSpecs) -> None:
        self._specs = specs
        names = sorted(specs.racks)
        index = {name: at for at, name in enumerate(names)}
        rank = np.array([index[name] for name in specs.racks] + [-1], np.int64)
        self.of_member = rank[specs.members.rack]
        sets = [tuple(sorted(rank[rack] for rack in rack_set)) for rack_set in specs.rack_sets]
        number = {rack_set: at for at, rack_set in enumerate(sorted(sets))}
        self._number = np.array([number[rack_set] for rack_set in sets], np.int64)
        self.near: BoolArray = np.zeros((len(sets), len(names)), bool)
        for rack_set, at in number.items():
            self.near[at, list(rack_set)] = True

    def sets_of(self, topics: IntArray) -> IntArray:
        """Returns the rack set of each partition of the topics; set 0 is empty."""
        empty = np.empty(0, np.int64)
        counts = zip(topics.tolist(), self._specs.topics.partitions[topics].tolist(), strict=True)
        sets = [self._specs.rack_set.get(topic, np.zeros(partitions, np.int64)) for topic, partitions in counts]
        result: IntArray = self._number[np.concatenate([empty, *sets])]
        return result


# --- the broker's `RangeAssignor`, here called server-range ---------------------------------------------------
#
# Principles, in order of priority
#     1. Balance within a topic: with p partitions and n subscribers, each gets p // n, and the first p % n get one
#        more.
#     2. Co-partitioning: topics with the same subscribers and the same number of partitions are assigned the same way.
# The previous target and racks are ignored. (The client-side range assignor uses racks since KIP-881.)
#
# Example: C0 and C1 subscribe to t0 and t1, three partitions each.
#
#     C0: [t0p0, t0p1, t1p0, t1p1]    C1: [t0p2, t1p2]
#
# Steps
#     1. Sort the members: static members by instance id, then the others by member id.
#     2. In each topic, the subscriber at position k starts at k * (p // n) + min(k, p % n), and gets p // n partitions;
#        the first p % n subscribers get one more.
#
# rack-server-range, which isn't part of Kafka, shows what racks would save. Its principles, in order of priority
#     1. Balance within a topic: each subscriber has as many partitions as from server-range.
#     2. Co-partitioning: as above.
#     3. Racks: as many partitions as possible go to a member that has a replica of them in its rack.
# If server-range matches as many racks, its assignment is used. The previous target is ignored.
#
# Example: t has four partitions with replicas in racks y, x, y, x. C0 is in rack x, C1 in rack y.
#
#     server-range         C0: [p0, p1]    C1: [p2, p3]    (two of four are read across racks)
#     rack-server-range    C0: [p1, p3]    C1: [p0, p2]    (none is)
#
# Steps, for topics with the same subscribers and the same number of partitions
#     1. Value: count, for each partition number and rack, the topics that have a replica there.
#     2. Distribute the partition numbers over the racks, to each as many as its members get. Members without a rack
#        share a rack in which nothing has a value. Start with the most valuable pairs; then improve the result along
#        cycles of racks in which each passes a number on to the next. If there is no such cycle, the total value is
#        maximal.
#     3. The numbers of a rack go to its members in order, in consecutive pieces.


def improve_range_racks(specs: GroupSpecs, server_slices: PartitionSlices) -> PartitionSlices:
    """Returns server-range's slices with more partitions in the racks of their members if possible."""
    topic_indexes = np.unique(server_slices.topic)
    topic_indexes = topic_indexes[specs.groups_with_racks[specs.topics.group[topic_indexes]]]
    if not len(topic_indexes):
        return server_slices
    topics, racks = specs.topics, RackIndex(specs)
    order = np.lexsort((server_slices.first, server_slices.topic))
    ordered = server_slices.take(order)
    columns = topics.partitions[topic_indexes], topics.subscriber_set[topic_indexes], topics.group[topic_indexes]
    sorted_topics = topic_indexes[np.lexsort((topic_indexes, *columns))]
    class_keys = (column[sorted_topics] for column in (topics.partitions, topics.subscriber_set, topics.group))
    improved: list[PartitionSlices] = []
    replaced = np.zeros(len(topics), bool)
    for first, last in key_ranges(np.cumsum(starts_new_key(*class_keys))):
        class_topics = sorted_topics[first:last]
        class_slices = ordered.take(np.arange(*np.searchsorted(ordered.topic, [class_topics[0], class_topics[0] + 1])))
        rack = racks.of_member[class_slices.member]
        used_racks = np.unique(rack[rack >= 0])  # every member can have a rack of its own, without replicas
        used_racks = used_racks[racks.near[:, used_racks].any(axis=0)]
        rack = np.where(np.isin(rack, used_racks), np.searchsorted(used_racks, rack), -1)
        sets = racks.sets_of(class_topics).reshape(len(class_topics), -1)
        value = racks.near[:, used_racks][sets].sum(axis=0)
        owner = assign_ranges_by_rack(class_slices.count, rack, value)
        if _count_matched(owner, rack, value) <= _count_matched(
            np.repeat(np.arange(len(class_slices)), class_slices.count), rack, value
        ):
            continue
        replaced[class_topics] = True
        position, *run = owners_to_slices(owner)
        improved += [
            PartitionSlices(class_slices.member[position], np.full(len(position), topic), *run)
            for topic in class_topics.tolist()
        ]
    return server_slices.take(~replaced[server_slices.topic]).concat(*improved)


def _count_matched(owner: IntArray, rack: IntArray, value: IntArray) -> int:
    """Returns the number of partitions with a replica in the rack of their owner."""
    owner_rack = rack[owner]
    return int(value[np.flatnonzero(owner_rack >= 0), owner_rack[owner_rack >= 0]].sum())


def assign_ranges_by_rack(num_assigned: IntArray, rack: IntArray, value: IntArray) -> IntArray:
    """Returns the member that gets each partition number.

    Args:
        num_assigned: number of partitions that each member gets, in the order of server-range. The sum is the
            number of rows of `value`.
        rack: rack of each member; -1 if unknown.
        value: number of topics with a replica, by partition number and rack.
    """
    num_racks = value.shape[1]
    member_rack = np.where(rack < 0, num_racks, rack)
    capacity = np.bincount(member_rack, num_assigned, num_racks + 1).astype(np.int64)
    classes, partition_class, supply = np.unique(
        np.append(value, np.zeros((len(value), 1), np.int64), axis=1), axis=0, return_inverse=True, return_counts=True
    )
    flow = maximize_value(classes, supply, capacity)
    order = np.argsort(partition_class.ravel(), kind="stable")
    partition_rack = np.empty(len(value), np.int64)
    partition_rack[order] = np.repeat(np.tile(np.arange(num_racks + 1), len(classes)), flow.ravel())
    owner = np.empty(len(value), np.int64)
    owner[np.argsort(partition_rack, kind="stable")] = np.repeat(np.arange(len(num_assigned)), num_assigned)[
        np.argsort(np.repeat(member_rack, num_assigned), kind="stable")
    ]
    return owner


def maximize_value(value: IntArray, supply: IntArray, capacity: IntArray) -> IntArray:
    """Returns how many partition numbers of each class go to each rack, so that the total value is maximal (step 2).

    Args:
        value: value by class and rack.
        supply: number of partition numbers of each class.
        capacity: number of partition numbers that each rack takes. Its sum is that of the supply.
    """
    flow, num_remaining, num_free = np.zeros_like(value), supply.copy(), capacity.copy()
    for class_index, rack in zip(
        *np.unravel_index(np.argsort(-value, axis=None, kind="stable"), value.shape), strict=True
    ):
        amount = min(num_remaining[class_index], num_free[rack])
        flow[class_index, rack] = amount
        num_remaining[class_index] -= amount
        num_free[rack] -= amount
    while cycle := _find_improving_cycle(value, flow):
        amount = min(flow[class_index, rack] for class_index, rack, _ in cycle)
        for class_index, rack, next_rack in cycle:
            flow[class_index, rack] -= amount
            flow[class_index, next_rack] += amount
    return flow


def _find_improving_cycle(value: IntArray, flow: IntArray) -> list[tuple[int, int, int]]:
    """Returns (class, rack, next rack) along a cycle that increases the total value; empty if there is none."""
    num_racks = value.shape[1]
    gain = np.full((num_racks, num_racks), -np.inf)
    passed_class = np.zeros((num_racks, num_racks), np.int64)
    for rack in range(num_racks):
        classes = np.flatnonzero(flow[:, rack])
        if len(classes):
            difference = value[classes] - value[classes, rack][:, None]
            passed_class[rack], gain[rack] = classes[difference.argmax(axis=0)], difference.max(axis=0)
    # Bellman-Ford: a path that still improves after as many steps as there are racks contains a cycle.
    best, preceding = np.zeros(num_racks), np.full(num_racks, -1)
    is_better = np.zeros(num_racks, bool)
    for _ in range(num_racks):
        through = best[:, None] + gain
        is_better = through.max(axis=0) > best
        preceding[is_better] = through.argmax(axis=0)[is_better]
        best = np.maximum(best, through.max(axis=0))
    if not is_better.any():
        return []
    rack = int(np.flatnonzero(is_better)[0])
    for _ in range(num_racks):
        rack = int(preceding[rack])
    cycle: list[tuple[int, int, int]] = []
    start = rack
    while not cycle or rack != start:
        previous_rack = int(preceding[rack])
        cycle.append((int(passed_class[previous_rack, rack]), previous_rack, rack))
        rack = previous_rack
    return cycle
