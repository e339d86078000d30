"""Groups planned as the broker plans them (KIP-848): uniform and server-range, asked with a `GroupSpecs`.

What members own now is taken for their target so far. A partition that somebody else still owns is withheld: the
broker hands it out once its owner has said that it has given it up.

Kafka's orders need the topics' ids and the members' places in the coordinator's table (`coordinator_order`). Where a
fleet does not say them, the answer says which of its partitions hang on that (`GroupAssignments.order_dependent`).

Two members cannot have one partition in the broker. Of a fleet in which they do, the first one in the order keeps it.
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


def assign_by_server(specs: GroupSpecs, assignor: str, chosen: BoolArray) -> GroupAssignments:
    """Plan some groups by an assignor of the broker, or by one of ours."""
    topics = specs.topics.with_metadata
    if assignor not in TOPIC_ID_ASSIGNORS:
        runs = _ranges(specs, topics[chosen[specs.topics.group[topics]]])
        runs = improve_range_racks(specs, runs) if assignor in RACK_SERVER_ASSIGNORS else runs
        return withhold_owned(specs, TargetAssignments(runs, np.full(len(runs), KEPT)))
    ids = read_topic_ids_of_specs(specs)
    refused = {group: why for group, why in ids.rejected.items() if chosen[group]}
    chosen = chosen.copy()
    chosen[list(refused)] = False
    topics = topics[chosen[specs.topics.group[topics]]]
    members, mixed = coordinator_member_order(specs), _mixed(specs)
    previous = first_owners(specs, topics, members.index)
    targets, order_dependent = _uniform(specs, topics, chosen, ids, members, mixed, previous)
    if assignor in RACK_SERVER_ASSIGNORS:
        targets, order_dependent = (
            improve_uniform_racks(specs, topics, members.index, mixed, previous, targets),
            EMPTY_SLICES,
        )
    return replace(_withhold(specs, targets, previous), rejected=refused, order_dependent=order_dependent)


def _ranges(specs: GroupSpecs, topics: IntArray) -> PartitionSlices:
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    number = _numbers(topics, len(specs.topics))
    mine = number[topic] >= 0
    runs = assign_server_ranges(
        member[mine], number[topic[mine]], specs.members.assignment_order, specs.topics.partitions[topics]
    )
    return PartitionSlices(runs.member, topics[runs.topic], *runs.columns[2:])


# --- uniform ------------------------------------------------------------------------------------------------------


def _mixed(specs: GroupSpecs) -> BoolArray:
    """Groups whose members subscribe to different topics, or count as if they did."""
    told, rows = specs.facts, specs.facts.rows_by_kind[GROUP]
    counts = np.zeros(told.num_groups, bool)
    said = told.column("subscription_type", rows).to_pylist()
    counts[told.group_index[rows]] = [each == "heterogeneous" for each in said]
    mixed = counts[specs.fact_group_index]
    differing = specs.topics.is_subscribed & (specs.topics.subscriber_set != ALL_MEMBERS)
    mixed[specs.topics.group[differing]] = True
    return mixed


def _uniform(
    specs: GroupSpecs,
    topics: IntArray,
    chosen: BoolArray,
    ids: TopicIdIndex,
    members: TieOrder,
    mixed: BoolArray,
    previous: PartitionSlices,
) -> tuple[TargetAssignments, PartitionSlices]:
    """Uniform's targets, and those runs of them that hang on an unknown order."""
    answers = [_alike(specs, topics[~mixed[specs.topics.group[topics]]], chosen & ~mixed, members, ids, previous)]
    for group in np.flatnonzero(chosen & mixed).tolist():
        mine = topics[specs.topics.group[topics] == group]
        answers.append(
            _differing(specs, mine, members.take(specs.members.group[members.index] == group), ids, previous)
        )
    runs, order_dependent = answers[0][0].slices, answers[0][1]
    for targets, more in answers[1:]:
        runs, order_dependent = runs.concat(targets.slices), order_dependent.concat(more)
    return TargetAssignments(runs, np.concatenate([targets.reason for targets, _ in answers])), order_dependent


