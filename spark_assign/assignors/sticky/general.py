"""Assigns heterogeneous groups, one at a time (Kafka's `GeneralAssignmentBuilder`).

`run_balancer` lets `GeneralBalancer` balance the group, and derives from the result why a partition moved and whether
it is withheld. `find_previous_owners` finds the owners of earlier generations.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from spark_assign.assignors.group_specs import BALANCING, KEPT, RACK_MISMATCH, GroupAssignments
from spark_assign.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.assignors.sticky.rack_aware import Racks
from spark_assign.assignors.sticky.sticky_groups import (
    DOES_NOT_CONVERGE,
    NO_SUCH_MEMBER,
    AssignorError,
    PartitionMovements,
    ResolvedOwnership,
    StickyGroups,
    Subscribers,
    hash_order_after_balancing,
    hash_order_while_balancing,
)
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    invert,
    key_ranges,
    positions_in,
    ranges_by_length,
    row_numbers,
    split_keys,
)


def find_previous_owners(owned: PartitionSlices, groups: StickyGroups, owned_generation: IntArray) -> dict[int, int]:
    """Returns partition key to the owner in an older generation than the group's newest
    (`prepopulateCurrentAssignments`).

    Of several owners, that of the newest generation counts; of equal generations, the first in hash order.
    """
    older = owned.take((owned_generation < owned_generation.max(initial=-1))[owned.member]).expand()
    order = np.lexsort((groups.hash_order[older.member], -owned_generation[older.member], older.partition_keys))
    keys = older.partition_keys[order]
    # The last of equal keys stays in a dict, so the rows are reversed.
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
    # A pair of a partition and a member is one number. Example: C0 owned t0 (key 0), which C1 gets; there are two
    # members.
    #     owned_pairs [0]    assigned_pairs [1]    is_added [True]    revoked [0]    is_transferring [True]
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


# --- balances one group whose members subscribe to different topics (Kafka's `GeneralAssignmentBuilder`) ------
#
# Principles: keep what is owned, give the rest to the members with the fewest partitions, then move single partitions
# while that improves the balance.
#
# Steps
#     1. Keep: each member keeps the partitions that it owns, if it subscribes to the topic and (if racks matter) the
#        partition has a replica in its rack.
#     2. Fill: each unassigned partition goes to the subscriber with the fewest partitions, then the lowest id; if racks
#        matter, to one whose rack has a replica, if there is one. Topics with few subscribers come first.
#     3. Balance: iterate over the partitions that were just assigned, then over all. If the owner of a partition has at
#        least two partitions more than the previous owner (of an earlier generation), the partition moves back;
#        otherwise if it has at least two more than a subscriber, it moves to the subscriber with the fewest. If a
#        partition of the topic moved the opposite way before, that one moves instead. Repeat until nothing moves. Undo
#        all moves if they didn't improve the balance.
#
# Example: t and u have two partitions. C0 subscribes to both topics and owns all partitions. C1 subscribes to u, and
# joins.
#
#     keep       C0: [t0, t1, u0, u1]    C1: []
#     balance    C0: [t0, t1]            C1: [u0, u1]    (u0, then u1 moves: C0 has at least two more)
#
# Before each partition, Kafka checks whether the group is balanced, which iterates over all partitions and members. In
# a balanced group nothing moves, so the check has an effect only if a previous owner no longer subscribes to a
# partition, or if ownership of missing partitions makes the state inconsistent. `checks_balance` is set only in these
# cases.
#
# Up to 3.5.1, a group is balanced only if no member could take a partition from a member with any more, and a partition
# can have two owners (`sticky_groups`), which makes the state inconsistent, too.


_MIN_BATCH_SIZE = 64
"""Number of partitions that are checked at once after a move. It grows while nothing moves."""
_CYCLE_CHECK_PASSES, _MAX_PASSES = 16, 10_000
_NEVER = 1 << 62
"""A size that no member has."""


class GeneralBalancer:
    """The state of one group while it is balanced. Partitions are numbered in Kafka's iteration order."""

    def __init__(
        self,
        groups: StickyGroups,
        owned: PartitionSlices,
        subscribers: Subscribers,
        topic_hash: IntArray,
        previous_owner: dict[int, int],
        racks: Racks | None,
        rules: ReleaseRules = LATEST_RULES,
        order: IntArray | None = None,
    ) -> None:
        """Keeps the owned partitions (step 1).

        Args:
            groups: the one group.
            owned: single partitions.
            subscribers: the members that can get partitions of each topic with metadata.
            topic_hash: `String.hashCode` of each topic's name.
            previous_owner: partition key to the owner in the newest of the earlier generations.
            racks: None if racks don't matter.
            rules: rules of a release.
            order: keys of all partitions in iteration order, if all members subscribe to the same topics. By default,
                topics with few subscribers come first, then by name.
        """
        self.groups = groups
        self.min_difference = 0 if rules.balances_to_one else 1
        self.hash_order = groups.hash_order
        self.racks = racks
        self.subscribed, self.num_subscribers = subscribers, subscribers.sizes
        self.topics = np.lexsort((np.arange(len(self.num_subscribers)), self.num_subscribers))
        self.num_members = len(groups.member_group)
        self.subscribers = [subscribers.sets[index] for index in subscribers.of_topic.tolist()]
        self.max_size = np.zeros(self.num_members, np.int64)
        counts = np.bincount(subscribers.of_topic, groups.partitions, len(subscribers.sets)).astype(np.int64)
        for members, count in zip(subscribers.sets, counts.tolist(), strict=True):
            self.max_size[members] += count
        counts = groups.partitions[self.topics]
        self.start = np.append(0, np.cumsum(counts))
        self.position = invert(self.topics, len(counts))
        self.topic, self.partition = np.repeat(self.topics, counts), ranges_by_length(counts)
        self.rack_set = racks.rack_set_of(self.topic, self.partition) if racks else np.empty(0, np.int64)
        self.rack_matched = racks.rack_matched() if racks else np.empty((0, self.num_members), bool)
        self.movements = PartitionMovements(topic_hash)
        self.is_homogeneous = order is not None
        self.order = np.arange(len(self.topic))
        if order is not None:
            self.order = self._numbers(*split_keys(order))
        self._keep(owned)
        self.previous_owner = np.full(len(self.topic), -1, np.int64)
        size = len(previous_owner)
        keys, members = (np.fromiter(each, np.int64, size) for each in (previous_owner.keys(), previous_owner.values()))
        topic, partition = split_keys(keys)
        exists = partition < groups.partitions[topic]
        self.previous_owner[self._numbers(topic, partition)[exists]] = members[exists]
        has_previous = self.previous_owner >= 0
        is_unsubscribed = has_previous.copy()
        is_unsubscribed[has_previous] = ~subscribers.include(
            self.topic[has_previous], self.previous_owner[has_previous]
        )
        self.checks_balance = bool(is_unsubscribed.any() or self.num_copies is not None)
        # Whether the group wasn't balanced after the last move.
        self.is_unbalanced = False

    def _numbers(self, topic: IntArray, partition: IntArray) -> IntArray:
        """Returns the numbers of partitions. For those that don't exist, the numbers are wrong."""
        return self.start[self.position[topic]] + partition

    # --- Step 1: keep ---

    def _keep(self, owned: PartitionSlices) -> None:
        """Keeps owned partitions of topics that their member subscribes to, unless their racks don't match."""
        is_kept = self.subscribed.include(owned.topic, owned.member)
        is_mismatched = np.zeros(len(owned), bool)
        if self.racks is not None:
            is_mismatched = is_kept & ~self.rack_matched[self.racks.rack_set_of(owned.topic, owned.first), owned.member]
        self.revocation_required = bool((~is_kept | is_mismatched).any())
        self.far_keys = owned.partition_keys[is_mismatched]
        reported = owned
        owned = owned.take(is_kept & ~is_mismatched)
        self.kept_keys = owned.partition_keys
        self.size = np.bincount(owned.member, minlength=self.num_members)
        self.initializing = not self.size.any()
        exists = owned.first < self.groups.partitions[owned.topic]
        self.owner = np.full(len(self.topic), -1, np.int64)
        number = self._numbers(owned.topic, owned.first)
        self.owner[number[exists]] = owned.member[exists]
        self.missing = owned.take(~exists)
        # If a partition has two owners or doesn't exist, each (member, partition) pair is counted.
        self.num_copies: Counter[tuple[int, int]] | None = None
        # While the balance is checked, the members of each partition, and the last one in hash order.
        self.holders: dict[int, set[int]] = {}
        self.last_holder = self.owner
        unassigned = self.owner < 0
        if self._has_shared(reported) or len(self.missing):
            self.num_copies = Counter(zip(owned.member[exists].tolist(), number[exists].tolist(), strict=True))
            # The search for unassigned partitions gets stuck at the first that doesn't exist or has two owners.
            keys, num_owners = np.unique(number[exists], return_counts=True)
            stops = [*self.start[self.position[self.missing.topic] + 1].tolist(), *(keys[num_owners > 1] + 1).tolist()]
            unassigned[min(stops, default=len(unassigned)) :] = True
        self.unassigned = self.order[unassigned[self.order]]

    def _has_shared(self, owned: PartitionSlices) -> bool:
        """Checks whether two members own a partition. It counts as owned by the last of them in hash order."""
        keys, num_owners = np.unique(owned.partition_keys, return_counts=True)
        shared = owned.take(np.isin(owned.partition_keys, keys[num_owners > 1]))
        shared = shared.take(shared.first < self.groups.partitions[shared.topic])
        shared = shared.take(np.argsort(self.groups.owned_hash_order[shared.member]))
        self.owner[self._numbers(shared.topic, shared.first)] = shared.member
        return len(shared) > 0

    # --- Step 2: fill ---

    def assign_unassigned(self) -> None:
        """Assigns each unassigned partition to the subscriber with the fewest partitions (step 2)."""
        unassigned = self.unassigned
        if self.racks is not None:
            unassigned = np.array([number for number in unassigned.tolist() if not self._fill_near(number)], np.int64)
        for start, end in self._topic_spans(unassigned):
            self._pour(self.subscribers[self.topic[unassigned[start]]], unassigned[start:end])

    def _topic_spans(self, numbers: IntArray) -> list[tuple[int, int]]:
        """Returns the start and end (exclusive) of consecutive partitions with the same subscribers."""
        return key_ranges(self.topic[numbers] * (not self.is_homogeneous))

    def _fill_near(self, number: int) -> bool:
        """Assigns a partition to a member in whose rack it has a replica; returns False if there is none."""
        candidates = self.subscribers[self.topic[number]]
        candidates = candidates[self.rack_matched[self.rack_set[number], candidates]]
        if not len(candidates):
            return False
        self._assign(int(candidates[np.argmin(self.size[candidates])]), number)
        return True

    def _pour(self, candidates: IntArray, numbers: IntArray) -> None:
        """Assigns the partitions of one topic one by one, each to the candidate with the fewest (water filling)."""
        # Kafka's `assignPartition` takes the first subscriber of the `TreeSet` by (size, id), one partition after
        # another. A member whose size is s takes its turns at the sizes s, s + 1, and so on.
        #
        # Example: C0 has one partition, C1 has none, and three partitions are unassigned. The level is 2.
        #     num_assigned [1, 2]    slot_member [C0, C1, C1]    slot_level [1, 0, 1]    to_members [C1, C0, C1]
        sizes = self.size[candidates]
        if len(numbers) == 1:
            to_members = candidates[[np.argmin(sizes)]]
        else:
            level = find_level(sizes, len(numbers))
            num_assigned = np.maximum(level - sizes, 0)
            slot_member = np.repeat(np.arange(len(candidates)), num_assigned)
            slot_level = np.repeat(sizes, num_assigned) + ranges_by_length(num_assigned)
            to_members = candidates[slot_member[np.lexsort((slot_member, slot_level))[: len(numbers)]]]
        if self.num_copies is not None:
            for member, number in zip(to_members.tolist(), numbers.tolist(), strict=True):
                self._assign(member, number)
            return
        self.owner[numbers] = to_members
        self.size += np.bincount(to_members, minlength=self.num_members)

    def _assign(self, member: int, number: int) -> None:
        self.owner[number] = member
        self.size[member] += 1
        if self.num_copies is not None:
            self.num_copies[member, number] += 1

    # --- Step 3: balance ---

    def balance(self) -> None:
        """Moves partitions while that improves the balance (step 3). Undoes all moves if they didn't improve it."""
        reassignable = self.num_subscribers[self.topic] >= 2
        self.participates = self._find_participants(reassignable)
        self.owned_hash_order = hash_order_while_balancing(self.groups, self.participates)
        before = (self.size.copy(), self.owner.copy(), None if self.num_copies is None else self.num_copies.copy())
        if not self.revocation_required:
            self._reassign(self.unassigned[reassignable[self.unassigned]])
        moved = self._reassign(self.order[reassignable[self.order]])
        reverted = False
        if not self.initializing and moved:
            sizes, participates = before[0], self.participates
            if balance_score(self.size[participates]) >= balance_score(sizes[participates]):
                self.size, self.owner, self.num_copies = before
                reverted = True
        self.final_hash_order = hash_order_after_balancing(self.groups, self.participates, reverted=reverted)

    def _find_participants(self, reassignable: BoolArray) -> BoolArray:
        """Returns a mask of the members that can get more, or that own a partition with several subscribers. Others are
        fixed."""
        owns_movable = np.zeros(self.num_members, bool)
        if self.num_copies is None:
            owns_movable[self.owner[reassignable]] = True
        else:
            owners = [member for (member, number), n in self.num_copies.items() if n and reassignable[number]]
            owns_movable[owners] = True
            owns_movable[self.missing.member[self.num_subscribers[self.missing.topic] >= 2]] = True
        return (self.size < self.max_size) | owns_movable

    def _reassign(self, numbers: IntArray) -> bool:
        """Iterates over partitions until nothing moves (`performReassignments`); returns whether anything moved."""
        blocks = [(numbers[start:end], int(self.topic[numbers[start]])) for start, end in self._topic_spans(numbers)]
        performed = False
        seen = None
        for pass_index in range(_MAX_PASSES):
            if pass_index >= _CYCLE_CHECK_PASSES:
                # A repeated state repeats forever (Brent: compare with the state after a power of two passes).
                if (state := self._state()) == seen:
                    break
                seen = state if pass_index & (pass_index - 1) == 0 else seen
            modified = False
            for block, topic in blocks:
                moved, balanced = self._reassign_topic(block, topic)
                modified |= moved
                if balanced:
                    break
            performed |= modified
            if not modified:
                return performed
        raise AssignorError(DOES_NOT_CONVERGE)

    def _state(self) -> object:
        """Returns all that the next moves depend on."""
        copies = None if self.num_copies is None else +self.num_copies
        return self.owner.tobytes(), self.size.tobytes(), copies, self.movements.state()

    def _reassign_topic(self, block: IntArray, topic: int) -> tuple[bool, bool]:
        """Iterates over the partitions of one topic; returns whether any moved, and whether the group is balanced."""
        moved = False
        candidates = self.subscribers[topic]
        position, num_ahead = 0, _MIN_BATCH_SIZE
        while position < len(block):
            # The loop of `performReassignments`, for a batch of partitions: sizes don't change until one of them moves,
            # so the conditions are computed at once, and the first partition that moves ends the batch.
            #
            # Example: C0 owns t0 to t3, C1 subscribes to t and has none, and there are no previous owners: t0 moves to
            # C1.
            #     owners [C0, C0, C0, C0]    sizes [4, 4, 4, 4]    lowest C1    is_move [True, True, True, True]
            batch = block[position : position + num_ahead]
            owners = self.owner[batch]
            sizes = self.size[owners]
            previous = self.previous_owner[batch]
            lowest = candidates[np.argmin(self.size[candidates])]
            is_move_back = (previous >= 0) & ((sizes > self.size[previous] + 1) | ~self.participates[previous])
            is_move = is_move_back | (sizes > self.size[lowest] + 1)
            if self.num_copies is not None:
                is_move[:] = True
            index = int(np.argmax(is_move))
            if not is_move[index]:
                position, num_ahead = position + len(batch), 4 * num_ahead
                continue
            num_ahead = _MIN_BATCH_SIZE
            if self.checks_balance and not self.is_unbalanced:
                if self._is_balanced():
                    return moved, True
                self.is_unbalanced = True
            number = int(batch[index])
            if is_move_back[index]:
                if not self.participates[previous[index]]:
                    raise AssignorError(NO_SUCH_MEMBER)
                self._move(number, int(previous[index]))
                moved = True
            elif self.num_copies is None:
                self._move(number, int(lowest))
                moved = True
            elif self._has_much_more(int(owners[index]), number):
                self._move(number, self._fewest(topic))
                moved = True
            position += index + 1
        return moved, False

    def _fewest(self, topic: int) -> int:
        """Returns the subscriber with the fewest partitions."""
        candidates = self.subscribers[topic][self.participates[self.subscribers[topic]]]
        if not len(candidates):
            raise AssignorError(NO_SUCH_MEMBER)
        return int(candidates[np.argmin(self.size[candidates])])

    def _has_much_more(self, owner: int, number: int) -> bool:
        """Checks, in Kafka's order, whether some subscriber has at least two partitions less than the owner."""
        if owner < 0 or not self.participates[owner]:
            raise AssignorError(NO_SUCH_MEMBER)
        candidates = self.subscribers[self.topic[number]]
        if self.racks is not None and self.racks.member_rack[owner] >= 0:
            is_matched = self.rack_matched[self.rack_set[number]] & (self.racks.member_rack >= 0)
            if is_matched[owner] and self._any_below(candidates[is_matched[candidates]], owner):
                return True
        return self._any_below(candidates, owner)

    def _any_below(self, members: IntArray, owner: int) -> bool:
        """Checks whether one of these members has at least two partitions less than the owner."""
        is_below, participates = self.size[owner] > self.size[members] + 1, self.participates[members]
        if not participates.all():
            first = members[np.argmin(np.where(participates & ~is_below, _NEVER, self.hash_order[members]))]
            if not self.participates[first]:
                raise AssignorError(NO_SUCH_MEMBER)
        return bool(is_below.any())

    def _move(self, number: int, to_member: int) -> None:
        """Moves a partition, or another one of its topic that moved the opposite way."""
        actual = self.movements.partition_to_move(number, int(self.topic[number]), int(self.owner[number]), to_member)
        from_member = int(self.owner[actual])
        self.is_unbalanced = False
        if self.num_copies is not None and not (self.participates[from_member] and self.participates[to_member]):
            raise AssignorError(NO_SUCH_MEMBER)
        self.movements.record_move(actual, int(self.topic[actual]), int(self.partition[actual]), from_member, to_member)
        if self.num_copies is None:
            self.size[from_member] -= 1
        elif self.num_copies[from_member, actual]:
            self.num_copies[from_member, actual] -= 1
            self.size[from_member] -= 1
        self._assign(to_member, actual)
        if self.num_copies is not None and self.holders:
            holders = {*self.holders.get(actual, ()), to_member}
            self._hold(actual, {each for each in holders if self.num_copies[each, actual]})

    def _hold(self, number: int, holders: set[int]) -> None:
        self.holders[number] = holders
        ranked = [each for each in holders if self.participates[each]]
        self.last_holder[number] = max(ranked, key=self.owned_hash_order.__getitem__, default=-1)

    def _is_balanced(self) -> bool:
        """Checks whether no member could take a partition from one with at least two more (`isBalanced`)."""
        participants = np.flatnonzero(self.participates)
        sizes = self.size[participants]
        if sizes.min() >= sizes.max() - 1:
            return True
        owner, can_take = self.owner, self.participates & (self.size != self.max_size)
        if self.num_copies is not None:
            return self._is_balanced_by_copies(np.flatnonzero(can_take))
        # Kafka compares each member with the owner of each partition that it doesn't have. In a topic, the largest
        # owner and the smallest subscriber decide.
        fewest: dict[int, int] = {}
        for topic, index in enumerate(self.subscribed.of_topic.tolist()):
            if index not in fewest:
                members = self.subscribed.sets[index]
                fewest[index] = int(self.size[members[can_take[members]]].min(initial=_NEVER))
            start, partitions = self.start[self.position[topic]], self.groups.partitions[topic]
            owners = owner[start : start + partitions]
            if self.size[owners].max(initial=0) > fewest[index] + self.min_difference:
                return False
        return True

    def _is_balanced_by_copies(self, can_take: IntArray) -> bool:
        """Does the same if a partition can have two owners; the last one in hash order counts."""
        assert self.num_copies is not None
        if not self.holders:  # not after each move
            self.last_holder = np.full(len(self.topic), -1, np.int64)
            holders: dict[int, set[int]] = {}
            for (member, number), n in self.num_copies.items():
                if n:
                    holders.setdefault(number, set()).add(member)
            for number, members in holders.items():
                self._hold(number, members)
        order = np.lexsort((can_take, self.size[can_take]))
        for member in can_take[order].tolist():
            for topic in self.subscribed.topics_of(member).tolist():
                start = int(self.start[self.position[topic]])
                last = self.last_holder[start : start + int(self.groups.partitions[topic])]
                has_more = (last < 0) | (self.size[member] + self.min_difference < self.size[last])
                for index in np.flatnonzero(has_more):
                    if member in self.holders.get(start + int(index), ()):
                        continue
                    if last[index] < 0:
                        raise AssignorError(NO_SUCH_MEMBER)
                    return False
        return True

    # --- Result ---

    def assignment(self) -> tuple[IntArray, IntArray]:
        """Returns the member and the key of each assigned partition."""
        keys = (self.topic << PARTITION_BITS) | self.partition
        if self.num_copies is None:
            is_assigned = self.owner >= 0
            return self.owner[is_assigned], keys[is_assigned]
        pairs = np.array([pair for pair, n in self.num_copies.items() if n], np.int64).reshape(-1, 2)
        return np.append(pairs[:, 0], self.missing.member), np.append(keys[pairs[:, 1]], self.missing.partition_keys)


