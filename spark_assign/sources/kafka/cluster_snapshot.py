"""Takes a snapshot of a running cluster: the tables of a Fleet, and offsets, with few requests.

1. One Metadata request: brokers and racks, topics, partitions, replicas, leaders. One ListPartitionReassignments
   request. DescribeConfigs, 1,000 topics per request: `cleanup.policy`. DescribeLogDirs at every broker: cordoned
   brokers and offline log directories; with `log_dirs`, also the log of each replica.
2. ListGroups at every broker; DescribeGroups or ConsumerGroupDescribe (KIP-848), 100 groups per request.
3. OffsetFetch, 50 groups per request; ListOffsets, 5,000 partitions per request, at their leaders.
4. For loads, the offsets again, and DescribeLogDirs at every broker (`loads`).

Requests go to all brokers at the same time, with a few in flight per broker. docs/snapshot.md defines each column and
explains the choice of this client.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from spark_assign.sources.auth.secret import MAX_TEXT
from spark_assign.sources.auth.settings import settings
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka import streams_applications
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import Patterns, Progress, matches
from spark_assign.sources.kafka.loads import LoadReadOptions
from spark_assign.stores.local_tables import check_texts
from spark_assign.tables.errors import count


def snapshot(
    bootstrap_servers: str,
    *,
    cluster: str | None = None,
    properties: Mapping[str, str] | None = None,
    groups: Patterns = None,
    topics: Patterns = None,
    loads: LoadReadOptions | None = None,
    topologies: Mapping[str, str] | None = None,
    log_dirs: bool = False,
    connect_timeout_s: float = 30,
    progress: Progress = lambda _: None,
) -> Snapshot:
    """Takes a snapshot of one cluster.

    Args:
        bootstrap_servers: `host:port`, comma-separated.
        cluster: the name for the `cluster` column; None uses the cluster's ID.
        properties: security and timeouts, with the property names of Java's client.
        groups: one or more shell patterns of group IDs. None reads all groups.
        topics: one or more shell patterns of topic names. None reads all topics, including internal ones. Topics that a
            read group subscribes to or owns are always included, so that plans stay correct.
        loads: how to read the load of partitions into the table `loads`. None doesn't read it.
        topologies: texts of `Topology.describe()` by group ID, of classic Streams applications. Without it, a topology
            is derived from the tasks of members and the names of topics.
        log_dirs: whether to read the log directories and the log of each replica of all topics (tables `log_dirs`,
            `log_dir_replicas`).
        connect_timeout_s: maximum time to find a bootstrap server that responds, in seconds.
        progress: called with a line of text after each step.

    Raises:
        SourceError: no connection, a broker that doesn't list its groups, or texts that are too long to be read again.
            Groups that can't be described don't raise it: they are in `undescribed`.
        ConfigError: properties that this client can't apply.
    """
    with ClusterConnection(bootstrap_servers, settings(properties or {}), connect_timeout_s) as connection:
        progress = _without_secrets(progress, connection)
        metadata = connection.metadata(None)
        rows = SnapshotRows(cluster or metadata.cluster_id or bootstrap_servers)
        readable = {topic.name: topic for topic in metadata.topics if topic.error_code == 0}
        unknown = kafka_connection.topic_errors(metadata)
        progress(f"read {count(len(metadata.brokers), 'broker')} and {count(len(readable), 'topic')}")
        if unknown:
            progress(kafka_connection.topic_errors_text(unknown))
        if missing := kafka_connection.missing_permission(connection):
            progress(missing)
        if moving := kafka_connection.reassignments(connection, progress):
            progress(f"{count(len(moving), 'partition', 'is', 'are')} being reassigned, with old and new replicas")
        listed, left_out = kafka_groups.without_long_ids(kafka_groups.listed(connection, groups))
        if left_out:
            progress(left_out)
            missing = f"{missing}; {left_out}" if missing else left_out
        progress(f"listed {count(len(listed), 'group')}")
        committing = {group_id: group for group_id, group in listed.items() if group.commits}
        sizes = {name: len(topic.partitions) for name, topic in readable.items()}
        kafka_groups.describe(connection, listed, sizes, rows, progress, topologies or {}, unknown)
        starts, starts_answered_s = kafka_groups.share_starts(connection, listed, rows, progress)
        if unseen := _owned_topics(rows) - readable.keys():
            progress(kafka_connection.unseen_topics_text(unseen))
        kept = _kept(rows, readable.keys(), topics)
        states = kafka_loads.log_dir_states(connection, *((rows, progress) if log_dirs else ()))
        _add_brokers(rows, metadata.brokers, states)
        policies = kafka_connection.cleanup_policies(connection, kept)
        _add_topics(rows, [readable[name] for name in sorted(kept)], moving, policies)
        committed, faults, answered_s = kafka_offsets.committed(connection, committing, progress)
        for group_id, fault in sorted(faults.items()):
            rows.add("undescribed", group_id=group_id, error=f"committed offsets: {fault}")
        for row in rows.rows["undescribed"]:
            row["error"] = connection.without_secrets(row["error"])
        committed |= kafka_loads.known_starts(starts)
        leaders = kafka_offsets.leaders_of(readable[name] for name in kept)
        group_partitions = _partitions(rows, committed, leaders)
        changelogs = streams_applications.changelog_partitions(rows, leaders)
        ends = kafka_offsets.offsets_at(connection, leaders, leaders.keys(), progress)
        _add_offsets(rows, group_partitions, committed, ends)
        for replica in rows.rows["replicas"]:
            end = ends.get((replica["topic"], replica["partition"]))
            replica["end_offset"] = None if end is None else end.offset
        if changelogs:
            log_sizes = kafka_loads.read_sizes(connection, {key: leaders[key] for key in changelogs}, progress)
            streams_applications.add_changelogs(rows, changelogs, committed, ends, log_sizes)
        taken_at = datetime.now(UTC)
        if loads:
            ids = {name: getattr(readable[name], "topic_id", None) for name in kept}
            targets = kafka_loads.LoadTargets(connection, listed, leaders, ids, progress)
            reading = kafka_loads.OffsetReading(committed, answered_s | starts_answered_s, ends)
            kafka_loads.add(rows, targets, reading, loads)
    source = {
        "kind": "kafka",
        "kafka_cluster_id": metadata.cluster_id or None,
        "bootstrap_servers": bootstrap_servers,
        "groups": [groups] if isinstance(groups, str) else groups,
        "unseen": missing,
        "topics": topics,
        "client": f"kafka-python {version('kafka-python')}",
    }
    source |= {"loads": loads.to_json()} if loads else {}
    return Snapshot(rows.cluster, source, taken_at, check_texts(rows.cluster, rows.tables()))


def cluster_id(bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> str:
    """Returns the name of a cluster in the column `cluster` of its snapshot. Arguments and errors are those of
    `snapshot`.
    """
    with ClusterConnection(bootstrap_servers, settings(properties or {})) as connection:
        metadata = connection.metadata([])
    return str(metadata.cluster_id or bootstrap_servers)


def _without_secrets(progress: Progress, connection: ClusterConnection) -> Progress:
    """Returns a function that reports texts without secrets: some have errors of brokers in them."""
    return lambda text: progress(connection.without_secrets(text, MAX_TEXT))


def _kept(rows: SnapshotRows, names: Collection[str], patterns: Patterns) -> set[str]:
    """Returns the topics that match the patterns or that a group uses."""
    used = _owned_topics(rows).union(*(row["topics"] for row in rows.rows["subscription_lists"]))
    used |= streams_applications.used_topics(rows)
    return {name for name in names if matches(name, patterns) or name in used}


def _owned_topics(rows: SnapshotRows) -> set[str]:
    """Returns the topics of which a member owns partitions."""
    return set().union(*(row["topics"] for row in rows.rows["owned_lists"]))


def _add_brokers(rows: SnapshotRows, brokers: Collection[Any], log_dirs: Mapping[int, Mapping[str, Any]]) -> None:
    """Adds brokers with the state of their log directories, if it's known."""
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        state = log_dirs.get(broker.node_id, {})
        rows.add("brokers", broker_id=broker.node_id, rack_id=broker.rack or None, **state)


