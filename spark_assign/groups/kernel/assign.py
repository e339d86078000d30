"""Runs an assignor: assigns the groups that it plans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_assign.groups.assignors.custom import GroupAssignor, run_custom_assignor
from spark_assign.groups.assignors.release_rules import (
    KAFKA_EQUIVALENTS,
    ReleaseRules,
    parse_library_assignor,
    parse_release_assignor,
)
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.assignors.sticky.plan_batch import plan_batch, take_groups
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.franz_go import assign_by_franz_go
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.librdkafka import assign_by_librdkafka
from spark_assign.groups.kernel.range_roundrobin_fallback import assign_heterogeneous_round_robin, assign_ranges_by_rack
from spark_assign.groups.kernel.server_assignors import assign_by_server
from spark_assign.groups.kernel.sticky_input import sticky_batch
from spark_assign.groups.kernel.weighted_assignor import assign_weighted
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

STICKY = {"sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
"""Assignors of the sticky kernels, and their classes in Kafka."""


LIBRARY_ASSIGNORS = {
    ("sticky", "franz-go"): assign_by_franz_go,
    ("cooperative-sticky", "franz-go"): assign_by_franz_go,
    ("range", "librdkafka"): assign_by_librdkafka,
    ("roundrobin", "librdkafka"): assign_by_librdkafka,
    ("cooperative-sticky", "librdkafka"): assign_by_librdkafka,
}
"""Assignors of libraries other than Kafka's clients, by assignor and library, if no release of Kafka's clients
behaves identically (`groups.assignors.release_rules`)."""


def no_assignments() -> GroupAssignments:
    """Returns the assignments of no group."""
    return _without_reasons(EMPTY_SLICES)


def assign(
    specs: GroupSpecs, assignor: str, selected: BoolArray, custom: Mapping[str, GroupAssignor]
) -> GroupAssignments:
    """Assigns the selected groups by one assignor, optionally of a client release
    (`groups.assignors.release_rules`)."""
    if assignor in custom:
        return _custom(specs, selected, custom[assignor])
    if assignor == WEIGHTED_STICKY:
        return assign_weighted(specs, selected)
    if assignor in SERVER_ASSIGNORS:
        return assign_by_server(specs, assignor, selected)
    library = parse_library_assignor(assignor)
    if library is not None and library in LIBRARY_ASSIGNORS:
        return LIBRARY_ASSIGNORS[library](specs, library[0], selected)
    profile = parse_release_assignor(assignor if library is None else KAFKA_EQUIVALENTS[library])
    assert profile is not None, assignor
    assignor, rules = profile
    if assignor in STICKY:
        return _sticky(specs, assignor, rules, selected)
    slices = specs.precomputed_slices(assignor)
    slices = slices.take(selected[specs.members.group[slices.member]])
    _check_complete(specs, assignor, selected, slices)
    if assignor == "roundrobin":
        return _without_reasons(assign_heterogeneous_round_robin(specs, selected, slices))
    return _without_reasons(assign_ranges_by_rack(specs, selected, slices) if rules.uses_racks else slices)


def _check_complete(specs: GroupSpecs, assignor: str, selected: BoolArray, slices: PartitionSlices) -> None:
    """Checks that windows have assigned all partitions of the selected groups; otherwise the plan would be
    incomplete."""
    with_metadata = specs.topics.with_metadata
    num_assigned = np.bincount(slices.topic, slices.count, len(specs.topics))[with_metadata]
    if (
        num_assigned != np.where(selected[specs.topics.group[with_metadata]], specs.topics.partitions[with_metadata], 0)
    ).any():
        raise AssertionError(f"windows have not laid out all partitions of the groups that {assignor} plans")


def _without_reasons(slices: PartitionSlices, rejected: dict[int, tuple[str, str]] | None = None) -> GroupAssignments:
    return GroupAssignments(slices, np.full(len(slices), KEPT), np.zeros(len(slices), bool), rejected or {})


def _sticky(specs: GroupSpecs, assignor: str, rules: ReleaseRules, selected: BoolArray) -> GroupAssignments:
    batch = sticky_batch(specs, cooperative=assignor == "cooperative-sticky", rules=rules)
    members, topics = np.arange(len(specs.members)), specs.topics.with_metadata
    if not selected.all():
        members = members[selected[specs.members.group]]
        topics = topics[selected[specs.topics.group[topics]]]
        batch = take_groups(batch, selected)
    result = plan_batch(batch)
    group_indexes = np.flatnonzero(selected).tolist()
    details = {
        group: why.format(specs.member_id[int(members[result.error_member[group]])])
        if group in result.error_member
        else why
        for group, why in result.rejected.items()
    }
    return GroupAssignments(
        PartitionSlices(members[result.slices.member], topics[result.slices.topic], *result.slices.columns[2:]),
        result.reason,
        result.withheld,
        {group_indexes[group]: ("kafka-fails", kafka_failure(assignor, why)) for group, why in details.items()},
    )


def kafka_failure(assignor: str, reason: str) -> str:
    """Returns the rejection text for a group for which Kafka's class throws."""
    return f"Kafka's {STICKY[assignor]} throws here: {reason}"


def _custom(specs: GroupSpecs, selected: BoolArray, assignor: GroupAssignor) -> GroupAssignments:
    results = [run_custom_assignor(specs, group, assignor) for group in np.flatnonzero(selected).tolist()]
    rejected = {answer.group: ("assignor-failed", answer.error) for answer in results if answer.error is not None}
    slices = [answer.slices for answer in results if answer.error is None] or [EMPTY_SLICES]
    return _without_reasons(
        PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in slices), strict=True))),
        rejected,
    )
