"""What tests of live groups share: topics, deadlines, snapshots as rows, owners by client id, stories."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import frame_of
from tests.kafka.broker import Cluster
from tests.slices import Partition, by_owner
from tests.snapshots import owned_slices

PATIENCE_S = 300

Found = TypeVar("Found")

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Owners = dict[tuple[str, str], set[Partition]]
"""Group and client id to partitions. Client ids stay when members restart; member ids change."""


Calls = dict[str, list[tuple[str, set[Partition]]]]
"""Client id to the calls of its rebalance listener, in order: event and partitions."""
CALLS = ("revoked", "lost", "assigned")


def create_topics(
    cluster: Cluster,
    topics: Mapping[str, int | tuple[int, int] | Mapping[int, list[int]]],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Creates topics and waits for them.

    Each has a number of partitions, or that and a replication factor, or the brokers of each partition.
    """
    new = [
        NewTopic(name, replica_assignments=of, topic_configs=configs)
        if isinstance(of, Mapping)
        else NewTopic(name, *(of if isinstance(of, tuple) else (of, 1)), topic_configs=configs)
        for name, of in topics.items()
    ]
    with cluster.admin() as admin:
        admin.create_topics(new)
        admin.wait_for_topics(list(topics))


def log_bytes(cluster: Cluster, topic: str, brokers: Iterable[int]) -> dict[tuple[int, int], int]:
    """Returns the bytes of each log of a topic, by broker and partition."""
    with cluster.admin() as admin:
        partitions = [each["partition_index"] for each in admin.describe_topics([topic])[0]["partitions"]]
        described = {each: admin.describe_log_dirs({topic: partitions}, brokers=[each])[0] for each in brokers}
    return {
        (broker, log["partition_index"]): log["partition_size"]
        for broker, found in described.items()
        for folder in found["log_dirs"]
        for of_topic in folder["topics"]
        for log in of_topic["partitions"]
    }


def wait_until(find: Callable[[], Found], what: object, within_s: float = PATIENCE_S, every_s: float = 0.2) -> Found:
    """Returns the first result of `find` that is true; after the deadline fails with `what`, or what it returns."""
    deadline = time.monotonic() + within_s
    while not (found := find()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what() if callable(what) else what}"
        time.sleep(every_s)
    return found


def wait_until_stable(
    look: Callable[[], tuple[object, Found]],
    state: Callable[[Found], object] = lambda found: found,
    within_s: float = PATIENCE_S,
    every_s: float = 0.4,
    quiet_s: float = 1.0,
) -> Found:
    """Returns what `look` found once nothing was missing and its `state` has been the same for `quiet_s`.

    `look` returns what is missing, false if nothing is, and what it found.
    """
    began = since = time.monotonic()
    before: list[object] = []
    while True:
        missing, found = look()
        now = [] if missing else [state(found)]
        if missing or now != before:
            since, before = time.monotonic(), now
        elif time.monotonic() - since >= quiet_s:
            return found
        assert time.monotonic() < began + within_s, f"not stable within {within_s} s: {missing or found}"
        time.sleep(every_s)


def delete_groups(cluster: Cluster, groups: Iterable[str]) -> None:
    """Deletes groups as soon as their last members are gone; static members stay for a session."""
    left = list(groups)
    with cluster.admin() as admin:

        def delete() -> bool:
            nonlocal left
            answers = admin.delete_groups(left).items()
            left = [group for group, answer in answers if answer not in ("OK", "GroupIdNotFoundError")]
            return not left

        wait_until(delete, lambda: f"deleted: {left}", every_s=1)


def read(cluster: Cluster, groups: str | list[str], topics: str = "none") -> Tables:
    """Returns a snapshot of these groups, of these topics and of those that the groups use, as rows.

    Ownership is a row per slice.
    """
    taken = snapshot(cluster.bootstrap_servers, groups=groups, topics=topics)
    tables = {name: table.to_pylist() for name, table in taken.tables.items()}
    return tables | {"owned_slices": owned_slices({"owned_lists": tables.pop("owned_lists")})}


