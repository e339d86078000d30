"""Decides whether a classic Streams application can move to `group.protocol=streams` (KIP-1071), and what it loses.

The broker converts only an empty group, so all instances stop first. Committed offsets, changelogs, and state on disks
stay.

Blockers:
    kafka-streams          the release of the brokers is unknown, and no release converts a Streams application to the
                           consumer protocol
    no-streams-protocol    brokers before 4.2 don't convert a classic group to a streams group (KAFKA-19570)
    KAFKA-20254            after a compaction, brokers of 4.2.0 can't load the partition of `__consumer_offsets` of a
                           converted group
    static-members         `group.instance.id` needs brokers and clients of 4.4 (KAFKA-20169); older brokers refuse it

Warnings:
    warmups                up to 4.4, no target assignment has warmup tasks, so that tasks move before their state does
    standbys               the number of standbys becomes a setting of the group
    KAFKA-20999            the broker's assignor ignores client tags and racks
    static-clients         `group.instance.id` needs clients of 4.4
    state-ignored          brokers before 4.4 assign tasks without regard to the state that is on disks
"""

from __future__ import annotations

from collections.abc import Iterator

BLOCKERS = ("kafka-streams", "no-streams-protocol", "KAFKA-20254", "static-members")
SERVER_ASSIGNOR = "streams-sticky"
_FIRST, _FIXED, _STATIC = (4, 2), (4, 2, 1), (4, 4)

_Finding = tuple[str, str]

PREPARE = (
    "Set streams.num.standby.replicas of the group (kafka-configs.sh --entity-type groups) to num.standby.replicas of "
    "the application. In the settings of every instance, set group.protocol=streams."
)
STOP = "Stop all instances, and wait until the group is Empty. The broker doesn't convert a group that has members."
START = "Start all instances with the new settings. Committed offsets stay; the broker assigns all tasks from scratch."
ROLLBACK = (
    "Stop all instances, wait until the group is Empty, and start them with group.protocol=classic. Committed offsets "
    "stay, and the leader assigns all tasks from scratch."
)


def find_streams_findings(broker_release: str | None, static_members: int) -> Iterator[_Finding]:
    """Yields the code and the text of each finding, blockers first.

    Args:
        broker_release: release of the brokers, such as 4.3 or 4.2.1; None if unknown. Without a third number, it is the
            first release with these two.
        static_members: number of members with `group.instance.id`.
    """
    release = None if broker_release is None else tuple(map(int, broker_release.split(".")))
    if release is None:
        yield (
            "kafka-streams",
            "This is a Kafka Streams application. The broker refuses to convert its group to the consumer protocol; "
            "use group.protocol=streams (KIP-1071). Give the release of the brokers (--broker-release) to find out "
            "whether they can convert it.",
        )
    elif release < _FIRST:
        yield (
            "no-streams-protocol",
            f"Brokers of {broker_release} don't convert a classic group to a streams group. Upgrade them to 4.2.1 or "
            "later.",
        )
    elif release < _FIXED:
        yield (
            "KAFKA-20254",
            "Brokers of 4.2.0 can't load the partition of __consumer_offsets of a converted group after a compaction, "
            "so that all groups in it have no coordinator (KAFKA-20254). Upgrade them to 4.2.1 or later.",
        )
    if static_members and release is not None and release < _STATIC:
        yield (
            "static-members",
            "Brokers before 4.4 refuse group.instance.id with group.protocol=streams (KAFKA-20169). Upgrade brokers "
            "and clients to 4.4, or remove it.",
        )
    elif static_members:
        yield "static-clients", "group.instance.id with group.protocol=streams needs clients of 4.4 or later."
    yield (
        "warmups",
        "Brokers up to 4.4 assign no warmup tasks: acceptable.recovery.lag, max.warmup.replicas, and probing "
        "rebalances have no effect. A task that moves to an instance without its state stops until the state is "
        "restored.",
    )
    yield (
        "standbys",
        "num.standby.replicas of the application has no effect. The broker uses streams.num.standby.replicas of the "
        "group, which is 0 by default.",
    )
    yield (
        "KAFKA-20999",
        "The broker's assignor ignores client tags and racks (KAFKA-20999): rack.aware.assignment settings have no "
        "effect, and a task and its standby can be in one rack.",
    )
    if release is not None and release < _STATIC:
        yield (
            "state-ignored",
            "Brokers before 4.4 ignore the state on disks. After the start, tasks can go to instances without their "
            "state.",
        )
