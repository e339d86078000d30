"""Simulates how groups reach a stable assignment, in rounds (columns: `tables.groups.ROUNDS`).

Cooperative protocol (KIP-429): after a round, every member has what was not withheld and revokes the rest. A member
that revoked something rejoins, all with the next generation, and another round follows. A round without revocations is
the last.

Consumer protocol (KIP-848): one round per heartbeat (`groups.kernel.heartbeats`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.groups.assignors.release_rules import (
    LATEST_RULES,
    ReleaseRules,
    client_assignor,
    parse_release_assignor,
)
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch, plan_batch, take_groups
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.facts import index_facts
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_metrics import count_subscribed_partitions, read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs, read_group_specs
from spark_assign.groups.kernel.heartbeats import count_heartbeats
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.groups.kernel.plan_groups import PlanParams, assign_groups, group_key_columns, select_assignors
from spark_assign.groups.kernel.sticky_input import sticky_batch
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

COOPERATIVE = "cooperative-sticky"

ROUNDS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id"), pa.string()),
        "round": pa.int32(),
        "assignor": pa.string(),
        **dict.fromkeys(("assigned", "revoked", "moved", "unowned"), pa.int64()),
        "stable": pa.bool_(),
    }
)

MAX_ROUNDS = 12
"""Number of rounds after which the simulation of a group that is not stable ends."""


def simulate_rounds(
    specs: GroupSpecs, selected: BoolArray, limit: int, rules: ReleaseRules = LATEST_RULES
) -> Iterator[CooperativeRound]:
    """Rebalances the selected groups cooperatively until they are stable, at most `limit` times, by the rules of a
    release.

    Yields:
        the metrics of each round, with group indexes of the specs. Groups for which Kafka's class throws have none.
    """
    batch, topics = sticky_batch(specs, cooperative=True, rules=rules), specs.topics.with_metadata
    num_owned = np.bincount(specs.members.group[specs.owned.member], specs.owned.count, specs.num_groups).astype(
        np.int64
    )
    topic = np.searchsorted(topics, specs.departed_owned.topic)
    departed = PartitionSlices(np.zeros(len(topic), np.int64), topic, *specs.departed_owned.columns[2:])
    departed = departed.take(np.append(topics, -1)[topic] == specs.departed_owned.topic)
    if not selected.all():
        departed = departed.take(selected[batch.groups.topic_group[departed.topic]])
        topic_index = np.cumsum(selected[batch.groups.topic_group]) - 1
        departed = PartitionSlices(departed.member, topic_index[departed.topic], *departed.columns[2:])
        batch, num_owned = take_groups(batch, selected), num_owned[selected]
    group_indexes = np.flatnonzero(selected)
    if len(group_indexes):
        for cooperative_round in simulate_sticky_rounds(batch, num_owned, departed, limit):
            yield replace(cooperative_round, group=group_indexes[cooperative_round.group])


def _simulate_library_rounds(
    assignor: str, specs: GroupSpecs, selected: BoolArray, limit: int
) -> Iterator[CooperativeRound]:
    """Simulates rounds of the cooperative assignor of another library, or of weighted-sticky; members report the next
    generation after each round.
    """
    num_owned = np.bincount(specs.members.group[specs.owned.member], specs.owned.count, specs.num_groups).astype(
        np.int64
    )
    for number in range(1, limit + 1):
        assignments = assign_groups(
            specs, [assignor if each else None for each in selected.tolist()], PlanParams((), ())
        )
        selected = selected & ~np.isin(np.arange(specs.num_groups), list(assignments.rejected))
        compared = read_ownership(
            specs, assignments.assigned_now, assignments.slices.take(assignments.withheld), selected
        )
        counts = count_changes(compared)
        assigned = compared.sum_by_group(assignments.assigned_now.topic, assignments.assigned_now.count)
        metrics = {
            "assigned": assigned,
            "revoked": num_owned - counts.kept,
            "moved": counts.owned_and_assigned - counts.kept - counts.returned,
            "unowned": count_subscribed_partitions(specs) - assigned,
            "stable": num_owned == counts.kept,
        }
        yield CooperativeRound(
            number, np.flatnonzero(selected), **{name: each[selected] for name, each in metrics.items()}
        )
        selected = selected & (num_owned > counts.kept)
        if not selected.any():
            return
        num_owned = assigned
        ones = np.ones(len(specs.members), np.int64)
        members = replace(specs.members, generation=ones, has_user_data=np.zeros(len(ones), bool))
        specs = replace(
            specs,
            members=members,
            owned=assignments.assigned_now,
            departed_owned=specs.departed_owned.take(np.empty(0, np.int64)),
        )


def is_cooperative(name: str) -> bool:
    """Checks whether an assignor withholds partitions until their owner has revoked them (KIP-429)."""
    return name == WEIGHTED_STICKY or client_assignor(name) == COOPERATIVE


def simulate_assignor_rounds(
    name: str, specs: GroupSpecs, selected: BoolArray, limit: int
) -> Iterator[CooperativeRound] | None:
    """Simulates rounds of the named assignor; returns None if it is not cooperative."""
    if not is_cooperative(name):
        return None
    profile = parse_release_assignor(name)
    if profile is None:
        return _simulate_library_rounds(name, specs, selected, limit)
    return simulate_rounds(specs, selected, limit, profile[1])


def converge(table: pa.Table, params: PlanParams, limit: int) -> Iterator[pa.Table]:
    """Returns one row per group and round, for all groups of a fact table that can be planned."""
    facts = index_facts(table)
    specs = read_group_specs(facts, set(find_faults(facts)))
    assignor, _ = select_assignors(specs, params)
    names = np.array([name or "" for name in assignor], object)
    custom, cooperative = set(params.custom), set()
    for name in sorted(set(names) - custom):
        cooperative_rounds = simulate_assignor_rounds(name, specs, names == name, limit)
        if cooperative_rounds is None:
            continue
        cooperative.add(name)
        for cooperative_round in cooperative_rounds:
            yield _rows(
                specs,
                cooperative_round.group,
                np.full(len(cooperative_round.group), cooperative_round.number),
                names,
                _metric_columns(cooperative_round),
            )
    server_side = set(SERVER_ASSIGNORS) - custom
    yield from _target_rounds(specs, [name if name in server_side else None for name in assignor], params)
    assignor = [None if name in server_side or name in cooperative else name for name in assignor]
    yield _one_round(specs, assign_groups(specs, assignor, params), assignor)


def _metric_columns(cooperative_round: CooperativeRound) -> dict[str, pa.Array]:
    return {
        figure: pa.array(getattr(cooperative_round, figure))
        for figure in ("assigned", "revoked", "moved", "unowned", "stable")
    }


def _target_rounds(specs: GroupSpecs, assignor: list[str | None], params: PlanParams) -> Iterator[pa.Table]:
    """Yields the rounds until the target (KIP-848): one per heartbeat."""
    assignments = assign_groups(specs, assignor, params)
    names, is_planned = _planned_by(assignor, assignments)
    if not is_planned.any():
        return
    counts = count_changes(
        compared := read_ownership(
            specs, assignments.assigned_now, assignments.slices.take(assignments.withheld), is_planned
        )
    )
    heartbeats = count_heartbeats(specs, assignments)
    max_heartbeats = heartbeats.of_groups(specs)

    def later(newly_assigned: IntArray) -> IntArray:
        """Of each group what members that lose something get of that later."""
        return np.bincount(
            specs.members.group, np.where(heartbeats.revoked > 0, newly_assigned, 0), specs.num_groups
        ).astype(np.int64)

    total = compared.sum_by_group(assignments.slices.topic, assignments.slices.count)
    first = compared.sum_by_group(assignments.assigned_now.topic, assignments.assigned_now.count) - later(
        heartbeats.newly_assigned - heartbeats.unreleased_partitions
    )
    zero = np.zeros(specs.num_groups, np.int64)
    moved = counts.owned_and_assigned - counts.kept - counts.returned
    steps = ((first, counts.owned - counts.kept, moved), (total - later(heartbeats.unreleased_partitions), zero, zero))
    for number, (assigned, revoked, moves) in enumerate((*steps, (total, zero, zero)), 1):
        groups = np.flatnonzero(is_planned & (max_heartbeats >= number))
        metrics = {
            "assigned": pa.array(assigned[groups]),
            "revoked": pa.array(revoked[groups]),
            "moved": pa.array(moves[groups]),
            "unowned": pa.array((count_subscribed_partitions(specs) - assigned)[groups]),
            "stable": pa.array(max_heartbeats[groups] == number),
        }
        yield _rows(specs, groups, np.full(len(groups), number), names, metrics)


def _planned_by(assignor: list[str | None], assignments: GroupAssignments) -> tuple[NDArray[np.object_], BoolArray]:
    """Returns the name of each group's assignor, and whether the group is planned."""
    names = np.array([name or "" for name in assignor], object)
    is_planned: BoolArray = names != ""
    is_planned[list(assignments.rejected)] = False
    return names, is_planned


