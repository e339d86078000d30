"""Generations of a classic Streams application in `__consumer_offsets`: what its leader got, and what it assigned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from spark_assign.assignors.streams import classic_application
from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING, MemberTasks
from spark_assign.assignors.streams.streams_partition_assignor import ClassicAssignment
from spark_assign.java.hash_map import string_hashes
from spark_assign.streams.kernel.streams_group_input import member_order
from spark_assign.wire import consumer_protocol, streams_protocol
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.group_records.codec import GROUP_METADATA
from spark_assign.wire.streams_protocol import TaskId
from tests.kafka.broker import Cluster

Tasks = dict[str, tuple[list[str], list[str], str | None]]
"""Active tasks and standbys of each thread, and when it rejoins, by client ID."""


@dataclass(frozen=True)
class Member:
    """A thread: its subscription with the report of its instance, and its assignment."""

    client_id: str
    subscription: consumer_protocol.Subscription
    report: streams_protocol.Subscription
    assignment: streams_protocol.Assignment


@dataclass(frozen=True)
class Generation:
    """A generation with tasks, and its members by ID in the coordinator's order."""

    number: int
    leader: str
    members: Mapping[str, Member]

    @property
    def tasks(self) -> Tasks:
        """What the leader assigned."""
        return {
            member.client_id: (
                list(map(str, sorted(member.assignment.active))),
                list(map(str, sorted(member.assignment.standby))),
                {None: None, 0: AT_ONCE}.get(member.assignment.next_rebalance_ms, PROBING),
            )
            for member in self.members.values()
        }

    @property
    def follow_up(self) -> str:
        """The cause of the next rebalance if no member joins or leaves; empty if there is none."""
        rejoins = {rejoin for *_, rejoin in self.tasks.values()}
        return AT_ONCE if AT_ONCE in rejoins else PROBING if PROBING in rejoins else ""

    @property
    def processes(self) -> set[str | None]:
        """Instances of the application."""
        return {member.report.process_id for member in self.members.values()}

    def application(
        self,
        config: classic_application.ClassicConfig,
        num_partitions: Mapping[str, int],
        subtopologies: Sequence[classic_application.ClassicSubtopology],
        end_offsets: Mapping[str, Sequence[int]],
    ) -> classic_application.ClassicApplication:
        """Returns what the leader planned."""
        ids = sorted(self.members)
        members = [ids[at] for at in member_order(ids, [list(self.members).index(member_id) for member_id in ids])]
        return classic_application.ClassicApplication(
            [_member(member_id, self.members[member_id]) for member_id in members],
            subtopologies,
            num_partitions,
            end_offsets,
            config=config,
            leader_process=self.members[self.leader].report.process_id,
        )

    def planned(self, assignment: ClassicAssignment) -> Tasks:
        """Returns a planned assignment in the form of `tasks`."""
        return {
            member.client_id: (_names(tasks.active), _names(tasks.standby), tasks.rejoin)
            for member_id, member in self.members.items()
            for tasks in [assignment.members.get(member_id, MemberTasks())]
        }


def _names(tasks: set[tuple[int, int]]) -> list[str]:
    return [str(TaskId(*task)) for task in sorted(tasks)]


def _member(member_id: str, member: Member) -> classic_application.ClassicMember:
    report = member.report
    assert report.process_id is not None
    return classic_application.ClassicMember(
        member_id,
        report.process_id,
        member.subscription.rack_id,
        dict(report.client_tags),
        member.subscription.owned,
        {(task.subtopology, task.partition): offset for task, offset in report.offset_sums},
        report.error,
    )


def read_generations(cluster: Cluster, application_id: str) -> list[Generation]:
    """Returns the generations of an application that have members, ascending."""
    found = {}
    for key, value in _records(cluster, application_id):
        if value is None or read_key(key).type != GROUP_METADATA or read_key(key).fields["group"] != application_id:
            continue
        fields = read_value(GROUP_METADATA, value).fields
        if fields["members"]:
            members = {each["memberId"]: _read_member(each) for each in fields["members"]}
            found[fields["generation"]] = Generation(fields["generation"], fields["leader"], members)
    return [found[number] for number in sorted(found)]


def _read_member(fields: Mapping[str, object]) -> Member:
    data, assigned = fields["subscription"], fields["assignment"]
    assert isinstance(data, bytes)
    assert isinstance(assigned, bytes)
    subscription = consumer_protocol.subscription(data)
    assignment = consumer_protocol.assignment(assigned)
    return Member(
        str(fields["clientId"]),
        subscription,
        streams_protocol.subscription(subscription.user_data or b""),
        streams_protocol.assignment(assignment.user_data or b""),
    )


def _records(cluster: Cluster, group_id: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields the records of the partition of `__consumer_offsets` that has this group."""
    topic = "__consumer_offsets"
    with contextlib.closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)) as consumer:
        num_partitions = len(consumer.partitions_for_topic(topic))
        partition = TopicPartition(topic, abs(int(string_hashes([group_id]).astype(np.int32)[0])) % num_partitions)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(timeout_ms=1_000).get(partition, ()):
                yield record.key, record.value
