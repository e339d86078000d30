"""Small groups to play in tests, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.simulation.kernel.assignment_request import Topics, code
from spark_assign.simulation.kernel.events import Event, in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember
from spark_assign.simulation.kernel.ownership_log import merged
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import solve_requests
from spark_assign.simulation.kernel.simulated_group import InitialState

EAGER, COOPERATIVE, STICKY = ("range",), ("cooperative-sticky",), ("sticky",)
BEATS = 5_000
"""From one heartbeat of a KIP-848 member to its next."""


def stage(
    owned: dict[str, list[int]],
    strategies: tuple[str, ...],
    *,
    static: bool = False,
    partitions: int | None = None,
    timing: TimingConfig | None = None,
) -> InitialState:
    """A group whose members own partitions of the topic `t`, in generation 1."""
    members = [
        ClassicMember(n, n if static else None, None, frozenset([0]), strategies, n, owned=[code(0, p) for p in mine])
        for n, mine in owned.items()
    ]
    count = partitions if partitions is not None else sum(map(len, owned.values()))
    times = timing or TimingConfig(revoke_ms=500, restore_ms=2_000)
    return InitialState(members, Topics.of(["t", "u"]), {0: count}, 1, times, strategies, new_members_static=static)


def modern(
    owned: dict[str, list[int]],
    *,
    static: bool = False,
    partitions: int | None = None,
    timing: TimingConfig | None = None,
    asks: dict[str, list[int]] | None = None,
    assignor: str | None = None,
) -> InitialState:
    """The same that speaks KIP-848's protocol, in epoch 1. `asks`: topics of members that do not subscribe to `t`."""
    likes = () if assignor is None else (assignor,)
    members = []
    for name, mine in owned.items():
        topics = frozenset((asks or {}).get(name, [0]))
        instance = name if static else None
        members.append(AsyncMember(name, instance, None, topics, likes, name, owned=[code(0, p) for p in mine]))
    count = partitions if partitions is not None else sum(map(len, owned.values()))
    times = timing or TimingConfig(revoke_ms=500, restore_ms=2_000)
    return InitialState(
        members,
        Topics.of(["t", "u"]),
        {0: count},
        1,
        times,
        likes,
        new_members_static=static,
        is_consumer_protocol=True,
    )


def play(beginning: InitialState, *events: Event, until: int | None = None, traced: bool = True) -> GroupSimulation:
    """Play it to the end. Without a trace, members that a rebalance doesn't change rejoin in one step."""
    played = GroupSimulation(beginning, in_order(events), traced=traced, owners=True)
    run(played, until)
    return played


def run(played: GroupSimulation, until: int | None = None) -> None:
    """Let everything happen, and answer what is asked."""
    going = played.run(until)
    try:
        ask = next(going)
        while True:
            ask = going.send(solve_requests([ask])[0])
    except StopIteration:
        return


def messages(played: GroupSimulation) -> list[str]:
    """The trace, a line a message, without what has no meaning but for people."""
    return [f"{each.at_ms} {each.actor}: {each.message} {each.detail}".rstrip() for each in played.group.trace or ()]


def logged(played: GroupSimulation, message: str) -> list[tuple[int, str, str]]:
    """When, who and what, of one kind of message."""
    return [(each.at_ms, each.actor, each.detail) for each in played.group.trace or () if each.message == message]


def rounds(played: GroupSimulation) -> list[tuple[int, str]]:
    """Generation and cause of every round."""
    return [(each.generation_id, each.cause) for each in played.group.rebalances]


def figures(played: GroupSimulation) -> tuple[object, ...]:
    """All results but the trace."""
    log = played.group.ownership_log
    closed = [(each.code, end, each.pauses, each.paused_ms, each.longest_pause_ms) for each, end in log.closed]
    return played.end_ms, played.group.rebalances, closed, merged(log.intervals or ())


def pauses(played: GroupSimulation) -> dict[int, int]:
    """Of each partition of `t` how long it was not consumed."""
    return {e.code & 0xFFFFFFFF: e.paused_ms for e, _ in played.group.ownership_log.closed if e.code >> 32 == 0}


def owners(played: GroupSimulation) -> dict[int, str | None]:
    """Who has each partition of `t` in the end."""
    running = (each for each in played.group.members.values() if each.running)
    return {each & 0xFFFFFFFF: m.member_id for m in running for each in sorted(m.owned) if each >> 32 == 0}


def at(time: int, event: str, member: str | None = None, **columns: object) -> Event:
    """An event."""
    return Event(time, event, member, **columns)  # type: ignore[arg-type]


def names(codes: Sequence[int]) -> str:
    """Partitions of `t` as the trace writes them."""
    return " ".join(f"t-{each}" for each in codes)