def _add_topics(
    rows: SnapshotRows,
    topics: Collection[Any],
    moving: Mapping[tuple[str, int], Mapping[str, list[int]]],
    policies: Mapping[str, str],
) -> None:
    """Adds topics and replicas."""
    for topic in topics:
        values = {"topic_id": _topic_id(topic), "cleanup_policy": policies.get(topic.name)}
        rows.add("topics", topic=topic.name, partitions=len(topic.partitions), **values)
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            rows.add(
                "replicas",
                topic=topic.name,
                partition=partition.partition_index,
                replicas=list(partition.replica_nodes),
                leader_id=partition.leader_id if partition.leader_id >= 0 else None,
                **moving.get((topic.name, partition.partition_index), {}),
            )


def _topic_id(topic: Any) -> str | None:
    """Returns a topic's ID as Kafka prints it, or None from brokers older than 2.8."""
    topic_id = getattr(topic, "topic_id", None)
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") if topic_id and topic_id.int else None


def _partitions(
    rows: SnapshotRows,
    committed: Mapping[str, Mapping[tuple[str, int], int]],
    leaders: Mapping[tuple[str, int], int],
) -> dict[str, set[tuple[str, int]]]:
    """Returns the partitions of topics in the snapshot that each group has committed or owns; beyond them, owned ones
    with a committed offset. A leader can assign any numbers.
    """
    group_partitions = {group_id: {key for key in offsets if key in leaders} for group_id, offsets in committed.items()}
    for row in rows.rows["owned_lists"]:
        owned, known = group_partitions.setdefault(row["group_id"], set()), committed.get(row["group_id"], {})
        for topic, first, step, size in zip(row["topics"], row["firsts"], row["steps"], row["counts"], strict=True):
            keys = ((topic, number) for number in range(first, first + step * size, step))
            owned.update(key for key in keys if key in leaders or key in known)
    return group_partitions


def _add_offsets(
    rows: SnapshotRows,
    group_partitions: Mapping[str, Collection[tuple[str, int]]],
    committed: Mapping[str, Mapping[tuple[str, int], int]],
    ends: Mapping[tuple[str, int], kafka_offsets.LeaderOffset],
) -> None:
    """Adds `offsets` of the partitions of each group."""
    for group_id in sorted(group_partitions):
        for topic, partition in sorted(group_partitions[group_id]):
            offset = committed.get(group_id, {}).get((topic, partition))
            end = ends[topic, partition].offset if (topic, partition) in ends else None
            rows.add(
                "offsets",
                group_id=group_id,
                topic=topic,
                partition=partition,
                committed_offset=offset,
                end_offset=end,
                lag=None if offset is None or end is None else end - offset,
            )
