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
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import solve_requests
from spark_assign.simulation.kernel.simulated_group import InitialState
from tests.unit.history_log import numbers_bytes, text_bytes

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
NAMES = ("orders", "payments", "returns")


def random_story(rng: random.Random, assignor: str) -> Timeline:
    """Members come, go, crash and restart, topics grow, subscriptions change."""
    topics = Topics.of(NAMES)
    partitions = {at: rng.randint(1, 7) for at in range(len(NAMES))}
    both = frozenset(range(len(NAMES)))
    subscriptions = [both, frozenset([0]), frozenset([0, 1])] if rng.random() < 0.4 else [both]
    static = rng.random() < 0.2
    members = [
        ClassicMember(name, name if static else None, None, rng.choice(subscriptions), (assignor,))
        for name in (f"m{at}" for at in range(rng.randint(1, 5)))
    ]
    initial_state = InitialState(
        members, topics, partitions, 0, TimingConfig(poll_interval_ms=100), (assignor,), new_members_static=static
    )
    live_members, events, now = [each.name for each in members], [], 60_000
    for number in range(rng.randint(3, 9)):
        now += rng.choice([200, 5_000, 20_000, 120_000])
        event_type = rng.choice(
            ["member-starts", "member-leaves", "member-crashes", "member-restarts", "partitions-added"]
        )
        if event_type == "member-starts":
            live_members.append(f"n{number}")
            events.append(Event(now, event_type, live_members[-1], topics=NAMES))
        elif event_type == "partitions-added":
            topic = rng.randrange(len(NAMES))
            partitions = partitions | {topic: partitions[topic] + rng.randint(1, 3)}
            events.append(Event(now, event_type, topic=NAMES[topic], partitions=partitions[topic]))
            now += 400_000
        elif len(live_members) > 1:
            member_name = rng.choice(live_members)
            if event_type != "member-restarts":
                live_members.remove(member_name)
            events.append(Event(now, event_type, member_name, down_ms=rng.choice([1_000, 20_000])))
            now += 100_000
    return recorded(initial_state, events)


def recorded(initial_state: InitialState, events: Sequence[Event]) -> Timeline:
    """A story of a classic group as its records would tell it."""
    group_simulation = GroupSimulation(initial_state, in_order(events), traced=False, owners=False)
    simulation, generations = group_simulation.run(None), list[Generation]()
    request = next(simulation, None)
    while request is not None:
        response = solve_requests([request])[0]
        number = group_simulation.group.number
        generations.append(generation(request, response, number, group_simulation.group.queue.now, len(generations)))
        try:
            request = simulation.send(response)
        except StopIteration:
            request = None
    last = generations[-1].at_ms
    return Timeline("classic", "consumer", tuple(generations), (), {}, generations[0].at_ms, last, len(generations))


def generation(
    request: AssignmentRequest, response: AssignmentResponse, number: int, at_ms: int, offset: int
) -> Generation:
    """One generation as it is recorded."""
    names = request.topics.names
    pairs = enumerate(zip(request.members, response.assigned, strict=True))
    members = tuple(member(joined, codes, names, request.assignor, place) for place, (joined, codes) in pairs)
    by_id = tuple(sorted(members, key=lambda each: each.member_id))
    return Generation(number, at_ms, at_ms, STABLE, request.assignor, None, by_id, 0, offset)


def empty(number: int, at_ms: int) -> Generation:
    """Nobody is there."""
    return Generation(number, at_ms, at_ms, EMPTY, None, None, (), 0, number)


def member(
    joined: JoinedMember, codes: Sequence[int], names: Sequence[str], assignor: str, place: int
) -> RecordedMember:
    """A member as it is recorded."""
    assigned = by_topic(codes, names)
    return RecordedMember(
        joined.member_id,
        joined.group_instance_id,
        client_id=joined.member_id.partition("#")[0],
        client_host="/10.0.0.1",
        session_timeout_ms=45_000,
        topics=tuple(names[each] for each in sorted(joined.topics)),
        subscription=subscription(joined, names, assignor),
        assignment={("partition", topic): tuple(partitions) for topic, partitions in assigned.items()},
        assignment_bytes=b"\0\3" + _topic_partitions(assigned) + struct.pack(">i", -1),
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
        reported_generation = generation if in_user_data is None else in_user_data
        user_data = struct.pack(">i", reported_generation) if reported_generation >= 0 else None
    reported_owned = owned if assignor == "cooperative-sticky" else {}
    topics = [text_bytes(names[each]) for each in sorted(joined.topics)]
    data = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return (
        b"\0\3" + struct.pack(">i", len(topics)) + b"".join(topics) + data + _topic_partitions(reported_owned)
        + struct.pack(">ih", generation, -1)
    )  # fmt: skip


def _topic_partitions(assigned: dict[str, list[int]]) -> bytes:
    return struct.pack(">i", len(assigned)) + b"".join(text_bytes(t) + numbers_bytes(p) for t, p in assigned.items())
