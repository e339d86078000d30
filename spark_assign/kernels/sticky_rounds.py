"""Rounds of the cooperative protocol (KIP-429), for many groups at once.

After a round every member has what was not withheld and gives up the rest. Who gave something up joins again, all with
the next generation, and another round follows; a round in which nobody gives anything up is the last.

Nothing is compared partition by partition, since every existing partition that some member claims is either kept or
withheld: kept = claimed by somebody - withheld.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spark_assign.kernels.segments import first_of_each
from spark_assign.kernels.sticky import Batch, plan_batch, take_groups
from spark_assign.kernels.sticky_claims import KEY_BITS, Runs, crossing_topics

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Round:
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
    group: Ints
    assigned: Ints
    revoked: Ints
    moved: Ints
    unowned: Ints
    stable: Flags


def rounds(batch: Batch, claimed: Ints, departed: Runs, limit: int) -> Iterator[Round]:
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
        assigned = decided.runs.where(~decided.withheld)
        withheld = decided.runs.where(decided.withheld)
        groups = batch.groups
        by_group = groups.topic_group
        sizes = np.bincount(by_group, groups.partitions, groups.number).astype(np.int64)
        given = np.bincount(by_group[assigned.topic], assigned.count, groups.number).astype(np.int64)
        waiting = np.bincount(by_group[withheld.topic], withheld.count, groups.number).astype(np.int64)
        kept = _distinct(batch, batch.claims) - waiting
        had_owner = _distinct(batch, batch.claims.joined(departed))
        revoked = claimed - kept
        planned = np.ones(groups.number, bool)
        planned[list(decided.refused)] = False
        moved = had_owner - kept - _given_back(batch, withheld)
        yield Round(
            number,
            name[planned],
            assigned=given[planned],
            revoked=revoked[planned],
            moved=moved[planned],
            unowned=(sizes - given)[planned],
            stable=(revoked == 0)[planned],
        )
        again = planned & (revoked > 0)
        if not again.any():
            return
        name, claimed = name[again], given[again]
        joined = np.ones(len(groups.member_group), np.int64)
        batch = take_groups(replace(batch, claims=assigned, claimed_in=joined, generation=joined), again)
        departed = assigned.where(np.zeros(len(assigned), bool))


def _distinct(batch: Batch, claims: Runs) -> Ints:
    """Of each group how many existing partitions are claimed, however often."""
    size = batch.groups.partitions[claims.topic]
    below = np.clip(-(-(size - claims.first) // claims.step), 0, claims.count)
    crossing = np.isin(claims.topic, crossing_topics(claims))
    rows = claims.where(crossing).rows()
    keys = np.unique(rows.keys[rows.first < batch.groups.partitions[rows.topic]])
    topic = np.append(claims.topic[~crossing], keys >> KEY_BITS)
    number = np.append(below[~crossing], np.ones(len(keys), np.int64))
    return np.bincount(batch.groups.topic_group[topic], number, batch.groups.number).astype(np.int64)


def _given_back(batch: Batch, withheld: Runs) -> Ints:
    """Of each group how many partitions are withheld from a member that claims them itself; others claim them too."""
    crossing = crossing_topics(batch.claims)
    waits = withheld.where(np.isin(withheld.topic, crossing)).rows()
    claims = batch.claims.where(np.isin(batch.claims.topic, crossing)).rows()
    both = np.append(waits.keys, claims.keys), np.append(waits.member, claims.member)
    order = np.lexsort((both[1], both[0]))
    key, member = both[0][order], both[1][order]
    again = ~first_of_each(key) & ~first_of_each(member)
    topic = key[again] >> KEY_BITS
    return np.bincount(batch.groups.topic_group[topic], minlength=batch.groups.number)
