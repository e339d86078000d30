"""Computes the steps of a replay: the members at each rebalance if all members had been static, or all dynamic.

Dynamic: as recorded. A static member that returned with another member id had left and joined: two rebalances.

Static (KIP-345): a member remains the same if it returns before its session times out, with the same instance id, or as
the same client (client id and host, or a client id that no other member of the group has). The group doesn't notice,
and its partitions wait for it. A member that doesn't return is removed only when its session times out, because a
static member doesn't send a LeaveGroup. If it had crashed, or was static already, the record was written after that
wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate

from spark_assign.history.kernel.departures import GUESS
from spark_assign.history.kernel.departures import RESTARTED as RESTARTED_MEMBER
from spark_assign.history.kernel.replay.recorded_history import (
    CHANGED,
    FIRST,
    RESTARTED,
    RecordedGeneration,
    RecordedHistory,
)
from spark_assign.history.kernel.timeline import RecordedMember
from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.assignment_request import java_order


@dataclass(frozen=True, slots=True)
class ReplayMember:
    """A member at one step.

    Attributes:
        member_id: its member id; a static member keeps its first one.
        identity: the same across restarts, static or not.
        instance: group instance id; None for a dynamic member.
        rack: rack id.
        hash: `String.hashCode` of `member_id`.
        topics: indexes of the topics that it subscribes to.
    """

    member_id: str
    identity: str
    instance: str | None
    rack: str | None
    hash: int
    topics: frozenset[int]


ReplayMembers = Mapping[str, ReplayMember]
"""Members by id, in the order in which a leader receives them."""


class AssignmentOrder:
    """The order in which an assignor that ignores current ownership serves members.

    Range and round robin ignore current ownership. If all members have the same subscription, the assignment depends
    only on `shape`, so it is computed once per shape.

    Attributes:
        topics: subscription of the first member.
        homogeneous: whether all members have the same subscription.
        ids: member ids in assignment order.
        shape: number of members, subscription, and partition counts.
    """

    def __init__(self, members: ReplayMembers, partitions: Mapping[int, int]) -> None:
        listed = list(members.values())
        self.topics = listed[0].topics
        self.homogeneous = all(member.topics == self.topics for member in listed)
        order = java_order([member.instance or member.member_id for member in listed])
        self.ids = [listed[index].member_id for index in order]
        self.shape = len(listed), self.topics, frozenset(partitions.items())

    def to_positions(self, owners: Mapping[int, str]) -> list[list[int]]:
        """Returns the partitions at each position of the order."""
        partitions_by_member: dict[str, list[int]] = {member_id: [] for member_id in self.ids}
        for partition, member_id in owners.items():
            partitions_by_member[member_id].append(partition)
        return list(partitions_by_member.values())

    def to_owners(self, positions: list[list[int]]) -> dict[int, str]:
        """Returns the owner of each partition from the partitions at each position."""
        return {
            partition: member_id
            for member_id, partitions in zip(self.ids, positions, strict=True)
            for partition in partitions
        }


@dataclass(frozen=True)
class ReplayStep:
    """What happens to a group at one moment.

    Attributes:
        source_generation: index of the recorded generation that the step belongs to.
        generation_kind: kind of that generation; `CHANGED` if members join or leave.
        members: the members.
        partitions: number of partitions of each topic.
        session_wait_ms: how long the group waited for the session of each departed member.
        downtime_ms: how long each member was away that returned before the group noticed; None if not on record.
    """

    source_generation: int
    generation_kind: str
    members: ReplayMembers
    partitions: Mapping[int, int]
    session_wait_ms: Mapping[str, int] = field(default_factory=dict)
    downtime_ms: Mapping[str, int | None] = field(default_factory=dict)

    @cached_property
    def identities(self) -> dict[str, str]:
        """The identity of each member."""
        return {member_id: member.identity for member_id, member in self.members.items()}

    @cached_property
    def assignment_order(self) -> AssignmentOrder:
        """The order in which range and round robin serve the members."""
        return AssignmentOrder(self.members, self.partitions)


def replay_steps(history: RecordedHistory, identities: MemberIdentities, *, static: bool) -> Iterator[ReplayStep]:
    """Yields the steps of a group; the first one is its first generation on record. Static members that leave are a
    step each, so that all steps together can have far more members than the record.

    Args:
        history: the group.
        identities: the identities of its members.
        static: whether all of its members are static, or all dynamic.
    """
    return _static_steps(history, identities) if static else _dynamic_steps(history, identities)


# --- identities ---------------------------------------------------------------------------------------------------


class MemberIdentities:
    """Which members are the same before and after a restart (`history.kernel.departures`).

    A return under a shared client id is a guess there; here it is another member.

    Args:
        generations: the generations of a group.
        session_ms: session timeout of members whose session timeout is not on record.

    Attributes:
        names: for each generation, member id to the first id of the same member.
        return_generation: index of the generation in which a departed member is back before its session times out, by
            the index of the generation without it and its first id.
    """

    def __init__(self, generations: Sequence[RecordedGeneration], session_ms: int) -> None:
        self.session_ms = session_ms
        self.names: list[dict[str, str]] = []
        self.return_generation: dict[tuple[int, str], int] = {}
        expected: dict[str, tuple[int, str, int]] = {}
        known: dict[str, str] = {}
        for index, generation in enumerate(generations):
            for member_id, departure in generation.departures.items():
                new_member_id = departure.new_member_id
                is_restart = departure.leave_type == RESTARTED_MEMBER and departure.confidence != GUESS
                if is_restart and new_member_id is not None:
                    session = self.session_timeout_ms(generations[index - 1].members[member_id])
                    expected[new_member_id] = index, known[member_id], generation.at_ms + session
            names = {}
            for member_id in generation.members:
                names[member_id] = known.get(member_id, member_id)
                if member_id not in known and member_id in expected:
                    departed_index, name, session_end_ms = expected.pop(member_id)
                    names[member_id] = name
                    if generation.at_ms <= session_end_ms:
                        self.return_generation[departed_index, name] = index
            self.names.append(names)
            known = names

    def session_timeout_ms(self, member: RecordedMember) -> int:
        """Returns the session timeout of a member, in milliseconds."""
        return member.session_timeout_ms or self.session_ms


# --- steps --------------------------------------------------------------------------------------------------------


def _dynamic_steps(history: RecordedHistory, identities: MemberIdentities) -> Iterator[ReplayStep]:
    """Yields the steps of a group whose members are all dynamic: each generation is a step."""
    hash_code, partitions = cache(string_hash), dict[int, int]()
    previous_members: Mapping[str, RecordedMember] = {}
    previous_names: set[str] = set()
    for index, (generation, names) in enumerate(zip(history.generations, identities.names, strict=True)):
        partitions = partitions | dict(generation.partitions)
        members = {
            member_id: ReplayMember(
                member_id, names[member_id], None, member.rack_id, hash_code(member_id), generation.topics[member_id]
            )
            for member_id, member in generation.members.items()
        }
        # The group had waited for the sessions of crashed members.
        session_wait_ms = {
            member_id: identities.session_timeout_ms(previous_members[member_id]) for member_id in generation.crashed
        }
        rejoined = {
            member_id
            for member_id, member in members.items()
            if member_id not in previous_members
            and member.identity in previous_names
            and _is_static(generation, member_id)
        }
        if rejoined:
            remaining = {member_id: member for member_id, member in members.items() if member_id not in rejoined}
            yield ReplayStep(index, CHANGED, remaining, partitions, session_wait_ms)
            session_wait_ms = {}
        kind = CHANGED if rejoined else generation.generation_kind
        yield ReplayStep(index, kind, members, partitions, session_wait_ms)
        previous_members, previous_names = generation.members, set(names.values())


def _is_static(generation: RecordedGeneration, member_id: str) -> bool:
    return generation.members[member_id].group_instance_id is not None


def _static_steps(history: RecordedHistory, identities: MemberIdentities) -> Iterator[ReplayStep]:
    """Yields the steps of a group whose members are all static: a member that returns in time changes nothing."""
    generations = history.generations
    hash_code, partitions = cache(string_hash), dict[int, int]()
    current: dict[str, ReplayMember] = {}
    leaving: list[tuple[int, int, str, int]] = []
    empty_ms = [0, *accumulate(_empty_times(generations))]
    for index, generation in enumerate(generations):
        while leaving and leaving[0][0] <= generation.at_ms:
            yield _expire_session(current, partitions, heappop(leaving))
        previous_partitions, partitions = partitions, partitions | dict(generation.partitions)
        session_wait_ms: dict[str, int] = {}
        downtime_ms: dict[str, int | None] = {}
        previous, crashed = generations[index - 1], generation.crashed
        for member_id, name in identities.names[index - 1].items() if index else ():
            if member_id in generation.members:
                continue
            return_index = identities.return_generation.get((index, name))
            session = identities.session_timeout_ms(previous.members[member_id])
            if return_index is not None:
                elapsed_ms = generations[return_index].at_ms - generation.at_ms
                elapsed_ms -= empty_ms[return_index] - empty_ms[index]
                downtime_ms[name] = elapsed_ms if return_index > index else None
            elif member_id in crashed or _is_static(previous, member_id):
                current.pop(name, None)
                session_wait_ms[name] = session
            else:
                heappush(leaving, (generation.at_ms + session, index, name, session))
        present = set(identities.names[index].values())
        leaving = [leave for leave in leaving if leave[2] not in present]  # It returned with an id that it had before.
        heapify(leaving)
        topics_before = {name: member.topics for name, member in current.items()}
        for member_id, recorded in generation.members.items():
            name = identities.names[index][member_id]
            instance = recorded.group_instance_id or name
            topics = generation.topics[member_id]
            current[name] = ReplayMember(name, name, instance, recorded.rack_id, hash_code(name), topics)
        topics_after = {name: member.topics for name, member in current.items()}
        kind = generation.generation_kind
        if kind != FIRST and (session_wait_ms or topics_before != topics_after or partitions != previous_partitions):
            kind = CHANGED
        elif kind == CHANGED:  # All its members returned in time.
            kind = RESTARTED
        yield ReplayStep(index, kind, dict(current), partitions, session_wait_ms, downtime_ms)
    while leaving:
        yield _expire_session(current, partitions, heappop(leaving))


def _expire_session(
    current: dict[str, ReplayMember], partitions: Mapping[int, int], leaving: tuple[int, int, str, int]
) -> ReplayStep:
    """Returns the step in which a member's session times out."""
    _, index, name, session = leaving
    current.pop(name, None)
    return ReplayStep(index, CHANGED, dict(current), partitions, {name: session})


def _empty_times(generations: Sequence[RecordedGeneration]) -> list[int]:
    """Returns how long the group was empty in each generation, in milliseconds."""
    ends = [generation.at_ms for generation in generations[1:]] + [generations[-1].at_ms]
    return [
        0 if generation.members else max(end - generation.at_ms, 0)
        for generation, end in zip(generations, ends, strict=True)
    ]
