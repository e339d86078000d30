"""The one door to every assignor: `GroupSpecs` in, `GroupAssignments` out, many groups side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np

from spark_assign.groups.assignors.custom import GroupAssignor, assign_custom
from spark_assign.groups.assignors.franz_go.assign_franz_go import assign_by_franz_go
from spark_assign.groups.assignors.franz_go.balancer_input import FRANZ_GO_1_20, FRANZ_GO_1_21
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
from spark_assign.groups.kernel.facts import LISTED_MEMBER, column
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices, mask_from_indexes

NO_CUSTOM: Mapping[str, GroupAssignor] = MappingProxyType({})

_LIBRARIES: dict[str, Callable[[GroupSpecs, str, BoolArray], GroupAssignments]] = {
    "franz-go": assign_by_franz_go,
    "franz-go-1.21": partial(assign_by_franz_go, rules=FRANZ_GO_1_21),
    "franz-go-1.20": partial(assign_by_franz_go, rules=FRANZ_GO_1_20),
    "librdkafka": assign_by_librdkafka,
}
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
    windowed, slices = window_slices(specs, assignor, selected)
    if assignor == "roundrobin":
        return GroupAssignments.of(assign_round_robin(specs, selected, windowed, slices))
    return GroupAssignments.of(assign_range(specs, selected, windowed, slices, uses_racks=rules.uses_racks))


def assign_groups(
    specs: GroupSpecs, assignors: Sequence[str | None], custom: Mapping[str, GroupAssignor] = NO_CUSTOM
) -> GroupAssignments:
    """Assigns every group that has an assignor; `assignors` has one name per group, or None."""
    names = np.array([name or "" for name in assignors], object)
    used = sorted(set(names.tolist()) - {""})
    return GroupAssignments.of(EMPTY_SLICES).concat(*(assign(specs, name, names == name, custom) for name in used))


# --- slices that Spark windows have computed ----------------------------------------------------------------------


def window_slices(specs: GroupSpecs, assignor: str, selected: BoolArray) -> tuple[BoolArray, PartitionSlices]:
    """Returns the mask of the selected groups for which Spark windows have computed range or roundrobin, and
    the slices. Windows compute the groups that have their subscriptions as rows.

    Raises:
        AssertionError: partitions of these groups are missing, so that the plan would be incomplete.
    """
    facts, topics = specs.facts, specs.topics
    if specs.subscription_rows is None or column(facts.table, f"{assignor}_count").null_count == len(facts.table):
        return np.zeros_like(selected), EMPTY_SLICES
    has_lists = mask_from_indexes(facts.group_index[facts.rows_by_kind[LISTED_MEMBER]], facts.num_groups)
    selected = selected & ~has_lists[specs.fact_group_index]
    member, topic = np.divmod(specs.subscription_rows.key, max(len(topics), 1))
    columns = [
        facts.int_column(f"{assignor}_{field}", 0)[specs.subscription_rows.row] for field in ("first", "step", "count")
    ]
    slices = PartitionSlices(member, topic, *columns).take((columns[-1] > 0) & selected[topics.group[topic]])
    partitions = topics.partitions_to_assign(selected)
    if (np.bincount(slices.topic, slices.count, len(partitions)) != partitions).any():
        raise AssertionError(f"windows have not assigned all partitions of the groups that {assignor} plans")
    return selected, slices
