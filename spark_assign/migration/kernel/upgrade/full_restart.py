"""The way that is safe for every client: all members stop, then all start, with another list or another release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spark_assign.groups.kernel.group_metrics import read_ownership
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.migration.kernel.assign_without_spark import assign_without_spark
from spark_assign.migration.kernel.group_subset import part_of
from spark_assign.migration.kernel.upgrade.group_membership import next_id
from spark_assign.migration.kernel.upgrade.upgrade_path import ClientConfig
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES


def simulate_full_restart(
    specs: GroupSpecs, setups: Sequence[ClientConfig | None]
) -> tuple[IntArray, IntArray, dict[int, tuple[str, str]]]:
    """All members of groups stop, then all start with nothing, under other ids.

    Args:
        specs: all groups.
        setups: of each group how its members start; null: they do not stop.

    Returns:
        of each group the partitions that stop, and those that another member has then; and groups for which Kafka's
        class throws: code and detail.
    """
    chosen = np.array([each is not None for each in setups], bool)
    members = np.flatnonzero(chosen[specs.members.group])
    stopped, moved = np.zeros(specs.num_groups, np.int64), np.zeros(specs.num_groups, np.int64)
    refused: dict[int, tuple[str, str]] = {}
    if not len(members):
        return stopped, moved, refused
    part = part_of(specs, members, [next_id(each) for each in specs.member_id.to_pylist()], specs.owned, EMPTY_SLICES)
    nobody = np.full(len(members), -1, np.int64)
    fresh = replace(
        part.specs.members, generation=nobody, user_data_generation=nobody, has_user_data=np.zeros(len(members), bool)
    )
    asked = [setups[group] for group in part.groups.tolist()]
    names = np.array([f"{each.assignors[0]}@{each.release}" if each else "" for each in asked], object)
    for name in sorted(set(names.tolist())):
        planned = assign_without_spark(replace(part.specs, members=fresh, owned=EMPTY_SLICES), name, names == name)
        counts = count_changes(read_ownership(part.specs, planned.slices, EMPTY_SLICES, names == name))
        stopped[part.groups] += counts.owned
        moved[part.groups] += counts.owned_and_assigned - counts.kept
        refused |= {int(part.groups[group]): why for group, why in planned.rejected.items()}
    return stopped, moved, refused
