"""One group played through time, from its stage on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import fields, replace
from typing import Any

from spark_assign.simulation.kernel.events import DOWN_MS, PAUSE_MS, Event
from spark_assign.simulation.kernel.member import CLOSING, OFF, SimulatedMember
from spark_assign.simulation.kernel.ownership_log import DOWN
from spark_assign.simulation.kernel.simulated_classic_group import SimulatedClassicGroup
from spark_assign.simulation.kernel.simulated_consumer_group import SimulatedConsumerGroup
from spark_assign.simulation.kernel.simulated_group import EVENT, InitialState, SimulatedGroup

Again = tuple[Event, Callable[[], None] | None]
"""What a member is restarted by, and what to do once its process is up."""


class EventHandlers:
    """Lets events happen to a group.

    Attributes:
        restarted: how many members were restarted.

    Args:
        group: its members.
        strategies: of members that come later, unless their event tells.
        all_static: whether members that come later are static, each under its own id.
    """

    def __init__(self, group: SimulatedGroup[Any], strategies: tuple[str, ...], *, all_static: bool) -> None:
        self.group = group
        self.strategies, self.all_static = strategies, all_static
        self.restarted = 0
        self.number = {name: number for number, name in enumerate(group.topics.names)}
        self.act: dict[str, Callable[[Event], None]] = {
            "topic-created": self.topic_created,
            "topic-deleted": self.topic_deleted,
            "partitions-added": self.partitions_added,
            "metadata-refresh": self.metadata_refresh,
            "member-starts": self.member_starts,
            "member-leaves": self.member_leaves,
            "member-crashes": self.member_crashes,
            "member-restarts": self.member_restarts,
            "rolling-restart": self.rolling_restart,
            "slow-member": self.slow_member,
            "subscription-changes": self.subscription_changes,
        }

    def plan(self, events: Iterable[Event]) -> None:
        """Put events on the play's clock."""
        for each in events:
            self.group.clock.at(each.at_ms, self._happens, each)

    def _happens(self, event: Event) -> None:
        self._tell(event)
        self.act[event.event](event)

    def _tell(self, event: Event) -> None:
        group = self.group
        group.noted = group.number
        if group.trace is not None:
            told = {each.name: getattr(event, each.name) for each in fields(event)[2:]}
            shown = [f"{name}={value}" for name, value in told.items() if value is not None]
            group.say(EVENT, event.event, event.member_id, " ".join(shown))

    # --- members ----------------------------------------------------------------------------------------------

    def member_starts(self, event: Event) -> None:
        """A member that was not there joins, or one that is off comes back."""
        group, name = self.group, str(event.member_id)
        member = group.members.get(name)
        if member is None:
            instance = event.group_instance_id or (name if self.all_static else None)
            asked = frozenset[int]().union(*(each.topics for each in group.members.values()))
            member = group.comes(name, instance, asked, event.assignors or self.strategies)
            group.members[name] = member
        elif member.state != OFF:
            raise event.refused("the member is there already")
        self._reconfigure(member, event)
        group.start(member, event.new_member_id)

    def member_leaves(self, event: Event) -> None:
        """It closes for good, and says so, static or not."""
        member = self._running(event)
        self._close(member, f"member {member.member_id} left", leaves=True)

    def member_restarts(self, event: Event) -> None:
        """It closes and starts again; a static member does not say LeaveGroup (KIP-345)."""
        self._restart(event, None)

    def _restart(self, event: Event, when_up: Callable[[], None] | None) -> None:
        member = self._running(event)
        self.restarted += 1
        leaves = member.group_instance_id is None
        self._close(member, f"member {member.member_id} left", leaves=leaves, again=(event, when_up))

    def _close(self, member: SimulatedMember, why: str, *, leaves: bool, again: Again | None = None) -> None:
        """Close the consumer: it gives up what it owns, says LeaveGroup if it is to, and may come back."""
        member.epoch += 1
        member.state = CLOSING
        owned = list(member.owned)
        done = self.group.give_up(member, owned)
        self.group.later(done, self._closed, member, owned, why, leaves, again)

    def _closed(self, member: SimulatedMember, owned: list[int], why: str, leaves: bool, again: Again | None) -> None:
        member.epoch += 1
        member.state = OFF
        if leaves:
            self.group.leaves(member, owned, why)
        else:
            self.group.away(member, owned)
        if again is not None:
            down = DOWN_MS if again[0].down_ms is None else again[0].down_ms
            self.group.clock.at(self.group.clock.now + down, self._starts_again, member, member.epoch, *again)

    def _starts_again(
        self, member: SimulatedMember, epoch: int, event: Event, when_up: Callable[[], None] | None
    ) -> None:
        if epoch == member.epoch:
            self._reconfigure(member, event)
            self.group.start(member, event.new_member_id)
        if when_up is not None:
            when_up()

    def rolling_restart(self, event: Event) -> None:
        """All members that are there now, so many at once; a pause once each batch is up again."""
        members = sorted(each.name for each in self.group.members.values() if each.running)
        self._next_batch(event, members)

    def _next_batch(self, event: Event, members: list[str]) -> None:
        batch, rest = members[: event.parallelism or 1], members[event.parallelism or 1 :]
        there = [name for name in batch if self.group.members[name].running]
        up = len(there)

        def is_up() -> None:
            nonlocal up
            up -= 1
            if up <= 0 and rest:
                pause = PAUSE_MS if event.pause_ms is None else event.pause_ms
                self.group.clock.at(self.group.clock.now + pause, self._next_batch, event, rest)

        for name in there:
            restart = replace(event, event="member-restarts", member_id=name, parallelism=None, pause_ms=None)
            self._tell(restart)
            self._restart(restart, is_up)
        if not there:
            is_up()

    def member_crashes(self, event: Event) -> None:
        """It is gone without a word."""
        group, member = self.group, self._running(event)
        group.falls_silent(member, OFF)
        group.ledger.pause(member.owned, member, DOWN, group.clock.now)

    def slow_member(self, event: Event) -> None:
        """It does not poll for a while; if that is too long, it leaves (KIP-62)."""
        group, member, now = self.group, self._running(event), self.group.clock.now
        member.busy_until = max(member.busy_until, now + int(event.delay_ms or 0))
        limit = group.timing.max_poll_interval_ms
        if member.busy_until - now > limit:
            group.clock.at(now + limit, self._poll_timeout, member, member.lives)

    def _poll_timeout(self, member: SimulatedMember, lives: int) -> None:
        if member.lives == lives and member.running:
            self.group.poll_timeout(member)

    def subscription_changes(self, event: Event) -> None:
        """It asks for other topics."""
        group, member = self.group, self._running(event)
        member.topics = self._topics(event)
        group.cluster.want(member.topics)
        group.subscribes(member)

    def _reconfigure(self, member: SimulatedMember, event: Event) -> None:
        """What a new process may have otherwise than the one before."""
        if event.assignors is not None:
            member.strategies = event.assignors
        if event.topics is not None:
            member.topics = self._topics(event)
        if event.group_instance_id is not None:
            member.group_instance_id = event.group_instance_id

    def _topics(self, event: Event) -> frozenset[int]:
        return frozenset(self.number[topic] for topic in event.topics or ())

    def _running(self, event: Event) -> SimulatedMember:
        member: SimulatedMember | None = self.group.members.get(str(event.member_id))
        if member is None:
            raise event.refused("the group has no such member; name it by its first member id")
        if not member.running:
            raise event.refused("the member is not running then")
        return member

    # --- topics -----------------------------------------------------------------------------------------------

    def topic_created(self, event: Event) -> None:
        """A topic begins to exist; members find it when they look again."""
        topic = self.number[str(event.topic)]
        if topic in self.group.cluster.partitions:
            raise event.refused(f"topic {event.topic} is there already")
        self.group.cluster.grow(topic, int(event.partitions or 0))
        self.group.topic_changes(topic)

    def topic_deleted(self, event: Event) -> None:
        """A topic is gone with all its partitions."""
        topic = self.number[str(event.topic)]
        if topic not in self.group.cluster.partitions:
            raise event.refused(f"there is no topic {event.topic}")
        self.group.cluster.delete(topic)
        self.group.topic_changes(topic)

    def partitions_added(self, event: Event) -> None:
        """A topic gets more partitions; nobody consumes them before the leader has seen them."""
        topic, count = self.number[str(event.topic)], int(event.partitions or 0)
        before = self.group.cluster.partitions.get(topic)
        if before is None:
            raise event.refused(f"there is no topic {event.topic}")
        if count < before:
            raise event.refused(f"topic {event.topic} has {before} partitions; they cannot become {count}")
        self.group.cluster.grow(topic, count)
        self.group.topic_changes(topic)

    def metadata_refresh(self, event: Event) -> None:
        """Members look at their topics now."""
        chosen = [self._running(event)] if event.member_id is not None else list(self.group.members.values())
        for member in chosen:
            if member.running:
                self.group.looks_at_topics(member)


