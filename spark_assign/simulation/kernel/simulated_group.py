"""Members, simulated time, topics, and trace of one simulated group, whatever its protocol.

Subclasses: `classic_consumers.ClassicConsumers` (classic protocol) and `async_consumers.AsyncConsumers` (KIP-848).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Generic, TypeVar

from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.assignment_request import Topics
from spark_assign.simulation.kernel.events import Event, EventQueue
from spark_assign.simulation.kernel.member import SimulatedMember
from spark_assign.simulation.kernel.ownership_log import BEING_REVOKED, UNOWNED, OwnershipLog, SimulatedTopics
from spark_assign.simulation.kernel.settings import TimingConfig


@dataclass(slots=True)
class InitialState:
    """The state of a group at the start of a simulation.

    Attributes:
        members: the members in the coordinator's order, with the partitions that they own.
        topics: all topics that the group may ever subscribe to.
        partitions: partition count of each existing topic, by index.
        generation_id: generation or epoch of the group.
        timing: the configuration of the group.
        assignors: default assignors of members that start later. At most one for KIP-848 (a server-side assignor).
        new_members_static: whether members that start later are static, with their member ID as instance ID.
        revoke_ms, restore_ms: exceptions from `timing`, by partition key.
        is_consumer_protocol: whether members use KIP-848 (`group.protocol=consumer`) or the classic protocol.
        leader_library: the client library of the members that lead a classic group; None: Java.
        topic_ids: `Uuid.hashCode` and rank by `Uuid.compareTo` of each topic, which the server-side assignors use. If
            empty, topics are ordered by name.
    """

    members: Sequence[SimulatedMember]
    topics: Topics
    partitions: dict[int, int]
    generation_id: int
    timing: TimingConfig
    assignors: tuple[str, ...]
    new_members_static: bool = False
    revoke_ms: Mapping[int, int] = field(default_factory=dict)
    restore_ms: Mapping[int, int] = field(default_factory=dict)
    is_consumer_protocol: bool = False
    leader_library: str | None = None
    topic_ids: Sequence[tuple[int, int]] = ()


COORDINATOR, EVENT = "coordinator", "event"
"""Actors of the trace that aren't members. `event` marks a scenario event."""
SHOWN_CAUSES = 3

MAX_TRACE = 100_000_000
"""Maximum number of characters of a group's trace; a row without text counts as 100. The last row says that it ends."""


@dataclass(slots=True)
class TraceRow:
    """A row of `tables.simulation.TRACE`."""

    at_ms: int
    generation_id: int
    actor: str
    message: str
    receiver: str | None
    detail: str


@dataclass(slots=True)
class RebalanceRow:
    """A row of `tables.simulation.ROUNDS` in progress."""

    start_ms: int = 0
    causes: dict[str, None] = field(default_factory=dict)
    generation_id: int = 0
    joined_ms: int = 0
    end_ms: int = 0
    members: int = 0
    leader: str | None = None
    assignor: str | None = None
    revoked: int = 0
    lost: int = 0
    assigned: int = 0
    moved: int = 0

    @property
    def duration_ms(self) -> int:
        """Time from the first cause to the end."""
        return self.end_ms - self.start_ms

    @property
    def cause(self) -> str:
        """Text of the first causes, separated by semicolons."""
        more = len(self.causes) - SHOWN_CAUSES
        return "; ".join(islice(self.causes, SHOWN_CAUSES)) + (f"; {more} more" if more > 0 else "")


M = TypeVar("M", bound=SimulatedMember)

MOST_ROUNDS = 1_000
"""Number of rebalances after the last event from which on a group counts as not converging."""

MOST_WORK = 200_000_000
"""Maximum number of steps of a group: its rebalances times its members and partitions, and, if members subscribe to
different topics, subscriptions; and events that affect many members or topics times these. That takes some minutes."""


class AssignorError(Exception):
    """The assignor throws. The message is Kafka's."""


class DoesNotConvergeError(Exception):
    """The group doesn't become stable."""


class TooManyEventsError(Exception):
    """The events affect so large a group so often that the simulation would take too long."""


