"""Assigns groups as the broker does (KIP-848): uniform and server-range.

What members own now is their target so far. A partition that another member still owns is withheld: the broker assigns
it after its owner has reported the revocation.

Kafka's orders depend on topic ids and on the positions of members in the coordinator's table (`coordinator_order`). If
a fleet lacks them, `GroupAssignments.order_dependent` lists the partitions that depend on them.

In the broker two members can't own one partition. If they do in a fleet, the first one in the order keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from spark_assign.assignors.group_specs import ALL_MEMBERS, KEPT, GroupAssignments, GroupSpecs
from spark_assign.assignors.range import assign_ranges
from spark_assign.assignors.server import RACK_SERVER_ASSIGNORS, TOPIC_ID_ASSIGNORS, UNIFORM_4_0_0
from spark_assign.assignors.server.coordinator_order import (
    TieOrder,
    TopicIdIndex,
    coordinator_member_order,
    coordinator_previous_order,
    coordinator_topic_order,
    find_classic_groups,
    in_owned_order,
    read_topic_ids_of_specs,
)
from spark_assign.assignors.server.order_dependence import (
    HeterogeneousTies,
    MemberQuotas,
    order_dependent_partitions,
)
from spark_assign.assignors.server.rack_aware import improve_range_racks, improve_uniform_racks
from spark_assign.assignors.server.uniform import (
    TargetAssignments,
    assign_heterogeneous,
    assign_homogeneous,
    compute_quotas,
)
from spark_assign.assignors.sticky.constrained import find_unowned
from spark_assign.assignors.sticky.sticky_groups import find_overlapping_topics
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    compress,
    compress_in_order,
    invert,
    key_ranges,
    mask_from_indexes,
    match_equal_slices,
    match_keys,
    starts_new_key,
)

_FindSlices = Callable[[], PartitionSlices]


def assign_by_server(specs: GroupSpecs, assignor: str, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups by an assignor of the broker, or by one of this project's variants."""
    topics = specs.topics.with_metadata
    if assignor not in TOPIC_ID_ASSIGNORS:
        slices = assign_ranges(specs.subscriber_lists, specs.topics.partitions_to_assign(selected))
        slices = improve_range_racks(specs, slices) if assignor in RACK_SERVER_ASSIGNORS else slices
        return withhold_owned(specs, TargetAssignments(slices, np.full(len(slices), KEPT)))
    ids = read_topic_ids_of_specs(specs)
    rejected = {group: rejection for group, rejection in ids.rejected.items() if selected[group]}
    selected = selected.copy()
    selected[list(rejected)] = False
    topics = topics[selected[specs.topics.group[topics]]]
    members, is_heterogeneous = coordinator_member_order(specs), _find_heterogeneous(specs)
    previous = first_owners(specs, topics, members.index)
    targets, find_order_dependent = _uniform(
        specs, topics, selected, ids, members, is_heterogeneous, previous, extras_to_first=assignor == UNIFORM_4_0_0
    )
    if assignor in RACK_SERVER_ASSIGNORS:
        targets = improve_uniform_racks(specs, topics, members.index, is_heterogeneous, previous, targets)
        find_order_dependent = EMPTY_SLICES.concat
    return replace(_withhold(specs, targets, previous), rejected=rejected, find_order_dependent=find_order_dependent)


# --- uniform ------------------------------------------------------------------------------------------------------


def _find_heterogeneous(specs: GroupSpecs) -> BoolArray:
    """Returns the mask of groups whose subscription type is heterogeneous."""
    is_heterogeneous = np.array([kind == "heterogeneous" for kind in specs.group_values("subscription_type")], bool)
    differing = specs.topics.is_subscribed & (specs.topics.subscriber_set != ALL_MEMBERS)
    is_heterogeneous[specs.topics.group[differing]] = True
    return is_heterogeneous