def _one_round(specs: GroupSpecs, assignments: GroupAssignments, assignor: list[str | None]) -> pa.Table:
    """Returns the single round of the eager protocol, which revokes everything and then assigns everything."""
    names, is_planned = _planned_by(assignor, assignments)
    counts = count_changes(
        compared := read_ownership(
            specs, assignments.assigned_now, assignments.slices.take(assignments.withheld), is_planned
        )
    )
    groups = np.flatnonzero(is_planned)
    total = compared.sum_by_group(assignments.assigned_now.topic, assignments.assigned_now.count)
    metrics = {
        "assigned": pa.array(total[groups]),
        "revoked": pa.array(counts.owned[groups]),
        "moved": pa.array((counts.owned_and_assigned - counts.kept - counts.returned)[groups]),
        "unowned": pa.array(count_subscribed_partitions(specs)[groups]),
        "stable": pa.array(np.ones(len(groups), bool)),
    }
    return _rows(specs, groups, np.ones(len(groups), np.int64), names, metrics)


def _rows(
    specs: GroupSpecs,
    groups: IntArray,
    round_number: IntArray,
    names: NDArray[np.object_],
    metrics: dict[str, pa.Array],
) -> pa.Table:
    columns = group_key_columns(specs, groups) | {"round": pa.array(round_number, pa.int32())} | metrics
    columns["assignor"] = pa.array(names[groups], pa.string())
    return pa.table(columns).select(ROUNDS.names).cast(ROUNDS)


