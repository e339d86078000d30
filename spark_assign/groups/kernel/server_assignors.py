"""Assigns groups as the broker does (KIP-848): uniform and server-range.

What members own now is their target so far. A partition that another member still owns is withheld: the broker assigns
it after its owner has reported the revocation.

Kafka's orders depend on topic ids and on the positions of members in the coordinator's table (`coordinator_order`). If
a fleet lacks them, `GroupAssignments.order_dependent` lists the partitions that depend on them.

In the broker two members can't own one partition. If they do in a fleet, the first one in the order keeps it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS, TOPIC_ID_ASSIGNORS
from spark_assign.groups.assignors.server.homogeneous import assign_homogeneous, compute_quotas
from spark_assign.groups.assignors.server.order_dependence import (
    HeterogeneousTies,
    MemberQuotas,
    UnknownOrder,
    order_dependent_partitions,
)
from spark_assign.groups.assignors.server.range import assign_server_ranges
from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.ownership_conflicts import find_overlapping_topics
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT
from spark_assign.groups.kernel.coordinator_order import (
    TieOrder,
    TopicIdIndex,
    coordinator_member_order,
    coordinator_previous_order,
    coordinator_topic_order,
    find_classic_groups,
    read_topic_ids_of_specs,
)
from spark_assign.groups.kernel.facts import GROUP
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.rack_aware_server_assignors import improve_range_racks, improve_uniform_racks
from spark_assign.groups.kernel.sticky_input import in_owned_order, read_owned_order
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    EMPTY_SLICES,
    PARTITION_BITS,
    PartitionSlices,
    mask_from_indexes,
    match_equal_slices,
)
from spark_assign.numeric.segmented_arrays import row_numbers, starts_new_key


def assign_by_server(specs: GroupSpecs, assignor: str, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups by an assignor of the broker, or by one of this project's variants."""
    topics = specs.topics.with_metadata
    if assignor not in TOPIC_ID_ASSIGNORS:
        slices = _ranges(specs, topics[selected[specs.topics.group[topics]]])
        slices = improve_range_racks(specs, slices) if assignor in RACK_SERVER_ASSIGNORS else slices
        return withhold_owned(specs, TargetAssignments(slices, np.full(len(slices), KEPT)))
    ids = read_topic_ids_of_specs(specs)
    rejected = {group: rejection for group, rejection in ids.rejected.items() if selected[group]}
    selected = selected.copy()
    selected[list(rejected)] = False
    topics = topics[selected[specs.topics.group[topics]]]
    members, is_heterogeneous = coordinator_member_order(specs), _find_heterogeneous(specs)
    previous = first_owners(specs, topics, members.index)
    targets, order_dependent = _uniform(specs, topics, selected, ids, members, is_heterogeneous, previous)
    if assignor in RACK_SERVER_ASSIGNORS:
        targets, order_dependent = (
            improve_uniform_racks(specs, topics, members.index, is_heterogeneous, previous, targets),
            EMPTY_SLICES,
        )
    return replace(_withhold(specs, targets, previous), rejected=rejected, order_dependent=order_dependent)


def _ranges(specs: GroupSpecs, topics: IntArray) -> PartitionSlices:
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    topic_position = _positions(topics, len(specs.topics))
    is_selected = topic_position[topic] >= 0
    ranges = assign_server_ranges(
        member[is_selected],
        topic_position[topic[is_selected]],
        specs.members.assignment_order,
        specs.topics.partitions[topics],
    )
    return PartitionSlices(ranges.member, topics[ranges.topic], *ranges.columns[2:])


# --- uniform ------------------------------------------------------------------------------------------------------


def _find_heterogeneous(specs: GroupSpecs) -> BoolArray:
    """Returns the mask of groups whose subscription type is heterogeneous."""
    facts, rows = specs.facts, specs.facts.rows_by_kind[GROUP]
    is_declared = np.zeros(facts.num_groups, bool)
    types = facts.column("subscription_type", rows).to_pylist()
    is_declared[facts.group_index[rows]] = [each == "heterogeneous" for each in types]
    is_heterogeneous = is_declared[specs.fact_group_index]
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
) -> tuple[TargetAssignments, PartitionSlices]:
    """Returns uniform's targets, and their order-dependent slices."""
    results = [
        _assign_homogeneous(
            specs,
            topics[~is_heterogeneous[specs.topics.group[topics]]],
            selected & ~is_heterogeneous,
            members,
            ids,
            previous,
        )
    ]
    for group in np.flatnonzero(selected & is_heterogeneous).tolist():
        group_topics = topics[specs.topics.group[topics] == group]
        results.append(
            _assign_heterogeneous(
                specs, group_topics, members.take(specs.members.group[members.index] == group), ids, previous
            )
        )
    runs, order_dependent = results[0][0].slices, results[0][1]
    for targets, group_order_dependent in results[1:]:
        runs, order_dependent = runs.concat(targets.slices), order_dependent.concat(group_order_dependent)
    return TargetAssignments(runs, np.concatenate([targets.reason for targets, _ in results])), order_dependent


