"""Rounds of the cooperative protocol (KIP-429), for many groups at once.

After a round every member has what was not withheld and gives up the rest. Who gave something up joins again, all with
the next generation, and another round follows; a round in which nobody gives anything up is the last.

Hardly anything is compared partition by partition: where claims neither meet nor name partitions that do not exist,
whatever is claimed is either kept or withheld.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spark_assign.kernels.segments import first_of_each
from spark_assign.kernels.sticky import Batch, plan_batch, take_groups
from spark_assign.kernels.sticky_claims import KEY_BITS, Runs, crossing_topics
from spark_assign.kernels.sticky_groups import Groups

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
        groups = batch.groups
        assigned, withheld = decided.runs.where(~decided.withheld), decided.runs.where(decided.withheld)
        given = _by_group(groups, assigned.topic, assigned.count)
        fate = _fate(batch, departed, assigned, withheld)
        revoked = claimed - fate.kept
        planned = np.ones(groups.number, bool)
        planned[list(decided.refused)] = False
        yield Round(
            number,
            name[planned],
            assigned=given[planned],
            revoked=revoked[planned],
            moved=(fate.still_there - fate.kept - fate.given_back)[planned],
            unowned=(_by_group(groups, np.arange(len(groups.partitions)), groups.partitions) - given)[planned],
            stable=(revoked == 0)[planned],
        )
        again = planned & (revoked > 0)
        if not again.any():
            return
        name, claimed = name[again], given[again]
        joined = np.ones(len(groups.member_group), np.int64)
        batch = take_groups(replace(batch, claims=assigned, claimed_in=joined, generation=joined), again)
        departed = assigned.where(np.zeros(len(assigned), bool))


@dataclass(frozen=True)
class _Fate:
    """What becomes of what was owned, in partitions of each group.

    Attributes:
        kept: stays with its claimer.
        given_back: is withheld from a member that claims it itself; others claim it too.
        still_there: was owned by anybody, and has an owner now or in the next round.
    """

    kept: Ints
    given_back: Ints
    still_there: Ints


def _fate(batch: Batch, departed: Runs, assigned: Runs, withheld: Runs) -> _Fate:
    groups, claims = batch.groups, batch.claims
    owned = claims.joined(departed)
    astray = np.zeros(groups.number, bool)
    astray[groups.topic_group[owned.topic[owned.last >= groups.partitions[owned.topic]]]] = True
    one_by_one = astray[groups.topic_group]
    one_by_one[crossing_topics(owned)] = True

    def whole(runs: Runs) -> Ints:
        some = runs.where(~one_by_one[runs.topic])
        return _by_group(groups, some.topic, some.count)

    def rows(runs: Runs) -> Runs:
        return runs.where(one_by_one[runs.topic]).rows()

    claimed, has, waits = rows(claims), rows(assigned), rows(withheld)
    there = np.intersect1d(rows(owned).keys, has.joined(waits).keys) >> KEY_BITS
    return _Fate(
        kept=whole(claims) - whole(withheld) + _in_both(groups, claimed, has),
        given_back=_in_both(groups, claimed, waits),
        still_there=whole(owned) + _by_group(groups, there, np.ones(len(there), np.int64)),
    )


def _by_group(groups: Groups, topic: Ints, number: Ints) -> Ints:
    return np.bincount(groups.topic_group[topic], number, groups.number).astype(np.int64)


def _in_both(groups: Groups, claimed: Runs, rows: Runs) -> Ints:
    """Of each group how many partitions have the same member in both."""
    key, member = np.append(claimed.keys, rows.keys), np.append(claimed.member, rows.member)
    order = np.lexsort((member, key))
    again = ~first_of_each(key[order]) & ~first_of_each(member[order])
    topic = key[order][again] >> KEY_BITS
    return _by_group(groups, topic, np.ones(len(topic), np.int64))
