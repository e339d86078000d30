"""Measures what groups own now and what the broker's assignor would give them: balance, moves, racks, and pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, broker_releases
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, UNIFORM, UNIFORM_4_0_0
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import (
    assign,
    assign_groups,
    balance_metrics,
    count_rack_matched,
    read_ownership,
)
from spark_assign.migration.kernel.migration_verdict import Policy
from spark_assign.migration.kernel.rolling_restart import RollingRestart, simulate_restarts
from spark_assign.numeric.arrays import EMPTY_SLICES, BoolArray, IntArray, PartitionSlices, mask_from_indexes
from spark_assign.simulation.kernel.pause_estimates import PauseCounts, server_seconds
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.tables.parameters import Param


@dataclass(frozen=True)
class MigrationParams:
    """Parameters of `plan_migration`.

    Attributes:
        server_assignor: assignor of the broker after the migration.
        policy: setting `group.consumer.migration.policy` of the brokers.
        max_size: setting `group.consumer.max.size` of the brokers, in members (default: no limit).
        library: the library of members with unrecognized client ids (`groups.kernel.client_libraries.LIBRARIES`), for
            all groups, or by shell pattern of the group id, of which the first matching one counts; `None`: that of
            their leader, as its bytes show it; else unknown, which is a warning.
        hypothetical_assignors: assignors that the broker doesn't have, to count the partitions that they would read
            across racks; `None`: the rack-aware variant of `server_assignor` (`rack-uniform` or `rack-server-range`).
        broker_release: release of the brokers, 4.0 to 4.4, or with a patch, such as 4.2.1. It decides which faults of
            brokers block a group, whether classic Streams applications can move to `group.protocol=streams` (default:
            unknown, which blocks them), and which class `uniform` is.

    Examples:
        >>> MigrationParams(library="Java").server_assignor
        'uniform'
    """

    server_assignor: Annotated[str, Param(choices=KAFKA_SERVER_ASSIGNORS)] = UNIFORM
    policy: Annotated[str, Param(choices=[each.value for each in Policy])] = Policy.BIDIRECTIONAL
    max_size: Annotated[int | None, Param(least=1)] = None
    library: str | Mapping[str, str] | None = None
    hypothetical_assignors: Sequence[str] | None = None
    broker_release: Annotated[str | None, Param(choices=broker_releases(), metavar="RELEASE")] = None


@dataclass(frozen=True)
class MigrationPassParams(MigrationParams):
    """Parameters of a pass over complete groups.

    Attributes:
        policy, library, hypothetical_assignors: see `MigrationParams`.
        timing: the times to estimate pauses from.
        racks_known: whether the fleet has the racks of replicas.
    """

    policy: Policy = Policy.BIDIRECTIONAL
    library: Mapping[str, str] = field(default_factory=dict)
    hypothetical_assignors: tuple[str, ...] = ()
    timing: TimingConfig = field(default_factory=TimingConfig)
    racks_known: bool = False


@dataclass(frozen=True)
class MigrationMetrics:
    """Metrics of all groups of the specs.

    Attributes:
        rows: the metrics of each group, named as in `tables.comparison.MIGRATIONS`. `owned` is the number of partitions
            that live members own now.
        restarts: the costs of each simulated restart of each group, in order.
        is_complete: whether all restarts of each group were simulated.
        rejected: groups that the broker's assignor can't plan: code and detail.
    """

    rows: list[dict[str, Any]]
    restarts: list[list[dict[str, int]]]
    is_complete: BoolArray
    rejected: dict[int, tuple[str, str]]


def measure_migration(
    specs: GroupSpecs, current_assignors: Sequence[str | None], can_convert: BoolArray, params: MigrationPassParams
) -> MigrationMetrics:
    """Plans with the broker's assignor, simulates the restarts, and tries assignors that the broker doesn't have.

    Args:
        specs: the groups.
        current_assignors: the assignor of each group; `None` if unknown.
        can_convert: whether each group restarts one member at a time.
        params: the parameters of the migration.
    """
    all_groups = np.ones(specs.num_groups, bool)
    server_class = params.server_assignor
    if server_class == UNIFORM and params.broker_release == "4.0.0":
        server_class = UNIFORM_4_0_0
    plan = _plan_server_assignor(specs, current_assignors, can_convert, server_class, all_groups)
    assignments, assigned_after, is_planned = plan.assignments, plan.assigned_after, plan.is_planned
    assigned_before = _assigned_before(specs, current_assignors, is_planned)
    counts = count_changes(read_ownership(specs, assignments, is_planned))
    metrics_before, metrics_after = (
        balance_metrics(specs.members.group, specs.num_groups, slices) for slices in (assigned_before, assigned_after)
    )
    pause_counts = PauseCounts(
        members=np.maximum(metrics_before["members"].to_numpy(), 1),
        partitions=metrics_after["partitions"].to_numpy(),
        living=counts.live_owned_and_assigned,
        kept=counts.kept,
        back=counts.returned,
        later=0,
    )
    columns = {
        "members": metrics_before["members"],
        "partitions": metrics_after["partitions"],
        "max_over_mean_before": metrics_before["max_over_mean"],
        "max_over_mean_after": metrics_after["max_over_mean"],
        "owned": counts.owned,
        "moved": np.where(can_convert, counts.moved, _count_moved(specs, assigned_after, is_planned)),
        "moved_on_rollback": _count_moved_on_rollback(specs, current_assignors, assigned_after, is_planned),
        "paused_partition_seconds": server_seconds(pause_counts, params.timing),
        "cross_rack_before": _count_cross_rack(specs, assigned_before, params.racks_known),
        "cross_rack_after": _count_cross_rack(specs, assigned_after, params.racks_known),
        **_measure_hypothetical(specs, current_assignors, can_convert, params),
    }
    rows, rolling = pa.table(columns).to_pylist(), plan.rolling
    return MigrationMetrics(rows, rolling.restarts, rolling.is_complete, dict(assignments.rejected))


@dataclass(frozen=True)
class _ServerPlan:
    """A migration to one assignor of the broker: its first target, the simulated restarts, and the final assignment."""

    assignments: GroupAssignments
    rolling: RollingRestart
    assigned_after: PartitionSlices
    is_planned: BoolArray


def _plan_server_assignor(
    specs: GroupSpecs,
    current_assignors: Sequence[str | None],
    can_convert: BoolArray,
    server_assignor: str,
    selected: BoolArray,
) -> _ServerPlan:
    """Migrates the selected groups to an assignor of the broker."""
    assignments = assign(specs, server_assignor, selected)
    is_planned = selected.copy()
    is_planned[list(assignments.rejected)] = False
    names = np.array([name or "" for name in current_assignors], object)
    is_restarting = is_planned & can_convert & np.isin(names, CLIENT_ASSIGNORS)
    rolling = simulate_restarts(specs, names, server_assignor, is_restarting)
    # The final assignment is that after all restarts, or the broker's target, or a new assignment from scratch.
    group, owned_after, target = specs.members.group, rolling.owned_after, assignments.slices
    is_restarted = rolling.is_complete & mask_from_indexes(group[specs.instance_id.is_null()], specs.num_groups)
    from_scratch = assign(replace(specs, owned=EMPTY_SLICES), server_assignor, is_planned & ~can_convert).slices
    assigned_after = owned_after.take(is_restarted[group[owned_after.member]]).concat(
        target.take((can_convert & ~is_restarted)[group[target.member]]), from_scratch
    )
    return _ServerPlan(assignments, rolling, assigned_after, is_planned)


def _assign_by_current(
    specs: GroupSpecs, current_assignors: Sequence[str | None], selected: BoolArray
) -> GroupAssignments:
    """Assigns the selected groups with their own assignors, if these are Kafka's client-side assignors."""
    pairs = zip(current_assignors, selected.tolist(), strict=True)
    return assign_groups(specs, [name if chosen and name in CLIENT_ASSIGNORS else None for name, chosen in pairs])


