"""The course of one group, step by step: from its records to generations and owners in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_assign.history.kernel.broker_groups import BrokerGroupTracker
from spark_assign.history.kernel.embedded_protocol import EmbeddedProtocolReader
from spark_assign.history.kernel.ownership_tracker import OwnershipTracker
from spark_assign.history.kernel.timeline import DEAD, EMPTY, STABLE, Generation, RecordedMember
from spark_assign.history.kernel.write_batches import CLASSIC, METADATA, ParsedRecord


@dataclass
class _PendingGeneration:
    """A generation while more of it can become known."""

    group_type: str
    number: int
    record: ParsedRecord
    state: str
    settled_ms: int | None
    members: tuple[RecordedMember, ...] = ()
    assignor: str | None = None
    leader: str | None = None

    def generation(self) -> Generation:
        return Generation(
            self.number,
            self.record.at_ms,
            self.settled_ms,
            self.state,
            self.assignor,
            self.leader,
            self.members,
            self.record.partition,
            self.record.offset,
        )


class GenerationTracker:
    """One group while its records go by.

    Attributes:
        group_type: what it is, or was last; None: there are tombstones at most.
        ended: of which type the last tombstone of the group is.
        protocol_type: of a classic group what its members are.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.group_type: str | None = None
        self.ended: str | None = None
        self.protocol_type: str | None = None
        self.owners = OwnershipTracker()
        self.embedded = EmbeddedProtocolReader()
        self._topics = topics
        self._alive: str | None = None
        self._groups: dict[str, BrokerGroupTracker] = {}
        self._entries: list[_PendingGeneration] = []

    def generations(self) -> tuple[Generation, ...]:
        """Those of all steps so far."""
        return tuple(entry.generation() for entry in self._entries)

    def take(self, step: list[ParsedRecord]) -> None:
        """What was written at once."""
        was = self._alive
        for record in step:
            self._say(record)
        if self._alive == CLASSIC:
            if step[-1].is_classic:
                self._classic(step[-1])
        elif self._alive is not None:
            self._broker(self._alive, step, was)
        else:
            self._nothing(step, was)

    def _say(self, record: ParsedRecord) -> None:
        group_type = record.group_type
        if record.ends:
            self._groups.pop(group_type, None)
            if self._alive == group_type:
                self._alive = None
            self.ended = group_type
            return
        if record.is_classic or record.kind == METADATA:
            self._alive = self.group_type = group_type
        if not record.is_classic:
            if group_type not in self._groups:
                self._groups[group_type] = BrokerGroupTracker(group_type, self._topics)
            if record.value is not None:
                self.group_type = group_type
            self._groups[group_type].say(record.kind, record.key, record.value)

    def _classic(self, record: ParsedRecord) -> None:
        value = record.value
        assert value is not None
        number, at_ms = value["generation"], record.at_ms
        self.protocol_type = value["protocolType"] or self.protocol_type
        members = self.embedded.members(value)
        for member in members:
            self.owners.has(member.member_id, member.assignment, number, at_ms)
        self._drop_all_but({member.member_id for member in members}, at_ms)
        # The coordinator of 4.x writes a group that has no generation yet when its first member asks for an id.
        if number or members:
            state = STABLE if members else EMPTY
            self._enter(
                _PendingGeneration(CLASSIC, number, record, state, at_ms, members, value["protocol"], value["leader"])
            )

    def _broker(self, group_type: str, step: list[ParsedRecord], was: str | None) -> None:
        group, at_ms = self._groups[group_type], step[-1].at_ms
        self._own(group_type, step)
        if was != group_type:
            self._drop_all_but({each for each in self.owners.members() if group.has(each)}, at_ms)
        last = self._entries[-1] if self._entries else None
        record = next((each for each in reversed(step) if each.kind == METADATA), step[-1])
        number = group.epoch
        assert number is not None
        new = last is None or last.state == DEAD or last.number != number
        if new or group.changed:
            members = group.members()
            state = STABLE if members else EMPTY
            self._enter(_PendingGeneration(group_type, number, record, state, None, members, group.assignor))
        if group.settled:
            self._settle(number, at_ms)

    def _nothing(self, step: list[ParsedRecord], was: str | None) -> None:
        """The group is gone, or nothing is known of it yet but what its members have."""
        end = next((each for each in reversed(step) if each.ends), None)
        if end is None:
            for group_type in {each.group_type for each in step}:
                self._own(group_type, step)
        elif was is not None or not self._entries:
            self._drop_all_but((), end.at_ms)
            number = self._entries[-1].number if self._entries else 0
            self._entries.append(_PendingGeneration(end.group_type, number, end, DEAD, end.at_ms))

    def _own(self, group_type: str, step: list[ParsedRecord]) -> None:
        """What members have, of those of which a step says it."""
        group = self._groups.get(group_type)
        at_ms = step[-1].at_ms
        told = (each for each in step if each.group_type == group_type and each.kind == "CurrentMemberAssignment")
        for member_id in dict.fromkeys(each.key["memberId"] for each in told):
            if group is not None and group.has(member_id):
                group.owned(member_id, self.owners, at_ms)
            else:
                self.owners.drop(member_id, at_ms)

    def _drop_all_but(self, member_ids: Iterable[str], at_ms: int) -> None:
        for member_id in set(self.owners.members()).difference(member_ids):
            self.owners.drop(member_id, at_ms)

    def _enter(self, entry: _PendingGeneration) -> None:
        """A new generation, other members in the one there is, or more that is known of it."""
        last = self._entries[-1] if self._entries else None
        if last is None or last.state == DEAD or last.number != entry.number or _ids(last) != _ids(entry):
            self._entries.append(entry)
        elif last.group_type == entry.group_type:
            last.members, last.assignor = entry.members, entry.assignor

    def _settle(self, number: int, at_ms: int) -> None:
        for entry in reversed(self._entries):
            if entry.number != number or entry.settled_ms is not None:
                return
            entry.settled_ms = at_ms


def _ids(entry: _PendingGeneration) -> tuple[str, ...]:
    return tuple(member.member_id for member in entry.members)
