"""Stories of small groups as the simulator plays them, and what the coordinator's records would say of them.

Members are Java clients of today: what they send and get is written as those write it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from spark_assign.history.kernel.timeline import EMPTY, STABLE, Generation, RecordedMember, Timeline
from spark_assign.simulation.kernel.assignment_request import (
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
)
from spark_assign.simulation.kernel.events import Event, in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.member import ClassicMember
from spark_assign.simulation.kernel.settings import Timing
from spark_assign.simulation.kernel.simulate_groups import answers
from spark_assign.simulation.kernel.simulated_group import InitialState
from tests.unit.history_log import numbers_bytes, text_bytes

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
NAMES = ("orders", "payments", "returns")


def random_story(rng: random.Random, assignor: str) -> Timeline:
    """Members come, go, crash and restart, topics grow, subscriptions change."""
    topics = Topics.of(NAMES)
    partitions = {at: rng.randint(1, 7) for at in range(len(NAMES))}
    both = frozenset(range(len(NAMES)))
    some = [both, frozenset([0]), frozenset([0, 1])] if rng.random() < 0.4 else [both]
    static = rng.random() < 0.2
    members = [
        ClassicMember(name, name if static else None, None, rng.choice(some), (assignor,))
        for name in (f"m{at}" for at in range(rng.randint(1, 5)))
    ]
    stage = InitialState(members, topics, partitions, 0, Timing(poll_interval_ms=100), (assignor,), all_static=static)
    there, events, now = [each.name for each in members], [], 60_000
    for number in range(rng.randint(3, 9)):
        now += rng.choice([200, 5_000, 20_000, 120_000])
        what = rng.choice(["member-starts", "member-leaves", "member-crashes", "member-restarts", "partitions-added"])
        if what == "member-starts":
            there.append(f"n{number}")
            events.append(Event(now, what, there[-1], topics=NAMES))
        elif what == "partitions-added":
            topic = rng.randrange(len(NAMES))
            partitions = partitions | {topic: partitions[topic] + rng.randint(1, 3)}
            events.append(Event(now, what, topic=NAMES[topic], partitions=partitions[topic]))
            now += 400_000
        elif len(there) > 1:
            who = rng.choice(there)
            if what != "member-restarts":
                there.remove(who)
            events.append(Event(now, what, who, down_ms=rng.choice([1_000, 20_000])))
            now += 100_000
    return recorded(stage, events)


def recorded(stage: InitialState, events: Sequence[Event]) -> Timeline:
    """A story of a classic group as its records would tell it."""
    play = GroupSimulation(stage, in_order(events), traced=False, owners=False)
    going, generations = play.run(None), list[Generation]()
    ask = next(going, None)
    while ask is not None:
        answer = answers([ask])[0]
        number = play.group.number
        generations.append(generation(ask, answer, number, play.group.clock.now, len(generations)))
        try:
            ask = going.send(answer)
        except StopIteration:
            ask = None
    last = generations[-1].at_ms
    return Timeline("classic", "consumer", tuple(generations), (), {}, {}, generations[0].at_ms, last, len(generations))


def generation(ask: AssignmentRequest, answer: AssignmentResponse, number: int, at_ms: int, offset: int) -> Generation:
    """One generation as it is recorded."""
    names = ask.topics.names
    members = tuple(
        member(joined, codes, names, ask.assignor, place)
        for place, (joined, codes) in enumerate(zip(ask.members, answer.assigned, strict=True))
    )
    by_id = tuple(sorted(members, key=lambda each: each.member_id))
    return Generation(number, at_ms, at_ms, STABLE, ask.assignor, None, by_id, 0, offset)


def empty(number: int, at_ms: int) -> Generation:
    """Nobody is there."""
    return Generation(number, at_ms, at_ms, EMPTY, None, None, (), 0, number)


def member(
    joined: JoinedMember, codes: Sequence[int], names: Sequence[str], assignor: str, place: int
) -> RecordedMember:
    """A member as it is recorded."""
    mine = by_topic(codes, names)
    return RecordedMember(
        joined.member_id,
        joined.group_instance_id,
        client_id=joined.member_id.partition("#")[0],
        client_host="/10.0.0.1",
        session_timeout_ms=45_000,
        topics=tuple(names[each] for each in sorted(joined.topics)),
        subscription=subscription(joined, names, assignor),
        assignment={("partition", topic): tuple(partitions) for topic, partitions in mine.items()},
        assignment_bytes=b"\0\3" + _topic_partitions(mine) + struct.pack(">i", -1),
        position=place,
    )


def by_topic(codes: Sequence[int], names: Sequence[str]) -> dict[str, list[int]]:
    """Partitions by the names of their topics."""
    found: dict[str, list[int]] = {}
    for each in sorted(codes):
        found.setdefault(names[each >> 32], []).append(each & 0xFFFFFFFF)
    return found


def subscription(joined: JoinedMember, names: Sequence[str], assignor: str) -> bytes:
    """As Java's client of today writes it (version 3)."""
    owned, generation = by_topic(joined.owned, names), joined.generation_id
    in_user_data = joined.user_data_generation_id
    user_data = None
    if assignor == "sticky" and (joined.owned or in_user_data is not None):
        user_data = _topic_partitions(owned) + struct.pack(">i", -1 if in_user_data is None else in_user_data)
    if assignor == "cooperative-sticky":
        told = generation if in_user_data is None else in_user_data
        user_data = struct.pack(">i", told) if told >= 0 else None
    told_owned = owned if assignor == "cooperative-sticky" else {}
    topics = [text_bytes(names[each]) for each in sorted(joined.topics)]
    said = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return (
        b"\0\3" + struct.pack(">i", len(topics)) + b"".join(topics) + said + _topic_partitions(told_owned)
        + struct.pack(">ih", generation, -1)
    )  # fmt: skip


def _topic_partitions(mine: dict[str, list[int]]) -> bytes:
    return struct.pack(">i", len(mine)) + b"".join(
        text_bytes(topic) + numbers_bytes(partitions) for topic, partitions in mine.items()
    )
