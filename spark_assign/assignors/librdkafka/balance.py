"""Balances a group by single moves, as librdkafka's `balance()` and `performReassignments()` do.

librdkafka records moves (Kafka's `PartitionMovements`) so that the partitions of a topic aren't merely swapped between
two members. It keeps these records by reference, and continues to read one after it is freed or replaced:

- A partition that moves instead of another is an element of a list from which its record is removed first. So the next
  one in the list moves; if there is none, freed memory is read.
- A pair of members is freed when the first partition that moved between them moves again, but remains the key of those
  that moved later.

The first case is modeled if there is a next element. If freed memory decides, the behavior is undefined (mostly, the
process is killed by a signal), and `UndefinedBehaviorError` is raised.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TypeVar

import numpy as np

from spark_assign.java.hash_map import string_hash
from spark_assign.numeric.arrays import IntArray, invert, values_by_key


class UndefinedBehaviorError(Exception):
    """librdkafka crashes, or continues with freed memory; the text gives the reason."""


FREED = "it reads memory that it has freed, for a partition that would move back"
NO_RECORD = "it finds no record of how a partition has moved"
NO_OWNER = "a partition that two members claim counts for the one that lost it"


@dataclass(eq=False)
class _MemberPair:
    """The two members of a move."""

    from_member: str
    to_member: str
    freed: bool = False


@dataclass
class _PairMoves:
    """The partitions of a topic that moved between two members; the key is the pair of the first move."""

    key: _MemberPair
    partitions: list[TopicPartition] = field(default_factory=list)


class LibrdkafkaMovements:
    """The moves of partitions, by partition, and by topic and pair."""

    def __init__(self) -> None:
        self._pair: dict[TopicPartition, _MemberPair] = {}
        self._by_topic: dict[str, dict[tuple[str, str], _PairMoves]] = {}

    def partition_to_move(self, partition: TopicPartition, owner: str, to_member: str) -> TopicPartition | None:
        """Returns the partition to move instead: one of the same topic that `owner` got from `to_member`; None if there
        is none."""
        if partition[0] not in self._by_topic:
            return None
        moved = self._pair.get(partition)
        if moved is not None and moved.to_member != owner:
            raise UndefinedBehaviorError(NO_RECORD)
        opposite = self._find_moves(partition[0], to_member, owner)
        return None if opposite is None else opposite.partitions[0]

    def move(self, partition: TopicPartition, owner: str, to_member: str, *, instead: bool) -> TopicPartition:
        """Records a move and returns the partition that actually moves.

        Args:
            partition: the partition.
            owner, to_member: the two members.
            instead: whether `partition_to_move` returned this partition.
        """
        moved = self._pair.get(partition)
        if moved is None:
            self._record(partition, _MemberPair(owner, to_member))
            return partition
        moves = self._find_moves(partition[0], moved.from_member, moved.to_member)
        if moves is None:
            raise UndefinedBehaviorError(NO_RECORD)
        if partition in moves.partitions:
            moves.partitions.remove(partition)
        if moved.to_member != owner:
            raise UndefinedBehaviorError(NO_RECORD)
        if not moves.partitions:
            pairs = self._by_topic[partition[0]]
            del pairs[moved.from_member, moved.to_member]
            if not pairs:
                del self._by_topic[partition[0]]
            if instead:
                raise UndefinedBehaviorError(FREED)
        if moved.from_member != to_member:
            self._record(partition, _MemberPair(moved.from_member, to_member))
        return moves.partitions[0] if instead else partition

    def _record(self, partition: TopicPartition, pair: _MemberPair) -> None:
        """Adds the record of a move."""
        if partition in self._pair:
            self._pair[partition].freed = True
        self._pair[partition] = pair
        self._by_topic.setdefault(partition[0], {})
        moves = self._find_moves(partition[0], pair.from_member, pair.to_member)
        if moves is None:
            moves = self._by_topic[partition[0]][pair.from_member, pair.to_member] = _PairMoves(pair)
        moves.partitions.append(partition)

    def _find_moves(self, topic: str, from_member: str, to_member: str) -> _PairMoves | None:
        """Returns the moves between two members."""
        moves = self._by_topic.get(topic, {}).get((from_member, to_member))
        if moves is not None and moves.key.freed:
            raise UndefinedBehaviorError(FREED)
        return moves


@dataclass(eq=False)
class _Subscribers:
    """The subscribers of some topics, and how many partitions of these topics each member has.

    `by_rack` has a heap of the subscribers in each rack, by the number of their partitions when they were added.
    """

    members: set[str]
    owned: Counter[str] = field(default_factory=Counter)
    by_rack: dict[str, list[tuple[int, str]]] = field(default_factory=dict)


class LibrdkafkaBalancer:
    """The state of a group while it is balanced.

    Args:
        assigned: member id to its partitions.
        owner: member that counts as the owner of each partition, possibly one that lost a conflict.
        previous_owner: owner in an earlier generation, for some partitions.
        subscribers: member ids of the subscribers of each topic that has any. Topics with the same ones share the list.
        partitions: number of partitions of each topic.
        racks: rack of each member; None if racks aren't used.
    """

    def __init__(
        self,
        assigned: Assignment,
        owner: dict[TopicPartition, str],
        previous_owner: dict[TopicPartition, str],
        subscribers: dict[str, list[str]],
        partitions: dict[str, int],
        racks: dict[str, str] | None,
    ) -> None:
        self._racks = racks or {}
        self.assigned: dict[str, dict[TopicPartition, None]] = {
            member_id: dict.fromkeys(assigned_partitions) for member_id, assigned_partitions in assigned.items()
        }
        self._owner, self._previous_owner = owner, previous_owner
        lists = {id(members): members for members in subscribers.values()}
        sets = {number: _Subscribers(set(members)) for number, members in lists.items()}
        self._subscribers = {topic: sets[id(members)] for topic, members in subscribers.items()}
        self._sets = [each for each in sets.values() if len(each.members) > 1]
        self._max_size = Counter[str]()
        num_partitions = Counter[int]()
        for topic, members in subscribers.items():
            num_partitions[id(members)] += partitions[topic]
        for number, each in sets.items():
            self._max_size.update(dict.fromkeys(each.members, num_partitions[number]))
        for member_id, assigned_partitions in self.assigned.items():
            for topic, _ in assigned_partitions:
                self._subscribers[topic].owned[member_id] += 1
        self._by_size = sorted(
            (len(assigned_partitions), member_id) for member_id, assigned_partitions in self.assigned.items()
        )
        self._partitions = partitions
        self._shared: set[TopicPartition] = set()

    def assign(self, partition: TopicPartition, racks: Iterable[str] | None = None) -> bool:
        """Assigns a partition to the subscriber with the fewest partitions, in one of these racks if they are given.
        Returns False if there is none.
        """
        subscribers = self._subscribers[partition[0]]
        if racks is None:
            found = (member_id for _, member_id in self._by_size if member_id in subscribers.members)
            to_member = next(found, None)
        else:
            _, to_member = min(filter(None, (self._least(subscribers, rack) for rack in racks)), default=(0, None))
        if to_member is None:
            return False
        self._add(to_member, partition)
        self._owner[partition] = to_member
        return True

    def _least(self, subscribers: _Subscribers, rack: str) -> tuple[int, str] | None:
        """Returns the subscriber in a rack with the fewest partitions, after their number. Meanwhile, numbers only
        grow.
        """
        if not subscribers.by_rack:
            for size, member_id in self._by_size:
                if member_id in subscribers.members:
                    subscribers.by_rack.setdefault(self._racks[member_id], []).append((size, member_id))
        heap = subscribers.by_rack.get(rack, [])
        while heap and heap[0][0] < (size := len(self.assigned[heap[0][1]])):
            heapq.heapreplace(heap, (size, heap[0][1]))
        return heap[0] if heap else None

    def run(
        self, ordered: list[TopicPartition], unowned: list[TopicPartition], *, is_initial: bool, has_revoked: bool
    ) -> Assignment:
        """Balances the group: first the partitions that were just assigned, if nothing was revoked, then all.

        Args:
            ordered: all partitions.
            unowned: those that nobody owned.
            is_initial: whether nothing was owned.
            has_revoked: whether a member gave up owned partitions.
        """
        movable = [partition for partition in ordered if self._has_several(partition[0])]
        fixed = {
            member_id: list(assigned)
            for member_id, assigned in self.assigned.items()
            if not self._participates(member_id)
        }
        for member_id in fixed:
            del self._by_size[bisect_left(self._by_size, (len(self.assigned[member_id]), member_id))]
            del self.assigned[member_id]
        before = {member_id: dict(assigned) for member_id, assigned in self.assigned.items()}
        movements = LibrdkafkaMovements()
        if not has_revoked:
            self._reassign(movements, [partition for partition in unowned if self._has_several(partition[0])])
        moved = self._reassign(movements, movable)
        if not is_initial and moved and _imbalance(self.assigned) >= _imbalance(before):
            self.assigned = before
        return {member_id: list(assigned) for member_id, assigned in self.assigned.items()} | fixed

    def _participates(self, member_id: str) -> bool:
        """Checks whether a member could get more, or has a partition that another could get. Others are fixed."""
        if len(self.assigned[member_id]) < self._max_size[member_id]:
            return True
        return any(self._has_several(topic) for topic, _ in self.assigned[member_id])

    def _has_several(self, topic: str) -> bool:
        return len(self._subscribers[topic].members) > 1

    def _reassign(self, movements: LibrdkafkaMovements, partitions: list[TopicPartition]) -> bool:
        """Iterates over partitions until nothing moves; returns whether anything moved."""
        any_moved = has_moved = False
        is_balanced: bool | None = None  # unknown after a move
        while True:
            has_moved = False
            for partition in partitions:
                if is_balanced is None:
                    is_balanced = self._is_balanced()
                if is_balanced:
                    break
                to_member = self._better_owner(partition)
                if to_member is not None:
                    self._move(movements, partition, to_member)
                    any_moved = has_moved = True
                    is_balanced = None
            if not has_moved:
                return any_moved

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Returns the member that should get a partition; None if it stays."""
        owner, previous_owner = self._owner[partition], self._previous_owner.get(partition)
        if owner not in self.assigned or (previous_owner is not None and previous_owner not in self.assigned):
            raise UndefinedBehaviorError(NO_OWNER)
        size = len(self.assigned[owner])
        if previous_owner is not None and size > len(self.assigned[previous_owner]) + 1:
            return previous_owner
        subscribers = self._subscribers[partition[0]].members
        least = next((count, member_id) for count, member_id in self._by_size if member_id in subscribers)
        return least[1] if size > least[0] + 1 else None

    def _move(self, movements: LibrdkafkaMovements, partition: TopicPartition, to_member: str) -> None:
        """Moves a partition, or another one of its topic that moved the opposite way."""
        opposite = movements.partition_to_move(partition, self._owner[partition], to_member)
        owner = self._owner[partition if opposite is None else opposite]
        partition = movements.move(
            partition if opposite is None else opposite, owner, to_member, instead=opposite is not None
        )
        if partition in self.assigned[to_member]:
            raise UndefinedBehaviorError(NO_OWNER)
        self._add(to_member, partition)
        if partition in self.assigned[owner]:
            del self._by_size[bisect_left(self._by_size, (len(self.assigned[owner]), owner))]
            del self.assigned[owner][partition]
            self._subscribers[partition[0]].owned[owner] -= 1
            insort(self._by_size, (len(self.assigned[owner]), owner))
        else:
            self._shared.add(partition)
        self._owner[partition] = to_member

    def _add(self, member_id: str, partition: TopicPartition) -> None:
        """Adds a partition to a member."""
        size = len(self.assigned[member_id])
        del self._by_size[bisect_left(self._by_size, (size, member_id))]
        insort(self._by_size, (size + 1, member_id))
        self.assigned[member_id][partition] = None
        self._subscribers[partition[0]].owned[member_id] += 1

    def _is_balanced(self) -> bool:
        """Checks whether no member could take a partition from one that has more."""
        if self._by_size[0][0] >= self._by_size[-1][0] - 1:
            return True
        if self._shared:
            return self._is_balanced_by_partition()
        # Of the members that subscribe to a topic, the one with the fewest decides.
        for index, each in enumerate(self._sets):
            sizes = (size for size, at in self._by_size if at in each.members and size != self._max_size[at])
            if (least := next(sizes, None)) is None:
                continue
            if any(count and len(self.assigned[owner]) > least for owner, count in each.owned.items()):
                self._sets.insert(0, self._sets.pop(index))  # usually uneven after the next move, too
                return False
        return True

    def _is_balanced_by_partition(self) -> bool:
        """Does the same if a partition erroneously has two members; the first one in the member list counts."""
        owner = {
            partition: member_id for member_id, assigned in reversed(self.assigned.items()) for partition in assigned
        }
        for size, member_id in self._by_size:
            if size == self._max_size[member_id]:
                continue
            for topic in (topic for topic, each in self._subscribers.items() if member_id in each.members):
                for partition in range(self._partitions[topic]):
                    if (topic, partition) in self.assigned[member_id]:
                        continue
                    if (topic, partition) not in owner:
                        raise UndefinedBehaviorError(NO_OWNER)
                    if size < len(self.assigned[owner[topic, partition]]):
                        return False
        return True


