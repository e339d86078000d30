"""What groups have now and would have by the broker's assignor: balance, moves, racks, pauses. Counted as ever
(`groups.kernel.ownership_changes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_assign.groups.kernel.assign import no_assignments
from spark_assign.groups.kernel.group_metrics import balance_metrics, count_rack_matched, read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs
from spark_assign.groups.kernel.ownership_changes import OwnershipCounts as Counted
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.migration.kernel.assign_without_spark import assign_without_spark
from spark_assign.migration.kernel.migration_verdict import CLIENTS_OWN
from spark_assign.migration.kernel.rolling_restart import RollingRestart, play_restarts
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.simulation.kernel.pause_estimates import PauseCounts, server_seconds
from spark_assign.simulation.kernel.settings import Timing


@dataclass(frozen=True)
class MigrationMetrics:
    """Of all groups of specs.

    Attributes:
        now: the assignors that they run with; null: not known.
        columns: of each group its figures, by the names of `migrate.MIGRATED`; `owned` is what living
            members own now.
        restarts: of each group what the restarts that were played cost, in their order.
        whole: of each group whether all restarts were played.
        refused: groups that the broker's assignor cannot plan: code and detail.
    """

    now: Sequence[str | None]
    columns: dict[str, list[Any]]
    restarts: list[list[dict[str, int]]]
    whole: BoolArray
    refused: dict[int, tuple[str, str]]

    def of(self, group: int) -> dict[str, Any]:
        """The figures of one group."""
        return {name: values[group] for name, values in self.columns.items()}


def measure_migration(
    specs: GroupSpecs,
    now: Sequence[str | None],
    online: BoolArray,
    to: str,
    what_if: Sequence[str],
    timing: Timing,
    racks_known: bool,
) -> MigrationMetrics:
    """Ask the broker's assignor, play the restarts, and ask the assignors that the broker does not have.

    Args:
        specs: the groups.
        now: of each its assignor.
        online: which of them restart one by one.
        to, what_if, timing, racks_known: as `migrate.Question` has them.
    """
    all_members = np.ones(specs.num_groups, bool)
    over = _go_over(specs, now, online, to, all_members)
    planned, after, fine = over.planned, over.after, over.fine
    before = _before(specs, now, fine)
    counts = count_changes(read_ownership(specs, planned.assigned_now, planned.slices.take(planned.withheld), fine))
    has, gets = (balance_metrics(specs.members.group, specs.num_groups, runs) for runs in (before, after))
    paused = PauseCounts(
        members=np.maximum(has["members"].to_numpy(), 1),
        partitions=gets["partitions"].to_numpy(),
        living=counts.live_owned_and_assigned,
        kept=counts.kept,
        back=counts.returned,
        later=0,
    )
    columns = {
        "members": has["members"].to_pylist(),
        "partitions": gets["partitions"].to_pylist(),
        "max_over_mean_before": has["max_over_mean"].to_pylist(),
        "max_over_mean_after": gets["max_over_mean"].to_pylist(),
        "owned": counts.owned.tolist(),
        "moved": np.where(online, _differing(counts), _moved(specs, after, fine)).tolist(),
        "moved_back": _moved_back(specs, now, after, fine),
        "partition_seconds_paused": server_seconds(paused, timing).tolist(),
        "cross_rack_before": _across(specs, before, racks_known),
        "cross_rack_after": _across(specs, after, racks_known),
        **_what_if(specs, now, online, what_if, racks_known),
    }
    return MigrationMetrics(now, columns, _of_groups(over.way, specs.num_groups), over.way.whole, planned.rejected)


@dataclass(frozen=True)
class _ServerPlan:
    """What an assignor of the broker makes of groups: its first target, what was played, and what comes of it."""

    planned: GroupAssignments
    way: RollingRestart
    after: PartitionSlices
    fine: BoolArray


def _go_over(
    specs: GroupSpecs, now: Sequence[str | None], online: BoolArray, to: str, chosen: BoolArray
) -> _ServerPlan:
    """Take some groups over to an assignor of the broker."""
    planned = assign_without_spark(specs, to, chosen)
    fine = chosen.copy()
    fine[list(planned.rejected)] = False
    names = np.array([name or "" for name in now], object)
    static = specs.facts.column("group_instance_id", specs.members.row).is_valid().to_numpy(zero_copy_only=False)
    can = fine & online & np.isin(names, CLIENTS_OWN)
    way = play_restarts(specs, names, to, can, static, names != "cooperative-sticky")
    full_plan = assign_without_spark(replace(specs, owned=EMPTY_SLICES), to, fine & ~online)
    return _ServerPlan(planned, way, _after(specs, planned, full_plan, way, online, static), fine)


def _after(
    specs: GroupSpecs,
    planned: GroupAssignments,
    full_plan: GroupAssignments,
    way: RollingRestart,
    online: BoolArray,
    static: BoolArray,
) -> PartitionSlices:
    """Who has what in the end: all have restarted, or the broker has its target, or has begun from nothing."""
    moves = np.zeros(specs.num_groups, bool)
    moves[specs.members.group[~static]] = True
    restarted = way.whole & moves
    group = specs.members.group
    after = way.after.take(restarted[group[way.after.member]])
    return after.concat(planned.slices.take((online & ~restarted)[group[planned.slices.member]])).concat(
        full_plan.slices
    )


def _of_groups(way: RollingRestart, number: int) -> list[list[dict[str, int]]]:
    """The restarts by group."""
    found: list[list[dict[str, int]]] = [[] for _ in range(number)]
    for restart in way.restarts:
        columns = (each.tolist() for each in (restart.group, restart.moved, restart.revoked, restart.stopped))
        for group, *costs in zip(*columns, strict=True):
            found[group].append(dict(zip(("moved", "revoked", "stopped"), costs, strict=True)))
    return found


def _by_own(specs: GroupSpecs, now: Sequence[str | None], chosen: BoolArray) -> GroupAssignments:
    """What the groups' own assignors make of them, of those whose assignor Kafka's clients have."""
    names = np.array([name or "" for name in now], object)
    planned = no_assignments()
    for name in CLIENTS_OWN:
        mine = chosen & (names == name)
        if mine.any():
            planned = planned.concat(assign_without_spark(specs, name, mine))
    return planned


def _before(specs: GroupSpecs, now: Sequence[str | None], fine: BoolArray) -> PartitionSlices:
    """What members own; where nobody is known to own anything, what the group's assignor would give them."""
    owning = np.zeros(specs.num_groups, bool)
    owning[specs.members.group[specs.owned.member]] = True
    if owning.all():
        return specs.owned
    return specs.owned.concat(_by_own(specs, now, fine & ~owning).slices)


