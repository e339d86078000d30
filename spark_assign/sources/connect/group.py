"""The workers of Connect clusters as Kafka's group coordinator knows them: what REST does not say.

REST names a worker `host:port` and only where something runs on it. The coordinator lists every worker of the group, by
the *member id* that Kafka's assignor sorts and hashes, with its URL, what it ran when it joined last and what it was
told then (`wire/connect_protocol.py`). From this follow what it will report next and, while the group is at rest, the
leader's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from spark_assign.connect import connect_protocol
from spark_assign.java import hash_map as java_hash
from spark_assign.sources.connect.rest import host_and_port
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import Progress, UnsettledError
from spark_assign.wire.reader import WireError

PROTOCOL_TYPE = "connect"
_PROTOCOLS = {"default": "eager", "compatible": "compatible", "sessioned": "sessioned"}
"""ConnectProtocolCompatibility: the group's protocol names, and how they are called everywhere else."""


@dataclass(frozen=True)
class Worker:
    """One member. `connectors` and `tasks` are what it will report when it joins next, in that order."""

    member_id: str
    url: str
    config_offset: int
    connectors: tuple[str, ...]
    tasks: tuple[connect_protocol.Task, ...]
    told: connect_protocol.Assignment | None

    @property
    def rest_worker_id(self) -> str:
        """What REST calls it: host and port of its URL (DistributedHerder's workerId)."""
        return host_and_port(self.url)


@dataclass(frozen=True)
class ConnectGroup:
    """One group, its workers in the order in which the leader walks them, told by the coordinator's list."""

    group_id: str
    state: str
    protocol: str | None
    workers: tuple[Worker, ...]

    @property
    def leader(self) -> str | None:
        """The member id of the leader, as its workers were told."""
        return next((worker.told.leader for worker in self.workers if worker.told and worker.told.leader), None)

    @property
    def delay_ms(self) -> int:
        """The delay that the last rebalance announced (scheduled.rebalance.max.delay.ms, or a backoff)."""
        return max((worker.told.delay_ms for worker in self.workers if worker.told), default=0)

    @property
    def at_rest(self) -> bool:
        """Whether the last round stopped nothing and announced no delay: nothing is left that the leader waits for."""
        return bool(self.workers) and all(
            worker.told is not None
            and worker.told.error == 0
            and not worker.told.revoked_connectors
            and not worker.told.revoked_tasks
            and worker.told.delay_ms == 0
            for worker in self.workers
        )


@dataclass(frozen=True)
class ConnectGroups:
    """The Connect groups of one Kafka cluster, and what was said of those that cannot be read."""

    kafka_cluster_id: str | None
    groups: dict[str, ConnectGroup]
    faults: dict[str, str]

    def having(self, worker_ids: Iterable[str]) -> list[str]:
        """The ids of the groups that have one of these workers (REST's `host:port`)."""
        wanted = set(worker_ids)
        return sorted(
            group_id
            for group_id, group in self.groups.items()
            if any(worker.rest_worker_id in wanted for worker in group.workers)
        )


def read(connection: ClusterConnection, progress: Progress) -> ConnectGroups:
    """Every group of protocol type `connect`. Raises SourceError where a broker is silent."""
    metadata = connection.send_any(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    listed = kafka_groups.listed(connection, None)
    ours = {group_id: group for group_id, group in listed.items() if group.group_type == PROTOCOL_TYPE}

    def build_request(ids: Sequence[str]) -> Any:
        return DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False)

    def answers(_: Sequence[str], answer: Any) -> Iterable[tuple[str, Any]]:
        return [(group.group_id, described(group)) for group in answer.groups]

    groups, faults = kafka_groups.request_per_group(
        connection,
        ours,
        build_request,
        answers,
        kafka_groups.DESCRIBE_BATCH,
        "described Connect groups",
        progress,
    )
    return ConnectGroups(metadata.cluster_id or None, groups, faults)


def described(group: Any) -> ConnectGroup | Exception:
    """One group of a DescribeGroups response; an exception in its place where it is faulty or in a rebalance."""
    if group.error_code:
        fault: Exception = errors.for_code(group.error_code)(getattr(group, "error_message", None))
        return fault
    if group.group_state in ("PreparingRebalance", "CompletingRebalance"):
        return UnsettledError(f"in state {group.group_state} the coordinator shows no metadata")
    try:
        workers = [_worker(member) for member in group.members]
    except WireError as error:
        return error
    # The leader fills one map from the coordinator's list, and a second one from that; the second is what it walks.
    by_id = {worker.member_id: worker for worker in workers}
    order = java_hash.texts_in_table_order(java_hash.texts_in_table_order(list(by_id)))
    return ConnectGroup(
        group.group_id,
        group.group_state,
        _PROTOCOLS.get(group.protocol_data),
        tuple(by_id[each] for each in order),
    )


def _worker(member: Any) -> Worker:
    try:
        said = connect_protocol.worker_state(bytes(member.member_metadata))
        given = bytes(member.member_assignment or b"")
        told = connect_protocol.assignment(given) if given else None
    except WireError as error:
        raise WireError(f"member {member.member_id}: {error}") from None
    connectors, tasks = connect_protocol.report(said, told)
    return Worker(member.member_id, said.url, said.config_offset, connectors, tasks, told)