def _alike(
    specs: GroupSpecs,
    topics: IntArray,
    chosen: BoolArray,
    members: TieOrder,
    ids: TopicIdIndex,
    previous: PartitionSlices,
) -> tuple[TargetAssignments, PartitionSlices]:
    """Groups in which everybody subscribes to the same topics, side by side."""
    walk, members = (
        coordinator_topic_order(specs, topics, ids),
        members.take(chosen[specs.members.group[members.index]]),
    )
    member, topic = _numbers(members.index, len(specs.members)), _numbers(walk.index, len(specs.topics))
    mine = topic[previous.topic] >= 0
    before = PartitionSlices(
        member[previous.member[mine]], topic[previous.topic[mine]], *previous.take(mine).columns[2:]
    )
    before = before.take(np.lexsort((before.first, before.topic, before.member)))
    # Groups that are not chosen have no members here: groups are numbered anew.
    place = np.cumsum(chosen) - 1
    group, of_topic = place[specs.members.group[members.index]], place[specs.topics.group[walk.index]]
    partitions = specs.topics.partitions[walk.index]
    had = np.bincount(before.member, before.count, len(members.index)).astype(np.int64)
    shares = MemberQuotas(group, had, compute_quotas(group, of_topic, partitions, had), members.tie)
    loses = (had > shares.least)[before.member]
    rest, losing = before.take(~loses), before.take(loses)
    losing, by_topic, by_partition = coordinator_previous_order(
        losing, ids.topic_ids.hash[walk.index], ids.topic_ids.rank[walk.index]
    )
    by_topic = np.where(ids.by_name[specs.topics.group[walk.index][losing.topic]], 0, by_topic)
    # Members of a classic group tell an order, but to their leader: the broker reads back what it has written.
    told = read_owned_order(specs)
    told = told.take(~find_classic_groups(specs)[specs.members.group[told.member]])
    order, known = in_owned_order(losing, PartitionSlices(member[told.member], topic[told.topic], *told.columns[2:]))
    losing = losing.take(order)
    by_topic, by_partition = (np.where(known, np.arange(len(order)), tie)[order] for tie in (by_topic, by_partition))
    both = rest.concat(losing)
    before = both.take(np.argsort(both.member, kind="stable"))
    targets = assign_homogeneous(group, of_topic, partitions, before)
    runs = _named(targets.slices, members.index, walk.index)
    open_ = order_dependent_partitions(
        shares, of_topic, targets.unassigned, losing, UnknownOrder(walk.tie, (by_topic, by_partition))
    )
    # What a member keeps that loses nothing is sure.
    some = runs.take(np.append(had > shares.least, True)[np.where(targets.is_new, -1, targets.slices.member)])
    return TargetAssignments(runs, targets.reason), _only(some, walk.index[open_.topic], open_.first)


def _only(runs: PartitionSlices, topic: IntArray, partition: IntArray) -> PartitionSlices:
    """What these runs have of some partitions."""
    if not len(topic):
        return EMPTY_SLICES
    keys = np.sort(topic << PARTITION_BITS | partition)
    rows = runs.expand()
    at = np.minimum(np.searchsorted(keys, rows.partition_keys), len(keys) - 1)
    rows = rows.take(keys[at] == rows.partition_keys)
    nothing = np.zeros(len(rows), np.int64)
    return to_slices(rows.member, rows.topic, rows.first, nothing, nothing.astype(bool))[0]


def _differing(
    specs: GroupSpecs, topics: IntArray, members: TieOrder, ids: TopicIdIndex, previous: PartitionSlices
) -> tuple[TargetAssignments, PartitionSlices]:
    """One group whose members subscribe to different topics."""
    member, topic = _numbers(members.index, len(specs.members)), _numbers(topics, len(specs.topics))
    asking, asked = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    mine = topic[asked] >= 0
    asking, asked = member[asking[mine]], topic[asked[mine]]
    order = np.lexsort((asking, asked))
    ends = np.searchsorted(asked[order], np.arange(1, len(topics))) if len(topics) else np.empty(0, np.int64)
    subscribers = [each.tolist() for each in np.split(asking[order], ends)] if len(topics) else []
    mine = topic[previous.topic] >= 0
    before = PartitionSlices(
        member[previous.member[mine]], topic[previous.topic[mine]], *previous.take(mine).columns[2:]
    )
    partitions, ranks = specs.topics.partitions[topics].tolist(), ids.topic_ids.rank[topics].tolist()
    asked_for = HeterogeneousTies(len(members.index), subscribers, partitions, ranks, before)
    targets = asked_for.assign()
    runs = _named(targets.slices, members.index, topics)
    by_name = len(topics) > 0 and bool(ids.by_name[specs.topics.group[topics[0]]])
    at, partition = asked_for.order_dependent_partitions(members.tie.tolist(), ranks_known=not by_name)
    return TargetAssignments(runs, targets.reason), _only(runs, topics[at], partition)


