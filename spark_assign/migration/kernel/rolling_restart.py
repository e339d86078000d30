"""Simulates rolling restarts: the engine, and the restarts that migrate classic groups to the consumer protocol.

`RestartingGroups` restarts the members of many groups in lockstep, one member per group at a time: the member stops, a
dynamic member leaves and its group rebalances, the member rejoins, and the group rebalances again. Subclasses decide
how members come back and how groups rebalance. This module has the subclass for `group.protocol=consumer`;
`upgrade` has the one for another release of the client library.

The coordinator does the following at each restart (`GroupMetadataManager`, `ConsumerGroup.fromClassicGroup`):
    1. A dynamic member leaves. Before the first member has rejoined, the group is still a classic group, and its own
       assignor reassigns the partitions of the member. Later, the broker's assignor does.
    2. The member rejoins with the consumer protocol and a new id. When the first member does, the coordinator converts
       the classic group to a consumer group: the current assignment becomes the target assignment. Because a member
       has joined, the broker's assignor computes the next target. Members that are still classic rejoin and get their
       partitions of it.
A static member does neither: it rejoins within its session timeout and takes over its partitions (`replaceMember`).
Because no subscription has changed, the target stays the same. A group of static members keeps the assignment of its
client-side assignor until something else changes.

A partition pauses if it moves, or if its owner restarts. In addition, each new target pauses all partitions of classic
members with an eager assignor, because they revoke everything before they rejoin (KIP-429).

Example: range, C0: [t0 t1] and C1: [t2 t3], to uniform.
    C0 leaves:     C1: [t0 t1 t2 t3]              2 move, 4 pause
    C0 rejoins:    C0: [t2 t3]  C1: [t0 t1]       2 move, 4 pause; the group is a consumer group
    C1 leaves:     C0: [t0 t1 t2 t3]              2 move, 2 pause
    C1 rejoins:    C1 gets half of C0's           2 move, 2 pause

Kafka's consumers generate their new ids at random. This module derives them from the previous ids, so that the same
fleet gives the same result. Which member keeps the extra partition (uniform) and which member gets which range
(server-range) differ from a real cluster; the numbers of partitions are the same.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_assign.assignors.group_facts import NameIndex, column
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import assign_groups, read_ownership
from spark_assign.groups.kernel.read_specs import GroupSubset, select_members
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.numeric.arrays import EMPTY_SLICES, BoolArray, IntArray, PartitionSlices, mask_from_indexes
from spark_assign.simulation.kernel.classic_group_member import IllegalArgument, IllegalState
from spark_assign.tables.errors import failure_of_code

MAX_RESTARTS = 64
"""Maximum number of simulated restarts per group."""

MAX_PARTITIONS = 2_000_000
"""Maximum number of partitions that the restarts of one group process, summed over the restarts."""

COSTS = ("moved", "revoked", "paused_partitions")
MOVED, REVOKED, PAUSED = range(3)
"""Costs of a restart, as columns of the steps, and as rows of `RestartingGroups.costs`."""

AssignorNames = npt.NDArray[np.object_]


def count_restarts(specs: GroupSpecs) -> IntArray:
    """Returns the number of restarts to simulate per group: one per member, within the limits of this module."""
    members = np.bincount(specs.members.group, minlength=specs.num_groups)
    partitions = np.bincount(specs.topics.group, np.maximum(specs.topics.partitions, 0), specs.num_groups)
    within_limit = MAX_PARTITIONS // np.maximum(partitions, 1).astype(np.int64) + 1
    return np.minimum(members, np.minimum(within_limit, MAX_RESTARTS))


def plan_groups_apart(
    plan: Callable[[pa.Table], Iterable[pa.Table]], facts: pa.Table, rejected: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the tables of a plan. If it fails, plans halves of the groups, until a group that fails is alone.

    Args:
        plan: returns the rows of complete groups, from their facts.
        facts: facts of complete groups.
        rejected: the kind of the row of a group that fails alone: code and detail.
        schema: the schema of the rows.
    """
    try:
        tables = list(plan(facts))
    except Exception as error:  # one group must not affect other groups
        clusters, ids = (NameIndex(column(facts, name)) for name in ("cluster", "group_id"))
        group = clusters.columns[0] * max(len(ids), 1) + ids.columns[0]
        groups = np.unique(group)
        if len(groups) > 1:
            is_first = group < groups[len(groups) // 2]
            for half in (is_first, ~is_first):
                yield from plan_groups_apart(plan, facts.filter(pa.array(half)), rejected, schema)
            return
        is_kafka = isinstance(error, IllegalArgument | IllegalState)
        code, detail = ("kafka-refuses", str(error)) if is_kafka else ("assignor-failed", failure_of_code(error))
        key = {name: column(facts, name)[0].as_py() for name in ("cluster", "group_id")}
        tables = [tagged_rows(rejected, [key | {"code": code, "detail": detail}], schema)]
    yield from tables


class RestartingGroups(ABC):
    """The current state of groups whose members restart one at a time, in the order of their ids.

    Attributes:
        specs: all groups.
        owned: the partitions that each member owns now.
        ids: the current id of each member.
        is_static: whether each member is static. Shape: (num_members,).
        costs: costs of the current restart, as in `MOVED`, `REVOKED`, and `PAUSED`, in partitions. Shape:
            (num_costs, num_groups).
        failed: groups for which an assignor of Kafka throws an exception: code and detail.
    """

    def __init__(self, specs: GroupSpecs, num_costs: int) -> None:
        self.specs, self.owned = specs, specs.owned
        self.is_static: BoolArray = specs.instance_id.is_valid().to_numpy(zero_copy_only=False)
        self.ids: list[str] = specs.member_id.to_pylist()
        self.member_starts = np.searchsorted(specs.members.group, np.arange(specs.num_groups + 1))
        self.costs = np.zeros((num_costs, specs.num_groups), np.int64)
        self.failed: dict[int, tuple[str, str]] = {}

    def restart_members(self, num_restarts: IntArray) -> IntArray:
        """Restarts this number of members of each group; after the last member, the first one restarts again.

        Returns:
            the number of simulated restarts per group; 0 for groups in `failed`.
        """
        remaining = num_restarts.copy()
        for ordinal in range(int(remaining.max(initial=0))):
            groups = np.flatnonzero(remaining > ordinal)
            bounce, position = np.divmod(ordinal, np.diff(self.member_starts)[groups])
            members = self.member_starts[groups] + position
            self._stop(members)
            self._leave(members[~self.is_static[members]])
            self._rebalance(self._groupmates(self._rejoin(members, bounce)), EMPTY_SLICES)
            remaining[list(self.failed)] = 0
            succeeded = remaining[groups] > 0
            self._record(groups[succeeded], members[succeeded], bounce[succeeded])
        return remaining

    def _renew_id(self, member: int, derive: Callable[[str], str]) -> str:
        """Gives a restarted member the next id, derived from its previous one, that no other member has: anyone can
        choose the id that will be derived from another member's."""
        group = int(self.specs.members.group[member])
        taken = self.ids[self.member_starts[group] : self.member_starts[group + 1]]
        member_id = derive(self.ids[member])
        while member_id in taken:
            member_id = derive(member_id)
        self.ids[member] = member_id
        return member_id

    @abstractmethod
    def _rejoin(self, members: IntArray, bounce: IntArray) -> IntArray:
        """Brings these members back, each in this bounce (from 0); returns those whose groups must rebalance."""

    @abstractmethod
    def _rebalance(self, members: IntArray, departed: PartitionSlices) -> None:
        """Assigns all partitions of the groups of these members to them.

        Args:
            members: all members that are in these groups now.
            departed: the partitions of members that have left.
        """

    @abstractmethod
    def _record(self, groups: IntArray, members: IntArray, bounce: IntArray) -> None:
        """Records the costs of one restart: of each group, the member that has restarted, and its bounce."""

    def _stop(self, members: IntArray) -> None:
        """Resets the costs, and counts the partitions of these members as paused."""
        paused = self.owned.take(mask_from_indexes(members, len(self.specs.members))[self.owned.member])
        group = self.specs.members.group[paused.member]
        self.costs[:] = 0
        self.costs[PAUSED] = np.bincount(group, paused.count, self.specs.num_groups).astype(np.int64)

    def _leave(self, members: IntArray) -> None:
        """Removes these members from their groups, which rebalance."""
        has_left = mask_from_indexes(members, len(self.specs.members))
        is_released = has_left[self.owned.member]
        departed, self.owned = self.owned.take(is_released), self.owned.take(~is_released)
        groupmates = self._groupmates(members)
        self._rebalance(groupmates[~has_left[groupmates]], departed)

    def _groupmates(self, members: IntArray) -> IntArray:
        """Returns all members of the groups of these members."""
        is_affected = mask_from_indexes(self.specs.members.group[members], self.specs.num_groups)
        return np.flatnonzero(is_affected[self.specs.members.group])

    def _set_owned(self, subset: GroupSubset, slices: PartitionSlices) -> PartitionSlices:
        """Replaces what the groups of the subset own; returns the slices with the indexes of `specs`."""
        is_unchanged = ~np.isin(self.specs.members.group[self.owned.member], subset.groups)
        assigned = slices.renumber(subset.members, subset.topics)
        self.owned = self.owned.take(is_unchanged).concat(assigned)
        return assigned


# --- to the consumer protocol -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RollingRestart:
    """A simulated rolling restart of many groups.

    Attributes:
        restarts: the costs of the restarts of each group, in order: the partitions that change owners, once per change
            (`moved`); that the new target takes from live members (`revoked`); and that nobody consumes for a moment,
            once per pause (`paused_partitions`).
        is_complete: whether all members of each group have restarted. Shape: (num_groups,).
        owned_after: the partitions that each member owns afterward, in all groups.
    """

    restarts: list[list[dict[str, int]]]
    is_complete: BoolArray
    owned_after: PartitionSlices


def new_id(member_id: str) -> str:
    """Returns the new id of a restarted member, in the format of Kafka's `Uuid`, derived from its previous id."""
    digest = hashlib.md5(member_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def simulate_restarts(
    specs: GroupSpecs, classic_assignors: AssignorNames, server_assignor: str, selected: BoolArray
) -> RollingRestart:
    """Restarts the members of the selected groups with the consumer protocol, in the order of their ids.

    Args:
        specs: all groups.
        classic_assignors: the client-side assignor of each selected group, one of Kafka's. Shape: (num_groups,).
        server_assignor: the broker's assignor.
        selected: whether each group restarts. Shape: (num_groups,).

    Returns:
        one restart per member, up to the limits. Groups for which an assignor of Kafka throws an exception have no
            restarts from then on.
    """
    groups = _MigratingGroups(specs, classic_assignors, server_assignor)
    num_restarts = groups.restart_members(np.where(selected, count_restarts(specs), 0))
    is_complete = (num_restarts > 0) & (num_restarts == np.bincount(specs.members.group, minlength=specs.num_groups))
    return RollingRestart(groups.restarts, is_complete, groups.owned)


class _MigratingGroups(RestartingGroups):
    """Groups whose members restart with `group.protocol=consumer`."""

    def __init__(self, specs: GroupSpecs, classic_assignors: AssignorNames, server_assignor: str) -> None:
        super().__init__(specs, len(COSTS))
        self.classic_assignors, self.server_assignor = classic_assignors, server_assignor
        self.is_converted = False
        self.revokes_all = (classic_assignors != COOPERATIVE)[specs.members.group]
        self.restarts: list[list[dict[str, int]]] = [[] for _ in range(specs.num_groups)]

    def _rejoin(self, members: IntArray, bounce: IntArray) -> IntArray:
        for member in members.tolist():
            self._renew_id(member, new_id)
        self.revokes_all = self.revokes_all & ~mask_from_indexes(members, len(self.specs.members))
        self.is_converted = True
        return members[~self.is_static[members]]

    def _rebalance(self, members: IntArray, departed: PartitionSlices) -> None:
        """Plans the groups of these members once, and adds the costs."""
        if not len(members):
            return
        subset = select_members(self.specs, members, self.ids, self.owned, departed)
        names = [
            self.server_assignor if self.is_converted else self.classic_assignors[group] for group in subset.groups
        ]
        assignments = assign_groups(subset.specs, names)
        ownership = read_ownership(subset.specs, assignments, np.ones(len(names), bool))
        counts = count_changes(ownership)
        revokes_all = self.revokes_all[subset.members][ownership.owned.member]
        num_kept = count_changes(replace(ownership, owned=ownership.owned.take(revokes_all))).kept
        revoked = counts.owned - counts.kept
        self.costs[:, subset.groups] += np.stack([counts.moved, revoked, revoked + num_kept])
        self.failed |= {int(subset.groups[group]): reason for group, reason in assignments.rejected.items()}
        self._set_owned(subset, assignments.slices)

    def _record(self, groups: IntArray, members: IntArray, bounce: IntArray) -> None:
        for group, costs in zip(groups.tolist(), self.costs[:, groups].T.tolist(), strict=True):
            self.restarts[group].append(dict(zip(COSTS, costs, strict=True)))
