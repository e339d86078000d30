"""Plans an application on the classic protocol: Kafka's `StreamsPartitionAssignor`, without the requests that it sends.

1. Subscriptions to clients (`classic_application.read_clients`)
2. Tasks to clients: the task assignor
3. Tasks of each client to its members (`member_tasks`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_assign.assignors.streams import high_availability_task_assignor as high_availability
from spark_assign.assignors.streams.classic_application import (
    HIGH_AVAILABILITY,
    STICKY,
    ClassicApplication,
    ClientState,
    UnknownOwnedPartitionsError,
    read_clients,
    task_hash_order,
)
from spark_assign.assignors.streams.classic_sticky_task_assignor import LegacyStickyAssignment, PublicStickyAssignment
from spark_assign.assignors.streams.member_tasks import MemberTasks, TaskOrders, assign_to_members, sorted_orders
from spark_assign.assignors.streams.task_assignor_api import TaskId, TooManyStepsError
from spark_assign.tables.errors import failure_of_code

INCOMPLETE_SOURCE_TOPIC_METADATA, SHUTDOWN_REQUESTED = 1, 4
"""Error codes that members get instead of tasks (`AssignorError`)."""


@dataclass(frozen=True)
class ClassicAssignment:
    """The assignment of an application.

    Attributes:
        clients: Active tasks and standbys of each process.
        members: Tasks of each member.
        trace: What the high availability assignor decided on the way; None if another one ran.
        must_probe: Whether the assignor asks for a probing rebalance.
        error_code: The error that all members get; then there is nothing else.
    """

    clients: Mapping[str, tuple[set[TaskId], set[TaskId]]] = field(default_factory=dict)
    members: Mapping[str, MemberTasks] = field(default_factory=dict)
    trace: high_availability.HighAvailabilityTrace | None = None
    must_probe: bool = False
    error_code: int = 0

    @property
    def is_stable(self) -> bool:
        """Whether no member rejoins."""
        return not any(tasks.rejoin for tasks in self.members.values())


def describe_failure(error: BaseException) -> tuple[str, str]:
    """Returns the code and the detail with which an application is rejected that has no assignment."""
    codes = {UnknownOwnedPartitionsError: "unknown-owned", TooManyStepsError: "too-many-tasks"}
    if (code := codes.get(type(error))) is not None:
        return code, str(error)
    return "assignor-failed", failure_of_code(error)


def plan_application(application: ClassicApplication) -> ClassicAssignment:
    """Returns the assignment that the leader computes.

    Raises:
        UnknownOwnedPartitionsError, FlowError: Kafka throws IllegalStateException.
        TooManyStepsError: The assignor would take too long.
    """
    if any(member.error_code == SHUTDOWN_REQUESTED for member in application.members):
        return ClassicAssignment(error_code=SHUTDOWN_REQUESTED)
    sources = {topic for of in application.subtopologies for topic in of.sources}
    if not sources <= application.num_partitions.keys():
        return ClassicAssignment(error_code=INCOMPLETE_SOURCE_TOPIC_METADATA)
    clients = read_clients(application)
    trace, must_probe = None, False
    orders: TaskOrders = sorted_orders
    if application.assignor == STICKY:
        sticky = PublicStickyAssignment(application, clients)
        sticky.run()
        orders = _role_orders(sticky)
    elif application.assignor == HIGH_AVAILABILITY and application.end_offsets is not None:
        trace = high_availability.assign_tasks(application, clients)
        must_probe = trace.movements > 0
    else:
        must_probe = application.assignor == HIGH_AVAILABILITY
        LegacyStickyAssignment(application, clients, preserve=must_probe).run()
    return ClassicAssignment(
        {client.process_id: (client.active, client.standby) for client in clients},
        assign_to_members(application, clients, orders, application.leader_process if must_probe else None),
        trace,
        must_probe,
    )


def _role_orders(sticky: PublicStickyAssignment) -> TaskOrders:
    """Returns the orders of a client's tasks, which follow from the map of their roles."""

    def orders(client: ClientState) -> tuple[list[TaskId], list[TaskId]]:
        roles = sticky.roles[client.rank].iteration_order()
        active = task_hash_order([task for task in roles if task in client.active])
        return active, task_hash_order([task for task in roles if task in client.standby])

    return orders