# --- arithmetic on the numbers of partitions of members: fill levels and balance ------------------------------


def find_level(sizes: IntArray, number: int) -> int:
    """Returns the lowest level up to which `number` more partitions can raise members with these sizes."""
    # `room_below[i]` is what the members below the size of member i lack to it. Example: sizes [1, 0], three
    # partitions.
    #     ordered [0, 1]    room_below [0, 1]    lowest 2 (both members)    level ceil((3 + 1) / 2) = 2
    ordered = np.sort(sizes)
    num_members = np.arange(1, len(ordered) + 1)
    room_below = num_members * ordered - np.cumsum(ordered)
    lowest = int(np.searchsorted(room_below, number, side="left"))
    total = int(ordered[:lowest].sum())
    return -(-(number + total) // lowest)


def balance_score(sizes: IntArray) -> int:
    """Returns the sum of the differences of all pairs (`getBalanceScore`), in Java's 32 bits."""
    ordered = np.sort(sizes)
    # The i-th size is larger than i others, and smaller than number - 1 - i. Sizes [1, 4]: -1 * 1 + 1 * 4 = 3.
    number = len(ordered)
    total = int(((2 * np.arange(number) - number + 1) * ordered).sum())
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)


def fill_up(group: IntArray, load: IntArray, name: IntArray, num_free: IntArray) -> IntArray:
    """Assigns partitions one by one, each to the member with the fewest partitions; ties are broken by name.

    Args:
        group: group of each member, ascending.
        load: number of partitions of each member.
        name: integer for each member that sorts like its id.
        num_free: number of partitions to assign in each group.

    Returns:
        the member of each partition, by group and turn.
    """
    # The lowest level at which the room of the members below it is enough.
    low = np.zeros(len(num_free), np.int64)
    high = np.zeros(len(num_free), np.int64)
    np.maximum.at(high, group, load)
    high += num_free
    while (low < high).any():
        middle = (low + high) >> 1
        room = np.bincount(group, np.maximum(middle[group] - load, 0), len(num_free))
        enough = room >= num_free
        high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
    num_assigned = np.maximum(high[group] - load, 0)
    member = np.repeat(np.arange(len(load)), num_assigned)
    member = member[np.lexsort((name[member], load[member] + ranges_by_length(num_assigned), group[member]))]
    return member[row_numbers(group[member]) < num_free[group[member]]]