@dataclass(frozen=True)
class CooperativeRound:
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


def simulate_sticky_rounds(
    batch: StickyBatch, claimed: IntArray, departed: PartitionSlices, limit: int
) -> Iterator[CooperativeRound]:
    """Rebalances until no group must rebalance again.

    Args:
        batch: the groups as they join the first round.
        claimed: number of partitions that the members of each group claim, including those of vanished topics.
        departed: what departed members owned, of topics with metadata; the member indexes are irrelevant.
        limit: maximum number of rounds.
    """
    group_index = np.arange(batch.groups.num_groups)
    for number in range(1, limit + 1):
        result = plan_batch(batch)
        groups = batch.groups
        assigned, withheld = result.slices.take(~result.withheld), result.slices.take(result.withheld)
        num_assigned = _by_group(groups, assigned.topic, assigned.count)
        counts = count_changes(
            Ownership(
                groups.num_groups, groups.topic_group, groups.partitions, batch.owned, departed, assigned, withheld
            )
        )
        revoked = claimed - counts.kept
        planned = np.ones(groups.num_groups, bool)
        planned[list(result.rejected)] = False
        yield CooperativeRound(
            number,
            group_index[planned],
            assigned=num_assigned[planned],
            revoked=revoked[planned],
            moved=(counts.owned_and_assigned - counts.kept - counts.returned)[planned],
            unowned=(_by_group(groups, np.arange(len(groups.partitions)), groups.partitions) - num_assigned)[planned],
            stable=(revoked == 0)[planned],
        )
        rebalances_again = planned & (revoked > 0)
        if not rebalances_again.any():
            return
        group_index, claimed = group_index[rebalances_again], num_assigned[rebalances_again]
        generation = np.full(len(groups.member_group), -1 if batch.rules.ignores_generations else 1)
        batch = replace(
            batch,
            owned=assigned,
            owned_generation=generation,
            generation=generation,
            owned_without_metadata=EMPTY_SLICES,
        )
        batch = take_groups(batch, rebalances_again)
        departed = assigned.take(np.zeros(len(assigned), bool))


def _by_group(groups: StickyGroups, topic: IntArray, values: IntArray) -> IntArray:
    return np.bincount(groups.topic_group[topic], values, groups.num_groups).astype(np.int64)
