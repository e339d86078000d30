"""Who has what, while the records of a group go by: what a member keeps is one interval, however often it is
written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_assign.history.kernel.timeline import Owned

_Key = tuple[str, str]


@dataclass
class _Held:
    """Partitions that a member got at the same time, as far as it still has them."""

    partitions: tuple[int, ...]
    generation: int
    since_ms: int


class OwnershipTracker:
    """What members have, and what they had.

    A partition is a row of its own from when a member gets it to when it loses it; another member id is another row,
    even of the same static member.
    """

    def __init__(self) -> None:
        self._now: dict[str, tuple[Mapping[_Key, tuple[int, ...]], dict[_Key, list[_Held]]]] = {}
        self._past: list[Owned] = []

    def members(self) -> Collection[str]:
        """Those that have had something said of them and have not been dropped."""
        return self._now.keys()

    def has(self, member_id: str, items: Mapping[_Key, tuple[int, ...]], generation: int, at_ms: int) -> None:
        """From now on a member has exactly this."""
        known = self._now.get(member_id)
        before, held = known or ({}, {})
        if items is before:
            return
        for key in before.keys() | items.keys():
            had, has = before.get(key, ()), items.get(key, ())
            if had != has:
                self._change(member_id, key, held, (had, has), (generation, at_ms))
        self._now[member_id] = items, held

    def drop(self, member_id: str, at_ms: int) -> None:
        """A member is gone."""
        self.has(member_id, {}, 0, at_ms)
        self._now.pop(member_id, None)

    def told(self) -> tuple[Owned, ...]:
        """All of it, what lasts to the end with no end."""
        last = [
            Owned(member, *key, each.partitions, each.generation, each.since_ms, None)
            for member, (_, held) in self._now.items()
            for key, parts in held.items()
            for each in parts
        ]
        return tuple(sorted(self._past + last, key=_place))

    def _change(
        self,
        member_id: str,
        key: _Key,
        held: dict[_Key, list[_Held]],
        change: tuple[tuple[int, ...], tuple[int, ...]],
        when: tuple[int, int],
    ) -> None:
        generation, at_ms = when
        if not change[0]:
            held[key] = [_Held(change[1], generation, at_ms)]
            return
        had, has = map(frozenset, change)
        kept: list[_Held] = []
        for each in held.pop(key, []):
            lost = tuple(number for number in each.partitions if number not in has) if has else each.partitions
            # What lasted for no time nobody had.
            if lost and at_ms > each.since_ms:
                self._past.append(Owned(member_id, *key, lost, each.generation, each.since_ms, at_ms))
            if len(lost) < len(each.partitions):
                stays = tuple(number for number in each.partitions if number in has)
                kept.append(_Held(stays, each.generation, each.since_ms))
        gained = tuple(sorted(has - had))
        if gained:
            kept.append(_Held(gained, generation, at_ms))
        if kept:
            held[key] = kept


def _place(own: Owned) -> tuple[int, str, str, str, tuple[int, ...]]:
    return own.since_ms, own.member_id, own.role, own.topic, own.partitions
