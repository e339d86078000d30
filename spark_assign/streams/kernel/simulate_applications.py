"""Simulates events in classic Streams applications (`streams_group_input`): tables to tagged rows.

The `kind` of a row is `step`, `rebalance`, or `rejected`; its columns are those of the tables `steps`, `rebalances`,
and `rejected` (`tables.streams.SIMULATION_TABLES`).

An application has rebalances, owners of its tasks, and state that they restore. Its group is a classic one
(`simulation.kernel.simulated_classic_group`) with these differences.

- The leader assigns tasks (`streams_partition_assignor`). Members use the cooperative protocol.
- Each subscription differs from the one before (`SubscriptionInfo.uniqueField`), so that the rebalance of any member
  that rejoins isn't skipped.
- A member with a withheld task rejoins at once, and one of the leader's process after the probing interval, unless
  another rebalance comes first. A member that returns gets its deadline again, as it is part of the assignment.
- Members (threads) of a process (an instance) close and start together. The process keeps its ID and its disk.
- An instance that closes stays in the group until its session times out, static or not, unless it is closed with
  `LEAVE_GROUP`. A static member that returns before gets its tasks without a rebalance; a dynamic one is a new member,
  and the rebalance waits for the session of the old one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import pyarrow as pa

from spark_assign.assignors.streams.classic_application import ClassicApplication
from spark_assign.assignors.streams.classic_application import ClassicMember as Reported
from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING, MemberTasks
from spark_assign.assignors.streams.streams_partition_assignor import describe_failure, plan_application
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.groups.kernel.tagged_rows import table_of_rows
from spark_assign.simulation.kernel.assignment_request import (
    PARTITION_MASK,
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
)
from spark_assign.simulation.kernel.events import Event, InvalidEventError, in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.member import CLOSING, STABLE, ClassicMember
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import CODES, REBALANCE_COLUMNS, values_of
from spark_assign.simulation.kernel.simulated_classic_group import SimulatedClassicGroup
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.simulation.kernel.simulation_input import list_order, read_event
from spark_assign.streams.kernel.classic_group_input import ClassicGroupInput, find_classic_fault
from spark_assign.streams.kernel.state_restores import StateRestores
from spark_assign.streams.kernel.streams_group_input import StreamsFacts, member_order, read_streams_facts

# --- one application --------------------------------------------------------------------------------------------------

STREAM = ("stream",)
"""Name of the only assignor (`StreamsPartitionAssignor.name`)."""


@dataclass(slots=True, eq=False)
class StreamsThread(ClassicMember):
    """A member of an application.

    Attributes:
        process_id: UUID of its process; by default, a process of its own.
        tags: `client.tag.*`.
    """

    process_id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cooperative = True
        self.process_id = self.process_id or str(uuid5(NAMESPACE_OID, self.name))

    def start(self, now: int) -> None:
        """Starts a new process."""
        ClassicMember.start(self, now)
        self.cooperative = True


class Costs(NamedTuple):
    """What has happened so far: rebalances, moved tasks, those without state, stopped task-seconds, and bytes."""

    rebalances: int
    moved_active: int
    moved_without_state: int
    stopped_task_seconds: float
    restored_bytes: float


@dataclass
class Step:
    """An event, or the instances of a rolling restart that restart together.

    Attributes:
        at_ms, event: Time and name of the event.
        member_ids: First IDs of the members.
        before: What has happened before.
    """

    at_ms: int
    event: str
    member_ids: list[str]
    before: Costs


class SimulatedApplication(SimulatedClassicGroup):
    """A simulated application.

    Args:
        initial_state: the group; its members are `StreamsThread`.
        application: the application at time 0.
        state: what processes have on disk.
        tasks: tasks of each member at time 0.
        leaves: whether instances leave the group when they close.

    Attributes:
        steps: Events so far.
        state: What processes have on disk, and restore.
    """

    member_class = StreamsThread

    def __init__(
        self,
        initial_state: InitialState,
        application: ClassicApplication,
        state: StateRestores,
        tasks: Mapping[str, MemberTasks],
        *,
        leaves: bool,
    ) -> None:
        super().__init__(initial_state, traced=False, owners=False)
        self.steps: list[Step] = []
        self.state = state
        self._application, self._leaves = application, leaves
        self._topic_index = {name: index for index, name in enumerate(self.topics.names)}
        self._tasks = dict(tasks)
        self._changed_at: int | None = 0
        """Time of changes of `_tasks` that `state` doesn't have yet."""
        self._reports: dict[str, Reported] = {}
        self._num_reports = 0
        self._planned = dict(tasks)
        self._planned_before: dict[str, MemberTasks] = {}
        self._probes_at = 0
        self._last_owner = {task: name for name, of in tasks.items() for task in of.active}
        self._processes: dict[str, list[str]] = {}
        self._moved = self._moved_without_state = 0

    # --- tasks over time ----------------------------------------------------------------------------------------------

    def _change_tasks(self, member: ClassicMember, tasks: MemberTasks) -> None:
        """Gives a member these tasks from now on."""
        before = self._tasks_of(member.name)
        if (before.active, before.standby) == (tasks.active, tasks.standby):
            return
        if self._changed_at is not None and self._changed_at < self.queue.now:
            self._apply_changes()
        self._tasks[member.name] = tasks
        self._changed_at = self.queue.now

    def _tasks_of(self, name: str) -> MemberTasks:
        return self._tasks.get(name) or MemberTasks()

    def _apply_changes(self) -> None:
        if self._changed_at is not None:
            self.state.advance(self._changed_at / 1000)
            processes = {name: self._thread(name).process_id for name in self.members}
            self.state.assign({name: of for name, of in self._tasks.items() if name in processes}, processes)
            self._changed_at = None

    def _state_now(self) -> StateRestores:
        """Returns the state at this time."""
        self._apply_changes()
        self.state.advance(self.queue.now / 1000)
        return self.state

    def _thread(self, name: str) -> StreamsThread:
        member = self.members[name]
        assert isinstance(member, StreamsThread)
        return member

    # --- the leader ---------------------------------------------------------------------------------------------------

    def process_due_events(self) -> Generator[Any, Any, None]:
        """See `SimulatedGroup`. The leader assigns at once."""
        while self.leading is not None:
            leader, self.leading = self.leading, None
            self.check_convergence()
            leader.snapshot = self.leader_metadata(leader)
            self._assign(leader)
        yield from ()

    def _assign(self, leader: ClassicMember) -> None:
        metadata = self.coordinator.metadata
        members = [metadata[each.member_id] for each in self.coordinator.group.all_members()]
        order = member_order([each.member_id for each in members], list(range(len(members))))
        application = self._state_now().application_now([self._reports[members[at].member_id] for at in order])
        plan = plan_application(replace(application, leader_process=self._thread(leader.name).process_id))
        self._planned_before, self._planned = self._planned, {}
        for each in members:
            self._planned[self.by_id[each.member_id].name] = plan.members.get(each.member_id, MemberTasks())
        self._probes_at = self.queue.now + application.config.probing_rebalance_interval_ms
        assigned = [self._codes(self._planned[self.by_id[each.member_id].name]) for each in members]
        request = AssignmentRequest(STREAM[0], members, self.topics, leader.snapshot or {})
        self.send_assignment(leader, request, AssignmentResponse(assigned))

    def _codes(self, tasks: MemberTasks) -> list[int]:
        partitions = (each for task in tasks.active for each in self._application.source_partitions(task))
        return sorted(code(self._topic_index[topic], number) for topic, number in partitions)

    # --- members ------------------------------------------------------------------------------------------------------

    def subscription(self, member: ClassicMember) -> JoinedMember:
        """See `ClassicConsumers`. The user data is what the member reports of its state, and differs each time."""
        joined = super().subscription(member)
        self._num_reports += 1
        joined.user_data_generation_id = self._num_reports
        thread = self._thread(member.name)
        running = [name for name in self._processes[thread.process_id] if self.members[name].running]
        others: set[TaskId] | None = None
        if min(running, default=None) == member.name:
            others = set()
            for name in running:
                others |= self._tasks_of(name).active | self._tasks_of(name).standby
        tasks = self._tasks_of(member.name)
        self._reports[joined.member_id] = Reported(
            joined.member_id,
            thread.process_id,
            thread.rack_id,
            thread.tags,
            [(self.topics.names[each >> 32], each & PARTITION_MASK) for each in member.owned],
            self._state_now().report(thread.process_id, tasks, others),
        )
        return joined

    def on_assignment(self, member: ClassicMember) -> None:
        """See `ClassicConsumers`. Starts tasks and restores, and schedules the rebalance that follows."""
        tasks = self._planned.get(member.name) or MemberTasks()
        state, process = self._state_now(), self._thread(member.name).process_id
        for task in tasks.active:
            if self._last_owner.get(task, member.name) != member.name:
                self._moved += 1
                self._moved_without_state += task in self._application.stateful and not state.has_state(process, task)
            self._last_owner[task] = member.name
        self._change_tasks(member, tasks)
        if tasks.rejoin == AT_ONCE:
            reason = "it waits for tasks that their owners have revoked"
            self.queue.schedule(self.queue.now, self.run_if_current, member, member.epoch, self.rejoin, reason)
        elif tasks.rejoin == PROBING:
            at = max(self._probes_at, self.queue.now)
            self.queue.schedule(at, self._probe, member, member.generation_id, member.incarnations)

    def _probe(self, member: ClassicMember, generation: int, incarnation: int) -> None:
        """Requests a probing rebalance, unless another one came first, or only warmups are left that never catch up."""
        if (member.generation_id, member.incarnations, member.state) == (generation, incarnation, STABLE):
            state = self._state_now()
            if self._planned != self._planned_before or state.is_restoring or not state.num_behind:
                self.rejoin(member, "probing rebalance")

    def _rejoins_in_one_step(self, member: ClassicMember) -> bool:
        """See `ClassicConsumers`. A member always sends what it reports now."""
        return False

    def register_id(self, member: ClassicMember) -> None:
        """See `SimulatedGroup`."""
        super().register_id(member)
        names = self._processes.setdefault(self._thread(member.name).process_id, [])
        if member.name not in names:
            names.append(member.name)

    # --- what happens to members --------------------------------------------------------------------------------------

    def leaves_on_close(self, member: ClassicMember, *, returns: bool) -> bool:
        """See `SimulatedGroup`. Whether a member is static or returns doesn't matter."""
        return self._leaves

    def instance_members(self, name: str) -> list[str]:
        """See `SimulatedGroup`."""
        return sorted(each for each in self._processes[self._thread(name).process_id] if self.members[each].running)

    def event_happens(self, event: Event) -> None:
        """See `SimulatedGroup`."""
        super().event_happens(event)
        if event.event == "rolling-restart":
            return  # its restarts are steps
        last = self.steps[-1] if self.steps else None
        self.count_work(len(self.members) + len(self.state.restores) + (len(last.member_ids) if last else 0))
        if last is None or (last.at_ms, last.event) != (self.queue.now, event.event):
            last = Step(self.queue.now, event.event, [], self.costs())
            self.steps.append(last)
        names = [event.member_id] if event.member_id is not None else []
        if event.member_id in self.members and event.event != "slow-member":
            names += self.instance_members(event.member_id)
        last.member_ids += sorted({name for name in names if name is not None} - {*last.member_ids})

    def costs(self) -> Costs:
        """Returns what has happened so far."""
        state = self._state_now()
        restored = sum(restore.restored for restore in state.restores)
        return Costs(self.number, self._moved, self._moved_without_state, state.stopped_seconds, restored)

    def finish(self, end_ms: int) -> Costs:
        """Returns what has happened by the end, when all state is restored that can be."""
        self._state_now().advance(end_ms / 1000)
        self.state.advance(float("inf"))
        return self.costs()

    def start_revocation(self, member: ClassicMember, codes: Sequence[int]) -> int:
        """See `SimulatedGroup`. A member that closes stops all its tasks."""
        tasks = self._tasks_of(member.name)
        if member.state == CLOSING:
            self._change_tasks(member, MemberTasks())
        elif codes:
            revoked = {(self.topics.names[each >> 32], each & PARTITION_MASK) for each in codes}
            kept = {task for task in tasks.active if revoked.isdisjoint(self._application.source_partitions(task))}
            self._change_tasks(member, MemberTasks(kept, tasks.standby))
        return super().start_revocation(member, codes)

    def lose_all(self, member: ClassicMember) -> int:
        """See `SimulatedGroup`. Standbys continue."""
        self._change_tasks(member, MemberTasks(standby=self._tasks_of(member.name).standby))
        return super().lose_all(member)

    def stop_heartbeats(self, member: ClassicMember, state: str) -> None:
        """See `SimulatedGroup`."""
        self._change_tasks(member, MemberTasks())
        super().stop_heartbeats(member, state)