def _uniform(
    specs: GroupSpecs,
    topics: IntArray,
    selected: BoolArray,
    ids: TopicIdIndex,
    members: TieOrder,
    is_heterogeneous: BoolArray,
    previous: PartitionSlices,
    *,
    extras_to_first: bool,
) -> tuple[TargetAssignments, _FindSlices]:
    """Returns uniform's targets, and the function that finds their order-dependent slices."""
    group, homogeneous = specs.topics.group[topics], selected & ~is_heterogeneous
    results = [
        _assign_homogeneous(
            specs, topics[homogeneous[group]], homogeneous, members, ids, previous, extras_to_first=extras_to_first
        )
    ]
    heterogeneous = selected & is_heterogeneous
    if heterogeneous.any():
        some_members = members.take(heterogeneous[specs.members.group[members.index]])
        results.append(_assign_heterogeneous(specs, topics[heterogeneous[group]], some_members, ids, previous))
    targets, finders = zip(*results, strict=True)
    slices = EMPTY_SLICES.concat(*(each.slices for each in targets))
    reason = np.concatenate([each.reason for each in targets])
    return TargetAssignments(slices, reason), lambda: EMPTY_SLICES.concat(*(find() for find in finders))


def _assign_homogeneous(
    specs: GroupSpecs,
    topics: IntArray,
    selected: BoolArray,
    members: TieOrder,
    ids: TopicIdIndex,
    previous: PartitionSlices,
    *,
    extras_to_first: bool,
) -> tuple[TargetAssignments, _FindSlices]:
    """Assigns homogeneous groups, side by side."""
    topic_order = coordinator_topic_order(specs, topics, ids)
    members = members.take(selected[specs.members.group[members.index]])
    member, topic = invert(members.index, len(specs.members)), invert(topic_order.index, len(specs.topics))
    current = previous.take(topic[previous.topic] >= 0).renumber(member, topic)
    current = current.take(np.lexsort((current.first, current.topic, current.member)))
    # Groups that are not selected have no members, so groups are renumbered.
    group_position = np.cumsum(selected) - 1
    group = group_position[specs.members.group[members.index]]
    topic_group = group_position[specs.topics.group[topic_order.index]]
    partitions = specs.topics.partitions[topic_order.index]
    num_owned = np.bincount(current.member, current.count, len(members.index)).astype(np.int64)
    quota = compute_quotas(group, topic_group, partitions, num_owned, extras_to_first=extras_to_first)
    shares = MemberQuotas(group, num_owned, quota, members.tie, extras_to_first=extras_to_first)
    loses = (num_owned > shares.min_quota)[current.member]
    kept_slices, losing = current.take(~loses), current.take(loses)
    id_hash, id_rank = ids.hash[topic_order.index], ids.rank[topic_order.index]
    losing, by_topic, by_partition = coordinator_previous_order(losing, id_hash, id_rank)
    by_topic = np.where(ids.by_name[specs.topics.group[topic_order.index][losing.topic]], 0, by_topic)
    # Members of a classic group report their order to the leader; the broker reads what it has stored.
    reported = specs.owned_order
    reported = reported.take(~find_classic_groups(specs)[specs.members.group[reported.member]])
    order, is_reported = in_owned_order(losing, reported.renumber(member, topic))
    losing = losing.take(order)
    by_topic, by_partition = (
        np.where(is_reported, np.arange(len(order)), tie)[order] for tie in (by_topic, by_partition)
    )
    combined = kept_slices.concat(compress_in_order(losing))
    current = combined.take(np.argsort(combined.member, kind="stable"))
    targets = assign_homogeneous(group, topic_group, partitions, current, extras_to_first=extras_to_first)
    slices = targets.slices.renumber(members.index, topic_order.index)

    def find_order_dependent() -> PartitionSlices:
        open_partitions = order_dependent_partitions(
            shares, topic_group, targets.unassigned, losing, topic_order.tie, (by_topic, by_partition)
        )
        # Partitions of a member that loses nothing do not depend on an order.
        is_unstable = targets.is_new | (num_owned > shares.min_quota)[targets.slices.member]
        return _intersect(slices.take(is_unstable), topic_order.index[open_partitions.topic], open_partitions.first)

    return TargetAssignments(slices, targets.reason), find_order_dependent


