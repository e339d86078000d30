"""Simulates one consumer group from an initial state to the last event."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import fields, replace
from typing import Any

from spark_assign.simulation.kernel.events import DOWN_MS, PAUSE_MS, Event
from spark_assign.simulation.kernel.member import CLOSING, OFF, STABLE, SimulatedMember
from spark_assign.simulation.kernel.ownership_log import DOWN
from spark_assign.simulation.kernel.simulated_classic_group import SimulatedClassicGroup
from spark_assign.simulation.kernel.simulated_consumer_group import SimulatedConsumerGroup
from spark_assign.simulation.kernel.simulated_group import EVENT, InitialState, SimulatedGroup

_OF_INSTANCES = ("member-leaves", "member-restarts", "member-crashes")
"""Events that happen to all members of a process."""

Again = tuple[Event, Callable[[], None] | None]
"""The event that restarts a member, and a callback for the time when its process is up."""


class EventHandlers:
    """Applies scenario events to a group. The handler of an event has its name: `member-starts` is `member_starts`.

    Attributes:
        restarted: number of members that were restarted.

    Args:
        group: the members.
        assignors: default assignors of members that start later.
        new_members_static: whether members that start later are static, with their member ID as instance ID.
    """

    def __init__(self, group: SimulatedGroup[Any], assignors: tuple[str, ...], *, new_members_static: bool) -> None:
        self.group = group
        self.assignors, self.new_members_static = assignors, new_members_static
        self.restarted = 0
        self._subscribed: frozenset[int] | None = None
        self.number = {name: number for number, name in enumerate(group.topics.names)}

    def handle(self, event: Event) -> None:
        """Applies an event now."""
        self._trace_event(event)
        handler = getattr(self, event.event.replace("-", "_"))
        if event.event not in _OF_INSTANCES or event.member_id not in self.group.members:
            handler(event)
            return
        for name in self.group.instance_members(str(event.member_id)) or [event.member_id]:
            handler(event if name == event.member_id else replace(event, member_id=name, new_member_id=None))

    def _trace_event(self, event: Event) -> None:
        group = self.group
        group.event_happens(event)
        if group.trace is not None:
            values = {each.name: getattr(event, each.name) for each in fields(event)[2:]}
            shown = [f"{name}={value}" for name, value in values.items() if value is not None]
            group.trace_message(EVENT, event.event, event.member_id, " ".join(shown))

    # --- members ----------------------------------------------------------------------------------------------

    def member_starts(self, event: Event) -> None:
        """Starts a new member, or a member that is off."""
        group, name = self.group, str(event.member_id)
        member = group.members.get(name)
        if member is None:
            instance = event.group_instance_id or (name if self.new_members_static else None)
            topics = self._subscribed_topics()
            member = group.member_class(name, instance, None, topics, event.assignors or self.assignors)
            group.members[name] = member
        elif member.state != OFF:
            raise event.invalid("the member is already running")
        self._start(member, event)

    def _start(self, member: SimulatedMember, event: Event) -> None:
        """Starts the new process of a member, with a member ID that no other member has."""
        known = self.group.by_id.get(str(event.new_member_id))
        if known is not None and known is not member and known.member_id == event.new_member_id:
            raise event.invalid(f"new_member_id is {event.new_member_id}, which is the ID of the member {known.name}")
        self._reconfigure(member, event)
        self.group.start(member, event.new_member_id)

    def member_leaves(self, event: Event) -> None:
        """Closes a member for good. It sends LeaveGroup, even if it is static."""
        member = self._running(event)
        self._close(member, leaves=self.group.leaves_on_close(member, returns=False))

    def member_restarts(self, event: Event, when_up: Callable[[], None] | None = None) -> None:
        """Closes a member and starts it again, then calls `when_up`. A static member sends no LeaveGroup (KIP-345)."""
        member = self._running(event)
        self.restarted += 1
        self._close(member, leaves=self.group.leaves_on_close(member, returns=True), again=(event, when_up))

    def _close(self, member: SimulatedMember, *, leaves: bool, again: Again | None = None) -> None:
        """Closes the consumer: it gives up what it owns, sends LeaveGroup if `leaves`, and restarts if `again` is
        set."""
        member.epoch += 1
        member.state = CLOSING
        owned, reason = list(member.owned), f"member {member.member_id} left"
        done = self.group.start_revocation(member, owned)
        self.group.run_at(done, self._finish_close, member, owned, reason, leaves, again)

    def _finish_close(
        self, member: SimulatedMember, owned: list[int], reason: str, leaves: bool, again: Again | None
    ) -> None:
        """Stops a member after its last callback, and schedules its restart if it comes back."""
        group = self.group
        member.epoch += 1
        member.state, member.silent_since = OFF, group.last_heartbeat(member)
        if leaves:
            group.remove_member(member, group.finish_revocation(member, owned), reason)
        else:
            if owned:
                group.trace_callback(member, "revoked", owned)
            group.ownership_log.pause(owned, member, DOWN, group.queue.now)
            group.close_static_member(member)
        if again is not None:
            down = DOWN_MS if again[0].down_ms is None else again[0].down_ms
            group.queue.schedule(group.queue.now + down, self._restart_process, member, member.epoch, *again)

    def _restart_process(
        self, member: SimulatedMember, epoch: int, event: Event, when_up: Callable[[], None] | None
    ) -> None:
        if epoch == member.epoch:
            self._start(member, event)
        if when_up is not None:
            when_up()

    def rolling_restart(self, event: Event) -> None:
        """Restarts all running members in batches, with a pause after each batch."""
        self.group.count_work(len(self.group.members))
        instances: dict[tuple[str, ...], None] = {}
        for name in sorted(each.name for each in self.group.members.values() if each.running):
            instances[tuple(self.group.instance_members(name))] = None
        self._next_batch(event, list(instances))

    def _next_batch(self, event: Event, instances: list[tuple[str, ...]]) -> None:
        """Restarts the next instances of a rolling restart; the batch after them follows when they are up."""
        batch, rest = instances[: event.parallelism or 1], instances[event.parallelism or 1 :]
        there = [name for names in batch for name in names if self.group.members[name].running]
        up = len(there)

        def is_up() -> None:
            nonlocal up
            up -= 1
            if up <= 0 and rest:
                pause = PAUSE_MS if event.pause_ms is None else event.pause_ms
                self.group.queue.schedule(self.group.queue.now + pause, self._next_batch, event, rest)

        for name in there:
            restart = replace(event, event="member-restarts", member_id=name, parallelism=None, pause_ms=None)
            self._trace_event(restart)
            self.member_restarts(restart, is_up)
        if not there:
            is_up()

    def member_crashes(self, event: Event) -> None:
        """Stops a member without any request."""
        group, member = self.group, self._running(event)
        group.stop_heartbeats(member, OFF)
        group.ownership_log.pause(member.owned, member, DOWN, group.queue.now)

    def slow_member(self, event: Event) -> None:
        """Delays the polls of a member. If the delay exceeds `max.poll.interval.ms`, the member leaves (KIP-62)."""
        group, member, now = self.group, self._running(event), self.group.queue.now
        member.busy_until = max(member.busy_until, now + int(event.delay_ms or 0))
        limit = group.timing.max_poll_interval_ms
        if member.busy_until - now > limit:
            group.queue.schedule(now + limit, self._poll_timeout, member, member.incarnations)

    def _poll_timeout(self, member: SimulatedMember, incarnation: int) -> None:
        if member.incarnations == incarnation and member.running:
            self.group.poll_timeout(member)

    def subscription_changes(self, event: Event) -> None:
        """Changes the subscription of a member."""
        group, member = self.group, self._running(event)
        member.topics = self._topics(event)
        group.cluster.subscribe(member.topics)
        group.change_subscription(member)

    def _reconfigure(self, member: SimulatedMember, event: Event) -> None:
        """Applies the configuration changes of a new process."""
        if event.assignors is not None:
            member.assignors = event.assignors
        if event.topics is not None:
            member.topics = self._topics(event)
        if event.group_instance_id is not None:
            member.group_instance_id = event.group_instance_id

    def _subscribed_topics(self) -> frozenset[int]:
        """Returns the topics of all members, also of those that are off. New members subscribe to these."""
        if self._subscribed is None:
            distinct = {each.topics for each in self.group.members.values()}
            self.group.count_work(len(self.group.members) + sum(map(len, distinct)))
            self._subscribed = frozenset[int]().union(*distinct)
        return self._subscribed

    def _topics(self, event: Event) -> frozenset[int]:
        self._subscribed = None
        return frozenset(self.number[topic] for topic in event.topics or ())

    def _running(self, event: Event) -> SimulatedMember:
        member: SimulatedMember | None = self.group.members.get(str(event.member_id))
        if member is None:
            raise event.invalid("the group has no such member. Use the member's first ID")
        if not member.running:
            raise event.invalid("the member isn't running")
        return member

    # --- topics -----------------------------------------------------------------------------------------------

    def topic_created(self, event: Event) -> None:
        """Creates a topic, which members find when they refresh their metadata."""
        topic = self.number[str(event.topic)]
        if topic in self.group.cluster.partitions:
            raise event.invalid(f"topic {event.topic} already exists")
        assert event.partitions is not None, "in_order refuses such an event"
        self.group.cluster.set_partitions(topic, event.partitions)
        self.group.update_topic(topic)

    def topic_deleted(self, event: Event) -> None:
        """Deletes a topic with all its partitions."""
        topic = self.number[str(event.topic)]
        if topic not in self.group.cluster.partitions:
            raise event.invalid(f"topic {event.topic} doesn't exist")
        self.group.cluster.delete(topic)
        self.group.update_topic(topic)

    def partitions_added(self, event: Event) -> None:
        """Adds partitions to a topic. Nobody consumes them until the leader has seen them."""
        topic, count = self.number[str(event.topic)], event.partitions
        assert count is not None, "in_order refuses such an event"
        before = self.group.cluster.partitions.get(topic)
        if before is None:
            raise event.invalid(f"topic {event.topic} doesn't exist")
        if count < before:
            raise event.invalid(f"topic {event.topic} has {before} partitions. Kafka can't reduce them to {count}")
        self.group.cluster.set_partitions(topic, count)
        self.group.update_topic(topic)

    def metadata_refresh(self, event: Event) -> None:
        """Refreshes the metadata of a member, or of all members."""
        chosen = [self._running(event)] if event.member_id is not None else list(self.group.members.values())
        for member in chosen:
            if member.running:
                self.group.refresh_metadata(member)


class GroupSimulation:
    """A group and its events.

    Attributes:
        end_ms: end of the simulation: one heartbeat interval after the group is stable, or the time of interruption.

    Args:
        initial_state: the group at the start.
        events: sorted events (`events.in_order`).
        traced: whether to record the trace.
        owners: whether to record ownership intervals.
        group: the group, if it isn't a group of consumers.
    """

    def __init__(
        self,
        initial_state: InitialState,
        events: Iterable[Event],
        *,
        traced: bool,
        owners: bool,
        group: SimulatedGroup[Any] | None = None,
    ) -> None:
        self.initial_state = initial_state
        of_kind: type[SimulatedGroup[Any]] = (
            SimulatedConsumerGroup if initial_state.is_consumer_protocol else SimulatedClassicGroup
        )
        self.group = of_kind(initial_state, traced=traced, owners=owners) if group is None else group
        self.event_handlers = EventHandlers(
            self.group, initial_state.assignors, new_members_static=initial_state.new_members_static
        )
        self._start_members()
        self.end_ms = self.last_event_ms = 0
        for each in events:
            self.last_event_ms = each.at_ms
            self.group.queue.schedule(each.at_ms, self.event_handlers.handle, each)

    def _start_members(self) -> None:
        """Restores members that own partitions as a stable group. If nobody owns any, all members start now."""
        group, present = self.group, self.initial_state.members
        stable = any(each.owned for each in present)
        for member in present:
            group.members[member.name] = member
            group.cluster.subscribe(member.topics)
            if stable:
                group.register_id(member)
                member.state, member.incarnations, member.num_ids = STABLE, 1, 1
                group.ownership_log.assign(member.owned, member, 0)
            else:
                group.queue.schedule(0, group.start, member, member.member_id)
        if stable:
            group.start_stable(present, self.initial_state.generation_id)

    def run(self, until: int | None) -> Generator[Any, Any, None]:
        """Runs the simulation. Yields assignment requests, and receives the responses.

        Raises:
            InvalidEventError: an event cannot happen.
            AssignorError, DoesNotConvergeError: see `simulated_group`.
        """
        group = self.group
        while group.queue.run_next(until):
            yield from group.process_due_events()
        group.close()
        rounds = group.rebalances
        at_rest = max(self.last_event_ms, group.ownership_log.stable_at_ms(), rounds[-1].end_ms if rounds else 0)
        self.end_ms = at_rest + group.heartbeat_interval_ms if until is None else until
        group.ownership_log.close(self.end_ms)