def fleet(spark: SparkSession, tables: Tables) -> Fleet:
    """Returns the rows of a snapshot as a fleet."""
    return Fleet(**{n: frame_of(spark, schema, tables[n]) for n, schema in INPUT_TABLES.items() if n in tables})


def clients(tables: Tables) -> dict[tuple[str, str], str]:
    """Returns the client id of each member, by group and member id."""
    return {(row["group_id"], row["member_id"]): row["client_id"] for row in tables["members"]}


def owners(tables: Tables, owned: Iterable[Row] | None = None) -> Owners:
    """Returns what each member owns by `owned`, or else by the snapshot; members without partitions are included."""
    found: Owners = {(group, client): set() for (group, _), client in clients(tables).items()}
    return found | by_client(tables, tables["owned_slices"] if owned is None else owned)


def by_client(tables: Tables, rows: Iterable[Row]) -> Owners:
    """Returns the partitions of rows by group and client id, of members that the snapshot has."""
    names, found = clients(tables), by_owner(rows, "group_id", "member_id")
    return {(group, names[group, member]): owned for (group, member), owned in found.items()}


def renamed(before: Tables, after: Tables) -> list[Row]:
    """Returns what members owned before a step by the ids that they have after it; of those that are there then."""
    names, ids = clients(before), {(group, client): member for (group, member), client in clients(after).items()}
    rows = [(row, names[row["group_id"], row["member_id"]]) for row in before["owned_slices"]]
    members = [(row, ids.get((row["group_id"], client))) for row, client in rows]
    return [row | {"member_id": member} for row, member in members if member is not None]


def planned_rows(assignments: DataFrame, revocations: DataFrame) -> list[Any]:
    """Returns the rows of a plan's assignments, and of its revocations those with a next member, by that member."""
    later = revocations.drop("member_id").withColumnRenamed("next_member_id", "member_id")
    return [*assignments.collect(), *later.where("member_id is not null").collect()]


def owners_in(tables: Tables, group: str) -> dict[str, set[Partition]]:
    """Returns what each member of one group owns, by client id."""
    return {client: owned for (name, client), owned in owners(tables).items() if name == group}


def listener_partitions(row: Row) -> set[Partition]:
    """Returns the partitions of a call of a rebalance listener."""
    return {(topic, partition) for topic, partition in row["partitions"]}


def listener_calls(rows: Iterable[Row]) -> Calls:
    """Returns what each listener is called with, in order; calls without partitions are left out."""
    calls: Calls = {}
    for row in rows:
        if row["partitions"]:
            calls.setdefault(row["client_id"], []).append((row["event"], listener_partitions(row)))
    return calls


def consumer_keys(rows: Iterable[Row], event: str) -> set[tuple[str, str]]:
    """Returns the group and client id of each row with this event."""
    return {(row["group"], row["client_id"]) for row in rows if row["event"] == event}


def events(files: Iterable[Path]) -> list[Row]:
    """Returns every line of JSON so far, by time; a line that is still being written is left for later."""
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sorted(map(json.loads, lines), key=lambda row: int(row.get("at_ms", 0)))


def offsets_records(cluster: Cluster) -> list[tuple[object, ...]]:
    """Returns the records of `__consumer_offsets`, as the columns of `tables.history.RECORDS`."""
    rows: list[tuple[object, ...]] = []
    with contextlib.closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)) as consumer:
        numbers = consumer.partitions_for_topic("__consumer_offsets")
        partitions = [TopicPartition("__consumer_offsets", number) for number in numbers]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=1_000).values():
                for each in records:
                    at = datetime.fromtimestamp(each.timestamp / 1000, UTC)
                    rows.append(("c", each.partition, each.offset, at, each.key, each.value))
    return rows
