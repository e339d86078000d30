"""What is different from one generation to the next: who came, who went and how, and what moved."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spark_assign.history.kernel.departures import CRASHED, Departure
from spark_assign.history.kernel.embedded_protocol import Items
from spark_assign.history.kernel.timeline import DEAD, Generation, RecordedMember, Timeline
from spark_assign.history.kernel.write_batches import CLASSIC

_SPARE = ("standby", "warmup")
"""Roles of those who own nothing."""


@dataclass(frozen=True)
class GenerationChange:
    """A generation against the one before on record.

    Attributes:
        place: of the generation in the timeline.
        gone: members that it has no more, with how they went.
        joined: newcomers that nobody came back as.
        back: newcomers as which somebody came back, with the old id.
        in_place: old ids to the new ones that took their place in this very generation; the old are in `gone`, too.
        missing: generations in between that are not on record.
        partitions: what members have, standby and warmup tasks left out.
        known: of which partitions an owner is known: now, or up to the last time that all was given up.
        moved: partitions with another owner than the last one.
    """

    place: int
    before: Generation | None
    now: Generation
    gone: tuple[tuple[RecordedMember, Departure], ...]
    joined: tuple[RecordedMember, ...]
    back: tuple[tuple[str, RecordedMember], ...]
    in_place: Mapping[str, str]
    missing: int
    partitions: int
    known: int
    moved: int

    @property
    def left(self) -> tuple[tuple[RecordedMember, Departure], ...]:
        """Who is gone and has nobody in its place."""
        return tuple(pair for pair in self.gone if pair[0].member_id not in self.in_place)


def changes(timeline: Timeline, departures: Iterable[Departure]) -> Iterator[GenerationChange]:
    """Those of all generations; departures are those of the timeline, in their order."""
    departures = deque(departures)
    came_back = {each.came_back_as: each.member_id for each in departures if each.came_back_as is not None}
    owning = _Owning(timeline.group_type)
    before: Generation | None = None
    for place, now in enumerate(timeline.generations):
        there = {member.member_id for member in now.members}
        had = before.members if before else ()
        was = {member.member_id for member in had}
        gone = tuple((member, departures.popleft()) for member in had if member.member_id not in there)
        new = [member for member in now.members if before and member.member_id not in was]
        back = tuple((came_back[each.member_id], each) for each in new if each.member_id in came_back)
        in_place = _in_place(gone, {member.member_id for _, member in back})
        moved = owning.moved(now, in_place)
        yield GenerationChange(
            place=place,
            before=before,
            now=now,
            gone=gone,
            joined=tuple(each for each in new if each.member_id not in came_back),
            back=back,
            in_place=in_place,
            missing=_missing(before, now, timeline.group_type),
            partitions=owning.partitions,
            known=owning.known(),
            moved=moved,
        )
        before = now


def _in_place(gone: Iterable[tuple[RecordedMember, Departure]], back: Collection[str]) -> dict[str, str]:
    """Who took the place of whom at once; the place of one that crashed had been empty."""
    pairs = ((went.member_id, went.came_back_as) for _, went in gone if went.went != CRASHED)
    return {old: new for old, new in pairs if new is not None and new in back}


def _missing(before: Generation | None, now: Generation, group_type: str) -> int:
    """Numbers that were skipped. A classic group begins with 1; what the first of others is depends on the release."""
    if before is None or now.state == DEAD:
        return 0
    if before.state == DEAD or now.number < before.number:
        return max(now.number - 1, 0) if group_type == CLASSIC else 0
    return max(now.number - before.number - 1, 0)


@dataclass
class _Owning:
    """The last owner of each partition; of a share group all of them."""

    group_type: str
    partitions: int = 0
    _owner: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    _owners: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    _items: dict[str, Items] = field(default_factory=dict)
    _first_id: dict[str, str] = field(default_factory=dict)

    def known(self) -> int:
        """Partitions of which an owner is known."""
        return len(self._owners) + sum(map(len, self._owner.values()))

    def moved(self, now: Generation, in_place: Mapping[str, str]) -> int:
        """Go on to a generation; how many partitions have another owner."""
        for old, new in in_place.items():
            self._first_id[new] = self._first_id.get(old, old)
        if not now.members:
            self._owner, self._owners, self._items, self.partitions = {}, {}, {}, 0
            return 0
        if self.group_type == "share":
            return self._shared(now)
        had, self._items = self._items, {member.member_id: member.assignment for member in now.members}
        self.partitions = sum(
            len(numbers) for items in self._items.values() for key, numbers in items.items() if key[0] not in _SPARE
        )
        return sum(
            self._take(member_id, items, had.get(member_id, {}))
            for member_id, items in self._items.items()
            if items is not had.get(member_id)
        )

    def _take(self, member_id: str, items: Items, had: Items) -> int:
        moved = 0
        who = self._first_id.get(member_id, member_id)
        for key, numbers in items.items():
            if key[0] in _SPARE or had.get(key) == numbers:
                continue
            owner = self._owner.setdefault(key, {})
            if owner:
                moved += sum(owner.get(number, who) != who for number in numbers)
            owner.update(dict.fromkeys(numbers, who))
        return moved

    def _shared(self, now: Generation) -> int:
        owners: dict[tuple[str, int], set[str]] = {}
        for member in now.members:
            who = self._first_id.get(member.member_id, member.member_id)
            for (_, topic), numbers in member.assignment.items():
                for number in numbers:
                    owners.setdefault((topic, number), set()).add(who)
        was, self._owners = self._owners, {key: frozenset(whose) for key, whose in owners.items()}
        self.partitions = len(owners)
        return sum(was.get(key, whose) != whose for key, whose in self._owners.items())
