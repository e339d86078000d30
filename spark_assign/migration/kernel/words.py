"""The steps of a migration in words, the settings that fall away, and the way back."""

from __future__ import annotations

from spark_assign.migration.kernel.migration_verdict import CLIENTS_OWN, MigrationCandidate

SETTINGS = {
    "partition.assignment.strategy": "group.remote.assignor, one of the broker's group.consumer.assignors",
    "session.timeout.ms": "group.consumer.session.timeout.ms of the broker (45 s), of one group "
    "consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms of the broker (5 s), of one group "
    "consumer.heartbeat.interval.ms",
}
"""What a client must no longer set with group.protocol=consumer, and what takes its place. A Java client and librdkafka
refuse to start with them."""


def assignor_setting(to: str) -> str:
    """What the client asks the broker for."""
    return f"group.remote.assignor={to.removeprefix('server-')}"


def prepare(case: MigrationCandidate) -> str:
    """The change in every member's settings."""
    return (
        f"Settings of every member: group.protocol=consumer, {assignor_setting(case.to)}; take out "
        f"{', '.join(SETTINGS)}, with which a client does not start."
    )


def first(case: MigrationCandidate) -> str:
    """The restart of the first member."""
    if case.static:
        mixed = f" One that is not static leaves and joins: {case.to} makes a target."
        others = "" if case.static == case.members else mixed
        return (
            "Restart one member. The coordinator makes a consumer group of the classic one, with what everybody has as "
            f"the target. A static member takes over what it had.{others}"
        )
    after = f"; what it had goes to the others by {case.now}" if case.members > 1 and case.now else ""
    return (
        f"Restart one member. It leaves{after}. When it is back, the coordinator makes a consumer group of the classic "
        f"one, and {case.to} makes the target."
    )


def others(case: MigrationCandidate) -> str:
    """The restarts of the other members."""
    if case.static == case.members:
        return "Restart the other members, one after the other, each within its session timeout: it keeps what it has."
    eager = case.now in CLIENTS_OWN and case.now != "cooperative-sticky"
    stop = "give up all they have at each new target" if eager else "give up what moves, in a round more"
    return f"Restart the other members, one after the other. Those that still are classic members {stop}."


def last(case: MigrationCandidate) -> str:
    """The restart of the last classic member."""
    return "Restart the last classic member: from now on nobody waits for the whole group."


def settle(case: MigrationCandidate) -> str:
    """What a group of static members still has before it."""
    return (
        f"The target still is that of {case.now or 'the classic group'}. {case.to} makes its own as soon as a member "
        "or a subscription comes or goes, or a topic grows."
    )


def stop_all(case: MigrationCandidate) -> str:
    """The group is stopped."""
    return "Stop all members, and wait until the group is Empty: an empty group is converted whatever the policy is."


def start_all(case: MigrationCandidate) -> str:
    """The group starts by the new protocol."""
    return f"Start all members with the new settings. Offsets stay; {case.to} shares out everything anew."


def way_back(case: MigrationCandidate) -> str:
    """How the group would become a classic one again."""
    old = case.now if case.now in CLIENTS_OWN else "the assignor it had"
    if not case.policy.down:
        return (
            f"Stop all members and start them with the old settings ({old}): group.consumer.migration.policy="
            f"{case.policy} does not convert a running group back."
        )
    return (
        f"Restart the members with the old settings ({old}). When the last one that speaks the new protocol has left, "
        f"the coordinator makes a classic group again, and {old} shares out anew."
    )
