"""Golden-format rows as asks of a simulated leader, and its answers as sets."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.java.hash_map import string_hashes
from spark_assign.simulation.kernel.assignment_request import (
    CODE_BITS,
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
)
from spark_assign.simulation.kernel.leader import assign
from tests.golden.vectors import Row, Sets


def ask_of(row: Row, assignor: str) -> AssignmentRequest:
    """One case; its topics have names behind and before them that nobody asks for."""
    subscribed = {topic for member in row["members"] for topic in member["topics"]}
    owned = {topic for member in row["members"] for topic, _ in member["owned"]}
    replicas = row.get("replica_racks") or {}
    racks = {topic: [frozenset(of) - {None, ""} for of in each] for topic, each in replicas.items()}
    topics = Topics.of({*row["topics"], *subscribed, *owned, "", "\uffff"}, racks)
    number = {name: at for at, name in enumerate(topics.names)}
    hashes = string_hashes([member["id"] for member in row["members"]]).tolist()
    subscriptions: dict[frozenset[int], frozenset[int]] = {}
    members = []
    for member, hash_code in zip(row["members"], hashes, strict=True):
        some = frozenset(number[topic] for topic in member["topics"])
        members.append(
            JoinedMember(
                member_id=member["id"],
                group_instance_id=member["instance"],
                rack_id=member["rack"],
                hash=hash_code,
                topics=subscriptions.setdefault(some, some),
                owned=sorted({code(number[topic], partition) for topic, partition in member["owned"]}),
                generation_id=_or_none(member["generation"]),
                user_data_generation_id=_or_none(member["user_generation"]) if "user_generation" in member else None,
            )
        )
    return AssignmentRequest(assignor, members, topics, {number[t]: count for t, count in row["topics"].items()})


def _or_none(generation: int | None) -> int:
    return -1 if generation is None else generation


def answered(asks: Sequence[AssignmentRequest], size: int) -> list[AssignmentResponse]:
    """The answers to all asks, so many at once."""
    batches = (asks[begin : begin + size] for begin in range(0, len(asks), size))
    return [answer for batch in batches for answer in assign(batch)]


def sets_of(rows: Sequence[Row], asks: Sequence[AssignmentRequest], answers: Sequence[AssignmentResponse]) -> Sets:
    """What each member is assigned, by name; a member's list has to be ascending, each partition once."""
    sets: Sets = {}
    for row, ask, answer in zip(rows, asks, answers, strict=True):
        assert len(answer.assigned) == len(ask.members)
        for member, codes in zip(ask.members, answer.assigned, strict=True):
            assert codes == sorted(set(codes))
            if codes:
                named = {(ask.topics.names[each >> CODE_BITS], each & ((1 << CODE_BITS) - 1)) for each in codes}
                sets.setdefault(row["case"], {})[member.member_id] = named
    return sets
