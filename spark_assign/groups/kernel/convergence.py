"""Simulates how groups reach a stable assignment, in rounds (columns: `tables.groups.ROUNDS`).

Cooperative protocol (KIP-429): after a round, every member has what was not withheld and revokes the rest. A member
that revoked something rejoins, all with the next generation, and another round follows. A round without revocations is
the last.

Consumer protocol (KIP-848): one round per heartbeat. The target exists from the first heartbeat
(`simulation.kernel.current_assignment_builder` describes each step). A client reports revocations immediately, so that
the second heartbeat of the other members sees them. Number of heartbeats of a member:

    loses nothing, waits for nothing    1: it gets the partitions that are free
    loses partitions                    2: it must revoke; it reports, and gets free partitions
    waits for partitions                2: it gets them after their owners have reported
    loses and waits                     3: its report can precede the reports of the owners

Example: C0 has t0p0 and t0p1, C1 has nothing; the target assigns t0p1 to C1, and t0p2, which has no owner, to C0.
    heartbeat 1    C0 must revoke t0p1. C1: []
    heartbeat 2    C0 reports, and gets t0p2. C1: [t0p1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.assignors.release_rules import client_assignor
from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import (
    PlanParams,
    assign,
    assign_groups,
    count_subscribed_partitions,
    count_unassigned,
    group_key_columns,
    read_ownership,
    select_assignors,
)
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    mask_from_indexes,
    match_equal_slices,
    match_keys,
    take_names,
)

MAX_ROUNDS = 12
"""Number of rounds after which the simulation of a group that is not stable ends."""


@dataclass(frozen=True)
class Round:
    """Metrics of one round, in partitions, for each group that is not rejected.

    Attributes:
        number: number of the round, from 1.
        group: group indexes.
        assigned: partitions with an owner after the round.
        revoked: partitions that members revoke after the round.
        moved: partitions that have, or get in the next round, another owner than before.
        unowned: partitions without an owner until the next round.
        stable: whether nothing is revoked.
    """

    number: int
    group: IntArray
    assigned: IntArray
    revoked: IntArray
    moved: IntArray
    unowned: IntArray
    stable: BoolArray

    @staticmethod
    def of(number: int, is_included: BoolArray, *metrics: Any) -> Round:
        """Returns the metrics, given for all groups, of the included groups."""
        return Round(number, np.flatnonzero(is_included), *(values[is_included] for values in metrics))

    def rows(self, specs: GroupSpecs, names: NDArray[np.object_]) -> pa.Table:
        """Returns the rows of the round (`tables.groups.ROUNDS`), given the assignor of each group of the specs."""
        metrics = {name: getattr(self, name) for name in ("assigned", "revoked", "moved", "unowned", "stable")}
        columns = group_key_columns(specs, self.group)
        columns["round"] = pa.repeat(pa.scalar(self.number, pa.int32()), len(self.group))
        columns["assignor"] = pa.array(names[self.group], pa.string())
        return pa.table(columns | metrics)


def simulate_rounds(
    assignor: str, specs: GroupSpecs, selected: BoolArray, limit: int, first: GroupAssignments | None = None
) -> Iterator[Round]:
    """Rebalances the selected groups with a cooperative assignor until they are stable, at most `limit` times. Members
    report the next generation after each round.

    Args:
        assignor: name of the assignor.
        specs: the groups before the first round.
        selected: mask of the groups.
        limit: maximum number of rounds.
        first: the assignment of the selected groups in the first round, if it is known.

    Yields:
        the metrics of each round. Groups that are rejected, such as those for which Kafka's class throws, have none.
    """
    num_owned = _count_owned(specs)
    for number in range(1, limit + 1):
        assignments = first if number == 1 and first else assign(specs, assignor, selected)
        selected = selected & ~np.isin(np.arange(specs.num_groups), list(assignments.rejected))
        compared = read_ownership(specs, assignments, selected)
        counts = count_changes(compared)
        assigned = compared.sum_by_group(assignments.assigned_now.topic, assignments.assigned_now.count)
        revoked, unowned = num_owned - counts.kept, count_unassigned(specs, assignments.assigned_now)
        yield Round.of(number, selected, assigned, revoked, counts.moved, unowned, revoked == 0)
        selected = selected & (revoked > 0)
        if not selected.any():
            return
        num_owned = assigned
        ones = np.ones(len(specs.members), np.int64)
        specs = replace(
            specs,
            members=replace(specs.members, generation=ones, has_user_data=np.zeros(len(ones), bool)),
            owned=assignments.assigned_now,
            departed_owned=EMPTY_SLICES,
        )


def _count_owned(specs: GroupSpecs) -> IntArray:
    """Returns the number of partitions that the members of each group own, including those of vanished topics."""
    group = specs.members.group[specs.owned.member]
    return np.bincount(group, specs.owned.count, specs.num_groups).astype(np.int64)


def is_cooperative(name: str) -> bool:
    """Checks whether an assignor withholds partitions until their owner has revoked them (KIP-429)."""
    return name == WEIGHTED_STICKY or client_assignor(name) == COOPERATIVE


def converge(table: pa.Table, params: PlanParams, limit: int) -> Iterator[pa.Table]:
    """Returns one row per group and round, for all groups of a fact table that can be planned."""
    specs = open_pass(table).specs
    assignor, _ = select_assignors(specs, params)
    names = np.array([name or "" for name in assignor], object)
    custom = set(params.custom)
    cooperative = {name for name in set(names.tolist()) - custom if is_cooperative(name)}
    for name in sorted(cooperative):
        for cooperative_round in simulate_rounds(name, specs, names == name, limit):
            yield cooperative_round.rows(specs, names)
    server_side = set(SERVER_ASSIGNORS) - custom
    for target_round in _target_rounds(specs, [name if name in server_side else None for name in assignor]):
        yield target_round.rows(specs, names)
    assignor = [None if name in server_side or name in cooperative else name for name in assignor]
    yield _one_round(specs, assignor, params).rows(specs, names)


def _target_rounds(specs: GroupSpecs, assignor: list[str | None]) -> Iterator[Round]:
    """Yields the rounds until the target (KIP-848): one per heartbeat."""
    assignments = assign_groups(specs, assignor)
    is_planned = assignments.is_planned(assignor)
    if not is_planned.any():
        return
    compared = read_ownership(specs, assignments, is_planned)
    counts, heartbeats = count_changes(compared), count_heartbeats(specs, assignments)
    max_heartbeats = heartbeats.of_groups(specs)

    def later(newly_assigned: IntArray) -> IntArray:
        """Returns, for each group, what members that revoke something get after that."""
        values = np.where(heartbeats.revoked > 0, newly_assigned, 0)
        return np.bincount(specs.members.group, values, specs.num_groups).astype(np.int64)

    total = compared.sum_by_group(assignments.slices.topic, assignments.slices.count)
    first = compared.sum_by_group(compared.assigned.topic, compared.assigned.count)
    first -= later(heartbeats.newly_assigned - heartbeats.unreleased_partitions)
    zero = np.zeros(specs.num_groups, np.int64)
    steps = (
        (first, counts.owned - counts.kept, counts.moved),
        (total - later(heartbeats.unreleased_partitions), zero, zero),
        (total, zero, zero),
    )
    for number, (assigned, revoked, moved) in enumerate(steps, 1):
        unowned = count_unassigned(specs, assignments.slices) + total - assigned
        has_round = is_planned & (max_heartbeats >= number)
        yield Round.of(number, has_round, assigned, revoked, moved, unowned, max_heartbeats == number)


def _one_round(specs: GroupSpecs, assignor: list[str | None], params: PlanParams) -> Round:
    """Returns the single round of the eager protocol, which revokes everything and then assigns everything."""
    assignments = assign_groups(specs, assignor, params.custom)
    is_planned = assignments.is_planned(assignor)
    compared = read_ownership(specs, assignments, is_planned)
    counts = count_changes(compared)
    total = compared.sum_by_group(compared.assigned.topic, compared.assigned.count)
    unowned, stable = count_subscribed_partitions(specs), np.ones(specs.num_groups, bool)
    return Round.of(1, is_planned, total, counts.owned, counts.moved, unowned, stable)


# --- heartbeats -----------------------------------------------------------------------------------------------


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
    is_kept = mask_from_indexes(assigned_index, len(slices))
    target = slices.take(~is_kept).expand()
    owned = owned_slices.take(~mask_from_indexes(owned_index, len(owned_slices))).expand()
    member, key = np.append(target.member, owned.member), np.append(target.partition_keys, owned.partition_keys)
    order = np.lexsort((key, member))
    member, key = member[order], key[order]
    kept_member = member[1:][(member[1:] == member[:-1]) & (key[1:] == key[:-1])]
    kept = _sum_by_member(slices.member[is_kept], slices.count[is_kept], num_members)
    kept += np.bincount(kept_member, minlength=num_members)
    withheld = assignments.withheld_slices.expand()
    row, owned_row = match_keys(withheld.partition_keys, owned.partition_keys)
    waiting_pairs = np.unique(withheld.member[row] * max(num_members, 1) + owned.member[owned_row])
    return HeartbeatCounts(
        kept,
        revoked=_sum_by_member(owned_slices.member, owned_slices.count, num_members) - kept,
        newly_assigned=_sum_by_member(slices.member, slices.count, num_members) - kept,
        unreleased_partitions=np.bincount(withheld.member, minlength=num_members),
        unreleased_owners=np.bincount(waiting_pairs // max(num_members, 1), minlength=num_members),
    )


def list_heartbeats(table: pa.Table, params: PlanParams) -> Iterator[pa.Table]:
    """Returns one row per member of all groups of a fact table that uniform or server-range plans
    (`tables.groups.HEARTBEATS`)."""
    specs = open_pass(table).specs
    assignor, _ = select_assignors(specs, params)
    server_assignor = [name if name in SERVER_ASSIGNORS and name not in params.custom else None for name in assignor]
    assignments = assign_groups(specs, server_assignor, params.custom)
    counts = count_heartbeats(specs, assignments)
    members = np.flatnonzero(assignments.is_planned(server_assignor)[specs.members.group])
    group = specs.members.group[members]
    columns = group_key_columns(specs, group) | {
        "member_id": take_names(specs.member_id, members),
        "assignor": pa.array([server_assignor[index] for index in group.tolist()], pa.string()),
        "heartbeats": pa.array(counts.heartbeats[members], pa.int32()),
    }
    yield pa.table(columns | {name: values[members] for name, values in vars(counts).items()})


def _sum_by_member(member: IntArray, count: IntArray, num_members: int) -> IntArray:
    return np.bincount(member, count, num_members).astype(np.int64)
