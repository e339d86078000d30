"""Reads the workers of Connect clusters from Kafka's group coordinator, with details that REST lacks.

REST names a worker `host:port`, and only if something runs on it. The coordinator lists every worker of the group by
its *member ID*, which Kafka's assignor sorts and hashes, with its URL, the connectors and tasks that it ran when it
last joined, and the assignment that it then received (`connect_protocol`). They determine the worker's next report
and, while the group is stable, the leader's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest

from spark_assign.connect import connect_protocol
from spark_assign.java import hash_map as java_hash
from spark_assign.sources.connect.rest import host_and_port
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import Progress
from spark_assign.tables.schema_fields import MAX_ID_BYTES, is_too_long
from spark_assign.wire.reader import WireError

PROTOCOL_TYPE = "connect"
_PROTOCOLS = {"default": "eager", "compatible": "compatible", "sessioned": "sessioned"}
"""Protocol names in the group (ConnectProtocolCompatibility) to their usual names."""


@dataclass(frozen=True)
class Worker:
    """One member. `connectors` and `tasks` are those that it will report when it joins next, in that order."""

    member_id: str
    url: str
    config_offset: int
    connectors: tuple[str, ...]
    tasks: tuple[connect_protocol.ConnectorTaskId, ...]
    assignment: connect_protocol.ConnectAssignment | None

    @property
    def rest_worker_id(self) -> str:
        """Returns the name of the worker in REST: host and port of its URL (DistributedHerder's workerId)."""
        return host_and_port(self.url)


@dataclass(frozen=True)
class ConnectGroup:
    """One group. The workers are in the leader's iteration order, which follows from the coordinator's list."""

    group_id: str
    state: str
    protocol: str | None
    workers: tuple[Worker, ...]

    @property
    def leader(self) -> str | None:
        """Returns the member ID of the leader from the workers' assignments, or None."""
        leaders = (worker.assignment.leader for worker in self.workers if worker.assignment)
        return next(filter(None, leaders), None)

    @property
    def delay_ms(self) -> int:
        """Returns the delay in ms that the last rebalance announced (scheduled.rebalance.max.delay.ms, or a
        backoff)."""
        return max((worker.assignment.delay_ms for worker in self.workers if worker.assignment), default=0)

    @property
    def is_stable(self) -> bool:
        """Checks whether the last round revoked nothing and announced no delay, so that the leader waits for
        nothing."""
        return bool(self.workers) and all(
            worker.assignment is not None
            and worker.assignment.error == 0
            and not worker.assignment.revoked_connectors
            and not worker.assignment.revoked_tasks
            and worker.assignment.delay_ms == 0
            for worker in self.workers
        )


@dataclass(frozen=True)
class ConnectGroups:
    """The Connect groups of one Kafka cluster, and the errors of those that can't be read."""

    kafka_cluster_id: str | None
    groups: dict[str, ConnectGroup]
    faults: dict[str, str]
    known: dict[str, set[str | None]] = field(default_factory=dict)
    """What is known of the workers of groups in `faults`, see `workers`."""

    def workers(self) -> dict[str, set[str | None]]:
        """Returns the workers of each group, `host:port` as in REST. None stands for those that aren't known."""
        workers = {group_id: self.known.get(group_id, {None}) for group_id in self.faults}
        for group_id, group in self.groups.items():
            workers[group_id] = {worker.rest_worker_id for worker in group.workers}
        return workers


def read(connection: ClusterConnection, progress: Progress) -> ConnectGroups:
    """Reads every group of protocol type `connect`. Raises SourceError if a broker doesn't respond."""
    metadata = connection.metadata([])
    listed = kafka_groups.listed(connection, None)
    connect_groups = {group_id: group for group_id, group in listed.items() if group.group_type == PROTOCOL_TYPE}
    known: dict[str, set[str | None]] = {}

    def read_or_note(group: Any) -> ConnectGroup | Exception:
        """Returns what `read_group` returns, and notes the known workers of a group that can't be read."""
        found = read_group(group)
        if isinstance(found, Exception):
            known[group.group_id] = _known_workers(group)
        return found

    groups, faults = kafka_groups.describe_groups(
        connection, connect_groups, DescribeGroupsRequest, read_or_note, "described Connect groups", progress
    )
    faults = {group_id: connection.without_secrets(fault) for group_id, fault in faults.items()}
    return ConnectGroups(metadata.cluster_id or None, groups, faults, known)


def read_group(group: Any) -> ConnectGroup | Exception:
    """Returns a group of a DescribeGroups response, or an exception if it is faulty or in a rebalance."""
    workers = kafka_groups.read_classic_members(group, "metadata", _worker)
    if isinstance(workers, Exception):
        return workers
    # The leader fills one map from the coordinator's list and a second one from the first. It iterates over the second.
    by_id = {worker.member_id: worker for worker in workers}
    order = java_hash.texts_in_table_order(java_hash.texts_in_table_order(list(by_id)))
    return ConnectGroup(
        group.group_id,
        group.group_state,
        _PROTOCOLS.get(group.protocol_data),
        tuple(by_id[member_id] for member_id in order),
    )


def _known_workers(group: Any) -> set[str | None]:
    """Returns the workers of a group that can't be read, as in `ConnectGroups.workers`: by the metadata of a member, or
    else by its client ID, which is `connect-HOST:PORT` since Kafka 4 unless `client.id` is set.
    """
    known: set[str | None] = set()
    for member in group.members:
        try:
            known.add(host_and_port(connect_protocol.read_worker_state(bytes(member.member_metadata)).url))
        except WireError:
            worker = member.client_id.removeprefix("connect-")
            host, _, port = worker.rpartition(":")
            known.add(worker if worker != member.client_id and host and port.isdecimal() else None)
    return known or {None}


def _worker(member: Any, metadata: bytes, assignment_bytes: bytes) -> Worker:
    """Returns a worker of a group. Raises WireError for malformed bytes, and for names that are too long, because
    tables have them once for each task.
    """
    state = connect_protocol.read_worker_state(metadata)
    assignment = connect_protocol.read_assignment(assignment_bytes) if assignment_bytes else None
    connectors, tasks = connect_protocol.next_report(state, assignment)
    leader = assignment.leader if assignment else ""
    texts = {member.member_id, state.url, leader, *connectors, *(connector for connector, _ in tasks)}
    if any(is_too_long(text, MAX_ID_BYTES) for text in texts):
        raise WireError(f"its ID, its URL, its leader, or a connector's name has more than {MAX_ID_BYTES:,} bytes")
    return Worker(member.member_id, state.url, state.config_offset, connectors, tasks, assignment)