def _assign_homogeneous(
    specs: GroupSpecs,
    topics: IntArray,
    selected: BoolArray,
    members: TieOrder,
    ids: TopicIdIndex,
    previous: PartitionSlices,
) -> tuple[TargetAssignments, PartitionSlices]:
    """Assigns homogeneous groups, side by side."""
    topic_order, members = (
        coordinator_topic_order(specs, topics, ids),
        members.take(selected[specs.members.group[members.index]]),
    )
    member, topic = _positions(members.index, len(specs.members)), _positions(topic_order.index, len(specs.topics))
    is_selected = topic[previous.topic] >= 0
    current = PartitionSlices(
        member[previous.member[is_selected]],
        topic[previous.topic[is_selected]],
        *previous.take(is_selected).columns[2:],
    )
    current = current.take(np.lexsort((current.first, current.topic, current.member)))
    # Groups that are not selected have no members, so groups are renumbered.
    group_position = np.cumsum(selected) - 1
    group, of_topic = (
        group_position[specs.members.group[members.index]],
        group_position[specs.topics.group[topic_order.index]],
    )
    partitions = specs.topics.partitions[topic_order.index]
    num_owned = np.bincount(current.member, current.count, len(members.index)).astype(np.int64)
    shares = MemberQuotas(group, num_owned, compute_quotas(group, of_topic, partitions, num_owned), members.tie)
    loses = (num_owned > shares.min_quota)[current.member]
    kept_slices, losing = current.take(~loses), current.take(loses)
    losing, by_topic, by_partition = coordinator_previous_order(
        losing, ids.topic_ids.hash[topic_order.index], ids.topic_ids.rank[topic_order.index]
    )
    by_topic = np.where(ids.by_name[specs.topics.group[topic_order.index][losing.topic]], 0, by_topic)
    # Members of a classic group report their order to the leader; the broker reads what it has stored.
    reported = read_owned_order(specs)
    reported = reported.take(~find_classic_groups(specs)[specs.members.group[reported.member]])
    order, is_reported = in_owned_order(
        losing, PartitionSlices(member[reported.member], topic[reported.topic], *reported.columns[2:])
    )
    losing = losing.take(order)
    by_topic, by_partition = (
        np.where(is_reported, np.arange(len(order)), tie)[order] for tie in (by_topic, by_partition)
    )
    combined = kept_slices.concat(losing)
    current = combined.take(np.argsort(combined.member, kind="stable"))
    targets = assign_homogeneous(group, of_topic, partitions, current)
    runs = _to_spec_indexes(targets.slices, members.index, topic_order.index)
    open_partitions = order_dependent_partitions(
        shares, of_topic, targets.unassigned, losing, UnknownOrder(topic_order.tie, (by_topic, by_partition))
    )
    # Partitions of a member that loses nothing do not depend on an order.
    unstable_slices = runs.take(
        np.append(num_owned > shares.min_quota, True)[np.where(targets.is_new, -1, targets.slices.member)]
    )
    return TargetAssignments(runs, targets.reason), _intersect(
        unstable_slices, topic_order.index[open_partitions.topic], open_partitions.first
    )


def _intersect(slices: PartitionSlices, topic: IntArray, partition: IntArray) -> PartitionSlices:
    """Returns the part of the slices that consists of the given partitions."""
    if not len(topic):
        return EMPTY_SLICES
    keys = np.sort(topic << PARTITION_BITS | partition)
    rows = slices.expand()
    match = np.minimum(np.searchsorted(keys, rows.partition_keys), len(keys) - 1)
    rows = rows.take(keys[match] == rows.partition_keys)
    zeros = np.zeros(len(rows), np.int64)
    return to_slices(rows.member, rows.topic, rows.first, zeros, zeros.astype(bool))[0]