def _intersect(slices: PartitionSlices, topic: IntArray, partition: IntArray) -> PartitionSlices:
    """Returns the part of the slices that consists of the given partitions."""
    if not len(topic):
        return EMPTY_SLICES
    rows, keys = slices.expand(), np.sort(topic << PARTITION_BITS | partition)  # `np.isin` takes six times as long
    rows = rows.take(np.append(keys, -1)[np.searchsorted(keys, rows.partition_keys)] == rows.partition_keys)
    return compress(rows.member, rows.topic, rows.first)


def _assign_heterogeneous(
    specs: GroupSpecs, topics: IntArray, members: TieOrder, ids: TopicIdIndex, previous: PartitionSlices
) -> tuple[TargetAssignments, _FindSlices]:
    """Assigns heterogeneous groups, side by side."""
    member, topic = invert(members.index, len(specs.members)), invert(topics, len(specs.topics))
    group, (set_index, members_of_sets) = specs.topics.group[topics], specs.distinct_sets(topics)
    sets = [np.sort(member[each]) for each in members_of_sets]
    current = previous.take(topic[previous.topic] >= 0).renumber(member, topic)
    current = current.take(np.lexsort((current.first, current.topic, current.member)))
    partitions, ranks = specs.topics.partitions[topics], ids.rank[topics]
    targets = assign_heterogeneous(len(members.index), group, partitions, ranks, set_index, sets, current)
    slices = targets.slices.renumber(members.index, topics)
    member_group = specs.members.group[members.index]

    def of_group(start: int, end: int) -> PartitionSlices:
        first_member, last_member = np.searchsorted(member_group, [group[start], group[start] + 1]).tolist()
        numbers = set_index[start:end].tolist()
        lists = {index: (sets[index] - first_member).tolist() for index in set(numbers)}
        ties = HeterogeneousTies(
            last_member - first_member,
            [lists[index] for index in numbers],
            partitions[start:end].tolist(),
            ranks[start:end].tolist(),
            current.take((current.topic >= start) & (current.topic < end)).shift(-first_member, -start),
        )
        position, partition = ties.order_dependent_partitions(
            members.tie[first_member:last_member].tolist(), ranks_known=not ids.by_name[group[start]]
        )
        return _intersect(slices, topics[start + position], partition)

    def find_order_dependent() -> PartitionSlices:
        return EMPTY_SLICES.concat(*(of_group(start, end) for start, end in key_ranges(group)))

    return TargetAssignments(slices, targets.reason), find_order_dependent


def first_owners(specs: GroupSpecs, topics: IntArray, members: IntArray) -> PartitionSlices:
    """Returns the owned partitions of subscribed topics: each partition at most once, none out of range."""
    owned = specs.owned.take(mask_from_indexes(topics, len(specs.topics))[specs.owned.topic])
    owned = owned.take(specs.subscribes(owned.member, owned.topic)).below(specs.topics.partitions)
    is_overlapping = np.isin(owned.topic, find_overlapping_topics(owned))
    if not is_overlapping.any():
        return owned
    position = invert(members, len(specs.members))
    rows = owned.take(is_overlapping).expand()
    rows = rows.take(np.lexsort((position[rows.member], rows.partition_keys)))
    return owned.take(~is_overlapping).concat(rows.take(starts_new_key(rows.partition_keys)))


# --- reconciliation -----------------------------------------------------------------------------------------------


