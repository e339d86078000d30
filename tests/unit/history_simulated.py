"""Random groups of which everything is known: what happened, and the records that the coordinator wrote of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.unit.history_log import ID, Log, classic_member, current, generation, metadata, topics

TOPICS = {"t": 4, "u": 3}
Has = dict[str, set[int]]


@dataclass(frozen=True)
class Moment:
    """How things are from a time on: the number, who is a member, and who has what by topic and partition."""

    at_ms: int
    number: int | None
    members: tuple[str, ...]
    owners: dict[tuple[str, int], set[str]]


@dataclass
class Simulated:
    """A group: its log, and its moments in their order."""

    draw: random.Random
    log: Log = field(default_factory=Log)
    moments: list[Moment] = field(default_factory=list)
    now: int = 1_000_000
    ids: int = 0

    def new_id(self) -> str:
        """Of a member; ids are no order of time."""
        self.ids += 1
        return f"{self.draw.choice('abcxyz')}{self.ids}"

    def later(self) -> None:
        """Time goes on, and sometimes it does not."""
        self.now += self.draw.choice((0, 1, 500, 3_000, 60_000))

    def dealt(self, names: list[str]) -> dict[str, Has]:
        """All partitions to members, anyhow."""
        has: dict[str, Has] = {name: {} for name in names}
        for topic, number in TOPICS.items():
            for partition in range(number):
                has[self.draw.choice(names)].setdefault(topic, set()).add(partition)
        return has


def whose(has: dict[str, Has]) -> dict[tuple[str, int], set[str]]:
    """Owners by partition."""
    found: dict[tuple[str, int], set[str]] = {}
    for member_id, of_topics in has.items():
        for topic, partitions in of_topics.items():
            for partition in partitions:
                found.setdefault((topic, partition), set()).add(member_id)
    return found


class Classic(Simulated):
    """A classic group: joins, leaves, crashes, static restarts, deletion; some generations are never synced."""

    number = 0
    members: dict[str, str | None]
    has: dict[str, Has]

    def play(self, steps: int) -> Simulated:
        """So many things happen."""
        self.members, self.has = {}, {}
        for _ in range(steps):
            self.later()
            self.draw.choice((self.join, self.join, self.leave, self.restart, self.again, self.delete))()
        return self

    def join(self) -> None:
        """One or two members join."""
        if not self.members and self.number == 0 and self.draw.random() < 0.5:
            self.log.write(self.now, "GroupMetadata", generation(0, [], protocolType=""))
        for _ in range(self.draw.choice((1, 1, 2))):
            member_id = self.new_id()
            self.members[member_id] = f"instance-{member_id}" if self.draw.random() < 0.4 else None
        self.rebalance()

    def leave(self) -> None:
        """Somebody leaves or crashes: the record is the same."""
        if self.members:
            del self.members[self.draw.choice(sorted(self.members))]
            self.rebalance()

    def again(self) -> None:
        """Topics changed, or the leader asked for it."""
        if self.members:
            self.rebalance()

    def restart(self) -> None:
        """A static member is back: the same generation is written again."""
        static = [each for each, instance in self.members.items() if instance and each in self.has]
        if static:
            old, new = self.draw.choice(static), self.new_id()
            self.members = {new if each == old else each: instance for each, instance in self.members.items()}
            self.has = {new if each == old else each: has for each, has in self.has.items()}
            self.write()

    def delete(self) -> None:
        """An empty group is deleted; numbers start anew."""
        if not self.members and self.number:
            self.log.write(self.now, "GroupMetadata", None)
            self.moments.append(Moment(self.now, None, (), {}))
            self.number = 0

    def rebalance(self) -> None:
        """The next generation, of which there is no record if somebody else joins before the leader has synced."""
        self.number += 1
        if self.members and self.draw.random() < 0.2:
            self.later()
            self.number += 1
        self.has = self.dealt(list(self.members)) if self.members else {}
        self.write()

    def write(self) -> None:
        """The record of the group as it is."""
        pairs = self.members.items()
        member_values = [classic_member(each, self.has[each], list(TOPICS), groupInstanceId=i) for each, i in pairs]
        self.draw.shuffle(member_values)
        self.log.write(self.now, "GroupMetadata", generation(self.number, member_values))
        self.moments.append(Moment(self.now, self.number, tuple(sorted(self.members)), whose(self.has)))


@dataclass
class _Consumer:
    """A member of a consumer group as its coordinator knows it."""

    instance: str | None
    epoch: int = 0
    has: Has = field(default_factory=dict)
    gives: Has = field(default_factory=dict)
    away: bool = False


class Consumers(Simulated):
    """A consumer group (KIP-848), as `GroupMetadataManager` of 4.1 writes it; targets may come late, as in 4.4."""

    epoch = 0
    aimed = 0
    members: dict[str, _Consumer]
    targets: dict[str, Has]

    def play(self, steps: int) -> Simulated:
        """So many things happen."""
        self.members, self.targets = {}, {}
        happens = (self.join, self.leave, self.away, self.back, self.delete, *[self.beat] * 8)
        for _ in range(steps):
            self.later()
            before = len(self.log.rows)
            self.draw.choice(happens)()
            if len(self.log.rows) > before:
                self._note()
        return self

    def join(self) -> None:
        """A member joins: the epoch is bumped."""
        member_id = self.new_id()
        self.members[member_id] = _Consumer(f"instance-{member_id}" if self.draw.random() < 0.4 else None)
        self._metadata(member_id)
        self._bump()
        if self.draw.random() < 0.7:
            self._aim()
        self._reconcile(member_id)

    def leave(self) -> None:
        """Somebody leaves or is fenced: targets follow later."""
        if self.members:
            member_id = self.draw.choice(sorted(self.members))
            self._tombstones(member_id)
            del self.members[member_id]
            self._bump()

    def away(self) -> None:
        """A static member leaves for a while."""
        static = [each for each, member in self.members.items() if member.instance and not member.away]
        if static:
            member_id = self.draw.choice(sorted(static))
            self.members[member_id].away = True
            self.members[member_id].gives = {}
            self._current(member_id, epoch=-2)

    def back(self) -> None:
        """It comes back under a new id: it takes all that is of the old one."""
        away = [each for each, member in self.members.items() if member.away]
        if away:
            old, new = self.draw.choice(sorted(away)), self.new_id()
            member = self.members.pop(old)
            self.members[new] = _Consumer(member.instance, 0, member.has)
            self._tombstones(old)
            self._metadata(new)
            self.targets[new] = self.targets.pop(old, {})
            self._target(new)
            self._current(new)
            self._reconcile(new)

    def beat(self) -> None:
        """A heartbeat: late targets are computed, and the member goes on to them."""
        here = [each for each, member in self.members.items() if not member.away]
        if here:
            if self.aimed < self.epoch:
                self._aim()
            self._reconcile(self.draw.choice(sorted(here)))

    def delete(self) -> None:
        """An empty group is deleted."""
        if not self.members and self.epoch:
            self._write("TargetAssignmentMetadata", None)
            self._write("Metadata", None)
            self.epoch = self.aimed = 0
            self.targets = {}

    def _aim(self) -> None:
        for member_id, target in (self.dealt(list(self.members)) if self.members else {}).items():
            if target != self.targets.get(member_id):
                self.targets[member_id] = target
                self._target(member_id)
        self.aimed = self.epoch
        self._write("TargetAssignmentMetadata", {"assignmentEpoch": self.epoch, "assignmentTimestamp": 0})

    def _reconcile(self, member_id: str) -> None:
        """What the next heartbeat of a member changes: it gives up, then it gets what is free."""
        member, target = self.members[member_id], self.targets.get(member_id, {})
        before = (member.epoch, dict(member.has), dict(member.gives))
        if member.gives:
            member.gives = {}
        else:
            taken = {where for each, other in self.members.items() if each != member_id for where in _all(other)}
            gives = {topic: numbers - target.get(topic, set()) for topic, numbers in member.has.items()}
            member.gives = {topic: numbers for topic, numbers in gives.items() if numbers}
            member.has = {topic: numbers & target.get(topic, set()) for topic, numbers in member.has.items()}
            if not member.gives:
                member.epoch = self.aimed
                for topic, numbers in target.items():
                    free = {number for number in numbers if (topic, number) not in taken}
                    member.has[topic] = member.has.get(topic, set()) | free
        if (member.epoch, member.has, member.gives) != before:
            self._current(member_id)

    def _bump(self) -> None:
        self.epoch += 1
        self._write("Metadata", {"epoch": self.epoch, "metadataHash": 0})

    def _metadata(self, member_id: str) -> None:
        value = metadata(member_id, *TOPICS, instanceId=self.members[member_id].instance)
        self._write("MemberMetadata", value, memberId=member_id)

    def _target(self, member_id: str) -> None:
        self._write("TargetAssignmentMember", {"topicPartitions": topics(self.targets[member_id])}, memberId=member_id)

    def _current(self, member_id: str, epoch: int | None = None) -> None:
        member = self.members[member_id]
        value = current(member.epoch if epoch is None else epoch, member.has, member.gives)
        self._write("CurrentMemberAssignment", value, memberId=member_id)

    def _tombstones(self, member_id: str) -> None:
        for name in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"):
            self._write(name, None, memberId=member_id)
        if member_id in self.members:
            self.targets.pop(member_id, None)

    def _write(self, name: str, value: dict[str, Any] | None, **key: str) -> None:
        self.log.write(self.now, f"ConsumerGroup{name}", value, **key)

    def _note(self) -> None:
        has = {each: _by_id(member) for each, member in self.members.items()}
        self.moments.append(Moment(self.now, self.epoch or None, tuple(sorted(self.members)), whose(has)))


def _all(member: _Consumer) -> Iterator[tuple[str, int]]:
    for has in (member.has, member.gives):
        for topic, numbers in has.items():
            yield from ((topic, number) for number in numbers)


def _by_id(member: _Consumer) -> Has:
    found: Has = {}
    for topic, number in _all(member):
        found.setdefault(ID[topic], set()).add(number)
    return found