def _differing(counts: Counted) -> IntArray:
    """Partitions that have another owner."""
    return counts.owned_and_assigned - counts.kept - counts.returned


def _moved(specs: GroupSpecs, runs: PartitionSlices, fine: BoolArray) -> IntArray:
    """Partitions that have another owner by these runs, in the end."""
    return _differing(count_changes(read_ownership(specs, runs, EMPTY_SLICES, fine)))


def _moved_back(
    specs: GroupSpecs, now: Sequence[str | None], after: PartitionSlices, fine: BoolArray
) -> list[int | None]:
    """Partitions that have another owner when a group has gone back from what the broker has given it."""
    settled = replace(specs, owned=after, departed_owned=EMPTY_SLICES)
    own = _by_own(settled, now, fine)
    back = fine & np.array([name in CLIENTS_OWN for name in now], bool)
    back[list(own.rejected)] = False
    moved = _moved(settled, own.slices, back).tolist()
    return [each if known else None for each, known in zip(moved, back.tolist(), strict=True)]


def _across(specs: GroupSpecs, runs: PartitionSlices, racks_known: bool) -> list[int | None]:
    """Of each group the partitions whose owner has no replica in its rack."""
    near = count_rack_matched(specs, runs, racks_known=racks_known).to_pylist()
    total = np.bincount(specs.members.group[runs.member], runs.count, specs.num_groups).astype(np.int64).tolist()
    return [None if each is None else all_of_them - each for each, all_of_them in zip(near, total, strict=True)]


def _what_if(
    specs: GroupSpecs, now: Sequence[str | None], online: BoolArray, names: Sequence[str], racks_known: bool
) -> dict[str, list[Any]]:
    """The best of the assignors that the broker does not have, of groups with racks; the way over is the same."""
    racked = np.zeros(specs.num_groups, bool)
    racked[specs.members.group[specs.members.rack >= 0]] = racks_known
    best: list[tuple[int, str] | None] = [None] * specs.num_groups
    for name in names if racked.any() else ():
        across = _across(specs, _go_over(specs, now, online, name, racked).after, racks_known)
        for group in np.flatnonzero(racked).tolist():
            so_far, each = best[group], across[group]
            if each is not None and (so_far is None or each < so_far[0]):
                best[group] = (each, name)
    return {
        "what_if": [None if each is None else each[1] for each in best],
        "cross_rack_what_if": [None if each is None else each[0] for each in best],
    }
