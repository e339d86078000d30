"""Rows of MEMBERSHIPS and SUBSCRIBED: who was there from when to when, how it came and went, and what it read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_assign.history.kernel.departures import IS_THERE, RESTARTED, SURE, Departure
from spark_assign.history.kernel.generation_changes import GenerationChange
from spark_assign.history.kernel.row_buffer import Row
from spark_assign.history.kernel.timeline import Generation, RecordedMember, Timeline

FIRST, JOINED = "first-on-record", "joined"


@dataclass
class _Stay:
    """A member that is there."""

    member: RecordedMember
    since: Generation
    last: Generation
    came: str


def memberships(told: Sequence[GenerationChange]) -> Iterator[Row]:
    """A row for each stay of a member, by its begin and its id; who is known by several ids has several."""
    rows: list[Row] = []
    there: dict[str, _Stay] = {}
    for change in told:
        for member, went in change.gone:
            rows.append(_row(there.pop(member.member_id), change.now, went))
        back = {member.member_id for _, member in change.back}
        for member in change.now.members:
            stay = there.get(member.member_id)
            if stay is None:
                came = FIRST if change.before is None else RESTARTED if member.member_id in back else JOINED
                there[member.member_id] = _Stay(member, change.now, change.now, came)
            else:
                stay.member, stay.last = member, change.now
    rows += (_row(stay, None, None) for stay in there.values())
    yield from sorted(rows, key=lambda row: (row["since"], row["member_id"]))


def _row(stay: _Stay, gone: Generation | None, went: Departure | None) -> Row:
    member = stay.member
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "first_generation": stay.since.number,
        "last_generation": stay.last.number,
        "since": stay.since.at_ms,
        "until": gone.at_ms if gone else None,
        "came": stay.came,
        "went": went.went if went else IS_THERE,
        "certainty": went.certainty if went else SURE,
    }


def subscribed(timeline: Timeline) -> Iterator[Row]:
    """A row for each topic of a member and each time it was subscribed to it."""
    rows: list[Row] = []
    there: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {}
    for now in timeline.generations:
        members = {member.member_id: member.topics for member in now.members}
        for member_id in [each for each in there if each not in members]:
            rows += _ended(member_id, there.pop(member_id)[1], (), now.at_ms)
        for member_id, topics in members.items():
            before, since = there.get(member_id, ((), {}))
            if topics != before:
                rows += _ended(member_id, since, topics, now.at_ms)
                there[member_id] = topics, {topic: since.get(topic, now.at_ms) for topic in topics}
    for member_id, (_, since) in there.items():
        rows += _ended(member_id, since, (), None)
    yield from sorted(rows, key=lambda row: (row["since"], row["member_id"], row["topic"]))


def _ended(member_id: str, since: dict[str, int], topics: tuple[str, ...], until: int | None) -> Iterator[Row]:
    for topic in since.keys() - set(topics):
        yield {"member_id": member_id, "topic": topic, "since": since[topic], "until": until}
