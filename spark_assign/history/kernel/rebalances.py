"""Rows of REBALANCES: a row for each generation, and why it is there as far as the record says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spark_assign.history.kernel.departures import CRASHED
from spark_assign.history.kernel.generation_changes import GenerationChange
from spark_assign.history.kernel.pauses import PauseSummary
from spark_assign.history.kernel.row_buffer import Row
from spark_assign.history.kernel.timeline import DEAD, Generation, RecordedMember, Timeline

_NAMES = 3
"""So many are named."""

_OF = {"partition": "partitions of {}", "task": "tasks of {}", "connector": "connector {}", "active": "tasks of {}"}


def rebalances(timeline: Timeline, told: Sequence[GenerationChange], stops: PauseSummary) -> Iterator[Row]:
    """A row for each new generation and each tombstone. Changes of members within a generation are no rebalance."""
    for change, new, before in zip(told, timeline.rebalanced, (None, *told), strict=False):
        now = change.now
        if not new and now.state != DEAD:
            continue
        stopped, longest = stops.around(change.place)
        yield {
            "generation": now.number,
            "at": now.at_ms,
            "settled": now.settled_ms,
            "state": now.state,
            "assignor": now.assignor,
            "leader": now.leader,
            "members": len(now.members),
            "joined": len(change.joined),
            "left": len(change.left),
            "crashed": sum(went.went == CRASHED for _, went in change.left),
            "restarted": len(change.back),
            "missing": change.missing,
            "partitions": change.partitions,
            "moved": change.moved,
            "why": "; ".join(_why(change, before)),
            "stopped_ms": stopped,
            "longest_ms": longest,
            "partition": now.partition,
            "offset": now.offset,
        }


def _why(change: GenerationChange, before: GenerationChange | None) -> Iterator[str]:
    if change.before is None and change.now.state != DEAD:
        yield "first on record"
        return
    said = list(_of_members(change))
    if change.now.state == DEAD:
        yield from (*said, "the group was deleted, or all that was left of it expired")
        return
    if change.before is not None and change.before.state != DEAD:
        said += _of_settings(change.before, change.now)
    if not change.now.members and said:
        said.append("nobody is left")
    yield from said or [_silent(change, before)]
    if change.missing:
        plural = "s" if change.missing > 1 else ""
        yield f"{change.missing} generation{plural} before it not on record"


def _of_members(change: GenerationChange) -> Iterator[str]:
    if change.joined:
        yield f"{len(change.joined)} joined: {_names(change.joined)}"
    left = [member for member, went in change.left if went.went != CRASHED]
    crashed = [member for member, went in change.left if went.went == CRASHED]
    if left:
        yield f"{len(left)} left: {_names(left)}"
    if crashed:
        yield f"{len(crashed)} crashed: {_names(crashed)}"
    names = {member.member_id: _name(member) for member, _ in change.gone}
    back = [_back(names.get(old, old), old, member, in_place=old in change.in_place) for old, member in change.back]
    if back:
        yield _some(back)


def _back(name: str, old: str, member: RecordedMember, *, in_place: bool) -> str:
    if old == member.member_id:
        return f"{name} is back"
    return f"{name} {'restarted' if in_place else 'is back'} as {member.member_id}"


def _of_settings(before: Generation, now: Generation) -> Iterator[str]:
    """Subscriptions of those who stayed, the assignor, and a leader that changed though the old one stayed."""
    was = {member.member_id: member for member in before.members}
    stayed = [member for member in now.members if member.member_id in was]
    changed = [member for member in stayed if set(member.topics) != set(was[member.member_id].topics)]
    if changed:
        yield f"{len(changed)} subscribed anew: {_names(changed)}"
    if before.assignor is not None and now.assignor is not None and before.assignor != now.assignor:
        yield f"assignor changed from {before.assignor} to {now.assignor}"
    if (
        before.leader != now.leader
        and now.leader is not None
        and any(each.member_id == before.leader for each in stayed)
    ):
        yield f"leader changed from {before.leader} to {now.leader}"


def _silent(change: GenerationChange, before: GenerationChange | None) -> str:
    """Nobody came, went or changed; what members have may tell why: what had been taken away, or other numbers."""
    assert change.before is not None
    if before is not None and before.partitions < change.partitions <= before.known:
        return "what had been taken away before is given out"
    were, are = _counts(change.before), _counts(change.now)
    other = [
        f"{_OF.get(role, '{}').format(topic)}: {are.get((role, topic), 0)}, before {were.get((role, topic), 0)}"
        for role, topic in sorted(were.keys() | are.keys())
        if were.get((role, topic), 0) != are.get((role, topic), 0)
    ]
    return _some(other) if other else "nothing on record says why"


def _counts(generation: Generation) -> dict[tuple[str, str], int]:
    """By role and topic how many partitions members have."""
    found: dict[tuple[str, str], set[int]] = {}
    for member in generation.members:
        for key, numbers in member.assignment.items():
            if key[0] in _OF:
                found.setdefault(key, set()).update(numbers)
    return {key: len(numbers) for key, numbers in found.items()}


def _name(member: RecordedMember) -> str:
    """What people know it by."""
    return member.group_instance_id or member.member_id


def _names(members: Iterable[RecordedMember]) -> str:
    return _some([_name(member) for member in members])


def _some(texts: Sequence[str]) -> str:
    """Up to three, and how many more."""
    more = f" and {len(texts) - _NAMES} more" if len(texts) > _NAMES else ""
    return ", ".join(texts[:_NAMES]) + more
