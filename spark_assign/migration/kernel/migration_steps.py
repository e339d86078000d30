"""The steps of a migration to the consumer protocol, with their descriptions and costs.

If the broker converts the group online:
    1 prepare         the settings of all members change; nothing else happens
    2 first-member    the first member restarts; the coordinator converts the group
    3 other-members   the other members restart, one at a time
    4 last-member     the last classic member restarts; from then on no rebalance waits for the whole group
    5 next-rebalance  only groups of static members: what the broker's assignor changes at the next rebalance
Otherwise:
    1 prepare, 2 stop-all, 3 start-all
In both cases, the last step is:
    rollback          how the group becomes a classic group again, and how many partitions move then
A Kafka Streams application takes the same steps to its own protocol, always with a full stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, STREAMS, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import FORBIDDEN, assignor_lines
from spark_assign.migration.kernel import streams_migration
from spark_assign.migration.kernel.migration_verdict import MigrationCandidate
from spark_assign.migration.kernel.rolling_restart import COSTS

ROLLBACK_FAULT = (
    "Afterward, a broker that loads the group while __consumer_offsets is compacted can fail, and all groups of that "
    "partition have no coordinator (KAFKA-21117, open in 4.4)."
)

_StepRow = dict[str, Any]


def plan_steps(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    """Yields the steps of one group, in order.

    Args:
        candidate: the group.
        metrics: the metrics of the group (`MigrationMetrics.rows`).
        restarts: the costs of each simulated restart, in order.
    """
    if candidate.assignor == STREAMS:
        num_owned = metrics["owned"]
        steps = [
            _step("prepare", streams_migration.PREPARE),
            _step(
                "stop-all", streams_migration.STOP, candidate.members, revoked=num_owned, paused_partitions=num_owned
            ),
            _step("start-all", streams_migration.START),
            _step("rollback", streams_migration.ROLLBACK, candidate.members),
        ]
    else:
        steps = [
            _step("prepare", describe_prepare(candidate)),
            *(_plan_online(candidate, metrics, restarts) if candidate.online else _plan_offline(candidate, metrics)),
            _step("rollback", describe_rollback(candidate), candidate.members, moved=metrics["moved_on_rollback"]),
        ]
    for ordinal, step in enumerate(steps, 1):
        yield {"step": ordinal, **step}


def _plan_online(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    """Yields the steps of a migration without a full stop."""
    last = candidate.members - 1
    phases = (
        ("first-member", describe_first_restart(candidate), 0, 1),
        ("other-members", describe_other_restarts(candidate), 1, last),
        (
            "last-member",
            "Restart the last classic member. From now on, no rebalance waits for the whole group.",
            max(last, 1),
            candidate.members,
        ),
    )
    for step_type, description, start, end in phases:
        if end > start:
            simulated = restarts[start:end]
            costs = {cost: sum(restart[cost] for restart in simulated) for cost in COSTS} if simulated else {}
            yield _step(step_type, description, end - start, len(simulated), **costs)
    if candidate.is_static:
        text = (
            f"The target assignment is still that of {candidate.assignor or 'the classic group'}. "
            f"{candidate.server_assignor} computes a new one when a member or a subscription is added or removed, a "
            "topic gets partitions, a replica moves across racks (brokers 4.1 or later), or all members change "
            "group.remote.assignor (4.4 or later)."
        )
        yield _step("next-rebalance", text, moved=metrics["moved"])


def _plan_offline(candidate: MigrationCandidate, metrics: Mapping[str, Any]) -> Iterator[_StepRow]:
    """Yields the steps of a migration that stops the group."""
    stop = (
        "Stop all members, and wait until the group is Empty. The broker converts an empty group under every "
        "migration policy."
    )
    start = (
        f"Start all members with the new settings. Committed offsets stay; {candidate.server_assignor} assigns all "
        "partitions from scratch."
    )
    num_owned = metrics["owned"]
    yield _step("stop-all", stop, candidate.members, revoked=num_owned, paused_partitions=num_owned)
    yield _step("start-all", start, moved=metrics["moved"])


def _step(
    step_type: str, description: str, restarts: int = 0, num_simulated: int | None = None, **costs: int | None
) -> _StepRow:
    row = {"step_type": step_type, "description": description, "restarts": restarts}
    return row | {"simulated_restarts": num_simulated, **costs}


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_prepare(candidate: MigrationCandidate) -> str:
    """Describes the change to the settings of all members."""
    names = [name for name in read_clients(candidate.client_libraries) if name != UNKNOWN] or ["Java"]
    libraries = [each for name in names for each in candidates(name) if each.consumer_protocol]
    settings = dict.fromkeys(" and ".join(assignor_lines(each, (candidate.server_assignor,))) for each in libraries)
    return (
        f"In the settings of every member, set {', or '.join(settings)}, and remove {', '.join(FORBIDDEN)}. A client "
        "doesn't start with them."
    )


def describe_first_restart(candidate: MigrationCandidate) -> str:
    """Describes the restart of the first member."""
    if candidate.static_members:
        dynamic = (
            ""
            if candidate.is_static
            else (f" A dynamic member leaves and joins, so {candidate.server_assignor} computes a new target.")
        )
        return (
            "Restart one member. The coordinator converts the classic group to a consumer group; the current "
            f"assignment becomes the target assignment. A static member keeps its partitions.{dynamic}"
        )
    reassigned = (
        f", and {candidate.assignor} assigns its partitions to the other members"
        if candidate.members > 1 and candidate.assignor
        else ""
    )
    return (
        f"Restart one member. It leaves{reassigned}. When it rejoins, the coordinator converts the classic group to a "
        f"consumer group, and {candidate.server_assignor} computes the target assignment."
    )


def describe_other_restarts(candidate: MigrationCandidate) -> str:
    """Describes the restarts of the other members."""
    if candidate.is_static:
        return "Restart the other members, one at a time, within their session timeout. They keep their partitions."
    is_eager = candidate.assignor in CLIENT_ASSIGNORS and candidate.assignor != COOPERATIVE
    effect = (
        "revoke all their partitions at each new target"
        if is_eager
        else "revoke the partitions that move, in an additional round"
    )
    return f"Restart the other members, one at a time. The remaining classic members {effect}."


def describe_rollback(candidate: MigrationCandidate) -> str:
    """Describes how the group becomes a classic group again."""
    previous = candidate.assignor if candidate.assignor in CLIENT_ASSIGNORS else "the previous assignor"
    if not candidate.policy.down:
        return (
            f"Stop all members, and start them with the previous settings ({previous}). With "
            f"group.consumer.migration.policy={candidate.policy}, the broker doesn't convert a running group back."
        )
    return (
        f"Restart the members with the previous settings ({previous}). When the last member with the consumer protocol "
        f"has left, the coordinator converts the group to a classic group, and {previous} assigns all partitions "
        f"again. {ROLLBACK_FAULT}"
    )
