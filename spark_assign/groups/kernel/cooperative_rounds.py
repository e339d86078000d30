"""In how many rounds groups come to rest (`groups.kernel.sticky_rounds`), as rows of `tables.groups.ROUNDS`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules, client_side, read_profile
from spark_assign.groups.assignors.server import SERVER_SIDE
from spark_assign.groups.assignors.sticky.plan_batch import take_groups
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_assignments import GroupAssignments
from spark_assign.groups.kernel.group_metrics import count_subscribed_partitions, read_ownership
from spark_assign.groups.kernel.group_specs import GroupSpecs, read_group_specs
from spark_assign.groups.kernel.heartbeats import count_heartbeats
from spark_assign.groups.kernel.indexed_facts import index_facts
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import PlanParams, assign_groups, group_key_columns, select_assignors
from spark_assign.groups.kernel.sticky_input import sticky_batch
from spark_assign.groups.kernel.sticky_rounds import CooperativeRound
from spark_assign.groups.kernel.sticky_rounds import simulate_sticky_rounds as rounds_by_kafka
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

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
    specs: GroupSpecs, chosen: BoolArray, limit: int, rules: ReleaseRules = LATEST_RULES
) -> Iterator[CooperativeRound]:
    """Rebalance some groups cooperatively until they are stable, `limit` times at most, by the rules of a release.

    Yields:
        the figures of each round; groups are numbers of the specs. Groups for which Kafka's class throws have none.
    """
    batch, known = sticky_batch(specs, cooperative=True, rules=rules), specs.topics.with_metadata
    claimed = np.bincount(specs.members.group[specs.owned.member], specs.owned.count, specs.num_groups).astype(np.int64)
    topic = np.searchsorted(known, specs.departed_owned.topic)
    departed = PartitionSlices(np.zeros(len(topic), np.int64), topic, *specs.departed_owned.columns[2:])
    departed = departed.take(np.append(known, -1)[topic] == specs.departed_owned.topic)
    if not chosen.all():
        departed = departed.take(chosen[batch.groups.topic_group[departed.topic]])
        number = np.cumsum(chosen[batch.groups.topic_group]) - 1
        departed = PartitionSlices(departed.member, number[departed.topic], *departed.columns[2:])
        batch, claimed = take_groups(batch, chosen), claimed[chosen]
    numbers = np.flatnonzero(chosen)
    if len(numbers):
        for each in rounds_by_kafka(batch, claimed, departed, limit):
            yield replace(each, group=numbers[each.group])


def _follow_library(assignor: str, specs: GroupSpecs, chosen: BoolArray, limit: int) -> Iterator[CooperativeRound]:
    """The same by the cooperative assignor of another library, or by ours; members tell the next generation after each
    round."""
    claimed = np.bincount(specs.members.group[specs.owned.member], specs.owned.count, specs.num_groups).astype(np.int64)
    for number in range(1, limit + 1):
        planned = assign_groups(specs, [assignor if each else None for each in chosen.tolist()], PlanParams((), ()))
        chosen = chosen & ~np.isin(np.arange(specs.num_groups), list(planned.rejected))
        compared = read_ownership(specs, planned.assigned_now, planned.slices.take(planned.withheld), chosen)
        counts = count_changes(compared)
        given = compared.sum_by_group(planned.assigned_now.topic, planned.assigned_now.count)
        figures = {
            "assigned": given,
            "revoked": claimed - counts.kept,
            "moved": counts.owned_and_assigned - counts.kept - counts.returned,
            "unowned": count_subscribed_partitions(specs) - given,
            "stable": claimed == counts.kept,
        }
        yield CooperativeRound(number, np.flatnonzero(chosen), **{name: each[chosen] for name, each in figures.items()})
        chosen = chosen & (claimed > counts.kept)
        if not chosen.any():
            return
        claimed = given
        one = np.ones(len(specs.members), np.int64)
        members = replace(specs.members, generation=one, has_user_data=np.zeros(len(one), bool))
        specs = replace(
            specs,
            members=members,
            owned=planned.assigned_now,
            departed_owned=specs.departed_owned.take(np.empty(0, np.int64)),
        )


def is_cooperative(name: str) -> bool:
    """Whether an assignor withholds what its owner has to give up first (KIP-429)."""
    return name == WEIGHTED_STICKY or client_side(name) == COOPERATIVE


def simulate_assignor_rounds(
    name: str, specs: GroupSpecs, chosen: BoolArray, limit: int
) -> Iterator[CooperativeRound] | None:
    """The same by an assignor's name, of Kafka's clients or another library; null where it is not cooperative."""
    if not is_cooperative(name):
        return None
    profile = read_profile(name)
    if profile is None:
        return _follow_library(name, specs, chosen, limit)
    return simulate_rounds(specs, chosen, limit, profile[1])


def converge(facts: pa.Table, question: PlanParams, limit: int) -> Iterator[pa.Table]:
    """A row per group and round, for all groups of these facts that can be planned."""
    told = index_facts(facts)
    specs = read_group_specs(told, set(find_faults(told)))
    assignor, _ = select_assignors(specs, question)
    names = np.array([name or "" for name in assignor], object)
    own, cooperative = set(question.custom), set()
    for name in sorted(set(names) - own):
        rounds = simulate_assignor_rounds(name, specs, names == name, limit)
        if rounds is None:
            continue
        cooperative.add(name)
        for each in rounds:
            yield _rows(specs, each.group, np.full(len(each.group), each.number), names, _figures(each))
    served = set(SERVER_SIDE) - own
    yield from _target(specs, [name if name in served else None for name in assignor], question)
    assignor = [None if name in served or name in cooperative else name for name in assignor]
    yield _one_round(specs, assign_groups(specs, assignor, question), assignor)


def _figures(each: CooperativeRound) -> dict[str, pa.Array]:
    return {figure: pa.array(getattr(each, figure)) for figure in ("assigned", "revoked", "moved", "unowned", "stable")}


def _target(specs: GroupSpecs, assignor: list[str | None], question: PlanParams) -> Iterator[pa.Table]:
    """The way to a target (KIP-848), heartbeat by heartbeat (`groups.kernel.heartbeats`)."""
    planned = assign_groups(specs, assignor, question)
    names, fine = _planned_by(assignor, planned)
    if not fine.any():
        return
    counts = count_changes(
        compared := read_ownership(specs, planned.assigned_now, planned.slices.take(planned.withheld), fine)
    )
    ways = count_heartbeats(specs, planned)
    most = ways.of_groups(specs)

    def later(gained: IntArray) -> IntArray:
        """Of each group what members that lose something get of that later."""
        return np.bincount(specs.members.group, np.where(ways.revoked > 0, gained, 0), specs.num_groups).astype(
            np.int64
        )

    total = compared.sum_by_group(planned.slices.topic, planned.slices.count)
    first = compared.sum_by_group(planned.assigned_now.topic, planned.assigned_now.count) - later(
        ways.gained - ways.waits_for
    )
    zero = np.zeros(specs.num_groups, np.int64)
    moved = counts.owned_and_assigned - counts.kept - counts.returned
    steps = ((first, counts.owned - counts.kept, moved), (total - later(ways.waits_for), zero, zero))
    for number, (has, gives, moves) in enumerate((*steps, (total, zero, zero)), 1):
        at = np.flatnonzero(fine & (most >= number))
        figures = {
            "assigned": pa.array(has[at]),
            "revoked": pa.array(gives[at]),
            "moved": pa.array(moves[at]),
            "unowned": pa.array((count_subscribed_partitions(specs) - has)[at]),
            "stable": pa.array(most[at] == number),
        }
        yield _rows(specs, at, np.full(len(at), number), names, figures)


def _planned_by(assignor: list[str | None], planned: GroupAssignments) -> tuple[NDArray[np.object_], BoolArray]:
    """Of each group the name of its assignor, and whether it is planned."""
    names = np.array([name or "" for name in assignor], object)
    fine: BoolArray = names != ""
    fine[list(planned.rejected)] = False
    return names, fine


def _one_round(specs: GroupSpecs, planned: GroupAssignments, assignor: list[str | None]) -> pa.Table:
    """The one round of the eager protocol: all that is owned is revoked, then all is assigned."""
    names, fine = _planned_by(assignor, planned)
    counts = count_changes(
        compared := read_ownership(specs, planned.assigned_now, planned.slices.take(planned.withheld), fine)
    )
    groups = np.flatnonzero(fine)
    total = compared.sum_by_group(planned.assigned_now.topic, planned.assigned_now.count)
    figures = {
        "assigned": pa.array(total[groups]),
        "revoked": pa.array(counts.owned[groups]),
        "moved": pa.array((counts.owned_and_assigned - counts.kept - counts.returned)[groups]),
        "unowned": pa.array(count_subscribed_partitions(specs)[groups]),
        "stable": pa.array(np.ones(len(groups), bool)),
    }
    return _rows(specs, groups, np.ones(len(groups), np.int64), names, figures)


def _rows(
    specs: GroupSpecs, groups: IntArray, number: IntArray, names: NDArray[np.object_], figures: dict[str, pa.Array]
) -> pa.Table:
    columns = group_key_columns(specs, groups) | {"round": pa.array(number, pa.int32())} | figures
    columns["assignor"] = pa.array(names[groups], pa.string())
    return pa.table(columns).select(ROUNDS.names).cast(ROUNDS)
