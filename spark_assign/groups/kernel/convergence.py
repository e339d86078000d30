"""In how many rounds groups come to rest (`groups.kernel.convergence`), as rows of `tables.groups.ROUNDS`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_assign.groups.assignors import release_rules
from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules, client_assignor
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch, plan_batch, take_groups
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.facts import index_facts
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_metrics import count_subscribed_partitions, read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs, read_group_specs
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.groups.kernel.plan_groups import PlanParams, assign_groups, group_key_columns, select_assignors
from spark_assign.groups.kernel.sticky_input import sticky_batch
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices, mask_from_indexes, match_equal_slices
from spark_assign.numeric.segmented_arrays import row_numbers

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
        for each in simulate_sticky_rounds(batch, claimed, departed, limit):
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
    return name == WEIGHTED_STICKY or client_assignor(name) == COOPERATIVE


def simulate_assignor_rounds(
    name: str, specs: GroupSpecs, chosen: BoolArray, limit: int
) -> Iterator[CooperativeRound] | None:
    """The same by an assignor's name, of Kafka's clients or another library; null where it is not cooperative."""
    if not is_cooperative(name):
        return None
    profile = release_rules.parse_release_assignor(name)
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
    served = set(SERVER_ASSIGNORS) - own
    yield from _target(specs, [name if name in served else None for name in assignor], question)
    assignor = [None if name in served or name in cooperative else name for name in assignor]
    yield _one_round(specs, assign_groups(specs, assignor, question), assignor)


def _figures(each: CooperativeRound) -> dict[str, pa.Array]:
    return {figure: pa.array(getattr(each, figure)) for figure in ("assigned", "revoked", "moved", "unowned", "stable")}


def _target(specs: GroupSpecs, assignor: list[str | None], question: PlanParams) -> Iterator[pa.Table]:
    """The way to a target (KIP-848), heartbeat by heartbeat (`groups.kernel.convergence`)."""
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


# DOC: Rounds of the cooperative protocol (KIP-429), for many groups at once.
#
# After a round every member has what was not withheld and gives up the rest. Who gave something up joins again, all
# with
# the next generation, and another round follows; a round in which nobody gives anything up is the last.
#


@dataclass(frozen=True)
class CooperativeRound:
    """Figures of one round, in partitions, of each group that is not refused.

    Attributes:
        number: 1, 2, …
        group: the groups.
        assigned: have an owner after the round.
        revoked: are given up by members after it.
        moved: have, or get in the next round, another owner than they had.
        unowned: have no owner until the next round.
        stable: whether nobody gives anything up.
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
    """Rebalance until no group has to any more.

    Args:
        batch: the groups as they join the first round.
        claimed: of each group how many partitions its members claim, those of vanished topics too.
        departed: what members that have left owned of topics with metadata; their numbers do not matter.
        limit: so many rounds at most.
    """
    name = np.arange(batch.groups.num_groups)
    for number in range(1, limit + 1):
        decided = plan_batch(batch)
        groups = batch.groups
        assigned, withheld = decided.slices.take(~decided.withheld), decided.slices.take(decided.withheld)
        given = _by_group(groups, assigned.topic, assigned.count)
        counts = count_changes(
            Ownership(
                groups.num_groups, groups.topic_group, groups.partitions, batch.owned, departed, assigned, withheld
            )
        )
        revoked = claimed - counts.kept
        planned = np.ones(groups.num_groups, bool)
        planned[list(decided.rejected)] = False
        yield CooperativeRound(
            number,
            name[planned],
            assigned=given[planned],
            revoked=revoked[planned],
            moved=(counts.owned_and_assigned - counts.kept - counts.returned)[planned],
            unowned=(_by_group(groups, np.arange(len(groups.partitions)), groups.partitions) - given)[planned],
            stable=(revoked == 0)[planned],
        )
        again = planned & (revoked > 0)
        if not again.any():
            return
        name, claimed = name[again], given[again]
        joined = np.full(len(groups.member_group), -1 if batch.rules.ignores_generations else 1)
        batch = replace(batch, owned=assigned, owned_generation=joined, generation=joined)
        batch = replace(batch, owned_without_metadata=EMPTY_SLICES)
        batch = take_groups(batch, again)
        departed = assigned.take(np.zeros(len(assigned), bool))


def _by_group(groups: StickyGroups, topic: IntArray, number: IntArray) -> IntArray:
    return np.bincount(groups.topic_group[topic], number, groups.num_groups).astype(np.int64)


# DOC: In how many heartbeats each member of a KIP-848 group comes to its target, and what it waits for.
#
# The target is there with the first heartbeat (`simulation.kernel.current_assignment_builder` says what each one
# does). A
# client reports at once what it has given up, not a heartbeat interval later; so the others' second heartbeat finds it.
#
#     loses nothing, waits for nothing    1: it gets what nobody has
#     loses                               2: it is told; it reports, and gets what nobody has
#     waits for what others lose          2: once they have reported
#     loses and waits                     3: its report may come before that of the others
#
# Example: C0 has t0p0 and t0p1, C1 has nothing; the target gives t0p1 to C1, and t0p2, which nobody has, to C0.
#     heartbeat 1    C0 is told to give up t0p1. C1: []
#     heartbeat 2    C0 reports, and gets t0p2. C1: [t0p1]
#

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
    kept = _sum_by_member(runs.member[stays], runs.count[stays], number) + np.bincount(both, minlength=number)
    withheld = runs.take(planned.withheld).expand()
    order = np.argsort(owned.partition_keys, kind="stable")
    keys, owners = owned.partition_keys[order], owned.member[order]
    begin, end = np.searchsorted(keys, withheld.partition_keys), np.searchsorted(keys, withheld.partition_keys, "right")
    pair = np.repeat(np.arange(len(withheld)), end - begin)
    waits = np.unique(withheld.member[pair] * max(number, 1) + owners[begin[pair] + row_numbers(pair)])
    return HeartbeatCounts(
        kept,
        revoked=_sum_by_member(claims.member, claims.count, number) - kept,
        gained=_sum_by_member(runs.member, runs.count, number) - kept,
        waits_for=np.bincount(withheld.member, minlength=number),
        waits_for_members=np.bincount(waits // max(number, 1), minlength=number),
    )


def list_heartbeats(facts: pa.Table, question: PlanParams) -> Iterator[pa.Table]:
    """A row per member of all groups of these facts that uniform or server-range plans."""
    told = index_facts(facts)
    specs = read_group_specs(told, set(find_faults(told)))
    assignor, _ = select_assignors(specs, question)
    mine = [name if name in SERVER_ASSIGNORS and name not in question.custom else None for name in assignor]
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


def _sum_by_member(member: IntArray, count: IntArray, number: int) -> IntArray:
    return np.bincount(member, count, number).astype(np.int64)