def _named(runs: PartitionSlices, members: IntArray, topics: IntArray) -> PartitionSlices:
    return PartitionSlices(members[runs.member], topics[runs.topic], *runs.columns[2:])


def _numbers(chosen: IntArray, size: int) -> IntArray:
    """Of each number its place in `chosen`; -1 where it is not there."""
    numbers = np.full(size, -1, np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


def first_owners(specs: GroupSpecs, topics: IntArray, members: IntArray) -> PartitionSlices:
    """What members own of topics that they subscribe to; no partition twice, none beyond its topic's count."""
    claims, size = specs.owned, max(len(specs.topics), 1)
    some = _numbers(topics, len(specs.topics))[claims.topic] >= 0
    claims = claims.take(some)
    asked = claims.member * size + claims.topic
    at = np.searchsorted(specs.subscriptions, asked)
    claims = claims.take(np.append(specs.subscriptions, -1)[at] == asked)
    fitting = -(-(specs.topics.partitions[claims.topic] - claims.first) // claims.step)
    claims = PartitionSlices(*claims.columns[:4], np.clip(fitting, 0, claims.count))
    claims = claims.take(claims.count > 0)
    meeting = np.isin(claims.topic, find_overlapping_topics(claims))
    if not meeting.any():
        return claims
    place = _numbers(members, len(specs.members))
    rows = claims.take(meeting).expand()
    rows = rows.take(np.lexsort((place[rows.member], rows.partition_keys)))
    return claims.take(~meeting).concat(rows.take(starts_new_key(rows.partition_keys)))


# --- reconciliation -----------------------------------------------------------------------------------------------


def _withhold(specs: GroupSpecs, targets: TargetAssignments, previous: PartitionSlices) -> GroupAssignments:
    """Mark what others still own. Where the answer was made from all that is owned of a topic, it says that itself."""
    claims, size = specs.owned, len(specs.topics)
    of_topic = (np.bincount(each.topic, each.count, size) for each in (claims, previous))
    known = np.equal(*of_topic)[targets.slices.topic]
    some = TargetAssignments(targets.slices.take(~known), targets.reason[~known])
    runs, reason = targets.slices.take(known), targets.reason[known]
    one = runs.count == 1
    single, why = runs.take(one), reason[one]
    joined, why, late = to_slices(single.member, single.topic, single.first, why, why != KEPT)
    runs, reason = runs.take(~one).concat(joined), np.append(reason[~one], why)
    told = GroupAssignments(runs, reason, np.append(reason[: len(reason) - len(why)] != KEPT, late), {})
    return told.concat(withhold_owned(specs, some)) if len(some.slices) else told


def withhold_owned(specs: GroupSpecs, targets: TargetAssignments) -> GroupAssignments:
    """The same, where it has to be looked up. Runs that their owner has already are looked at as a whole."""
    runs, reason = targets.slices, targets.reason
    claims = specs.owned
    stays = mask_from_indexes(match_equal_slices(runs, claims)[0], len(runs))
    moving, why = runs.take(~stays), reason[~stays]
    row = np.repeat(np.arange(len(moving)), moving.count)
    rows = moving.expand()
    concerned = np.zeros(len(specs.topics), bool)
    concerned[rows.topic] = True
    owned = claims.take(concerned[claims.topic]).expand()
    owned = owned.take(np.argsort(owned.partition_keys, kind="stable"))
    keys = owned.partition_keys
    begin, end = np.searchsorted(keys, rows.partition_keys), np.searchsorted(keys, rows.partition_keys, "right")
    withheld = end > begin
    # Who has it itself keeps it, whoever else claims it.
    pair = np.repeat(np.arange(len(rows)), end - begin)
    claim = begin[pair] + row_numbers(pair)
    own = owned.member[claim] == rows.member[pair]
    withheld[pair[own]] = False
    parted, why, late = to_slices(rows.member, rows.topic, rows.first, why[row], withheld)
    kept = runs.take(stays)
    return GroupAssignments(
        kept.concat(parted),
        np.append(reason[stays], why),
        np.append(np.zeros(len(kept), bool), late),
        {},
    )
