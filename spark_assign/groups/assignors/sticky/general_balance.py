"""Balancing one group whose members subscribe to different topics (Kafka's `GeneralAssignmentBuilder`).

Principle: keep what is owned, give the rest to whoever has least, then move single partitions while that evens out.

Steps
    1. Keep: everybody keeps what it owns of topics that it subscribes to and, where racks matter, in its rack.
    2. Fill: topics with few subscribers come first; each partition that is left goes to the subscriber (near to it,
       where racks matter and there is one) with the fewest partitions, then the lowest id.
    3. Balance: walk over the partitions, those that were just dealt first, then all. A partition whose owner has at
       least two more than a member of an older generation that claims it goes back there; otherwise, if it has at
       least two more than some subscriber, to the one with fewest. If the topic has moved a partition the opposite way
       before, that one moves in its place. Repeat until nothing moves; undo all if it is no more even than before.

Kafka asks before each partition whether the group is balanced, which goes over all partitions and members. Balanced
groups have nothing to move, so that the question matters only where a partition may go back to a member that no
longer subscribes to it, or where claims of partitions that do not exist muddle the books: only there it is asked.

Up to 3.5.1 a group is balanced only if nobody could take a partition from one that has any more, and a partition may
have two owners (`ownership_conflicts`), which muddles the books as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.rack_aware import Racks
from spark_assign.groups.assignors.sticky.sticky_groups import (
    DOES_NOT_CONVERGE,
    NO_SUCH_MEMBER,
    AssignorError,
    PartitionMovements,
    StickyGroups,
    hash_order_after_balancing,
    hash_order_while_balancing,
)
from spark_assign.groups.assignors.sticky.water_filling import balance_score, find_level
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices, key_ranges, ranges_by_length

_MIN_BATCH_SIZE = 64
"""So many partitions are looked at together after one has moved; more the longer none does."""
_CYCLE_CHECK_PASSES, _MAX_PASSES = 16, 10_000


@dataclass(frozen=True)
class Subscribers:
    """Who may get what in one group.

    Attributes:
        is_subscribed: of_topic[topic, member], for topics with metadata.
        topic_hash: `String.hashCode` of each topic.
        previous_owner: partitions claimed in an older generation: key to the claimer of the newest of those.
    """

    is_subscribed: BoolArray
    topic_hash: IntArray
    previous_owner: dict[int, int]


class GeneralBalancer:
    """The books while a group is balanced. Partitions are numbered in the order in which Kafka walks over them."""

    def __init__(
        self,
        groups: StickyGroups,
        owned: PartitionSlices,
        subscribers: Subscribers,
        racks: Racks | None,
        rules: ReleaseRules = LATEST_RULES,
        order: IntArray | None = None,
    ) -> None:
        """The books before anything is dealt.

        Args:
            groups: the one group.
            owned: single partitions.
            subscribers: who may get what.
            racks: where racks matter.
            rules: of which release.
            order: keys of all partitions as they are walked over, where all members subscribe to the same; by default
                topics with few subscribers come first, then by name.
        """
        self.groups = groups
        self.enough_less = 0 if rules.balances_to_one else 1
        self.walk = groups.hash_order
        self.racks = racks
        self.of_topic = subscribers.is_subscribed
        self.potential = self.of_topic.sum(axis=1)
        self.topics = np.lexsort((np.arange(len(self.potential)), self.potential))
        self.members = len(groups.member_group)
        self.subscribers = [np.flatnonzero(row) for row in self.of_topic]
        self.most = self.of_topic.T @ groups.partitions
        counts = groups.partitions[self.topics]
        self.begin = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self.begin[1:])
        self.topic_at = np.empty(len(counts), np.int64)
        self.topic_at[self.topics] = np.arange(len(counts))
        row, partition = expand_slices(np.zeros(len(counts), np.int64), np.ones(len(counts), np.int64), counts)
        self.topic = self.topics[row]
        self.partition = partition
        self.sets = racks.rack_set_of(self.topic, partition) if racks else None
        self.near = racks.rack_matched() if racks else None
        self.movements = PartitionMovements(subscribers.topic_hash)
        self.alike = order is not None
        self.order = np.arange(len(self.topic))
        if order is not None:
            self.order = self.begin[self.topic_at[order >> PARTITION_BITS]] + (order & ((1 << PARTITION_BITS) - 1))
        self._keep(owned)
        self.earlier = np.full(len(self.topic), -1, np.int64)
        for key, member in subscribers.previous_owner.items():
            number = self._number(key >> PARTITION_BITS, key & ((1 << PARTITION_BITS) - 1))
            if number >= 0:
                self.earlier[number] = member
        old = self.earlier >= 0
        astray = old.copy()
        astray[old] = ~self.of_topic[self.topic[old], self.earlier[old]]
        self.ask_first = bool(astray.any() or self.copies is not None)

    def _number(self, topic: int, partition: int) -> int:
        """The number of a partition; -1 for one that does not exist."""
        if partition >= self.groups.partitions[topic]:
            return -1
        return int(self.begin[self.topic_at[topic]] + partition)

    # --- 1. keep ---

    def _keep(self, owned: PartitionSlices) -> None:
        stays = self.of_topic[owned.topic, owned.member]
        far = np.zeros(len(owned), bool)
        if self.racks is not None:
            assert self.near is not None
            far = stays & ~self.near[self.racks.rack_set_of(owned.topic, owned.first), owned.member]
        self.revocation_required = bool((~stays | far).any())
        self.far_keys = owned.partition_keys[far]
        held = owned
        owned = owned.take(stays & ~far)
        self.kept_keys = owned.partition_keys
        self.size = np.bincount(owned.member, minlength=self.members)
        self.initializing = not self.size.any()
        exists = owned.first < self.groups.partitions[owned.topic]
        self.holder = np.full(len(self.topic), -1, np.int64)
        number = self.begin[self.topic_at[owned.topic]] + owned.first
        self.holder[number[exists]] = owned.member[exists]
        self.ghosts = owned.take(~exists)
        # Where a partition may be held twice or not exist, every holding is written down apart.
        self.copies: Counter[tuple[int, int]] | None = None
        unassigned = self.holder < 0
        if self._held_twice(held) or len(self.ghosts):
            self.copies = Counter(zip(owned.member[exists].tolist(), number[exists].tolist(), strict=True))
            # The search for unassigned partitions gets stuck at the first that does not exist or is there twice.
            some, times = np.unique(number[exists], return_counts=True)
            stops = [*self.begin[self.topic_at[self.ghosts.topic] + 1].tolist(), *(some[times > 1] + 1).tolist()]
            unassigned[min(stops, default=len(unassigned)) :] = True
        self.unassigned = self.order[unassigned[self.order]]

    def _held_twice(self, held: PartitionSlices) -> bool:
        """Whether two members hold a partition, which counts as that of the last one in the walk."""
        keys, times = np.unique(held.partition_keys, return_counts=True)
        both = held.take(np.isin(held.partition_keys, keys[times > 1]))
        both = both.take(both.first < self.groups.partitions[both.topic])
        both = both.take(np.argsort(self.groups.owned_hash_order[both.member]))
        self.holder[self.begin[self.topic_at[both.topic]] + both.first] = both.member
        return len(both) > 0

    # --- 2. fill ---

    def assign_unassigned(self) -> None:
        """Give every unassigned partition to the subscriber with fewest."""
        rest = self.unassigned
        if self.racks is not None:
            rest = np.array([number for number in rest.tolist() if not self._fill_near(number)], np.int64)
        for begin, end in self._topic_spans(rest):
            self._pour(self.subscribers[self.topic[rest[begin]]], rest[begin:end])

    def _topic_spans(self, numbers: IntArray) -> list[tuple[int, int]]:
        """Begin and end of partitions that follow each other and have the same subscribers."""
        return key_ranges(self.topic[numbers] * (not self.alike))

    def _fill_near(self, number: int) -> bool:
        assert self.near is not None
        assert self.sets is not None
        candidates = self.subscribers[self.topic[number]]
        candidates = candidates[self.near[self.sets[number], candidates]]
        if not len(candidates):
            return False
        self._give(int(candidates[np.argmin(self.size[candidates])]), number)
        return True

    def _pour(self, candidates: IntArray, numbers: IntArray) -> None:
        """Partitions of one topic, one after the other, to whoever has fewest: like water into vessels."""
        sizes = self.size[candidates]
        if len(numbers) == 1:
            to_members = candidates[[np.argmin(sizes)]]
        else:
            level = find_level(sizes, len(numbers))
            room = np.maximum(level - sizes, 0)
            slot_member = np.repeat(np.arange(len(candidates)), room)
            slot_level = np.repeat(sizes, room) + ranges_by_length(room)
            to_members = candidates[slot_member[np.lexsort((slot_member, slot_level))[: len(numbers)]]]
        if self.copies is not None:
            for member, number in zip(to_members.tolist(), numbers.tolist(), strict=True):
                self._give(member, number)
            return
        self.holder[numbers] = to_members
        self.size += np.bincount(to_members, minlength=self.members)

    def _give(self, member: int, number: int) -> None:
        self.holder[number] = member
        self.size[member] += 1
        if self.copies is not None:
            self.copies[member, number] += 1

    # --- 3. balance ---

    def balance(self) -> None:
        """Move partitions as long as that makes sizes more even; take all moves back if it did not."""
        reassignable = self.potential[self.topic] >= 2
        self.takes_part = self._who_takes_part(reassignable)
        self.books_walk = hash_order_while_balancing(self.groups, self.takes_part)
        before = (self.size.copy(), self.holder.copy(), None if self.copies is None else self.copies.copy())
        if not self.revocation_required:
            self._reassign(self.unassigned[reassignable[self.unassigned]])
        moved = self._reassign(self.order[reassignable[self.order]])
        reverted = False
        if not self.initializing and moved:
            sizes, part = before[0], self.takes_part
            if balance_score(self.size[part]) >= balance_score(sizes[part]):
                self.size, self.holder, self.copies = before
                reverted = True
        self.final_walk = hash_order_after_balancing(self.groups, self.takes_part, reverted=reverted)

    def _who_takes_part(self, reassignable: BoolArray) -> BoolArray:
        """Members that lack something they could have, or hold something that others could have."""
        holds = np.zeros(self.members, bool)
        if self.copies is None:
            holds[self.holder[reassignable]] = True
        else:
            holds[[member for (member, number), n in self.copies.items() if n and reassignable[number]]] = True
            holds[self.ghosts.member[self.potential[self.ghosts.topic] >= 2]] = True
        return (self.size < self.most) | holds

    def _reassign(self, numbers: IntArray) -> bool:
        """Walk over these partitions until nothing moves (`performReassignments`); whether anything did."""
        blocks = [(numbers[begin:end], int(self.topic[numbers[begin]])) for begin, end in self._topic_spans(numbers)]
        performed = False
        seen = None
        for number in range(_MAX_PASSES):
            if number >= _CYCLE_CHECK_PASSES:
                # What has come back comes back for ever. Compared with is the state after a power of two (Brent).
                if (state := self._state()) == seen:
                    break
                seen = state if number & (number - 1) == 0 else seen
            modified = False
            for block, topic in blocks:
                moved, balanced = self._walk_topic(block, topic)
                modified |= moved
                if balanced:
                    break
            performed |= modified
            if not modified:
                return performed
        raise AssignorError(DOES_NOT_CONVERGE)

    def _state(self) -> object:
        """All that the next moves hang on."""
        copies = None if self.copies is None else +self.copies
        return self.holder.tobytes(), self.size.tobytes(), copies, self.movements.state()

    def _walk_topic(self, block: IntArray, topic: int) -> tuple[bool, bool]:
        """Walk over the partitions of one topic; whether any moved, and whether the group turned out balanced."""
        moved = False
        candidates = self.subscribers[topic]
        at, ahead = 0, _MIN_BATCH_SIZE
        while at < len(block):
            rest = block[at : at + ahead]
            holders = self.holder[rest]
            sizes = self.size[holders]
            back = self.earlier[rest]
            lowest = candidates[np.argmin(self.size[candidates])]
            goes_back = (back >= 0) & ((sizes > self.size[back] + 1) | ~self.takes_part[back])
            wanted = goes_back | (sizes > self.size[lowest] + 1)
            if self.copies is not None:
                wanted[:] = True
            chosen = int(np.argmax(wanted))
            if not wanted[chosen]:
                at, ahead = at + len(rest), 4 * ahead
                continue
            ahead = _MIN_BATCH_SIZE
            if self.ask_first and self._balanced():
                return moved, True
            number = int(rest[chosen])
            if goes_back[chosen]:
                if not self.takes_part[back[chosen]]:
                    raise AssignorError(NO_SUCH_MEMBER)
                self._move(number, int(back[chosen]))
                moved = True
            elif self.copies is None:
                self._move(number, int(lowest))
                moved = True
            elif self._has_much_more(int(holders[chosen]), number):
                self._move(number, self._fewest(topic))
                moved = True
            at += chosen + 1
        return moved, False

    def _fewest(self, topic: int) -> int:
        candidates = self.subscribers[topic][self.takes_part[self.subscribers[topic]]]
        if not len(candidates):
            raise AssignorError(NO_SUCH_MEMBER)
        return int(candidates[np.argmin(self.size[candidates])])

    def _has_much_more(self, holder: int, number: int) -> bool:
        """Whether some subscriber has at least two partitions less; asked in the order in which Kafka asks."""
        if holder < 0 or not self.takes_part[holder]:
            raise AssignorError(NO_SUCH_MEMBER)
        candidates = self.subscribers[self.topic[number]]
        line = candidates[np.argsort(self.walk[candidates])]
        if self.racks is not None and self.racks.member_rack[holder] >= 0:
            assert self.near is not None
            assert self.sets is not None
            near = self.near[self.sets[number]] & (self.racks.member_rack >= 0)
            if near[holder] and self._any_below(line[near[line]], holder):
                return True
        return self._any_below(line, holder)

    def _any_below(self, line: IntArray, holder: int) -> bool:
        for member in line.tolist():
            if not self.takes_part[member]:
                raise AssignorError(NO_SUCH_MEMBER)
            if self.size[holder] > self.size[member] + 1:
                return True
        return False

    def _move(self, number: int, receiver: int) -> None:
        actual = self.movements.partition_to_move(number, int(self.topic[number]), int(self.holder[number]), receiver)
        from_member = int(self.holder[actual])
        if self.copies is not None and not (self.takes_part[from_member] and self.takes_part[receiver]):
            raise AssignorError(NO_SUCH_MEMBER)
        self.movements.record_move(actual, int(self.topic[actual]), int(self.partition[actual]), from_member, receiver)
        if self.copies is None:
            self.size[from_member] -= 1
        elif self.copies[from_member, actual]:
            self.copies[from_member, actual] -= 1
            self.size[from_member] -= 1
        self._give(receiver, actual)

    def _balanced(self) -> bool:
        """Whether no member could take a partition from one that has at least two more (`isBalanced`)."""
        part = np.flatnonzero(self.takes_part)
        sizes = self.size[part]
        if sizes.min() >= sizes.max() - 1:
            return True
        holder, could_take = self.holder, self.takes_part & (self.size != self.most)
        if self.copies is not None:
            return self._balanced_by_the_books(np.flatnonzero(could_take))
        for topic, candidates in enumerate(self.subscribers):
            to_members = candidates[could_take[candidates]]
            if not len(to_members):
                continue
            begin = self.begin[self.topic_at[topic]]
            holders = np.unique(holder[begin : begin + self.groups.partitions[topic]])
            if self.size[holders].max() > self.size[to_members].min() + self.enough_less:
                return False
        return True

    def _balanced_by_the_books(self, could_take: IntArray) -> bool:
        """The same where a partition may be held twice: then the holder that comes last in the walk counts."""
        assert self.copies is not None
        holders: dict[int, int] = {}
        for (member, number), n in sorted(self.copies.items(), key=lambda item: self.books_walk[item[0][0]]):
            if n and self.takes_part[member]:
                holders[number] = member
        order = np.lexsort((could_take, self.size[could_take]))
        for member in could_take[order].tolist():
            for topic in np.flatnonzero(self.of_topic[:, member]).tolist():
                begin = int(self.begin[self.topic_at[topic]])
                for number in range(begin, begin + int(self.groups.partitions[topic])):
                    if self.copies[member, number]:
                        continue
                    if number not in holders:
                        raise AssignorError(NO_SUCH_MEMBER)
                    if self.size[member] + self.enough_less < self.size[holders[number]]:
                        return False
        return True

    # --- the outcome ---

    def assignment(self) -> tuple[IntArray, IntArray]:
        """Members, and the keys of their partitions."""
        keys = (self.topic << PARTITION_BITS) | self.partition
        if self.copies is None:
            given = self.holder >= 0
            return self.holder[given], keys[given]
        held = np.array([pair for pair, n in self.copies.items() if n], np.int64).reshape(-1, 2)
        return np.append(held[:, 0], self.ghosts.member), np.append(keys[held[:, 1]], self.ghosts.partition_keys)
