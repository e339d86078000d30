"""How one pool of partitions is shared among members: the four steps of Kafka's simple assignor.

Principles, in this priority
    1. Balance: with m members and p partitions, every partition goes to `sharing` members, m / p rounded up; and
       every member has sharing * p / m of them, rounded up or down (its quota).
    2. Stickiness: nothing is taken but what is too much.

Example: three members, t0 with 2 partitions. Sharing is 2, the quotas are 2, 1 and 1.
    before                    after
    C0: [t0p0 t0p1]           C0: [t0p0 t0p1]
    C1: [t0p0 t0p1]           C1: [t0p0]         has one too many, and gives up the first of its set, say t0p1
    C2: []                    C2: [t0p1]         which wants a second member again

Steps
    1. Quotas.
    2. Members beyond their quota give up partitions, in the order of their own hash sets.
    3. Partitions with more than `sharing` members lose some, in the order of the partitions' hash sets of members.
    4. Partitions with fewer get some: in the order of the hash map of partitions, each from the next of the members
       below their quota, round and round.

Step 4 has three faults of Kafka's, and so has the answer
    - a member whose turn it is but that had the partition before loses the turn;
    - what step 4 gives is not noted with the partition. In the next time round the same member can be given the same
      partition once more, which then counts as one more of its members;
    - when a time round has given nothing, this partition gets no more members, and no later one gets any. And when the
      last member reached its quota with a partition that wants still more, Kafka begins a time round without members:
      `NoSuchElementException`.

Many pools are looked at side by side. Members stand in hash sets by their number, ascending up to 65,536 of them; a
broker allows a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.java.compute_if_absent import capacities_for, computed_order
from spark_assign.java.hash_map import HashTable, table_order, treeified_groups
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import key_ranges
from spark_assign.numeric.segmented_arrays import row_numbers as ranks_of

STAYS, UNSUBSCRIBED, OVER_QUOTA, OVER_SHARED = range(4)
"""Whether a member keeps what it had, and if not, why."""


@dataclass(frozen=True)
class PartitionPools:
    """Pools of partitions to be shared.

    Attributes:
        of_taker, member, quota: of each member of a pool, ascending by both, how many partitions it shall have.
        subscribers: of each pool how many members subscribe to it; others have no quota, but may have had something.
        sharing: of each pool how many members each of its partitions shall have.
        of_key, hashes: of each partition of a pool its pool, and its hash code.
        ranks: of each partition, ascending as `compareTo` has them; null for keys that do not compare.
        pool_member, key: what members had, ascending by pool_member, in the order of their maps and sets.
        wanted: the partitions that are to be shared, pool after pool in the order in which Kafka lists them.
    """

    pool_of_member: IntArray
    member: IntArray
    quota: IntArray
    subscribers: IntArray
    sharing: IntArray
    of_key: IntArray
    hashes: IntArray
    ranks: IntArray | None
    pool_member: IntArray
    key: IntArray
    wanted: IntArray


@dataclass(frozen=True)
class Shares:
    """Who keeps and gets what.

    Attributes:
        reason: of each thing that members had whether it stays.
        pool_member, key: what is given.
        failed: pools in which Kafka throws.
    """

    reason: IntArray
    pool_member: IntArray
    key: IntArray
    failed: IntArray


def quotas(members: IntArray, partitions: IntArray) -> tuple[IntArray, IntArray]:
    """Step 1, of pools with so many members (at least one) and partitions.

    Returns:
        the members that each partition shall have, and, member after member, the partitions that each shall have.
    """
    sharing = np.where(partitions > 0, -(-members // np.maximum(partitions, 1)), 0)
    precise = (sharing * partitions / members).repeat(members)
    place = ranks_of(np.arange(len(members)).repeat(members))
    return sharing, (np.ceil(precise * (place + 1)) - np.ceil(precise * place)).astype(np.int64)


def share_out(pools: PartitionPools) -> Shares:
    """Steps 2 to 4.

    Raises:
        IdentityDecides: Java would have to order two partitions that do not compare.
    """
    reason = np.full(len(pools.key), STAYS)
    _take_from_members(pools, reason)
    _take_from_partitions(pools, reason)
    return _give(pools, reason)


def _take_from_members(pools: PartitionPools, reason: IntArray) -> None:
    """Step 2."""
    surplus = np.bincount(pools.pool_member, minlength=len(pools.quota)) - pools.quota
    some = np.flatnonzero(surplus[pools.pool_member] > 0)
    if not len(some):
        return
    key, pool_member = pools.key[some], pools.pool_member[some]
    ranks = None if pools.ranks is None else pools.ranks[key]
    walk = some[table_order(pools.hashes[key], ranks, pool_member)]
    pool_member = pools.pool_member[walk]
    reason[walk[ranks_of(pool_member) < surplus[pool_member]]] = OVER_QUOTA


def _take_from_partitions(pools: PartitionPools, reason: IntArray) -> None:
    """Step 3."""
    sharing = pools.sharing[pools.of_key]
    surplus = np.bincount(pools.key[reason == STAYS], minlength=len(sharing)) - sharing
    rows = np.flatnonzero(surplus[pools.key] > 0)
    if not len(rows):
        return
    rows = rows[np.argsort(pools.key[rows], kind="stable")]
    member, key = pools.member[pools.pool_member[rows]], pools.key[rows]
    walk = rows[table_order(member, member, key)]
    for each in treeified_groups(member, key).tolist():
        begin, end = np.searchsorted(key, [each, each + 1])
        walk[begin:end] = _walk_of_what_is_left(pools, rows[begin:end], reason)
    walk = walk[reason[walk] == STAYS]
    key = pools.key[walk]
    reason[walk[ranks_of(key) < surplus[key]]] = OVER_SHARED


def _walk_of_what_is_left(pools: PartitionPools, rows: IntArray, reason: IntArray) -> IntArray:
    """The rows of one partition in the walk of its set of members, those first that step 2 has taken out of it.

    A bucket that is a tree changes its order when something is taken out, which step 2 does in the order of the map of
    members.
    """
    pool = pools.of_key[pools.key[rows[0]]]
    every = pools.member[pools.pool_member[pools.of_key[pools.key] == pool]]
    one, numbers = np.zeros(len(every), np.int64), np.arange(int(every.max()) + 1)
    members = computed_order(every, one, numbers, numbers, capacities_for(pools.subscribers[[pool]]))
    row = dict(zip(pools.member[pools.pool_member[rows]].tolist(), rows.tolist(), strict=True))
    table: HashTable[int] = HashTable(rank=int)
    for each in row:
        table.add(each, each)
    gone = [each for each in members.tolist() if each in row and reason[row[each]] != STAYS]
    for each in gone:
        table.remove(each)
    return np.array([row[each] for each in (*gone, *table.walk())], np.int64)


def _give(pools: PartitionPools, reason: IntArray) -> Shares:
    """Step 4."""
    kept = reason == STAYS
    lacking = pools.quota - np.bincount(pools.pool_member[kept], minlength=len(pools.quota))
    had = np.bincount(pools.key[kept], minlength=len(pools.of_key))
    walk = _walk_of_partitions(pools)
    walk = walk[had[walk] < pools.sharing[pools.of_key[walk]]]
    holders = _holders(pools, kept, (had > 0) & (had < pools.sharing[pools.of_key]))
    unfilled = np.flatnonzero(lacking > 0)
    turns = {
        int(pools.pool_of_member[unfilled[begin]]): unfilled[begin:end].tolist()
        for begin, end in key_ranges(pools.pool_of_member[unfilled])
    }
    needs = (pools.sharing[pools.of_key[walk]] - had[walk]).tolist()
    lacks = lacking.tolist()
    pool_members: list[int] = []
    keys: list[int] = []
    failed: list[int] = []
    for begin, end in key_ranges(pools.of_key[walk]):
        pool = int(pools.of_key[walk[begin]])
        needy = zip(walk[begin:end].tolist(), needs[begin:end], strict=True)
        try:
            for key, pool_member in _deal(needy, holders, turns.get(pool, []), lacks):
                keys.append(key)
                pool_members.append(pool_member)
        except NobodyIsLeft:
            failed.append(pool)
    return Shares(reason, *(np.array(each, np.int64) for each in (pool_members, keys, failed)))


class NobodyIsLeft(Exception):
    """Kafka asks for the next one of no members."""


def _deal(
    needy: Iterable[tuple[int, int]], holders: dict[int, set[int]], turn: Sequence[int], lacks: list[int]
) -> Iterator[tuple[int, int]]:
    """Step 4 in one pool: partitions and the members that they are given to.

    Args:
        needy: partitions with how many members each wants, in the order of the map.
        holders: of partitions that have members already, those.
        turn: members below their quota, in their order.
        lacks: how many partitions each member wants; what is given is taken off.
    """
    place, given, waiting = 0, False, list[int]()
    for key, need in needy:
        holding, new = holders.get(key, ()), set[int]()
        while need:
            if place == len(turn):
                if not given:
                    break
                if not waiting:
                    raise NobodyIsLeft
                turn, waiting, place, given = waiting, [], 0, False
            pool_member = turn[place]
            place += 1
            if pool_member not in holding:
                need, given = need - 1, True
                if pool_member not in new:
                    new.add(pool_member)
                    lacks[pool_member] -= 1
                    yield key, pool_member
            if lacks[pool_member]:
                waiting.append(pool_member)
        if place == len(turn) and not waiting:
            return


def _walk_of_partitions(pools: PartitionPools) -> IntArray:
    """The map of partitions: what members had goes in first, then what is to be shared."""
    calls = np.append(pools.key, pools.wanted)
    order = np.argsort(pools.of_key[calls], kind="stable")
    made_for = np.bincount(pools.of_key[pools.wanted], minlength=len(pools.sharing))
    calls = calls[order]
    return computed_order(calls, pools.of_key[calls], pools.hashes, pools.ranks, capacities_for(made_for))


def _holders(pools: PartitionPools, kept: BoolArray, chosen: BoolArray) -> dict[int, set[int]]:
    """Who has some of the partitions."""
    holders: dict[int, set[int]] = {}
    some = kept & chosen[pools.key]
    for key, pool_member in zip(pools.key[some].tolist(), pools.pool_member[some].tolist(), strict=True):
        holders.setdefault(key, set()).add(pool_member)
    return holders
