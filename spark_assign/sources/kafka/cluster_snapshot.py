"""A snapshot of a running cluster: what a Fleet needs, and offsets beside it, in a handful of requests.

1. One Metadata request: brokers and racks, topics, partitions, replicas, leaders.
2. ListGroups at every broker; DescribeGroups or ConsumerGroupDescribe (KIP-848), 100 groups a request.
3. OffsetFetch, 50 groups a request; ListOffsets, 5,000 partitions a request, at their leaders.
4. Where loads are asked for, the offsets again, and DescribeLogDirs at every broker (`kafka_loads`).

Brokers are asked at the same time, each with a few requests in flight. See docs/snapshot.md for what each
column means and why it is read with this client.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from spark_assign.sources.auth.settings import settings
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import Patterns, Progress, matches
from spark_assign.sources.kafka.loads import LoadReadOptions


def snapshot(
    bootstrap_servers: str,
    *,
    cluster: str | None = None,
    properties: Mapping[str, str] | None = None,
    groups: Patterns = None,
    topics: Patterns = None,
    loads: LoadReadOptions | None = None,
    connect_timeout_s: float = 30,
    progress: Progress = lambda _: None,
) -> Snapshot:
    """Read one cluster.

    Args:
        bootstrap_servers: `host:port`, comma-separated.
        cluster: the name for the `cluster` column; None takes the cluster's own id.
        properties: security and time-outs under a Java client's property names.
        groups: a shell pattern over group ids, or several; None is every group.
        topics: likewise over topic names; None is every topic, internal ones too. A topic that a read
            group
            subscribes to or owns is always kept, so that plans stay right.
        loads: how to read what goes through the partitions, into the table `loads`; null: not at all.
        connect_timeout_s: how long to look for a bootstrap server that answers.
        progress: told in a line what has been read so far.

    Raises:
        SourceError: no connection, or a broker that does not list its groups. Never for one group: what
            cannot
            be described is in `undescribed`.
        ConfigError: properties that this client cannot honour.
    """
    with ClusterConnection(bootstrap_servers, settings(properties or {}), connect_timeout_s) as connection:
        metadata = connection.ask_any(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        rows = SnapshotRows(cluster or metadata.cluster_id or bootstrap_servers)
        readable = {topic.name: topic for topic in metadata.topics if topic.error_code == 0}
        progress(f"read {len(metadata.brokers)} brokers and {len(readable)} topics")
        if lacks := kafka_connection.missing_permission(connection):
            progress(lacks)
        listed = kafka_groups.listed(connection, groups)
        progress(f"listed {len(listed)} groups")
        committing = {group_id: group for group_id, group in listed.items() if group.commits}
        sizes = {name: len(topic.partitions) for name, topic in readable.items()}
        kafka_groups.describe(connection, listed, sizes, rows, progress)
        answered_s: dict[str, float] = {}
        starts = kafka_groups.share_starts(connection, listed, rows, progress, answered_s)
        if unseen := {row["topic"] for row in rows.rows["owned_runs"]} - readable.keys():
            progress(kafka_connection.unseen_topics_text(unseen))
        kept = _kept(rows, readable.keys(), topics)
        _add_topics(rows, metadata.brokers, [readable[name] for name in sorted(kept)])
        committed, faults = kafka_offsets.committed(connection, committing, progress, answered_s)
        for group_id, fault in sorted(faults.items()):
            rows.add("undescribed", group_id=group_id, error=f"committed offsets: {fault}")
        committed |= kafka_loads.known_starts(starts)
        leaders = {
            (name, partition.partition_index): partition.leader_id
            for name in kept
            for partition in readable[name].partitions
        }
        of_group = _partitions(rows, committed, leaders)
        wanted = leaders.keys() if loads else set().union(*of_group.values())
        ends = kafka_offsets.offsets_at(connection, leaders, wanted, progress)
        _add_offsets(rows, of_group, committed, ends)
        taken_at = datetime.now(UTC)
        if loads:
            ids = {name: getattr(readable[name], "topic_id", None) for name in kept}
            watched = kafka_loads.LoadTargets(connection, listed, leaders, ids, progress)
            kafka_loads.add(rows, watched, kafka_loads.OffsetReading(committed, answered_s, ends), loads)
    source = {
        "kind": "kafka",
        "kafka_cluster_id": metadata.cluster_id or None,
        "bootstrap_servers": bootstrap_servers,
        "groups": groups,
        "topics": topics,
        "client": f"kafka-python {version('kafka-python')}",
    }
    source |= {"loads": loads.told()} if loads else {}
    return Snapshot(rows.cluster, source, taken_at, rows.tables())


def cluster_id(bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> str:
    """What a cluster calls itself, as in the column `cluster` of its snapshot; arguments and errors as there."""
    with ClusterConnection(bootstrap_servers, settings(properties or {})) as connection:
        metadata = connection.ask_any(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    return str(metadata.cluster_id or bootstrap_servers)


def _kept(rows: SnapshotRows, names: Collection[str], patterns: Patterns) -> set[str]:
    used = {row["topic"] for table in ("subscriptions", "owned_runs") for row in rows.rows[table]}
    return {name for name in names if matches(name, patterns) or name in used}


def _add_topics(rows: SnapshotRows, brokers: Collection[Any], topics: Collection[Any]) -> None:
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        rows.add("brokers", broker_id=broker.node_id, rack_id=broker.rack or None)
    for topic in topics:
        rows.add("topics", topic=topic.name, partitions=len(topic.partitions), topic_id=_topic_id(topic))
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            rows.add(
                "replicas",
                topic=topic.name,
                partition=partition.partition_index,
                replicas=list(partition.replica_nodes),
            )


def _topic_id(topic: Any) -> str | None:
    """A topic's id as Kafka prints it; brokers before 2.8 have none."""
    known = getattr(topic, "topic_id", None)
    return base64.urlsafe_b64encode(known.bytes).decode().rstrip("=") if known and known.int else None


def _partitions(
    rows: SnapshotRows,
    committed: Mapping[str, Mapping[tuple[str, int], int]],
    leaders: Mapping[tuple[str, int], int],
) -> dict[str, set[tuple[str, int]]]:
    """Of each group what it has committed or owns, as far as the topic is in the snapshot."""
    of_group = {group_id: {key for key in offsets if key in leaders} for group_id, offsets in committed.items()}
    for run in rows.rows["owned_runs"]:
        last = run["first"] + run["step"] * (run["count"] - 1)
        owned = {(run["topic"], number) for number in range(run["first"], last + 1, run["step"])}
        of_group.setdefault(run["group_id"], set()).update(owned)
    return of_group


def _add_offsets(
    rows: SnapshotRows,
    of_group: Mapping[str, Collection[tuple[str, int]]],
    committed: Mapping[str, Mapping[tuple[str, int], int]],
    ends: Mapping[tuple[str, int], kafka_offsets.LeaderOffset],
) -> None:
    for group_id in sorted(of_group):
        for topic, partition in sorted(of_group[group_id]):
            at = committed.get(group_id, {}).get((topic, partition))
            end = ends[topic, partition].offset if (topic, partition) in ends else None
            rows.add(
                "offsets",
                group_id=group_id,
                topic=topic,
                partition=partition,
                committed_offset=at,
                end_offset=end,
                lag=None if at is None or end is None else end - at,
            )
