"""Rounds of the cooperative protocol (KIP-429), for many groups at once.

After a round every member has what was not withheld and gives up the rest. Who gave something up joins again, all with
the next generation, and another round follows; a round in which nobody gives anything up is the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch, plan_batch, take_groups
from spark_assign.groups.assignors.sticky.sticky_types import StickyGroups
from spark_assign.groups.kernel.ownership_changes import Ownership, count_changes
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


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
    name = np.arange(batch.groups.number)
    for number in range(1, limit + 1):
        decided = plan_batch(batch)
        groups = batch.groups
        assigned, withheld = decided.runs.take(~decided.withheld), decided.runs.take(decided.withheld)
        given = _by_group(groups, assigned.topic, assigned.count)
        counts = count_changes(
            Ownership(groups.number, groups.topic_group, groups.partitions, batch.claims, departed, assigned, withheld)
        )
        revoked = claimed - counts.kept
        planned = np.ones(groups.number, bool)
        planned[list(decided.refused)] = False
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
        joined = np.full(len(groups.member_group), -1 if batch.rules.blind_to_generations else 1)
        batch = replace(batch, claims=assigned, claimed_in=joined, generation=joined, gone=EMPTY_SLICES)
        batch = take_groups(batch, again)
        departed = assigned.take(np.zeros(len(assigned), bool))


def _by_group(groups: StickyGroups, topic: IntArray, number: IntArray) -> IntArray:
    return np.bincount(groups.topic_group[topic], number, groups.number).astype(np.int64)
