"""In how many heartbeats each member of a KIP-848 group comes to its target, and what it waits for.

The target is there with the first heartbeat (`simulation.kernel.current_assignment_builder` says what each one does). A
client reports at once what it has given up, not a heartbeat interval later; so the others' second heartbeat finds it.

    loses nothing, waits for nothing    1: it gets what nobody has
    loses                               2: it is told; it reports, and gets what nobody has
    waits for what others lose          2: once they have reported
    loses and waits                     3: its report may come before that of the others

Example: C0 has t0p0 and t0p1, C1 has nothing; the target gives t0p1 to C1, and t0p2, which nobody has, to C0.
    heartbeat 1    C0 is told to give up t0p1. C1: []
    heartbeat 2    C0 reports, and gets t0p2. C1: [t0p1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server import SERVER_SIDE
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_assignments import GroupAssignments
from spark_assign.groups.kernel.group_specs import GroupSpecs, read_group_specs
from spark_assign.groups.kernel.indexed_facts import index_facts
from spark_assign.groups.kernel.plan_groups import PlanParams, assign_groups, group_key_columns, select_assignors
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import mask_from_indexes, match_equal_slices
from spark_assign.numeric.segmented_arrays import row_numbers

HEARTBEATS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "member_id", "assignor"), pa.string()),
        "heartbeats": pa.int32(),
        **dict.fromkeys(("kept", "revoked", "gained", "waits_for", "waits_for_members"), pa.int64()),
    }
)


@dataclass(frozen=True)
class HeartbeatCounts:
    """Of each member of specs, in partitions.

    Attributes:
        kept: it has, and is to have.
        revoked: it has to give up.
        gained: it gets.
        waits_for: those of them that others have to give up first.
        waits_for_members: how many others.
    """

    kept: IntArray
    revoked: IntArray
    gained: IntArray
    waits_for: IntArray
    waits_for_members: IntArray

    @property
    def heartbeats(self) -> IntArray:
        """How many it takes."""
        return 1 + (self.revoked > 0) + (self.waits_for > 0)

    def of_groups(self, specs: GroupSpecs) -> IntArray:
        """Of each group how many its slowest member takes."""
        most = np.ones(specs.num_groups, np.int64)
        np.maximum.at(most, specs.members.group, self.heartbeats)
        return most


def count_heartbeats(specs: GroupSpecs, planned: GroupAssignments) -> HeartbeatCounts:
    """How each member comes to its part of the plan."""
    number, runs, claims = len(specs.members), planned.slices, specs.owned
    there, here = match_equal_slices(runs, claims)
    stays, stays_claimed = mask_from_indexes(there, len(runs)), mask_from_indexes(here, len(claims))
    target, owned = runs.take(~stays).expand(), claims.take(~stays_claimed).expand()
    member, key = np.append(target.member, owned.member), np.append(target.partition_keys, owned.partition_keys)
    order = np.lexsort((key, member))
    member, key = member[order], key[order]
    both = member[1:][(member[1:] == member[:-1]) & (key[1:] == key[:-1])]
    kept = _sum(runs.member[stays], runs.count[stays], number) + np.bincount(both, minlength=number)
    withheld = runs.take(planned.withheld).expand()
    order = np.argsort(owned.partition_keys, kind="stable")
    keys, owners = owned.partition_keys[order], owned.member[order]
    begin, end = np.searchsorted(keys, withheld.partition_keys), np.searchsorted(keys, withheld.partition_keys, "right")
    pair = np.repeat(np.arange(len(withheld)), end - begin)
    waits = np.unique(withheld.member[pair] * max(number, 1) + owners[begin[pair] + row_numbers(pair)])
    return HeartbeatCounts(
        kept,
        revoked=_sum(claims.member, claims.count, number) - kept,
        gained=_sum(runs.member, runs.count, number) - kept,
        waits_for=np.bincount(withheld.member, minlength=number),
        waits_for_members=np.bincount(waits // max(number, 1), minlength=number),
    )


def list_heartbeats(facts: pa.Table, question: PlanParams) -> Iterator[pa.Table]:
    """A row per member of all groups of these facts that uniform or server-range plans."""
    told = index_facts(facts)
    specs = read_group_specs(told, set(find_faults(told)))
    assignor, _ = select_assignors(specs, question)
    mine = [name if name in SERVER_SIDE and name not in question.custom else None for name in assignor]
    planned = assign_groups(specs, mine, question)
    names = np.array([name or "" for name in mine], object)
    fine: BoolArray = names != ""
    fine[list(planned.rejected)] = False
    ways = count_heartbeats(specs, planned)
    at = np.flatnonzero(fine[specs.members.group])
    columns = group_key_columns(specs, specs.members.group[at])
    columns |= {
        "member_id": specs.member_id.take(pa.array(at, pa.int64())),
        "assignor": pa.array(names[specs.members.group[at]], pa.string()),
    }
    figures = ("heartbeats", "kept", "revoked", "gained", "waits_for", "waits_for_members")
    columns |= {name: pa.array(getattr(ways, name)[at]) for name in figures}
    yield pa.table(columns).select(HEARTBEATS.names).cast(HEARTBEATS)


def _sum(member: IntArray, count: IntArray, number: int) -> IntArray:
    return np.bincount(member, count, number).astype(np.int64)
