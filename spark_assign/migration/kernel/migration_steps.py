"""The steps of a migration to the consumer protocol, with their descriptions and costs.

If the broker converts the group online:
    1 prepare         the settings of all members change; nothing else happens
    2 first-member    the first member restarts; the coordinator converts the group
    3 other-members   the other members restart, one at a time
    4 last-member     the last classic member restarts; from then on no rebalance waits for the whole group
    5 settle          only groups of static members: what the broker's assignor changes at the next occasion
Otherwise:
    1 prepare, 2 stop-all, 3 start-all
In both cases, the last step is:
    way-back          how the group becomes a classic group again, and how many partitions move then
Kafka Streams has its own protocol; its groups have no steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.migration.kernel.migration_verdict import CLIENTS_OWN, MigrationCandidate

SETTINGS = {
    "partition.assignment.strategy": "group.remote.assignor, one of the broker's group.consumer.assignors",
    "session.timeout.ms": "group.consumer.session.timeout.ms of the broker (45 s), of one group "
    "consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms of the broker (5 s), of one group "
    "consumer.heartbeat.interval.ms",
}
"""Client settings that group.protocol=consumer forbids, with their replacements. The Java client and librdkafka don't
start with them."""

COSTS = ("moved", "revoked", "stopped")

_StepRow = dict[str, Any]


def plan_steps(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    """Yields the steps of one group, in order.

    Args:
        candidate: the group.
        metrics: the metrics of the group (`MigrationMetrics.for_group`).
        restarts: the costs of each simulated restart, in order.
    """
    if candidate.assignor == STREAMS:
        return
    steps = [
        _step("prepare", describe_prepare(candidate), {}),
        *(_plan_online(candidate, metrics, restarts) if candidate.online else _plan_offline(candidate, metrics)),
        _step("way-back", describe_way_back(candidate), _moved(metrics["moved_back"]), candidate.members),
    ]
    for ordinal, step in enumerate(steps, 1):
        yield {"step": ordinal, **step}


def _plan_online(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    last = candidate.members - 1
    phases: tuple[tuple[str, Callable[[MigrationCandidate], str], int, int], ...] = (
        ("first-member", describe_first_restart, 0, 1),
        ("other-members", describe_other_restarts, 1, last),
        ("last-member", describe_last_restart, max(last, 1), candidate.members),
    )
    for step_type, describe, start, end in phases:
        if end > start:
            simulated = restarts[start:end]
            total = {cost: sum(restart[cost] for restart in simulated) for cost in COSTS} if simulated else {}
            yield _step(step_type, describe(candidate), total, end - start, len(simulated))
    if candidate.static == candidate.members:
        yield _step("settle", describe_settle(candidate), _moved(metrics["moved"]))


def _plan_offline(candidate: MigrationCandidate, metrics: Mapping[str, Any]) -> Iterator[_StepRow]:
    num_owned = metrics["owned"]
    stop_costs = {"revoked": num_owned, "stopped": num_owned}
    yield _step("stop-all", describe_stop_all(candidate), stop_costs, candidate.members)
    yield _step("start-all", describe_start_all(candidate), _moved(metrics["moved"]))


def _moved(num_moved: int | None) -> dict[str, int | None]:
    return {"moved": num_moved}


def _step(
    step_type: str, action: str, costs: Mapping[str, int | None], restarts: int = 0, num_simulated: int | None = None
) -> _StepRow:
    return {"what": step_type, "action": action, **costs, "restarts": restarts, "played": num_simulated}


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_prepare(candidate: MigrationCandidate) -> str:
    """Describes the change to the settings of all members."""
    return (
        "Settings of every member: group.protocol=consumer, group.remote.assignor="
        f"{candidate.server_assignor.removeprefix('server-')}; take out {', '.join(SETTINGS)}, with which a client "
        "does not start."
    )


def describe_first_restart(candidate: MigrationCandidate) -> str:
    """Describes the restart of the first member."""
    if candidate.static:
        mixed = f" One that is not static leaves and joins: {candidate.server_assignor} makes a target."
        others = "" if candidate.static == candidate.members else mixed
        return (
            "Restart one member. The coordinator makes a consumer group of the classic one, with what everybody has as "
            f"the target. A static member takes over what it had.{others}"
        )
    reassigned = (
        f"; what it had goes to the others by {candidate.assignor}"
        if candidate.members > 1 and candidate.assignor
        else ""
    )
    return (
        f"Restart one member. It leaves{reassigned}. When it is back, the coordinator makes a consumer group of the "
        f"classic one, and {candidate.server_assignor} makes the target."
    )


def describe_other_restarts(candidate: MigrationCandidate) -> str:
    """Describes the restarts of the other members."""
    if candidate.static == candidate.members:
        return "Restart the other members, one after the other, each within its session timeout: it keeps what it has."
    is_eager = candidate.assignor in CLIENTS_OWN and candidate.assignor != "cooperative-sticky"
    effect = "give up all they have at each new target" if is_eager else "give up what moves, in a round more"
    return f"Restart the other members, one after the other. Those that still are classic members {effect}."


def describe_last_restart(candidate: MigrationCandidate) -> str:
    """Describes the restart of the last classic member."""
    return "Restart the last classic member: from now on nobody waits for the whole group."


def describe_settle(candidate: MigrationCandidate) -> str:
    """Describes the rebalance that a group of static members still has ahead."""
    return (
        f"The target still is that of {candidate.assignor or 'the classic group'}. {candidate.server_assignor} "
        "makes its own as soon as "
        "a member or a subscription comes or goes, or a topic grows."
    )


def describe_stop_all(candidate: MigrationCandidate) -> str:
    """Describes how the group is stopped."""
    return "Stop all members, and wait until the group is Empty: an empty group is converted whatever the policy is."


def describe_start_all(candidate: MigrationCandidate) -> str:
    """Describes how the group starts with the consumer protocol."""
    return (
        f"Start all members with the new settings. Offsets stay; {candidate.server_assignor} shares out everything "
        "anew."
    )


def describe_way_back(candidate: MigrationCandidate) -> str:
    """Describes how the group becomes a classic group again."""
    previous = candidate.assignor if candidate.assignor in CLIENTS_OWN else "the assignor it had"
    if not candidate.policy.down:
        return (
            f"Stop all members and start them with the old settings ({previous}): group.consumer.migration.policy="
            f"{candidate.policy} does not convert a running group back."
        )
    return (
        f"Restart the members with the old settings ({previous}). When the last one that speaks the new protocol has "
        f"left, the coordinator makes a classic group again, and {previous} shares out anew."
    )
