"""Groups planned by weighted-sticky, asked with a `GroupSpecs`.

A partition's load is its `in_rate`. Where that is not known, it is the mean of those of its topic that are known, or
else of those of the group: a partition whose rate is missing is no idle one. Members that subscribe to nothing do not
count for the mean load of a member.

A partition that somebody else still owns is withheld, as by cooperative-sticky. Of two that claim it, the first by
member id is its owner.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.assignors.weighted.plan import plan_weighted
from spark_assign.groups.assignors.weighted.weighted_groups import (
    BOUND_STATUSES,
    WeightedGroups,
    compute_bounds,
    fill_loads,
)
from spark_assign.groups.kernel.group_metrics import configured_value
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.server_assignors import first_owners, withhold_owned
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import ranges_by_length


def assign_weighted(specs: GroupSpecs, chosen: BoolArray) -> GroupAssignments:
    """Plan some groups; those whose loads, capacity or bound say nothing are refused."""
    refused = {group: why for group, why in _refused(specs) if chosen[group]}
    chosen = chosen.copy()
    chosen[list(refused)] = False
    topics = specs.topics.with_metadata
    topics = topics[chosen[specs.topics.group[topics]]]
    topic = np.repeat(topics, specs.topics.partitions[topics])
    partition = ranges_by_length(specs.topics.partitions[topics])
    groups = _groups(specs, topics, topic, partition)
    answer = plan_weighted(groups)
    has = answer.owner >= 0
    nobody_waits = np.zeros(int(has.sum()), bool)
    runs, reason, _ = to_slices(answer.owner[has], topic[has], partition[has], answer.reason[has], nobody_waits)
    planned = withhold_owned(specs, TargetAssignments(runs, reason))
    words = {group: BOUND_STATUSES[answer.status[group]] for group in np.unique(groups.partition_group).tolist()}
    return GroupAssignments(planned.slices, planned.reason, planned.withheld, refused, load_bound_status=words)


def _refused(specs: GroupSpecs) -> Iterator[tuple[int, tuple[str, str]]]:
    """Groups that cannot be weighed: code, and detail with the remedy."""
    yield from specs.loads.faults.items()
    asked = np.zeros(specs.num_groups, bool)
    asked[specs.topics.group[specs.topics.with_metadata]] = True
    capacity, load_bound = configured_value(specs, "capacity"), configured_value(specs, "load_bound")
    for group in np.flatnonzero(asked & ((capacity <= 0) | np.isinf(capacity))).tolist():
        yield group, ("bad-capacity", f"groups.capacity is {capacity[group]:g}. {_CAPACITY}")
    for group in np.flatnonzero(asked & ((load_bound < 1) | np.isinf(load_bound))).tolist():
        yield group, ("bad-load-bound", f"groups.load_bound is {load_bound[group]:g}. {_BOUND}")
    for group in np.flatnonzero(asked & ~specs.loads.has_loads).tolist():
        if group not in specs.loads.faults:
            yield group, ("no-loads", _NO_LOADS)


_CAPACITY = "Say how many messages a second one member can handle, a number above 0, or nothing"
_BOUND = "Say how many times the mean load a member may have, a number from 1, or nothing"
_NO_LOADS = (
    f"{WEIGHTED_STICKY} balances by in_rate, and loads has none of its partitions. Take a snapshot with several "
    "readings (--every 60s --times 5) or by timestamps (--rates-since 10m), fill loads in, or choose another assignor"
)


def _groups(specs: GroupSpecs, topics: IntArray, topic: IntArray, partition: IntArray) -> WeightedGroups:
    """The groups of these topics, whose partitions are told one by one; others have none."""
    group = specs.topics.group[topic]
    rate = specs.loads.in_rate[specs.loads.position_of(topic, partition)]
    load, _ = fill_loads(rate, topic, group, specs.num_groups)
    subscribing = np.bincount(specs.members.group[specs.members.has_subscription], minlength=specs.num_groups)
    capacity = configured_value(specs, "capacity")
    total = np.bincount(group, load, specs.num_groups).astype(np.float64)
    bound = compute_bounds(total, subscribing, configured_value(specs, "load_bound"), capacity)
    kind, may = _kinds(specs, topics)
    of_topic = np.full(len(specs.topics), -1)
    of_topic[topics] = kind
    return WeightedGroups(
        member_group=specs.members.group,
        partition_group=group,
        load=load,
        owner=_owners(specs, topics, topic),
        eligible_set=of_topic[topic],
        eligible_sets=may,
        bound=bound,
        capacity=np.where(np.isnan(capacity), np.inf, capacity),
    )


def _kinds(specs: GroupSpecs, topics: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Of each topic the number of the set of its subscribers, and these sets."""
    begins = np.searchsorted(specs.members.group, np.arange(specs.num_groups + 1))
    subscribers, group = specs.topics.subscriber_set[topics], specs.topics.group[topics]
    keys = np.where(subscribers == ALL_MEMBERS, len(specs.subscriber_sets) + group, subscribers)
    found, kind = np.unique(keys, return_inverse=True)
    may: list[IntArray] = []
    for key in found.tolist():
        if key < len(specs.subscriber_sets):
            may.append(specs.subscriber_sets[key])
        else:
            begin, end = begins[key - len(specs.subscriber_sets) : key - len(specs.subscriber_sets) + 2].tolist()
            may.append(np.arange(begin, end))
    return kind, may


def _owners(specs: GroupSpecs, topics: IntArray, topic: IntArray) -> IntArray:
    """Of each partition the member that owns it, and still asks for it; -1: nobody."""
    owned = first_owners(specs, topics, np.arange(len(specs.members))).expand()
    first = np.full(len(specs.topics), -1)
    first[topics] = np.cumsum(specs.topics.partitions[topics]) - specs.topics.partitions[topics]
    owner = np.full(len(topic), -1)
    owner[first[owned.topic] + owned.first] = owned.member
    return owner
