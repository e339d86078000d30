"""Figures of share groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS
from spark_assign.share.kernel.assignment_changes import ShareAssignmentChanges

_COUNTS = ("members", "partitions", "assignments", "given", "taken")
_SPREAD = tuple(f"{of}_per_{each}" for each in ("member", "partition") for of in ("min", "max", "mean"))
_ODD = ("unassigned", "under_shared", "not_assignable", "members_without_subscription", "unknown_topics")
FIGURES = {
    **dict.fromkeys(_COUNTS, pa.int64()),
    **{name: pa.float64() if name.startswith("mean") else pa.int64() for name in _SPREAD},
    **dict.fromkeys(_ODD, pa.int64()),
}
"""Columns and types; `tables.share.METRICS` says what they are."""


def measure(specs: GroupSpecs, outcome: ShareAssignmentChanges) -> dict[str, pa.Array]:
    """Of each group of the specs its figures."""
    groups, topics, told = specs.num_groups, specs.topics, outcome.listed.groups
    assigned, of_row = outcome.assigned, outcome.group(outcome.assigned.topic)
    may = told.topic << PARTITION_BITS | told.partition
    key = assigned.topic << PARTITION_BITS | assigned.first
    at = np.minimum(np.searchsorted(may, key), max(len(may) - 1, 0))
    fits = may[at] == key if len(may) else np.zeros(len(key), bool)
    per_partition = np.bincount(at[fits], minlength=len(may))
    of_partition = topics.group[told.topic]
    per_member = np.bincount(assigned.member, minlength=len(specs.members))
    lacking = per_partition < outcome.answer.sharing[told.topic]
    unknown = topics.is_subscribed & (topics.partitions < 0)
    return {
        "members": _count(specs.members.group, groups),
        "partitions": _count(of_partition, groups),
        "assignments": _count(of_row, groups),
        "given": _count(outcome.group(outcome.given.topic), groups),
        "taken": _count(outcome.group(outcome.taken.topic), groups),
        **_spread("member", specs.members.group, per_member, groups),
        **_spread("partition", of_partition, per_partition, groups),
        "unassigned": _count(of_partition[per_partition == 0], groups),
        "under_shared": _count(of_partition[lacking], groups),
        "not_assignable": _count(of_row[~fits], groups),
        "members_without_subscription": _count(specs.members.group[~specs.members.has_subscription], groups),
        "unknown_topics": _count(topics.group[unknown], groups),
    }


def _count(group: IntArray, groups: int) -> pa.Array:
    return pa.array(np.bincount(group, minlength=groups))


def _spread(each: str, group: IntArray, number: IntArray, groups: int) -> dict[str, pa.Array]:
    """Least, most and mean of something, by group; 0 where there is none."""
    size = np.bincount(group, minlength=groups)
    least, most = np.full(groups, np.iinfo(np.int64).max), np.zeros(groups, np.int64)
    np.minimum.at(least, group, number)
    np.maximum.at(most, group, number)
    mean = np.bincount(group, number, groups) / np.maximum(size, 1)
    return {
        f"min_per_{each}": pa.array(np.where(size > 0, least, 0)),
        f"max_per_{each}": pa.array(most),
        f"mean_per_{each}": pa.array(mean),
    }