def _assign_heterogeneous(
    specs: GroupSpecs, topics: IntArray, members: TieOrder, ids: TopicIdIndex, previous: PartitionSlices
) -> tuple[TargetAssignments, PartitionSlices]:
    """Assigns one heterogeneous group."""
    member, topic = _positions(members.index, len(specs.members)), _positions(topics, len(specs.topics))
    subscriber, subscribed = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    is_selected = topic[subscribed] >= 0
    subscriber, subscribed = member[subscriber[is_selected]], topic[subscribed[is_selected]]
    order = np.lexsort((subscriber, subscribed))
    ends = np.searchsorted(subscribed[order], np.arange(1, len(topics))) if len(topics) else np.empty(0, np.int64)
    subscribers = [each.tolist() for each in np.split(subscriber[order], ends)] if len(topics) else []
    is_selected = topic[previous.topic] >= 0
    current = PartitionSlices(
        member[previous.member[is_selected]],
        topic[previous.topic[is_selected]],
        *previous.take(is_selected).columns[2:],
    )
    partitions, ranks = specs.topics.partitions[topics].tolist(), ids.topic_ids.rank[topics].tolist()
    ties = HeterogeneousTies(len(members.index), subscribers, partitions, ranks, current)
    targets = ties.assign()
    runs = _to_spec_indexes(targets.slices, members.index, topics)
    by_name = len(topics) > 0 and bool(ids.by_name[specs.topics.group[topics[0]]])
    topic_position, partition = ties.order_dependent_partitions(members.tie.tolist(), ranks_known=not by_name)
    return TargetAssignments(runs, targets.reason), _intersect(runs, topics[topic_position], partition)


def _to_spec_indexes(runs: PartitionSlices, members: IntArray, topics: IntArray) -> PartitionSlices:
    return PartitionSlices(members[runs.member], topics[runs.topic], *runs.columns[2:])


def _positions(indexes: IntArray, size: int) -> IntArray:
    """Returns, for each index below `size`, its position in `indexes`; -1 if absent."""
    positions = np.full(size, -1, np.int64)
    positions[indexes] = np.arange(len(indexes))
    return positions


def first_owners(specs: GroupSpecs, topics: IntArray, members: IntArray) -> PartitionSlices:
    """Returns the owned partitions of subscribed topics: each partition at most once, none out of range."""
    owned, size = specs.owned, max(len(specs.topics), 1)
    is_selected = _positions(topics, len(specs.topics))[owned.topic] >= 0
    owned = owned.take(is_selected)
    keys = owned.member * size + owned.topic
    match = np.searchsorted(specs.subscriptions, keys)
    owned = owned.take(np.append(specs.subscriptions, -1)[match] == keys)
    fitting = -(-(specs.topics.partitions[owned.topic] - owned.first) // owned.step)
    owned = PartitionSlices(*owned.columns[:4], np.clip(fitting, 0, owned.count))
    owned = owned.take(owned.count > 0)
    is_overlapping = np.isin(owned.topic, find_overlapping_topics(owned))
    if not is_overlapping.any():
        return owned
    position = _positions(members, len(specs.members))
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
    incomplete = TargetAssignments(targets.slices.take(~is_complete), targets.reason[~is_complete])
    slices, reason = targets.slices.take(is_complete), targets.reason[is_complete]
    is_single = slices.count == 1
    single, single_reason = slices.take(is_single), reason[is_single]
    merged, single_reason, is_withheld = to_slices(
        single.member, single.topic, single.first, single_reason, single_reason != KEPT
    )
    slices, reason = slices.take(~is_single).concat(merged), np.append(reason[~is_single], single_reason)
    assignments = GroupAssignments(
        slices, reason, np.append(reason[: len(reason) - len(single_reason)] != KEPT, is_withheld), {}
    )
    return assignments.concat(withhold_owned(specs, incomplete)) if len(incomplete.slices) else assignments


def withhold_owned(specs: GroupSpecs, targets: TargetAssignments) -> GroupAssignments:
    """Marks the partitions that other members still own, by lookup. Slices that stay with their owner are not
    expanded."""
    slices, reason = targets.slices, targets.reason
    owned_slices = specs.owned
    is_kept = mask_from_indexes(match_equal_slices(slices, owned_slices)[0], len(slices))
    moving, moving_reason = slices.take(~is_kept), reason[~is_kept]
    row = np.repeat(np.arange(len(moving)), moving.count)
    rows = moving.expand()
    has_moves = np.zeros(len(specs.topics), bool)
    has_moves[rows.topic] = True
    owned = owned_slices.take(has_moves[owned_slices.topic]).expand()
    owned = owned.take(np.argsort(owned.partition_keys, kind="stable"))
    keys = owned.partition_keys
    starts, ends = np.searchsorted(keys, rows.partition_keys), np.searchsorted(keys, rows.partition_keys, "right")
    withheld = ends > starts
    # A member that owns the partition keeps it, even if others claim it.
    row_index = np.repeat(np.arange(len(rows)), ends - starts)
    claim = starts[row_index] + row_numbers(row_index)
    is_own = owned.member[claim] == rows.member[row_index]
    withheld[row_index[is_own]] = False
    moved, moving_reason, is_withheld = to_slices(rows.member, rows.topic, rows.first, moving_reason[row], withheld)
    kept = slices.take(is_kept)
    return GroupAssignments(
        kept.concat(moved),
        np.append(reason[is_kept], moving_reason),
        np.append(np.zeros(len(kept), bool), is_withheld),
        {},
    )