def _assigned_before(
    specs: GroupSpecs, current_assignors: Sequence[str | None], is_planned: BoolArray
) -> PartitionSlices:
    """Returns what members own; in groups without known owners, what the group's assignor would assign."""
    owns_any = mask_from_indexes(specs.members.group[specs.owned.member], specs.num_groups)
    if owns_any.all():
        return specs.owned
    return specs.owned.concat(_assign_by_current(specs, current_assignors, is_planned & ~owns_any).slices)


def _count_moved(specs: GroupSpecs, assigned: PartitionSlices, is_planned: BoolArray) -> IntArray:
    """Returns the number of partitions per group that change owners in the end if `assigned` is the assignment."""
    return count_changes(read_ownership(specs, GroupAssignments.of(assigned), is_planned)).moved


def _count_moved_on_rollback(
    specs: GroupSpecs, current_assignors: Sequence[str | None], assigned_after: PartitionSlices, is_planned: BoolArray
) -> pa.Array:
    """Returns the number of partitions per group that change owners on the way back from the broker's assignment; null
    if unknown."""
    migrated = replace(specs, owned=assigned_after, departed_owned=EMPTY_SLICES)
    previous = _assign_by_current(migrated, current_assignors, is_planned)
    is_known = is_planned & np.array([name in CLIENT_ASSIGNORS for name in current_assignors], bool)
    is_known[list(previous.rejected)] = False
    return pa.array(_count_moved(migrated, previous.slices, is_known), mask=~is_known)


def _count_cross_rack(specs: GroupSpecs, assigned: PartitionSlices, racks_known: bool) -> pa.Array:
    """Returns the number of partitions per group whose owner has no replica in its rack; null if unknown."""
    matched = count_rack_matched(specs, assigned, racks_known=racks_known)
    total = np.bincount(specs.members.group[assigned.member], assigned.count, specs.num_groups).astype(np.int64)
    return pc.subtract(total, matched)


def _measure_hypothetical(
    specs: GroupSpecs, current_assignors: Sequence[str | None], can_convert: BoolArray, params: MigrationPassParams
) -> dict[str, list[Any]]:
    """Returns the best of the assignors that the broker doesn't have, for groups with racks, and its cross-rack
    partitions.
    """
    has_racks = np.zeros(specs.num_groups, bool)
    has_racks[specs.members.group[specs.members.rack >= 0]] = params.racks_known
    counts: list[dict[str, int]] = [{} for _ in range(specs.num_groups)]
    for name in params.hypothetical_assignors if has_racks.any() else ():
        plan = _plan_server_assignor(specs, current_assignors, can_convert, name, has_racks)
        for group, count in enumerate(_count_cross_rack(specs, plan.assigned_after, params.racks_known).to_pylist()):
            if has_racks[group] and count is not None:
                counts[group][name] = count
    best = [min(by_name, key=by_name.__getitem__, default=None) for by_name in counts]
    return {
        "hypothetical_assignor": best,
        "cross_rack_hypothetical": [
            None if name is None else by_name[name] for name, by_name in zip(best, counts, strict=True)
        ],
    }