class SimulatedGroup(ABC, Generic[M]):
    """All members of a group, and what they share: time, topics, partition ownership, and the trace.

    Attributes:
        member_class: the class of the members.
        heartbeat_interval_ms: time between two heartbeats of a member.
        rebalances: the rebalances that have ended.
        members: members by first ID.
        by_id: members by every ID that they ever had.
        last_event_generation: generation of the group at the last scenario event, or when a member started last.
        trace: rows of the trace. None if it isn't requested.
    """

    member_class: type[M]

    def __init__(self, initial_state: InitialState, *, traced: bool, owners: bool) -> None:
        self.topics, self.timing = initial_state.topics, initial_state.timing
        self.heartbeat_interval_ms = self.timing.heartbeat_interval_ms
        self.rebalances: list[RebalanceRow] = []
        self.revoke_ms, restore_ms = dict(initial_state.revoke_ms), dict(initial_state.restore_ms)
        self.queue = EventQueue()
        self.ownership_log = OwnershipLog(initial_state.timing.restore_ms, restore_ms, intervals=[] if owners else None)
        self.cluster = SimulatedTopics(
            dict(initial_state.partitions),
            self.ownership_log,
            self.queue,
            self.topics.names,
            (self.revoke_ms, restore_ms),
            have_ids=initial_state.is_consumer_protocol,
        )
        self.members: dict[str, M] = {}
        self.by_id: dict[str, M] = {}
        self.last_event_generation = self.work = self._traced = 0
        self.trace: list[TraceRow] | None = [] if traced else None

    # --- what a play asks for ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def number(self) -> int:
        """The current generation (classic) or group epoch (KIP-848)."""

    @abstractmethod
    def start_stable(self, members: Sequence[M], generation_id: int) -> None:
        """Starts the simulation with a stable group of these registered members and the partitions that they own."""

    @abstractmethod
    def process_due_events(self) -> Generator[Any, Any, None]:
        """Processes what is due now. Yields assignment requests, and receives the responses.

        Raises:
            AssignorError: the assignor throws.
            DoesNotConvergeError: the group doesn't become stable.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the simulation."""

    # --- what happens to members (`event_handlers`) ---------------------------------------------------------------

    def start(self, member: M, member_id: str | None) -> None:
        """Starts a new process of a member, which finds the coordinator and joins, with this member ID if it can
        choose."""
        self.last_event_generation = self.number
        member.start(self.queue.now)
        self.cluster.subscribe(member.topics)
        self.assign_id(member, member_id)
        self.trace_message(member.member_id, "FindCoordinator", COORDINATOR)
        self.join(member)

    @abstractmethod
    def join(self, member: M) -> None:
        """Makes a member join whose process has just started."""

    @abstractmethod
    def remove_member(self, member: M, revoked: int, reason: str) -> None:
        """Removes a member that has closed and given up this number of partitions: it leaves the group."""

    @abstractmethod
    def close_static_member(self, member: M) -> None:
        """Handles the end of the process of a static member that will return. Its partitions stay assigned to it."""

    @abstractmethod
    def stop_heartbeats(self, member: M, state: str) -> None:
        """Stops the heartbeats of a member."""

    def leaves_on_close(self, member: M, *, returns: bool) -> bool:
        """Checks whether a member that closes sends LeaveGroup. A static member that returns doesn't (KIP-345)."""
        return member.group_instance_id is None or not returns

    def instance_members(self, name: str) -> list[str]:
        """Returns the first IDs of all members that run in the same process as a member, which restart together."""
        return [name]

    def event_happens(self, event: Event) -> None:
        """Handles an event of a scenario, or one restart of a rolling restart, before it happens."""
        self.last_event_generation = self.number

    @abstractmethod
    def poll_timeout(self, member: M) -> None:
        """Handles a member that hasn't polled for `max.poll.interval.ms` and polls again at `busy_until`."""

    @abstractmethod
    def change_subscription(self, member: M) -> None:
        """Handles a changed subscription of a member."""

    @abstractmethod
    def update_topic(self, topic: int) -> None:
        """Handles a topic that was created, deleted, or got more partitions."""

    @abstractmethod
    def refresh_metadata(self, member: M) -> None:
        """Refreshes the topic metadata of a member."""

    def check_convergence(self) -> None:
        """Checks the number of rebalances, once per rebalance.

        Raises:
            DoesNotConvergeError: the group rebalances too often after the last event.
            TooManyEventsError: see `count_work`.
        """
        self.count_work(len(self.members) + sum(self.cluster.partitions.values()))
        if self.number - self.last_event_generation > MOST_ROUNDS:
            reason = "does giving up partitions take longer than the rebalance timeout?"
            raise DoesNotConvergeError(
                f"the group is still rebalancing {MOST_ROUNDS} rounds after the last event; {reason}"
            )

    def count_work(self, steps: int) -> None:
        """Counts what takes time.

        Raises:
            TooManyEventsError: all of it takes more than `MOST_WORK` steps.
        """
        self.work += steps
        if self.work > MOST_WORK:
            size = f"{len(self.members):,} members and {sum(self.cluster.partitions.values()):,} partitions"
            problem = f"they affect a group of {size} too often"
            raise TooManyEventsError(f"events: {problem}. Simulate fewer events, or restart more members at once")

    # --- what is said -----------------------------------------------------------------------------------------

    def trace_coordinator(self, message: str, detail: str) -> None:
        """Traces an action of the coordinator."""
        self.trace_message(COORDINATOR, message, None, detail)

    def trace_message(self, actor: str | None, message: str, to: str | None, detail: str = "") -> None:
        """Appends a row to the trace, if there is one."""
        if self.trace is None or self._traced > MAX_TRACE:
            return
        self._traced += 100 + len(detail)
        if self._traced > MAX_TRACE:
            actor, message, to, detail = COORDINATOR, "trace-ends", None, f"more than {MAX_TRACE:,} characters"
        self.trace.append(TraceRow(self.queue.now, self.number, str(actor), message, to, detail))

    def trace_callback(self, member: M, message: str, codes: Iterable[int]) -> None:
        """Traces a call of the member's rebalance listener."""
        if self.trace is not None:
            self.trace_message(member.member_id, message, None, self.text(codes))

    def text(self, codes: Iterable[int]) -> str:
        """Returns partition names as the trace shows them: separated by blanks, in the order of their keys."""
        names = self.cluster.names
        return " ".join(f"{names[code >> 32]}-{code & 0xFFFFFFFF}" for code in sorted(codes))

    # --- ids --------------------------------------------------------------------------------------------------

    def assign_id(self, member: M, member_id: str | None) -> None:
        """Gives the member a new member ID."""
        member.num_ids += 1
        member.member_id = member_id or self._new_id(member)
        self.register_id(member)

    def register_id(self, member: M) -> None:
        """Registers the current member ID of the member."""
        member_id = str(member.member_id)
        member.hash = string_hash(member_id)
        self.by_id[member_id] = member

    def _new_id(self, member: M) -> str:
        numbered = (f"{member.name}~{number}" if number > 1 else member.name for number in count(member.num_ids))
        return next(name for name in numbered if name not in self.by_id)

    # --- time -------------------------------------------------------------------------------------------------

    def last_heartbeat(self, member: M) -> int:
        """Returns the time of the last heartbeat of a member."""
        return member.last_heartbeat(self.queue.now, self.heartbeat_interval_ms)

    def run_at_poll(self, member: M, at: int, what: Callable[..., None], *args: object) -> None:
        """Runs an action of a member at a time, or at its first poll after that. Another action of the member cancels
        it."""
        at = max(at, member.busy_until)
        if at > self.queue.now:  # then the member might be busy again
            self.queue.schedule(at, self.run_if_current, member, member.epoch, self.run_at_poll, at, what, *args)
        else:
            what(member, *args)

    def run_unless_canceled(self, member: M, at: int, what: Callable[..., None], *args: object) -> None:
        """Runs an action of a member at a time, immediately if the time has come. Another action cancels it."""
        if at > self.queue.now:
            self.queue.schedule(at, self.run_if_current, member, member.epoch, what, *args)
        else:
            what(member, *args)

    def run_if_current(self, member: M, epoch: int, what: Callable[..., None], *args: object) -> None:
        """Runs an action of a member, unless the member has started another action since this epoch."""
        if epoch == member.epoch:
            what(member, *args)

    def run_at(self, at: int, what: Callable[..., None], *args: object) -> None:
        """Runs a callback at a time, immediately if the time has come."""
        if at > self.queue.now:
            self.queue.schedule(at, what, *args)
        else:
            what(*args)

    # --- giving up --------------------------------------------------------------------------------------------

    def start_revocation(self, member: M, codes: Sequence[int]) -> int:
        """Stops consumption of partitions, one after the other. Returns the time at which the member has finished."""
        now = self.queue.now
        if not codes:
            return now
        self.ownership_log.pause(codes, member, BEING_REVOKED, now)
        return now + sum(self.revoke_ms.get(each, self.timing.revoke_ms) for each in codes)

    def finish_revocation(self, member: M, codes: Sequence[int]) -> int:
        """Ends the ownership of partitions. Returns the number of partitions that the member still owned."""
        if not codes:
            return 0
        revoked = self.ownership_log.pause(codes, member, UNOWNED, self.queue.now)
        gone = set(codes)
        member.owned = [each for each in member.owned if each not in gone]
        self.trace_callback(member, "revoked", codes)
        return revoked

    def lose_all(self, member: M) -> int:
        """Handles the loss of all partitions of the member (`onPartitionsLost`). Returns their number."""
        if not member.owned:
            return 0
        lost = self.ownership_log.pause(member.owned, member, UNOWNED, self.queue.now)
        self.trace_callback(member, "lost", member.owned)
        member.owned = []
        return lost
