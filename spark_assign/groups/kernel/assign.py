"""The assignors asked: who gets what in the groups that each of them plans."""

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
"""By assignor and library, where no rules of Kafka's own clients are the same."""


def no_assignments() -> GroupAssignments:
    """The plan of no group."""
    return _stays(EMPTY_SLICES)


def assign(
    specs: GroupSpecs, assignor: str, chosen: BoolArray, custom: Mapping[str, GroupAssignor]
) -> GroupAssignments:
    """Plan some groups by one assignor, which may be the profile of a release (`groups.assignors.release_rules`)."""
    if assignor in custom:
        return _custom(specs, chosen, custom[assignor])
    if assignor == WEIGHTED_STICKY:
        return assign_weighted(specs, chosen)
    if assignor in SERVER_ASSIGNORS:
        return assign_by_server(specs, assignor, chosen)
    library = parse_library_assignor(assignor)
    if library is not None and library in LIBRARY_ASSIGNORS:
        return LIBRARY_ASSIGNORS[library](specs, library[0], chosen)
    profile = parse_release_assignor(assignor if library is None else KAFKA_EQUIVALENTS[library])
    assert profile is not None, assignor
    assignor, rules = profile
    if assignor in STICKY:
        return _sticky(specs, assignor, rules, chosen)
    runs = specs.precomputed_slices(assignor)
    runs = runs.take(chosen[specs.members.group[runs.member]])
    _check_whole(specs, assignor, chosen, runs)
    if assignor == "roundrobin":
        return _stays(assign_heterogeneous_round_robin(specs, chosen, runs))
    return _stays(assign_ranges_by_rack(specs, chosen, runs) if rules.uses_racks else runs)


def _check_whole(specs: GroupSpecs, assignor: str, chosen: BoolArray, runs: PartitionSlices) -> None:
    """Windows lay out all partitions of a group. Where they have not, nothing of the plan is to be believed."""
    known = specs.topics.with_metadata
    num_assigned = np.bincount(runs.topic, runs.count, len(specs.topics))[known]
    if (num_assigned != np.where(chosen[specs.topics.group[known]], specs.topics.partitions[known], 0)).any():
        raise AssertionError(f"windows have not laid out all partitions of the groups that {assignor} plans")


def _stays(runs: PartitionSlices, refused: dict[int, tuple[str, str]] | None = None) -> GroupAssignments:
    return GroupAssignments(runs, np.full(len(runs), KEPT), np.zeros(len(runs), bool), refused or {})


def _sticky(specs: GroupSpecs, assignor: str, rules: ReleaseRules, chosen: BoolArray) -> GroupAssignments:
    batch = sticky_batch(specs, cooperative=assignor == "cooperative-sticky", rules=rules)
    members, topics = np.arange(len(specs.members)), specs.topics.with_metadata
    if not chosen.all():
        members = members[chosen[specs.members.group]]
        topics = topics[chosen[specs.topics.group[topics]]]
        batch = take_groups(batch, chosen)
    decided = plan_batch(batch)
    numbers = np.flatnonzero(chosen).tolist()
    said = {
        group: why.format(specs.member_id[int(members[decided.error_member[group]])])
        if group in decided.error_member
        else why
        for group, why in decided.rejected.items()
    }
    return GroupAssignments(
        PartitionSlices(members[decided.slices.member], topics[decided.slices.topic], *decided.slices.columns[2:]),
        decided.reason,
        decided.withheld,
        {numbers[group]: ("kafka-fails", kafka_failure(assignor, why)) for group, why in said.items()},
    )


def kafka_failure(assignor: str, why: str) -> str:
    """What is said of a group for which Kafka's class throws."""
    return f"Kafka's {STICKY[assignor]} throws here: {why}"


def _custom(specs: GroupSpecs, chosen: BoolArray, assignor: GroupAssignor) -> GroupAssignments:
    answers = [run_custom_assignor(specs, group, assignor) for group in np.flatnonzero(chosen).tolist()]
    refused = {answer.group: ("assignor-failed", answer.error) for answer in answers if answer.error is not None}
    parts = [answer.slices for answer in answers if answer.error is None] or [EMPTY_SLICES]
    return _stays(
        PartitionSlices(*(np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True))),
        refused,
    )