def _imbalance(assigned: dict[str, dict[TopicPartition, None]]) -> int:
    """Returns the sum of the differences of all pairs of members."""
    sizes = sorted(len(member_partitions) for member_partitions in assigned.values())
    return sum(size * (2 * index - len(sizes) + 1) for index, size in enumerate(sizes))


# --- a group as librdkafka's leader sees it: members, their assignment order, and the topic order of the Metadata ---
#
# response.
#
# The leader requests the metadata of its members' topics: members in the order of the member list, the topics of each
# by name. The broker converts them to an immutable `Set` of Scala 2.13 (verified with Kafka 4.4; Scala 2.12 wasn't
# checked), which keeps up to four topics in insertion order. More topics are in a trie with five bits of the hash code
# per level; each node has its single topics first.


TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
"""Member id to the partitions that it gets."""


@dataclass(frozen=True)
class LibrdkafkaMember:
    """A member with a subscription. The leader ignores all others.

    Attributes:
        member_id, instance: its id, and its group.instance.id, None if it isn't static.
        rack: its client.rack. A librdkafka client without one sends an empty rack, which range treats as unknown, and
            cooperative-sticky as a rack without replicas.
        generation: generation of its subscription; -1 if unknown.
        topics: topics that it subscribes to.
        owned: partitions that it owns, in the reported order.
    """

    member_id: str
    instance: str | None
    rack: str
    generation: int
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class LibrdkafkaGroup:
    """The members in the order of the coordinator's member list, and their topics in the order of the Metadata
    response.

    Attributes:
        members: members with a subscription.
        partitions: number of partitions of each topic with metadata, in the order of the Metadata response.
        racks: racks with a replica of each partition, for topics with known racks.
    """

    members: tuple[LibrdkafkaMember, ...]
    partitions: dict[str, int]
    racks: dict[str, list[frozenset[str]]]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Returns the racks with a replica of a partition."""
        known = self.racks.get(partition[0], ())
        return known[partition[1]] if partition[1] < len(known) else frozenset()


def merge_sort(members: list[LibrdkafkaMember]) -> list[LibrdkafkaMember]:
    """Sorts members into the order in which range and roundrobin assign to them.

    Two static members are compared by instance id, any other two by member id. If a group has both kinds, this isn't a
    total order, and the result depends on the input order and on the sort of the C library. This is glibc's merge sort;
    those of musl, macOS, and Windows might differ.
    """
    if len(members) < 2:
        return members
    half = len(members) // 2
    left, right = merge_sort(members[:half]), merge_sort(members[half:])
    return list(heapq.merge(left, right, key=cmp_to_key(_compare)))


def _compare(left: LibrdkafkaMember, right: LibrdkafkaMember) -> int:
    """Returns a number above zero if the left member sorts after the right one, and one below zero if before."""
    if left.instance is not None and right.instance is not None:
        return (left.instance > right.instance) - (left.instance < right.instance)
    return (left.member_id > right.member_id) - (left.member_id < right.member_id)


_MAX_SMALL_SET = 4
_DIGIT_BITS, _HASH_BITS = 5, 32
_MASK = 0xFFFFFFFF
HashCode = TypeVar("HashCode", int, IntArray)


def metadata_response_order(members: Iterable[LibrdkafkaMember]) -> list[str]:
    """Returns the topics of these members in the order of the Metadata response.

    Examples:
        >>> metadata_response_order([Member("m", None, "", -1, frozenset("cab"), ())])
        ['a', 'b', 'c']
    """
    subscriptions = dict.fromkeys(member.topics for member in members)
    topics = list(dict.fromkeys(topic for each in subscriptions for topic in sorted(each)))
    return (
        topics
        if len(topics) <= _MAX_SMALL_SET
        else _trie_order([(_improve_hash(string_hash(topic)), topic) for topic in topics], 0)
    )


def _trie_order(topics: list[tuple[int, str]], shift: int) -> list[str]:
    """Returns the topics below one node of the trie in iteration order."""
    if shift >= _HASH_BITS:
        return [topic for _, topic in topics]
    nodes = values_by_key((item[0] >> shift & (1 << _DIGIT_BITS) - 1, item) for item in topics)
    ordered = [nodes[digit] for digit in sorted(nodes)]
    single = [node[0][1] for node in ordered if len(node) == 1]
    return single + [topic for node in ordered if len(node) > 1 for topic in _trie_order(node, shift + _DIGIT_BITS)]


def metadata_positions(group: IntArray, name: IntArray, hashes: IntArray) -> IntArray:
    """Returns the position of each topic in the Metadata response, for many homogeneous groups.

    Args:
        group: group of each topic.
        name: integer for each topic that sorts like its name.
        hashes: `String.hashCode` of each topic's name.

    Returns:
        integers that ascend within a group in the order of the response.
    """
    codes = _improve_hash(hashes)
    keys: list[IntArray] = []
    node = group
    is_deeper = np.bincount(group)[group] > _MAX_SMALL_SET
    for shift in range(0, _HASH_BITS, _DIGIT_BITS):
        if not is_deeper.any():
            break
        bits = codes >> shift & (1 << _DIGIT_BITS) - 1
        _, node, sizes = np.unique(node << _DIGIT_BITS | bits, return_inverse=True, return_counts=True)
        is_split = is_deeper & (sizes[node] > 1)
        keys += [is_split, np.where(is_deeper, bits, 0)]
        is_deeper = is_split
    return invert(np.lexsort((name, *reversed(keys), group)), len(group))


def _improve_hash(code: HashCode) -> HashCode:
    """Mixes a hash code (`scala.collection.Hashing.improve`)."""
    code = code + (~(code << 9) & _MASK) & _MASK
    code = code ^ code >> 14
    code = code + (code << 4) & _MASK
    return code ^ code >> 10