def _withhold(specs: GroupSpecs, targets: TargetAssignments, previous: PartitionSlices) -> GroupAssignments:
    """Marks the partitions that other members still own.

    If the targets were computed from all owned partitions of a topic, their reasons contain that already.
    """
    owned, size = specs.owned, len(specs.topics)
    num_by_topic = (np.bincount(each.topic, each.count, size) for each in (owned, previous))
    is_complete = np.equal(*num_by_topic)[targets.slices.topic]
    is_single = targets.slices.count == 1
    incomplete, single, others = map(targets.take, (~is_complete, is_complete & is_single, is_complete & ~is_single))
    assignments = GroupAssignments(others.slices, others.reason, others.reason != KEPT).concat(
        GroupAssignments.of_partitions(*single.slices.columns[:3], single.reason, single.reason != KEPT)
    )
    return assignments.concat(withhold_owned(specs, incomplete)) if len(incomplete.slices) else assignments


def withhold_owned(specs: GroupSpecs, targets: TargetAssignments) -> GroupAssignments:
    """Marks the partitions that other members still own.

    Slices that stay with their owner are not expanded. Neither are other ranges of partitions, unless a topic has fewer
    partitions than pairs of a range and an owned slice, or members claim the same partition.
    """
    is_kept = mask_from_indexes(match_equal_slices(targets.slices, specs.owned)[0], len(targets.slices))
    kept, moving = targets.take(is_kept), targets.take(~is_kept)
    size, slices = len(specs.topics), moving.slices
    has_moves = mask_from_indexes(slices.topic, size)
    owned = specs.owned.take(has_moves[specs.owned.topic]).below(specs.topics.partitions)
    num_pairs = np.bincount(slices.topic, minlength=size) * np.bincount(owned.topic, minlength=size)
    is_expanded = num_pairs > np.bincount(slices.topic, slices.count, size)
    is_expanded[slices.topic[(slices.step > 1) & (slices.count > 1)]] = True
    is_expanded[find_overlapping_topics(owned.take(~is_expanded[owned.topic]))] = True
    by_slices, by_partition = (moving.take(is_expanded[slices.topic] == each) for each in (False, True))
    parts = [_find_claimed(by_partition, owned.take(is_expanded[owned.topic]).expand())]
    if len(by_slices.slices):
        partitions = np.where(has_moves & ~is_expanded, specs.topics.partitions, 0)
        previous = owned.take(~is_expanded[owned.topic])
        parts.append(_intersect_ranges(by_slices, previous.concat(find_unowned(previous, partitions))))
    reassigned = EMPTY_SLICES.concat(*(each.slices for each in parts))
    reason, withheld = (np.concatenate([getattr(each, name) for each in parts]) for name in ("reason", "withheld"))
    return GroupAssignments(kept.slices, kept.reason, np.zeros(len(kept.slices), bool)).concat(
        GroupAssignments.of_slices(reassigned, reason, withheld)
    )


def _intersect_ranges(targets: TargetAssignments, previous: PartitionSlices) -> GroupAssignments:
    """Returns the parts of ranges (of step 1) that each previous owner has, or nobody (-1); withheld if another member
    has it. Each partition has one previous owner."""
    row, previous_row = match_keys(targets.slices.topic, previous.topic)
    target, part = targets.slices.take(row), previous.take(previous_row)
    start = np.maximum(-((part.first - target.first) // part.step), 0)
    end = np.minimum((target.last - part.first) // part.step + 1, part.count)
    slices = PartitionSlices(target.member, target.topic, part.first + part.step * start, part.step, end - start)
    is_withheld = (part.member >= 0) & (part.member != target.member)
    is_owned = end > start
    return GroupAssignments(slices.take(is_owned), targets.reason[row[is_owned]], is_withheld[is_owned])


def _find_claimed(targets: TargetAssignments, owned: PartitionSlices) -> GroupAssignments:
    """Returns the single partitions of the targets, given the owned single partitions; withheld if only other members
    own them."""
    rows, reason = targets.slices.expand(), np.repeat(targets.reason, targets.slices.count)
    row_index, claim = match_keys(rows.partition_keys, owned.partition_keys)
    withheld = mask_from_indexes(row_index, len(rows))
    # A member that owns the partition keeps it, even if others claim it.
    withheld[row_index[owned.member[claim] == rows.member[row_index]]] = False
    return GroupAssignments(rows, reason, withheld)