STEP, REBALANCE, REJECTED = "step", "rebalance", "rejected"
"""Kinds of result rows."""

NO_EVENT = "none"
"""Event of the only step, number 0, of an application to which nothing happens."""

_EVENTS = (
    *("member-starts", "member-leaves", "member-crashes", "member-restarts", "rolling-restart", "slow-member"),
    "metadata-refresh",
)
"""Events of applications; topics and subscriptions are those of the topology."""
_Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class ApplicationSimulationParams:
    """Parameters of a simulation.

    Attributes:
        restore_bytes_per_second: What a process restores.
        timing: Times of applications without exceptions.
        is_static: Whether every member is static; otherwise, those with an instance ID are.
        leaves_on_close: Whether instances leave the group when they close; None: as configured.
    """

    restore_bytes_per_second: float
    timing: TimingConfig
    is_static: bool = False
    leaves_on_close: bool | None = None


def simulate_applications(
    fact_table: pa.Table, schema: pa.Schema, params: ApplicationSimulationParams
) -> Iterator[pa.Table]:
    """Yields the results of all Streams groups of the facts, as tagged rows."""
    for facts in read_streams_facts(fact_table):
        key = {"cluster": facts.cluster, "group_id": facts.group_id}
        yield table_of_rows([key | row for row in _simulate(facts, params)], schema)


