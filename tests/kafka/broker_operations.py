"""Operations on the brokers of a live cluster: restarts, a crash, moves of replicas, elections, growth; then calm."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random

from kafka import TopicPartition
from kafka.errors import KafkaError

from tests.kafka.broker import Cluster
from tests.kafka.live_groups import Row, wait_until, wait_until_stable

PREFERRED = 0
"""The election type of preferred leaders."""
QUIET_S = 3.0
"""Nothing has to happen for that long: several heartbeats of every group, and several refreshes of its metadata."""
ACROSS, WITHIN, ELECT, GROW, RESTART, DOWN = KINDS = ("across", "within", "elect", "grow", "restart", "down")

Replicas = dict[tuple[str, int], list[int]]
"""Topic and partition to brokers, the preferred leader first."""


@dataclass(frozen=True)
class Operation:
    """What is done: brokers restart in this order, or one crashes; partitions get these replicas, or are new."""

    kind: str
    brokers: tuple[int, ...] = ()
    replicas: Replicas = field(default_factory=dict)


def draw(kind: str, random: Random, racks: Sequence[str | None], before: Replicas) -> Operation:
    """Returns an operation of a kind.

    Args:
        kind: `across`: a replica moves to another rack; `within`: to a broker of its rack; `elect`: another replica
            becomes the preferred leader; `grow`: a topic gets one or two partitions; `restart`: of two
            brokers, one after the other; `down`: a broker that is no controller crashes.
        random: the choices.
        racks: the rack of each broker.
        before: the replicas of the topics that may change.
    """
    brokers = [*range(1, 1 + len(racks))]
    if kind == RESTART:
        return Operation(kind, tuple(random.sample(brokers, 2)))
    if kind == DOWN:
        return Operation(kind, (random.choice(brokers[1:]),))
    if kind == GROW:
        topic = random.choice(sorted({topic for topic, _ in before}))
        first = sum(topic == each for each, _ in before)
        new = {(topic, first + each): random.sample(brokers, 2) for each in range(random.choice([1, 2]))}
        return Operation(kind, replicas=new)

    def fits(old: int, new: int) -> bool:
        return (racks[old - 1] == racks[new - 1]) == (kind == WITHIN)

    choices = [
        (key, [new if each == old else each for each in replicas])
        for key, replicas in sorted(before.items())
        for old in replicas
        for new in brokers
        if new not in replicas and fits(old, new)
    ]
    if kind == ELECT:
        choices = [(key, replicas[::-1]) for key, replicas in sorted(before.items())]
    return Operation(kind, replicas=dict([random.choice(choices)]))


def carry_out(cluster: Cluster, operation: Operation) -> None:
    """Does it, and waits until the cluster is calm, with the preferred leaders; a broker that crashed stays down."""
    if operation.kind == RESTART:
        for number in operation.brokers:
            cluster.processes[number - 1].shut_down()
            cluster.processes[number - 1].start()
            elect(cluster)
    elif operation.kind == DOWN:
        (number,) = operation.brokers
        cluster.processes[number - 1].stop()
    elif operation.kind == GROW:
        ((topic, first), *_) = operation.replicas
        new = {"count": first + len(operation.replicas), "assignments": [*operation.replicas.values()]}
        with cluster.admin() as admin:
            admin.create_partitions({topic: new})
    else:
        with cluster.admin() as admin:
            moves = {TopicPartition(*key): replicas for key, replicas in operation.replicas.items()}
            admin.alter_partition_reassignments(moves)
        elect(cluster)
    wait_until_calm(cluster, operation.brokers if operation.kind == DOWN else ())


def elect(cluster: Cluster) -> None:
    """Elects the preferred leaders, as soon as all replicas are in sync."""
    wait_until(lambda: not _missing(cluster), lambda: _missing(cluster))
    with cluster.admin() as admin:
        admin.elect_leaders(PREFERRED)


def wait_until_calm(cluster: Cluster, down: Collection[int] = ()) -> None:
    """Waits until all replicas are in sync and the coordinators have logged nothing about groups for a while."""

    def look() -> tuple[object, int]:
        return _missing(cluster, down), len(cluster.group_log())

    wait_until_stable(look, quiet_s=QUIET_S)


def _missing(cluster: Cluster, down: Collection[int] = ()) -> list[str]:
    """Returns what the brokers still lack, without those that are down."""
    try:
        with cluster.admin() as admin:
            brokers = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
            lacks = [f"broker {each}" for each in range(1, 1 + len(cluster.racks)) if each not in {*brokers, *down}]
            lacks += map(str, admin.list_partition_reassignments())
            for topic in admin.describe_topics():
                lacks += [f"{topic['name']} {each}" for each in topic["partitions"] if not _in_sync(each, down)]
    except (KafkaError, OSError) as error:
        return [repr(error)]
    return lacks


def _in_sync(partition: Row, down: Collection[int]) -> bool:
    """Whether each replica is in sync or down, and the leader is one of them."""
    expected = {*partition["replica_nodes"]} - {*down}
    return {*partition["isr_nodes"]} == expected and partition["leader_id"] in expected
