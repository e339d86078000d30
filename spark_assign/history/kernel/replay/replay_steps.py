"""Who was there at each rebalance, and which rebalances there were, had all members been static, or none of them.

Dynamic: as the record has it. A static member that came back under another id had left and joined: two rebalances.

Static (KIP-345): a member is who it was if it comes back before its session is over, with the instance id that it had,
or as the same client (client id and host, or a client id that nobody else in the group has). Nobody notices, and what
it has waits for it. Who does not come back is missed only when the session is over, as a static member does not say
that it leaves. Who had crashed, or was static already, had been waited for so before the record says that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush

from spark_assign.history.kernel.departures import GUESS
from spark_assign.history.kernel.departures import RESTARTED as RESTARTED_AS
from spark_assign.history.kernel.replay.assignment_order import AssignmentOrder
from spark_assign.history.kernel.replay.recorded_history import (
    AGAIN,
    CHANGED,
    FOLLOWS,
    FOUNDED,
    RESTARTED,
    RecordedGeneration,
    RecordedHistory,
)
from spark_assign.history.kernel.replay.replay_member import ReplayMember, Seats
from spark_assign.history.kernel.timeline import RecordedMember
from spark_assign.java.hash_map import string_hash


@dataclass(frozen=True)
class ReplayStep:
    """What happens to a group at one moment.

    Attributes:
        of: the place in the past of the generation that it belongs to.
        kind: as of that generation; `CHANGED` where somebody comes or goes.
        seats: who is there.
        partitions: of each topic.
        waited: of members that are gone how long their session was waited for.
        away: of members that are back before anybody notices how long they were away; null: the record does not say.
    """

    of: int
    kind: str
    seats: Seats
    partitions: Mapping[int, int]
    waited: Mapping[str, int] = field(default_factory=dict)
    away: Mapping[str, int | None] = field(default_factory=dict)

    @cached_property
    def people(self) -> dict[str, str]:
        """Of each member who it is."""
        return {each: seat.person for each, seat in self.seats.items()}

    @cached_property
    def line(self) -> AssignmentOrder:
        """The members in the order in which range and round robin serve them."""
        return AssignmentOrder(self.seats, self.partitions)


def course_of(past: RecordedHistory, *, static: bool, session_ms: int) -> list[ReplayStep]:
    """The steps of a group, the first one being its first generation on record.

    Args:
        past: the group.
        static: whether all of its members are, or none.
        session_ms: of members whose session timeout is not on record.
    """
    people = MemberIdentities(past.thens, session_ms)
    return list(_static(past, people) if static else _dynamic(past, people))


# --- who is who ---------------------------------------------------------------------------------------------------


class MemberIdentities:
    """Which members are the same one, before a restart and after it (`history.kernel.departures`).

    Who came back under a client id that others have too is a guess there; here it is somebody else.

    Attributes:
        name: of each place in the past and member id the id that it had first.
        back: of each place and name of a member that is gone there where it is back before its session is over.
    """

    def __init__(self, thens: Sequence[RecordedGeneration], session_ms: int) -> None:
        self.session_ms = session_ms
        self.name: list[dict[str, str]] = []
        self.back: dict[tuple[int, str], int] = {}
        self.guesses = 0
        gone: dict[str, tuple[int, str, int]] = {}
        known: dict[str, str] = {}
        for at, then in enumerate(thens):
            for member_id, how in then.gone.items():
                if how.went == RESTARTED_AS and how.came_back_as is not None:
                    self.guesses += how.certainty == GUESS
                    if how.certainty != GUESS:
                        until = then.at_ms + self.session(thens[at - 1].members[member_id])
                        gone[how.came_back_as] = at, known[member_id], until
            names = {}
            for member_id in then.members:
                names[member_id] = known.get(member_id, member_id)
                if member_id not in known and member_id in gone:
                    since, name, until = gone.pop(member_id)
                    names[member_id] = name
                    if then.at_ms <= until:
                        self.back[since, name] = at
            self.name.append(names)
            known = names

    def session(self, member: RecordedMember) -> int:
        """Its session timeout."""
        return member.session_timeout_ms or self.session_ms


# --- courses ------------------------------------------------------------------------------------------------------


class _Hashes(dict[str, int]):
    def __missing__(self, text: str) -> int:
        self[text] = found = string_hash(text)
        return found


def _dynamic(past: RecordedHistory, people: MemberIdentities) -> Iterator[ReplayStep]:
    hashes, partitions = _Hashes(), dict[int, int]()
    before: RecordedGeneration | None = None
    for at, then in enumerate(past.thens):
        names = people.name[at]
        partitions = partitions | dict(then.partitions)
        seats = {
            each: ReplayMember(each, names[each], None, member.rack_id, hashes[each], then.topics[each])
            for each, member in then.members.items()
        }
        waited = {} if before is None else _waited(people, before, then, static=False)
        known = set[str]() if before is None else set(people.name[at - 1].values())
        back = {
            each
            for each, seat in seats.items()
            if before is not None and each not in before.members and seat.person in known and _is_static(then, each)
        }
        if back:
            rest = {each: seat for each, seat in seats.items() if each not in back}
            yield ReplayStep(at, CHANGED, rest, partitions, waited)
            waited = {}
        yield ReplayStep(at, CHANGED if back else then.kind, seats, partitions, waited)
        before = then


def _is_static(then: RecordedGeneration, member_id: str) -> bool:
    return then.members[member_id].group_instance_id is not None


def _waited(
    people: MemberIdentities, before: RecordedGeneration, then: RecordedGeneration, *, static: bool
) -> dict[str, int]:
    """Of members that are gone, for which the session was waited before the record says so: how long."""
    gone = (each for each in before.members if each not in then.members)
    return {
        each: people.session(before.members[each])
        for each in gone
        if each in then.crashed or (static and _is_static(before, each))
    }


def _static(past: RecordedHistory, people: MemberIdentities) -> Iterator[ReplayStep]:
    hashes, partitions = _Hashes(), dict[int, int]()
    there: dict[str, ReplayMember] = {}
    leaving: list[tuple[int, int, str, int]] = []
    empty = _empty(past.thens)
    for at, then in enumerate(past.thens):
        while leaving and leaving[0][0] <= then.at_ms:
            yield _missed(there, partitions, heappop(leaving))
        partitions = partitions | dict(then.partitions)
        before = past.thens[at - 1] if at else None
        waited: dict[str, int] = {}
        away: dict[str, int | None] = {}
        for each in () if before is None else before.members:
            name = people.name[at - 1][each]
            back = people.back.get((at, name))
            if each in then.members or before is None:
                continue
            session = people.session(before.members[each])
            if back is not None:
                lasts = past.thens[back].at_ms - then.at_ms - sum(empty[at:back])
                away[name] = lasts if back > at else None
            elif each in then.crashed or _is_static(before, each):
                there.pop(name, None)
                waited[name] = session
            else:
                heappush(leaving, (then.at_ms + session, at, name, session))
        here = set(people.name[at].values())
        leaving = [each for each in leaving if each[2] not in here]  # Under an id that it had before it is itself.
        heapify(leaving)
        was = {name: seat.topics for name, seat in there.items()}
        for each, member in then.members.items():
            name = people.name[at][each]
            instance = member.group_instance_id or name
            there[name] = ReplayMember(name, name, instance, member.rack_id, hashes[name], then.topics[each])
        changed = bool(waited) or was != {name: seat.topics for name, seat in there.items()}
        yield ReplayStep(at, _kind(past.thens, at, changed), dict(there), partitions, waited, away)
    while leaving:
        yield _missed(there, partitions, heappop(leaving))


def _kind(thens: Sequence[RecordedGeneration], at: int, changed: bool) -> str:
    """What a generation is to static members."""
    kind = thens[at].kind
    carried = {topic: count for each in thens[:at] for topic, count in each.partitions.items()}
    grown = any(carried.get(topic) != count for topic, count in thens[at].partitions.items())
    if kind == FOUNDED or not (changed or grown):
        return kind if kind in (FOUNDED, AGAIN, FOLLOWS) else RESTARTED
    return CHANGED


def _missed(
    there: dict[str, ReplayMember], partitions: Mapping[int, int], leaving: tuple[int, int, str, int]
) -> ReplayStep:
    """A member's session is over."""
    _, at, name, session = leaving
    there.pop(name, None)
    return ReplayStep(at, CHANGED, dict(there), partitions, {name: session})


def _empty(thens: Sequence[RecordedGeneration]) -> list[int]:
    """Of each generation how long nobody was there."""
    ends = [each.at_ms for each in thens[1:]] + [thens[-1].at_ms]
    return [0 if each.members else max(end - each.at_ms, 0) for each, end in zip(thens, ends, strict=True)]
