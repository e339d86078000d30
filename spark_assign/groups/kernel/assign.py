"""The one door to every assignor: `GroupSpecs` in, `GroupAssignments` out, many groups side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from spark_assign.groups.assignors.custom import GroupAssignor, assign_custom
from spark_assign.groups.assignors.franz_go.assign_franz_go import assign_by_franz_go
from spark_assign.groups.assignors.librdkafka.assign_librdkafka import assign_by_librdkafka
from spark_assign.groups.assignors.range import assign_range
from spark_assign.groups.assignors.release_rules import (
    KAFKA_EQUIVALENTS,
    parse_library_assignor,
    parse_release_assignor,
)
from spark_assign.groups.assignors.roundrobin import assign_round_robin
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.assignors.server.assign_server import assign_by_server
from spark_assign.groups.assignors.sticky.assign_sticky import STICKY, assign_sticky
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.assignors.weighted.assign_weighted import assign_weighted
from spark_assign.groups.kernel.facts import DUPLICATE_TOPIC, column
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

NO_CUSTOM: Mapping[str, GroupAssignor] = MappingProxyType({})

_LIBRARIES = {"franz-go": assign_by_franz_go, "librdkafka": assign_by_librdkafka}
"""Libraries with assignors that behave differently from every release of Kafka's clients."""


def assign(
    specs: GroupSpecs, assignor: str, selected: BoolArray, custom: Mapping[str, GroupAssignor] = NO_CUSTOM
) -> GroupAssignments:
    """Assigns the selected groups by one assignor, optionally of a client release
    (`groups.assignors.release_rules`)."""
    if assignor in custom:
        return assign_custom(specs, selected, custom[assignor])
    if assignor == WEIGHTED_STICKY:
        return assign_weighted(specs, selected)
    if assignor in SERVER_ASSIGNORS:
        return assign_by_server(specs, assignor, selected)
    library = parse_library_assignor(assignor)
    if library is not None and library not in KAFKA_EQUIVALENTS:
        return _LIBRARIES[library[1]](specs, library[0], selected)
    profile = parse_release_assignor(assignor if library is None else KAFKA_EQUIVALENTS[library])
    assert profile is not None, assignor
    assignor, rules = profile
    if assignor in STICKY:
        return assign_sticky(specs, assignor, rules, selected)
    by_windows = window_slices(specs, assignor, selected)
    if assignor == "roundrobin":
        return GroupAssignments.of(assign_round_robin(specs, selected, by_windows))
    return GroupAssignments.of(assign_range(specs, selected, by_windows, uses_racks=rules.uses_racks))


def assign_groups(
    specs: GroupSpecs, assignors: Sequence[str | None], custom: Mapping[str, GroupAssignor] = NO_CUSTOM
) -> GroupAssignments:
    """Assigns every group that has an assignor; `assignors` has one name per group, or None."""
    names = np.array([name or "" for name in assignors], object)
    used = sorted(set(names.tolist()) - {""})
    return GroupAssignments.of(EMPTY_SLICES).concat(*(assign(specs, name, names == name, custom) for name in used))


# --- slices that Spark windows have computed ----------------------------------------------------------------------


def window_slices(specs: GroupSpecs, assignor: str, selected: BoolArray) -> PartitionSlices | None:
    """Returns the slices of the selected groups that Spark windows have computed for range or roundrobin; None if the
    facts have none, as those of a simulated restart.

    Range assigns duplicate topics identically; round robin's slices of duplicates are shifted.

    Raises:
        AssertionError: partitions of the selected groups are missing, so that the plan would be incomplete.
    """
    rows, table = specs.subscription_rows, specs.facts.table
    if rows is None or column(table, f"{assignor}_count").null_count == len(table):
        return None
    member, topic = specs.subscription_pairs
    first, step, count = (
        specs.facts.int_column(f"{assignor}_{field}", 0)[rows] for field in ("first", "step", "count")
    )
    if assignor == "roundrobin" and len(specs.facts.rows_by_kind[DUPLICATE_TOPIC]):
        first, count = _shifted_round_robin(specs, topic, specs.facts.topic_index[rows], first, step)
    slices = PartitionSlices(member, topic, first, step, count)
    partitions = specs.topics.partitions_to_assign(selected)
    slices = slices.take((count > 0) & selected[specs.topics.group[topic]])
    if (np.bincount(slices.topic, slices.count, len(partitions)) != partitions).any():
        raise AssertionError(f"windows have not assigned all partitions of the groups that {assignor} plans")
    return slices


def _shifted_round_robin(
    specs: GroupSpecs, topic: IntArray, representative: IntArray, first: IntArray, members: IntArray
) -> tuple[IntArray, IntArray]:
    """Returns first and count of round robin's slices, from `first` and stride of the representative topic."""
    topics = specs.topics
    partitions = topics.partitions_to_assign(np.ones(specs.num_groups, bool))
    like = topics.find(topics.group[topic], representative)
    counted = np.zeros_like(partitions)
    counted[like] = partitions[like]
    members = np.maximum(members, 1)
    first = (first + topics.sum_of_preceding(counted)[like] - topics.sum_of_preceding(partitions)[topic]) % members
    return first, np.maximum(-(-(partitions[topic] - first) // members), 0)
