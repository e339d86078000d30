"""Groups of the consumer protocol (KIP-848) as the broker describes them: their epochs, members and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_assign.assignors.server.coordinator_order import read_topic_ids
from spark_assign.java.hash_map import spread_hashes
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.wire.describe_groups import ConsumerGroupDescribeRequest
from tests.kafka import live_groups
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import Tables, wait_until_stable
from tests.slices import Partition

AWAY = -2
"""The epoch of a static member that has left for a while."""
LOOK_EVERY_S = 1.5

Targets = dict[tuple[str, str], frozenset[Partition]]
"""Group and member id to partitions, of all members that have any."""


@dataclass(frozen=True)
class State:
    """All groups, settled: a snapshot, the epoch of each group, and the targets that the broker describes."""

    tables: Tables
    epochs: Mapping[str, int]
    targets: Targets

    @property
    def members(self) -> dict[tuple[str, str], str]:
        """Returns the member id by group and client id."""
        return {(row["group_id"], row["client_id"]): row["member_id"] for row in self.tables["members"]}


def settle(cluster: Cluster, groups: Iterable[str], topics: str, lacks: Callable[[str, Any], str | None]) -> State:
    """Waits until no group lacks anything and all stay at their epochs, then takes a snapshot of them.

    `lacks` gets the id of a group and its description, or None if the broker has none.
    """
    names = list(groups)

    def look() -> tuple[dict[str, str], dict[str, int]]:
        found = describe(cluster, names)
        return {name: why for name in names if (why := lacks(name, found.get(name)))}, _epochs(found)

    while True:
        epochs = wait_until_stable(look, every_s=LOOK_EVERY_S, quiet_s=LOOK_EVERY_S)
        tables = live_groups.read(cluster, names, topics)
        again = describe(cluster, names)
        if _epochs(again) == epochs:
            members = [(name, member) for name, group in again.items() for member in group.members]
            targets = {(name, each.member_id): assigned(each.target_assignment) for name, each in members}
            return State(tables, epochs, {who: owned for who, owned in targets.items() if owned})


def describe(cluster: Cluster, names: Iterable[str]) -> dict[str, Any]:
    """Returns the answer of ConsumerGroupDescribe for each group, without groups that fail."""

    with ClusterConnection(cluster.bootstrap_servers, {}) as connection:
        listed = kafka_groups.listed(connection, None)
        wanted = {name: listed[name] for name in names if name in listed}
        found, _ = kafka_groups.describe_groups(
            connection, wanted, ConsumerGroupDescribeRequest, lambda group: group, "described", lambda _: None
        )
    return {name: group for name, group in found.items() if not group.error_code}


def assigned(assignment: Any) -> frozenset[Partition]:
    """Returns the partitions of an assignment or a target assignment."""
    return frozenset((topic.topic_name, p) for topic in assignment.topic_partitions for p in topic.partitions)


def create_topics_apart(cluster: Cluster, topics: Mapping[str, int], pattern: str) -> None:
    """Creates topics; again those whose ids share a bucket of a Java hash set with others, until none does.

    No snapshot has the order of two ids in one bucket. `pattern` matches the names of all topics.
    """
    missing = dict(topics)
    while missing:
        live_groups.create_topics(cluster, missing)
        rows = snapshot(cluster.bootstrap_servers, groups="none", topics=pattern).tables["topics"].to_pylist()
        hashes = spread_hashes(read_topic_ids([row["topic_id"] for row in rows]).hash)
        of_bucket = {code % 16: row["topic"] for code, row in zip(hashes.tolist(), rows, strict=True)}
        missing = {name: count for name, count in topics.items() if name not in of_bucket.values()}
        if missing:
            with cluster.admin() as admin:
                admin.delete_topics(list(missing))


def _epochs(found: Mapping[str, Any]) -> dict[str, int]:
    return {name: group.group_epoch for name, group in found.items()}