def _simulate(facts: StreamsFacts, params: ApplicationSimulationParams) -> list[dict[str, Any]]:
    """Returns the rows of a group, or why it is rejected."""
    fault: tuple[str, str] | None
    if facts.is_classic:
        fault = find_classic_fault(facts)
    else:
        text = (
            "The broker assigns the tasks. Only applications on the classic protocol are simulated (group_type classic)"
        )
        fault = "streams-group", text
    if fault is None:
        try:
            simulation = read_simulation(facts, params)
            for _ in simulation.run(None):
                pass
            rebalances = (values_of(row, REBALANCE_COLUMNS) for row in simulation.group.rebalances)
            return [*_step_rows(simulation), *({"kind": REBALANCE, **row} for row in rebalances)]
        except tuple(_CODES) as error:
            fault = _CODES[type(error)], str(error)
        except Exception as error:  # one application must not affect other groups
            fault = describe_failure(error)
    return [{"kind": REJECTED, "code": fault[0], "detail": fault[1]}]


class InvalidApplicationError(Exception):
    """Raised for an application that can be planned, but not simulated."""


_CODES = CODES | {InvalidApplicationError: "bad-settings"}


def read_simulation(facts: StreamsFacts, params: ApplicationSimulationParams) -> GroupSimulation:
    """Returns the simulation of an application without faults, before its first event.

    Raises:
        InvalidApplicationError, InvalidEventError: a setting or an event is invalid.
    """
    classic = ClassicGroupInput(facts, None)
    application, sizes = classic.application, classic.changelogs.sizes
    if sizes is None:
        raise InvalidApplicationError("changelogs: bytes is null. A simulation needs the sizes of changelogs")
    timing = params.timing.with_exceptions((facts.rows["group_times"] or [{}])[-1])
    if fault := timing.fault():
        raise InvalidApplicationError(f"settings: {fault}")
    topics = Topics.of(topic for of in application.subtopologies for topic in of.sources)
    index = {name: at for at, name in enumerate(topics.names)}
    members = {member.member_id: member for member in application.members}
    threads = []
    instances = {row["member_id"]: row["group_instance_id"] for row in facts.rows["member_settings"]}
    for row in sorted(facts.rows["members"], key=list_order):
        name, member = row["member_id"], members[row["member_id"]]
        own = instances.get(name) or row["group_instance_id"]
        thread = StreamsThread(
            name,
            own or (name if params.is_static else None),
            member.rack,
            frozenset(index.values()),
            STREAM,
            name,
            owned=sorted(code(index[topic], number) for topic, number in member.owned if topic in index),
            process_id=member.process_id,
            tags=member.tags,
        )
        threads.append(thread)
    initial_state = InitialState(
        members=threads,
        topics=topics,
        partitions={index[topic]: count for topic, count in application.num_partitions.items()},
        generation_id=1,
        timing=timing,
        assignors=STREAM,
        new_members_static=params.is_static,
    )
    leaves = classic.leaves_on_close if params.leaves_on_close is None else params.leaves_on_close
    state = StateRestores(application, sizes, params.restore_bytes_per_second, classic.changelogs.growth or {})
    group = SimulatedApplication(initial_state, application, state, _read_tasks(classic), leaves=leaves)
    events = in_order(map(_read_event, facts.rows["events"]))
    return GroupSimulation(initial_state, events, traced=False, owners=False, group=group)


