"""Pasts of a group, written by hand: who had what in each generation, and when what was committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spark_assign.history.kernel.timeline import CommitInterval, Generation, OwnershipInterval, RecordedMember, Timeline

GAP = 10_000
SESSION, REBALANCE = 45_000, 300_000


def member(member_id: str, **fields: object) -> RecordedMember:
    """A member with the sessions that clients have by default, on a host of its own."""
    given = {
        "client_id": f"client-{member_id}",
        "client_host": f"/10.0.0.{sum(member_id.encode()) % 250}",
        "session_timeout_ms": SESSION,
        "rebalance_timeout_ms": REBALANCE,
    }
    return RecordedMember(member_id, **{**given, **fields})  # type: ignore[arg-type]


def generation(
    number: int, at: int, has: Iterable[tuple[RecordedMember, Sequence[int]]], **fields: object
) -> Generation:
    """A generation in which members have partitions of the topic t; nobody: the group is empty."""
    pairs = sorted(has, key=lambda a: a[0].member_id)
    members = tuple(e._replace(assignment={("partition", "t"): tuple(p)}) for e, p in pairs)
    given = {
        "stable_ms": at,
        "state": "Stable" if members else "Empty",
        "assignor": "range" if members else None,
        "leader": members[0].member_id if members else None,
    }
    return Generation(number, at, members=members, partition=7, offset=at, **{**given, **fields})  # type: ignore[arg-type]


def commit_intervals(times: Iterable[int], gap: int = GAP) -> tuple[CommitInterval, ...]:
    """Commits at these moments as intervals; each is of the moment's own value."""
    parts: list[list[int]] = []
    for at in sorted(times):
        if parts and at - parts[-1][-1] <= gap:
            parts[-1].append(at)
        else:
            parts.append([at])
    cells = ((part, (part[0] // max(gap, 1) + 2) * max(gap, 1)) for part in parts)
    return tuple(
        CommitInterval(part[0], part[-1], len(part), part[0], part[-1], max(at for at in part if at < end))
        for part, end in cells
    )


def past(
    *generations: Generation,
    commits: Mapping[int, Iterable[int]] | None = None,
    group_type: str = "classic",
    gap: int = GAP,
    until: int | None = None,
) -> Timeline:
    """The past of a group that reads topic t, committed at these moments."""
    intervals_by_partition = {("t", p): commit_intervals(times, gap) for p, times in (commits or {}).items()}
    intervals_by_partition = {where: each for where, each in intervals_by_partition.items() if each}
    moments = [each.at_ms for each in generations] + [
        at for each in intervals_by_partition.values() for i in each for at in (i.start_ms, i.end_ms)
    ]
    records = len(generations) + sum(interval.commits for each in intervals_by_partition.values() for interval in each)
    return Timeline(
        group_type=group_type,
        protocol_type="consumer" if group_type == "classic" else None,
        generations=generations,
        ownership=tuple(owned(generations)),
        commits=intervals_by_partition,
        first_ms=min(moments),
        last_ms=max([*moments, *([] if until is None else [until])]),
        records=records,
    )


def owned(generations: Sequence[Generation]) -> list[OwnershipInterval]:
    """Who had what from when to when."""
    found: list[OwnershipInterval] = []
    having: dict[tuple[str, str, str], tuple[tuple[int, ...], int, int]] = {}
    for each in generations:
        now = {(one.member_id, role, t): p for one in each.members for (role, t), p in one.assignment.items() if p}
        for key, (partitions, number, since) in list(having.items()):
            if now.get(key) != partitions:
                found.append(OwnershipInterval(*key, partitions, number, since, each.at_ms))
                del having[key]
        for key, partitions in now.items():
            having.setdefault(key, (partitions, each.generation_id, each.at_ms))
    found += [OwnershipInterval(*key, p, number, since, None) for key, (p, number, since) in having.items()]
    return sorted(found, key=lambda own: (own.start_ms, own.member_id, own.role, own.topic))
