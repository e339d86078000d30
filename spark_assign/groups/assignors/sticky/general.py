"""Assigns heterogeneous groups, one at a time (Kafka's `GeneralAssignmentBuilder`).

For the algorithm, see `general_balance`. This module finds the owners of earlier generations, and derives from the
result why a partition moved and whether it is withheld.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.sticky.general_balance import GeneralBalancer
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups
from spark_assign.groups.kernel.group_specs import BALANCING, KEPT, RACK_MISMATCH, GroupAssignments
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, positions_in, split_keys


def find_previous_owners(owned: PartitionSlices, groups: StickyGroups, owned_generation: IntArray) -> dict[int, int]:
    """Returns partition key to the owner in an older generation than the group's newest
    (`prepopulateCurrentAssignments`).

    Of several owners, that of the newest generation counts; of equal generations, the first in hash order.
    """
    older = owned.take((owned_generation < owned_generation.max(initial=-1))[owned.member]).expand()
    order = np.lexsort((groups.hash_order[older.member], -owned_generation[older.member], older.partition_keys))
    keys = older.partition_keys[order]
    return dict(zip(keys[::-1].tolist(), older.member[order][::-1].tolist(), strict=True))


def run_balancer(
    groups: StickyGroups, owned: PartitionSlices, resolved: ResolvedOwnership, balancer: GeneralBalancer
) -> GroupAssignments:
    """Fills and balances one group with any subscriptions, and returns its assignment.

    Args:
        groups: the one group.
        owned: owned partitions of topics with metadata, before conflicts are resolved.
        resolved: the same, after conflicts are resolved.
        balancer: the state of the group, in which members keep what they own.
    """
    balancer.assign_unassigned()
    balancer.balance()
    member, key = balancer.assignment()
    rows = resolved.slices.expand()
    owner = np.append(rows.member, -1)[positions_in(rows.partition_keys, key)]
    is_kept = np.isin(key, balancer.kept_keys)
    reason = np.where(is_kept, BALANCING, np.where(np.isin(key, balancer.far_keys), RACK_MISMATCH, KEPT))
    reason = np.where(owner != member, reason, KEPT)  # a partition without an owner didn't move
    withheld = np.zeros(len(key), bool)
    if groups.cooperative:
        withheld = _is_transferring(owned, member, key, balancer.final_hash_order)
    return GroupAssignments.of_partitions(member, *split_keys(key), reason, withheld)


def _is_transferring(owned: PartitionSlices, member: IntArray, key: IntArray, hash_order: IntArray) -> BoolArray:
    """Returns a mask of the partitions that another member must revoke first
    (`computePartitionsTransferringOwnership`)."""
    rows = owned.expand()
    size = len(hash_order)
    owned_pairs = np.unique(rows.partition_keys * size + rows.member) if len(rows) else rows.partition_keys
    assigned_pairs = key * size + member
    is_added = ~np.isin(assigned_pairs, owned_pairs)
    revoked = np.unique(owned_pairs[~np.isin(owned_pairs, assigned_pairs)] // size)
    is_transferring = is_added & np.isin(key, revoked)
    # A partition that two members get is recorded once, for the last of them in hash order.
    candidates = np.flatnonzero(is_transferring)
    last = candidates[np.lexsort((hash_order[member[candidates]], key[candidates]))]
    is_transferring[last[:-1][key[last[:-1]] == key[last[1:]]]] = False
    return is_transferring