def _read_tasks(classic: ClassicGroupInput) -> dict[str, MemberTasks]:
    """Returns the tasks that each member has at the start."""
    tasks = {member.member_id: MemberTasks() for member in classic.application.members}
    existing, current = set(classic.application.tasks), classic.group_input().current
    for task in existing:
        for name in current["active"].get(task, ())[-1:]:
            tasks[name].active.add(task)
        for role in ("standby", "warmup"):
            for name in current[role].get(task, ()):
                tasks[name].standby.add(task)
    return tasks


def _read_event(row: dict[str, Any]) -> Event:
    if row["at_ms"] is None or row["event"] is None:
        known = {name: value for name, value in row.items() if value is not None}
        raise InvalidEventError(f"events: {known}: expected at_ms and event to be set")
    event = read_event(row)
    if event.event not in _EVENTS:
        raise event.invalid(f"the event can't happen to a Streams application. Use one of {', '.join(_EVENTS)}")
    return event


# --- rows -----------------------------------------------------------------------------------------------------------


def _step_rows(simulation: GroupSimulation) -> _Rows:
    group = simulation.group
    assert isinstance(group, SimulatedApplication)
    start = Costs(group.number - len(group.rebalances), 0, 0, 0.0, 0.0)
    steps = group.steps or [Step(0, NO_EVENT, [], start)]
    ends = [*(step.before for step in steps[1:]), group.finish(simulation.end_ms)]
    for number, (step, after) in enumerate(zip(steps, ends, strict=True), 1 if group.steps else 0):
        difference = {name: getattr(after, name) - getattr(step.before, name) for name in after._fields}
        difference["restored_bytes"] = round(difference["restored_bytes"])
        never = group.state.num_behind if step is steps[-1] else 0
        columns = {"step": number, "at_ms": step.at_ms, "event": step.event, "member_ids": step.member_ids}
        yield {"kind": STEP, **columns, **difference, "never_caught_up": never}