class GroupSimulation:
    """A group and what happens to it. `end_ms`: a heartbeat after it has come to rest, or when the play was
    broken off.

    Args:
        stage: the beginning.
        events: in order (`events.in_order`).
        traced: whether to write the trace.
        owners: whether to write down who had each partition and when.
    """

    def __init__(self, stage: InitialState, events: Iterable[Event], *, traced: bool, owners: bool) -> None:
        self.stage = stage
        of_kind: type[SimulatedGroup[Any]] = SimulatedConsumerGroup if stage.heartbeats else SimulatedClassicGroup
        self.group = of_kind(stage, traced=traced, owners=owners)
        self.event_handlers = EventHandlers(self.group, stage.strategies, all_static=stage.all_static)
        self._opening()
        listed = list(events)
        self.end_ms = 0
        self.last_event_ms = max((each.at_ms for each in listed), default=0)
        self.event_handlers.plan(listed)

    def _opening(self) -> None:
        """The members that own something are a stable group; where nobody does, all of them start now."""
        group, present = self.group, self.stage.members
        stable = any(each.owned for each in present)
        for member in present:
            group.members[member.name] = member
            group.cluster.want(member.topics)
            if not stable:
                group.clock.at(0, group.start, member, member.member_id)
        if stable:
            group.settle(present, self.stage.generation_id)

    def run(self, until: int | None) -> Generator[Any, Any, None]:
        """Let everything happen; yields what has to be assigned, and is sent the answers.

        Raises:
            BadEvent: an event cannot happen.
            KafkaFails, Endless: see `cast`.
        """
        group = self.group
        while group.clock.step(until):
            yield from group.serve()
        group.close()
        rounds = group.rounds
        at_rest = max(self.last_event_ms, group.ledger.settled(), rounds[-1].end_ms if rounds else 0)
        self.end_ms = at_rest + group.heartbeat_interval_ms if until is None else until
        group.ledger.close(self.end_ms)
