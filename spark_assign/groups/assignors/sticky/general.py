"""Sticky where members subscribe to different topics (Kafka's `GeneralAssignmentBuilder`), one group at a time.

What is owned is kept, the rest is dealt out and evened out in the books (`balance`); here is what surrounds
them: claims of older generations, why something moved, and what is withheld.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.general_balance import GeneralBalancer, Subscribers
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.rack_aware import Racks
from spark_assign.groups.assignors.sticky.sticky_groups import (
    BALANCING,
    KEPT,
    RACK_MISMATCH,
    AssignorError,
    StickyAssignment,
    StickyGroups,
)
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices


def find_previous_owners(claims: PartitionSlices, walk: IntArray, claimed_in: IntArray) -> dict[int, int]:
    """Who claims a partition in an older generation than the group's newest (`prepopulateCurrentAssignments`).

    Of several claimers that of the newest generation counts; of equal ones the first in the walk of the hash map.
    """
    old = claims.take((claimed_in < claimed_in.max(initial=-1))[claims.member]).expand()
    order = np.lexsort((walk[old.member], -claimed_in[old.member], old.partition_keys))
    keys = old.partition_keys[order]
    return dict(zip(keys[::-1].tolist(), old.member[order][::-1].tolist(), strict=True))


def plan_general(
    groups: StickyGroups,
    raw: PartitionSlices,
    claims: ResolvedOwnership,
    subscribers: Subscribers,
    racks: Racks | None,
    rules: ReleaseRules = LATEST_RULES,
) -> StickyAssignment:
    """Plan one group of any subscriptions.

    Args:
        groups: the one group.
        raw: all claims of topics with metadata, before conflicts.
        claims: the same after conflicts.
        subscribers: who may get what.
        racks: where racks matter.
        rules: of which release.
    """
    return run_balancer(groups, raw, claims, GeneralBalancer(groups, claims.slices.expand(), subscribers, racks, rules))


def run_balancer(
    groups: StickyGroups, raw: PartitionSlices, claims: ResolvedOwnership, balance: GeneralBalancer
) -> StickyAssignment:
    """Fill and balance these books, and read what comes out; arguments: `plan_general`."""
    try:
        balance.assign_unassigned()
        balance.balance()
    except AssignorError as failure:
        return reject_group(claims.slices, str(failure))
    return _read_assignment(groups, raw, claims, balance)


def reject_group(claims: PartitionSlices, why: str) -> StickyAssignment:
    """The one group is refused."""
    nothing = claims.take(np.empty(0, np.int64))
    return StickyAssignment(nothing, nothing.member, nothing.member.astype(bool), {0: why})


def _read_assignment(
    groups: StickyGroups, raw: PartitionSlices, claims: ResolvedOwnership, balance: GeneralBalancer
) -> StickyAssignment:
    member, key = balance.assignment()
    rows = claims.slices.expand()
    order = np.argsort(rows.partition_keys)
    sorted_keys = rows.partition_keys[order]
    at = np.minimum(np.searchsorted(sorted_keys, key), max(len(order) - 1, 0))
    owner = np.full(len(key), -1, np.int64)
    if len(order):
        found = sorted_keys[at] == key
        owner[found] = rows.member[order][at[found]]
    could_stay = np.isin(key, balance.kept_keys)
    reason = np.where(could_stay, BALANCING, np.where(np.isin(key, balance.far_keys), RACK_MISMATCH, KEPT))
    reason = np.where(owner != member, reason, KEPT)  # what nobody owned could not stay
    withheld = np.zeros(len(key), bool)
    if groups.cooperative:
        withheld = _is_transferring(raw, member, key, balance.final_walk)
    runs, reason, withheld = to_slices(
        member, key >> PARTITION_BITS, key & ((1 << PARTITION_BITS) - 1), reason, withheld
    )
    return StickyAssignment(runs, reason, withheld, {})


def _is_transferring(raw: PartitionSlices, member: IntArray, key: IntArray, walk: IntArray) -> BoolArray:
    """What is new to its member while somebody else has to give it up (`computePartitionsTransferringOwnership`)."""
    claimed = raw.expand()
    size = len(walk)
    had = np.unique(claimed.partition_keys * size + claimed.member) if len(claimed) else claimed.partition_keys
    gets = key * size + member
    added = ~np.isin(gets, had)
    given_up = np.unique(had[~np.isin(had, gets)] // size)
    transferring = added & np.isin(key, given_up)
    # A partition that two members are given is noted once, for the one that comes last in the walk.
    numbers = np.flatnonzero(transferring)
    last = numbers[np.lexsort((walk[member[numbers]], key[numbers]))]
    transferring[last[:-1][key[last[:-1]] == key[last[1:]]]] = False
    return transferring
