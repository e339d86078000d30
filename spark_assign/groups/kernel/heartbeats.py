"""Counts the heartbeats of each member of a KIP-848 group until its target, and the partitions that it waits for.

The target exists from the first heartbeat
(`simulation.kernel.current_assignment_builder` describes each step). A client reports revocations immediately, so that
the second heartbeat of the other members sees them. Number of heartbeats of a member:

    loses nothing, waits for nothing    1: it gets the partitions that are free
    loses partitions                    2: it is asked to revoke; it reports, and gets free partitions
    waits for partitions                2: it gets them after their owners have reported
    loses and waits                     3: its report can precede the reports of the owners

Example: C0 has t0p0 and t0p1, C1 has nothing; the target assigns t0p1 to C1, and t0p2, which has no owner, to C0.
    heartbeat 1    C0 is asked to revoke t0p1. C1: []
    heartbeat 2    C0 reports, and gets t0p2. C1: [t0p1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel.facts import index_facts
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs, read_group_specs
from spark_assign.groups.kernel.plan_groups import PlanParams, assign_groups, group_key_columns, select_assignors
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import mask_from_indexes, match_equal_slices
from spark_assign.numeric.segmented_arrays import row_numbers

HEARTBEATS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "member_id", "assignor"), pa.string()),
        "heartbeats": pa.int32(),
        **dict.fromkeys(
            ("kept", "revoked", "newly_assigned", "unreleased_partitions", "unreleased_owners"), pa.int64()
        ),
    }
)


@dataclass(frozen=True)
class HeartbeatCounts:
    """Heartbeats and partitions of each member of the specs. Shape of each array: (num_members,).

    Attributes:
        kept: partitions that the member has and keeps.
        revoked: partitions that the member must revoke.
        newly_assigned: partitions that the member gets.
        unreleased_partitions: of `newly_assigned`, partitions that other members must revoke first.
        unreleased_owners: number of these members.
    """

    kept: IntArray
    revoked: IntArray
    newly_assigned: IntArray
    unreleased_partitions: IntArray
    unreleased_owners: IntArray

    @property
    def heartbeats(self) -> IntArray:
        """Number of heartbeats until the member reaches its target."""
        return 1 + (self.revoked > 0) + (self.unreleased_partitions > 0)

    def of_groups(self, specs: GroupSpecs) -> IntArray:
        """Returns the number of heartbeats of the slowest member of each group."""
        most = np.ones(specs.num_groups, np.int64)
        np.maximum.at(most, specs.members.group, self.heartbeats)
        return most


def count_heartbeats(specs: GroupSpecs, assignments: GroupAssignments) -> HeartbeatCounts:
    """Counts, for each member, the heartbeats and partitions until its target."""
    num_members, slices, owned_slices = len(specs.members), assignments.slices, specs.owned
    assigned_index, owned_index = match_equal_slices(slices, owned_slices)
    is_kept, owned_kept = (
        mask_from_indexes(assigned_index, len(slices)),
        mask_from_indexes(owned_index, len(owned_slices)),
    )
    target, owned = slices.take(~is_kept).expand(), owned_slices.take(~owned_kept).expand()
    member, key = np.append(target.member, owned.member), np.append(target.partition_keys, owned.partition_keys)
    order = np.lexsort((key, member))
    member, key = member[order], key[order]
    kept_member = member[1:][(member[1:] == member[:-1]) & (key[1:] == key[:-1])]
    kept = _sum_by_member(slices.member[is_kept], slices.count[is_kept], num_members) + np.bincount(
        kept_member, minlength=num_members
    )
    withheld = slices.take(assignments.withheld).expand()
    order = np.argsort(owned.partition_keys, kind="stable")
    keys, owners = owned.partition_keys[order], owned.member[order]
    starts, ends = (
        np.searchsorted(keys, withheld.partition_keys),
        np.searchsorted(keys, withheld.partition_keys, "right"),
    )
    row = np.repeat(np.arange(len(withheld)), ends - starts)
    waiting_pairs = np.unique(withheld.member[row] * max(num_members, 1) + owners[starts[row] + row_numbers(row)])
    return HeartbeatCounts(
        kept,
        revoked=_sum_by_member(owned_slices.member, owned_slices.count, num_members) - kept,
        newly_assigned=_sum_by_member(slices.member, slices.count, num_members) - kept,
        unreleased_partitions=np.bincount(withheld.member, minlength=num_members),
        unreleased_owners=np.bincount(waiting_pairs // max(num_members, 1), minlength=num_members),
    )


def list_heartbeats(table: pa.Table, params: PlanParams) -> Iterator[pa.Table]:
    """Returns one row per member of all groups of a fact table that uniform or server-range plans."""
    facts = index_facts(table)
    specs = read_group_specs(facts, set(find_faults(facts)))
    assignor, _ = select_assignors(specs, params)
    server_assignor = [name if name in SERVER_ASSIGNORS and name not in params.custom else None for name in assignor]
    assignments = assign_groups(specs, server_assignor, params)
    names = np.array([name or "" for name in server_assignor], object)
    is_planned: BoolArray = names != ""
    is_planned[list(assignments.rejected)] = False
    counts = count_heartbeats(specs, assignments)
    members = np.flatnonzero(is_planned[specs.members.group])
    columns = group_key_columns(specs, specs.members.group[members])
    columns |= {
        "member_id": specs.member_id.take(pa.array(members, pa.int64())),
        "assignor": pa.array(names[specs.members.group[members]], pa.string()),
    }
    count_columns = ("heartbeats", "kept", "revoked", "newly_assigned", "unreleased_partitions", "unreleased_owners")
    columns |= {name: pa.array(getattr(counts, name)[members]) for name in count_columns}
    yield pa.table(columns).select(HEARTBEATS.names).cast(HEARTBEATS)


def _sum_by_member(member: IntArray, count: IntArray, num_members: int) -> IntArray:
    return np.bincount(member, count, num_members).astype(np.int64)
