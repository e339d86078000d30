"""Assigns one pool of partitions to members: the four steps of Kafka's `SimpleAssignor`.

Principles, in order of priority
    1. Balance: with m members and p partitions, each partition goes to `desired_sharing` members, m / p rounded up; and
       each member gets desired_sharing * p / m partitions, rounded up or down (its quota).
    2. Stickiness: the assignor revokes only what exceeds a limit.

Example: three members, t0 with 2 partitions. The desired sharing is 2; the quotas are 2, 1, and 1.
    before                    after
    C0: [t0p0 t0p1]           C0: [t0p0 t0p1]
    C1: [t0p0 t0p1]           C1: [t0p0]         exceeds its quota and loses the first partition of its set, say t0p1
    C2: []                    C2: [t0p1]         t0p1 needs a second member again

Steps
    1. Compute the quotas.
    2. Revoke partitions from members that exceed their quota, in the order of the member's hash set of partitions.
    3. Revoke partitions with more than `desired_sharing` members, in the order of the partition's hash set of members.
    4. Assign partitions with fewer members: in the order of the hash map of partitions, each to the next of the members
       below their quota, in turns.

Step 4 has three defects in Kafka, which this module reproduces
    - A member whose turn it is, but that already has the partition, loses its turn.
    - Kafka doesn't record assignments of step 4 with the partition. In the next cycle, the same member can get the same
      partition a second time, which then counts as a further member of the partition.
    - If a complete cycle assigns nothing, this partition gets no more members, and no later partition gets any. If the
      last member reaches its quota with a partition that needs more members, Kafka starts a cycle without members and
      throws `NoSuchElementException`.

The module assigns many pools at once. The hash set of members is in ascending order of the member index for up to
65,536 members; a broker allows a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.java.hash_map import HashTable, capacities_for, compute_if_absent_order, table_order, treeified_groups
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS
from spark_assign.numeric.segmented_arrays import key_ranges, ranges_by_length
from spark_assign.numeric.segmented_arrays import row_numbers as ranks_of

KEPT, UNSUBSCRIBED, OVERFILLED, OVERSHARED = range(4)
"""Whether a member keeps a partition, and if not, the reason."""


@dataclass(frozen=True)
class PartitionPools:
    """Pools of partitions and the members that share them.

    Attributes:
        pool_of_member, member: pool of each member, and its index in the group; sorted by both.
        quota: desired number of partitions of each member (Kafka: desiredAssignmentCount).
        num_subscribers: number of subscribers of each pool. Other members have quota 0, but can own partitions.
        desired_sharing: desired number of members per partition of each pool.
        pool_of_partition, partition_hash: pool and hash code of each partition.
        partition_rank: rank of each partition in the order of `compareTo`; None if the map keys aren't `Comparable`.
        previous_member, previous_partition: previous assignments, as indexes of members and partitions of the pools;
            ascending by member, in the order of its maps and sets.
        assignable: the assignable partitions, by pool in the order in which Kafka lists them.
    """

    pool_of_member: IntArray
    member: IntArray
    quota: IntArray
    num_subscribers: IntArray
    desired_sharing: IntArray
    pool_of_partition: IntArray
    partition_hash: IntArray
    partition_rank: IntArray | None
    previous_member: IntArray
    previous_partition: IntArray
    assignable: IntArray


@dataclass(frozen=True)
class PoolAssignment:
    """The assignment of pools.

    Attributes:
        reason: for each previous assignment, `KEPT` or why it ends.
        pool_member, partition: the new assignments, as indexes of members and partitions of the pools.
        failed: pools for which Kafka throws `NoSuchElementException`.
    """

    reason: IntArray
    pool_member: IntArray
    partition: IntArray
    failed: IntArray


def compute_quotas(num_members: IntArray, num_partitions: IntArray) -> tuple[IntArray, IntArray]:
    """Step 1: computes the limits of pools with at least one member each.

    Returns:
        The desired number of members per partition of each pool, and the quota of each member, member by member.
    """
    desired_sharing = np.where(num_partitions > 0, -(-num_members // np.maximum(num_partitions, 1)), 0)
    precise = (desired_sharing * num_partitions / num_members).repeat(num_members)
    position = ranks_of(np.arange(len(num_members)).repeat(num_members))
    return desired_sharing, (np.ceil(precise * (position + 1)) - np.ceil(precise * position)).astype(np.int64)


def assign_pools(pools: PartitionPools) -> PoolAssignment:
    """Performs steps 2 to 4.

    Raises:
        IdentityDecides: Java would have to order two partitions that aren't `Comparable`.
    """
    reason = np.full(len(pools.previous_partition), KEPT)
    if len(reason):
        _revoke_overfilled_members(pools, reason)
        _revoke_overshared_partitions(pools, reason)
    return _assign_remaining_partitions(pools, reason)


def _revoke_overfilled_members(pools: PartitionPools, reason: IntArray) -> None:
    """Step 2: marks previous assignments above the quota of their member."""
    surplus = np.bincount(pools.previous_member, minlength=len(pools.quota)) - pools.quota
    rows = np.flatnonzero(surplus[pools.previous_member] > 0)
    partition, member = pools.previous_partition[rows], pools.previous_member[rows]
    ranks = None if pools.partition_rank is None else pools.partition_rank[partition]
    rows = rows[table_order(pools.partition_hash[partition], ranks, member)]
    member = pools.previous_member[rows]
    reason[rows[ranks_of(member) < surplus[member]]] = OVERFILLED


def _revoke_overshared_partitions(pools: PartitionPools, reason: IntArray) -> None:
    """Step 3: marks previous assignments above the desired sharing of their partition."""
    desired_sharing = pools.desired_sharing[pools.pool_of_partition]
    surplus = np.bincount(pools.previous_partition[reason == KEPT], minlength=len(desired_sharing)) - desired_sharing
    rows = np.flatnonzero(surplus[pools.previous_partition] > 0)
    rows = rows[np.argsort(pools.previous_partition[rows], kind="stable")]
    member, partition = pools.member[pools.previous_member[rows]], pools.previous_partition[rows]
    set_rows = rows[table_order(member, member, partition)]
    for treeified in treeified_groups(member, partition).tolist():
        start, end = np.searchsorted(partition, [treeified, treeified + 1])
        set_rows[start:end] = _treeified_set_order(pools, rows[start:end], reason)
    set_rows = set_rows[reason[set_rows] == KEPT]
    partition = pools.previous_partition[set_rows]
    reason[set_rows[ranks_of(partition) < surplus[partition]]] = OVERSHARED


def _treeified_set_order(pools: PartitionPools, rows: IntArray, reason: IntArray) -> IntArray:
    """Returns the rows of one partition in the order of its set of members, revoked ones first.

    A treeified bucket changes its order if an element is removed. Step 2 removes members in the order of the map of
    members.
    """
    pool = pools.pool_of_partition[pools.previous_partition[rows[0]]]
    pool_rows = pools.pool_of_partition[pools.previous_partition] == pool
    calls = pools.member[pools.previous_member[pool_rows]]
    indexes = np.arange(int(calls.max()) + 1)
    capacities = capacities_for(pools.num_subscribers[[pool]])
    members = compute_if_absent_order(calls, np.zeros(len(calls), np.int64), indexes, indexes, capacities)
    member_row = dict(zip(pools.member[pools.previous_member[rows]].tolist(), rows.tolist(), strict=True))
    table: HashTable[int] = HashTable(rank=int)
    for member in member_row:
        table.add(member, member)
    removed = [member for member in members.tolist() if member in member_row and reason[member_row[member]] != KEPT]
    for member in removed:
        table.remove(member)
    return np.array([member_row[member] for member in (*removed, *table.iteration_order())], np.int64)


def _assign_remaining_partitions(pools: PartitionPools, reason: IntArray) -> PoolAssignment:
    """Step 4: assigns partitions that have too few members."""
    kept = reason == KEPT
    unfilled = pools.quota - np.bincount(pools.previous_member[kept], minlength=len(pools.quota))
    num_kept = np.bincount(pools.previous_partition[kept], minlength=len(pools.pool_of_partition))
    desired_sharing = pools.desired_sharing[pools.pool_of_partition]
    partitions = _partition_map_order(pools, num_kept < desired_sharing)
    num_missing = desired_sharing[partitions] - num_kept[partitions]
    rows = np.flatnonzero(kept & (num_kept < desired_sharing)[pools.previous_partition])
    new_partition, new_member, is_complete = _assign_undisputed_turns(pools, partitions, num_missing, unfilled, rows)
    partitions, num_missing = (each[~is_complete] for each in (partitions, num_missing))
    owners = _find_owners(pools, rows) if len(partitions) else {}
    unfilled_members = np.flatnonzero(unfilled > 0) if len(partitions) else np.empty(0, np.int64)
    members_by_pool = {
        int(pools.pool_of_member[unfilled_members[start]]): unfilled_members[start:end].tolist()
        for start, end in key_ranges(pools.pool_of_member[unfilled_members])
    }
    missing, remaining_quota = num_missing.tolist(), unfilled.tolist()
    assigned: list[tuple[int, int]] = []
    failed: list[int] = []
    for start, end in key_ranges(pools.pool_of_partition[partitions]):
        pool = int(pools.pool_of_partition[partitions[start]])
        undershared = zip(partitions[start:end].tolist(), missing[start:end], strict=True)
        try:
            assigned += _assign_in_turns(undershared, owners, members_by_pool.get(pool, []), remaining_quota)
        except NoSuchElementError:
            failed.append(pool)
    partition, pool_member = np.array(assigned, np.int64).reshape(-1, 2).T
    return PoolAssignment(
        reason, np.append(new_member, pool_member), np.append(new_partition, partition), np.array(failed, np.int64)
    )


def _assign_undisputed_turns(
    pools: PartitionPools, partitions: IntArray, num_missing: IntArray, unfilled: IntArray, rows: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Performs step 4 for the pools in which no member comes to a partition that it has, and the quotas suffice.

    There, the turns are those of the members in each cycle, one after the other.

    Args:
        pools: the pools.
        partitions: partitions with too few members, by pool in the order of the map.
        num_missing: number of members that each of them lacks.
        unfilled: number of partitions that each member lacks.
        rows: previous assignments of these partitions that are kept.

    Returns:
        the partitions and their members, and a mask of `partitions`: whether they are among them.
    """
    pool, num_pools = pools.pool_of_partition[partitions], len(pools.desired_sharing)
    room = np.bincount(pools.pool_of_member, np.maximum(unfilled, 0), num_pools)
    is_simple = np.bincount(pool, num_missing, num_pools) <= room
    members = np.flatnonzero((unfilled > 0) & is_simple[pools.pool_of_member])
    cycle = ranges_by_length(unfilled[members])
    members = np.repeat(members, unfilled[members])
    order = np.argsort(pools.pool_of_member[members] << PARTITION_BITS | cycle, kind="stable")
    members = members[order]
    is_complete = is_simple[pool]
    partition = np.repeat(partitions[is_complete], num_missing[is_complete])
    num_turns = np.bincount(pools.pool_of_partition[partition], minlength=num_pools)
    members = members[ranks_of(pools.pool_of_member[members]) < num_turns[pools.pool_of_member[members]]]
    if num_missing.max(initial=0) < 2 and not len(rows):
        return partition, members, is_complete
    has_member = np.append(partition, pools.previous_partition[rows]), np.append(members, pools.previous_member[rows])
    key = np.sort(has_member[0] * max(len(unfilled), 1) + has_member[1])
    if (twice := key[1:] == key[:-1]).any():
        # A member that comes to a partition that it has, or comes again, loses its turn.
        has_repeats = np.zeros(num_pools, bool)
        has_repeats[pools.pool_of_partition[key[1:][twice] // max(len(unfilled), 1)]] = True
        is_complete &= ~has_repeats[pool]
        is_new = ~has_repeats[pools.pool_of_partition[partition]]
        partition, members = partition[is_new], members[is_new]
    return partition, members, is_complete


class NoSuchElementError(Exception):
    """Kafka reads the next of no members (`NoSuchElementException`)."""


def _assign_in_turns(
    undershared: Iterable[tuple[int, int]],
    owners: dict[int, set[int]],
    members: Sequence[int],
    remaining_quota: list[int],
) -> Iterator[tuple[int, int]]:
    """Yields the partitions of one pool and the members that get them.

    Args:
        undershared: partitions and the number of members that each lacks, in the order of the map.
        owners: members that already have each partition; partitions without members are absent.
        members: members below their quota, in their order.
        remaining_quota: number of partitions that each member lacks; updated.
    """
    position, has_assigned, next_cycle = 0, False, list[int]()
    for partition, num_missing in undershared:
        previous, new = owners.get(partition, ()), set[int]()
        while num_missing:
            if position == len(members):
                if not has_assigned:
                    break
                if not next_cycle:
                    raise NoSuchElementError
                members, next_cycle, position, has_assigned = next_cycle, [], 0, False
            pool_member = members[position]
            position += 1
            if pool_member not in previous:
                num_missing, has_assigned = num_missing - 1, True
                if pool_member not in new:
                    new.add(pool_member)
                    remaining_quota[pool_member] -= 1
                    yield partition, pool_member
            if remaining_quota[pool_member]:
                next_cycle.append(pool_member)
        if position == len(members) and not next_cycle:
            return


def _partition_map_order(pools: PartitionPools, selected: BoolArray) -> IntArray:
    """Returns the selected partitions (a flag per partition) in the order of the map of partitions.

    The map gets previous assignments first, then assignable partitions, which are by pool.
    """
    # Kafka calls `computeIfAbsent` for every partition; only those with too few members are read from the map.
    calls = pools.assignable
    if len(pools.previous_partition):
        calls = np.append(pools.previous_partition, calls)
        calls = calls[np.argsort(pools.pool_of_partition[calls], kind="stable")]
    capacities = capacities_for(
        np.bincount(pools.pool_of_partition[pools.assignable], minlength=len(pools.desired_sharing))
    )
    pool = pools.pool_of_partition[calls]
    return compute_if_absent_order(calls, pool, pools.partition_hash, pools.partition_rank, capacities, selected)


def _find_owners(pools: PartitionPools, rows: IntArray) -> dict[int, set[int]]:
    """Returns the members of each partition in these rows of previous assignments."""
    owners: dict[int, set[int]] = {}
    for partition, pool_member in zip(
        pools.previous_partition[rows].tolist(), pools.previous_member[rows].tolist(), strict=True
    ):
        owners.setdefault(partition, set()).add(pool_member)
    return owners
