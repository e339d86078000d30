"""Assigns groups by weighted-sticky.

The load of a partition is its `in_messages_per_second`. An unknown rate is replaced by the mean of the known rates of
its topic or, without any, of its group: a partition without a rate isn't idle. Members without a subscription don't
count in the mean load per member.

A partition that another member still owns is withheld, as by cooperative-sticky. If two members claim a partition, the
first by member id is its owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from spark_assign.groups.assignors.server.assign_server import first_owners, withhold_owned
from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.assignors.weighted.plan import plan_weighted
from spark_assign.groups.assignors.weighted.weighted_groups import (
    BOUND_STATUSES,
    WeightedGroups,
    compute_bounds,
    fill_loads,
)
from spark_assign.groups.kernel.group_metrics import configured_value
from spark_assign.groups.kernel.group_specs import ALL_MEMBERS, GroupAssignments, GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import compress_tagged, mask_from_indexes
from spark_assign.numeric.segmented_arrays import ranges_by_length


def assign_weighted(specs: GroupSpecs, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups; groups with invalid loads, capacity, or bound are rejected."""
    rejected = {group: rejection for group, rejection in _find_rejected(specs) if selected[group]}
    selected = selected.copy()
    selected[list(rejected)] = False
    topics = specs.topics.with_metadata
    topics = topics[selected[specs.topics.group[topics]]]
    topic = np.repeat(topics, specs.topics.partitions[topics])
    partition = ranges_by_length(specs.topics.partitions[topics])
    groups = _groups(specs, topics, topic, partition)
    result = plan_weighted(groups)
    has_owner = result.owner >= 0
    columns = (each[has_owner] for each in (result.owner, topic, partition, result.reason))
    assignments = withhold_owned(specs, TargetAssignments(*compress_tagged(*columns)))
    statuses = {group: BOUND_STATUSES[result.status[group]] for group in np.unique(groups.partition_group).tolist()}
    return replace(assignments, rejected=rejected, load_bound_status=statuses)


def _find_rejected(specs: GroupSpecs) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields groups that cannot be weighted: group index, code, and detail with the remedy."""
    yield from specs.loads.faults.items()
    has_topics = mask_from_indexes(specs.topics.group[specs.topics.with_metadata], specs.num_groups)
    capacity, load_bound = configured_value(specs, "capacity"), configured_value(specs, "load_bound")
    for group in np.flatnonzero(has_topics & ((capacity <= 0) | np.isinf(capacity))).tolist():
        yield group, ("bad-capacity", f"groups.capacity is {capacity[group]:g}. {_CAPACITY}")
    for group in np.flatnonzero(has_topics & ((load_bound < 1) | np.isinf(load_bound))).tolist():
        yield group, ("bad-load-bound", f"groups.load_bound is {load_bound[group]:g}. {_BOUND}")
    for group in np.flatnonzero(has_topics & ~specs.loads.has_loads).tolist():
        if group not in specs.loads.faults:
            yield group, ("no-loads", _NO_LOADS)


_CAPACITY = "Say how many messages a second one member can handle, a number above 0, or nothing"
_BOUND = "Say how many times the mean load a member may have, a number from 1, or nothing"
_NO_LOADS = (
    f"{WEIGHTED_STICKY} needs in_messages_per_second, and the table loads has no value for the group. Take a "
    "snapshot with readings (--interval 60s --times 5) or timestamps (--rates-since 10m), fill in loads, or choose "
    "another assignor"
)


def _groups(specs: GroupSpecs, topics: IntArray, topic: IntArray, partition: IntArray) -> WeightedGroups:
    """Returns the input of weighted-sticky: the groups of these topics, with one row per partition."""
    group = specs.topics.group[topic]
    rate = specs.loads.in_messages_per_second[specs.loads.position_of(topic, partition)]
    load, _ = fill_loads(rate, topic, group, specs.num_groups)
    subscribing = np.bincount(specs.members.group[specs.members.has_subscription], minlength=specs.num_groups)
    capacity = configured_value(specs, "capacity")
    total = np.bincount(group, load, specs.num_groups).astype(np.float64)
    bound = compute_bounds(total, subscribing, configured_value(specs, "load_bound"), capacity)
    kind, eligible = _subscriber_sets(specs, topics)
    topic_kind = np.full(len(specs.topics), -1)
    topic_kind[topics] = kind
    return WeightedGroups(
        member_group=specs.members.group,
        partition_group=group,
        load=load,
        owner=_owners(specs, topics, topic),
        eligible_set=topic_kind[topic],
        eligible_sets=eligible,
        bound=bound,
        capacity=np.where(np.isnan(capacity), np.inf, capacity),
    )


def _subscriber_sets(specs: GroupSpecs, topics: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Returns the index of the subscriber set of each topic, and these sets."""
    subscribers, group = specs.topics.subscriber_set[topics], specs.topics.group[topics]
    keys = np.where(subscribers == ALL_MEMBERS, len(specs.subscriber_sets) + group, subscribers)
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    pairs = zip(group[first].tolist(), subscribers[first].tolist(), strict=True)
    return kind, [specs.set_members(*pair) for pair in pairs]


def _owners(specs: GroupSpecs, topics: IntArray, topic: IntArray) -> IntArray:
    """Returns the owner of each partition that still subscribes to it; -1 for none."""
    partitions, first = specs.topics.partitions[topics], np.full(len(specs.topics), -1)
    first[topics] = np.cumsum(partitions) - partitions
    return first_owners(specs, topics, np.arange(len(specs.members))).owners(first, len(topic))
