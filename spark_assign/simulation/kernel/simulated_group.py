"""The members of a group, whatever protocol they speak: what they share, and what a play asks of them.

The classic protocol's are `consumers.Consumers`, KIP-848's `async_consumers.AsyncConsumers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.assignment_request import Topics
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.member import SimulatedMember
from spark_assign.simulation.kernel.ownership_log import BEING_REVOKED, UNOWNED, OwnershipLog, SimulatedTopics
from spark_assign.simulation.kernel.settings import Timing


@dataclass(slots=True)
class InitialState:
    """What a play begins with.

    Attributes:
        members: those that are there at the beginning, as the coordinator lists them, with what they own.
        topics: all topics that the group may ever ask for.
        partitions: of those that there are, how many partitions.
        generation_id: of the group.
        timing: what the group is set to.
        strategies: of members that come later, unless their event tells; of KIP-848's members at most one, the broker's
            assignor that they ask for.
        all_static: whether members that come later are static, each under its own id.
        revoke_ms, restore_ms: of partitions for which it is not as in `timing`, by code.
        heartbeats: whether the members speak KIP-848's protocol (`group.protocol=consumer`), and not the classic one.
        topic_ids: of each topic `Uuid.hashCode` and its place by `Uuid.compareTo`; the broker's assignors look at them.
            Empty: topics count by name.
    """

    members: Sequence[SimulatedMember]
    topics: Topics
    partitions: dict[int, int]
    generation_id: int
    timing: Timing
    strategies: tuple[str, ...]
    all_static: bool = False
    revoke_ms: Mapping[int, int] = field(default_factory=dict)
    restore_ms: Mapping[int, int] = field(default_factory=dict)
    heartbeats: bool = False
    topic_ids: Sequence[tuple[int, int]] = ()


COORDINATOR, EVENT = "coordinator", "event"
"""Actors that are no members; `event`: something happens from outside."""
SHOWN_CAUSES = 3


@dataclass(slots=True)
class TraceRow:
    """A row of `tables.simulation.TRACE`."""

    at_ms: int
    generation_id: int
    actor: str
    message: str
    to: str | None
    detail: str


@dataclass(slots=True)
class RebalanceRow:
    """A row of `tables.simulation.ROUNDS` in the making; `begin_ms` is null until somebody wants to rebalance."""

    begin_ms: int = 0
    causes: list[str] = field(default_factory=list)
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
    def cause(self) -> str:
        """Why there is a rebalance."""
        more = len(self.causes) - SHOWN_CAUSES
        return "; ".join(self.causes[:SHOWN_CAUSES]) + (f"; {more} more" if more > 0 else "")


def partitions_text(codes: Iterable[int], names: Sequence[str]) -> str:
    """Partitions by name, separated by blanks."""
    return " ".join(f"{names[code >> 32]}-{code & 0xFFFFFFFF}" for code in sorted(codes))


M = TypeVar("M", bound=SimulatedMember)

MOST_ROUNDS = 1_000
"""A group that rebalances so often after something has happened to it will not come to rest."""


class AssignorError(Exception):
    """The assignor throws; the message is Kafka's."""


class DoesNotConvergeError(Exception):
    """The group does not come to rest."""


class SimulatedGroup(ABC, Generic[M]):
    """All members of a group, and what they stand on: time, topics, who has which partition, the trace.

    Attributes:
        members: by their first id; by_id: by every id they ever had.
        noted: the number of the group's round when something happened to it last.
        trace: null where nobody asked for it.
    """

    def __init__(self, stage: InitialState, *, traced: bool, owners: bool) -> None:
        self.topics, self.timing = stage.topics, stage.timing
        self.revoke_ms = stage.revoke_ms
        self.clock = EventQueue()
        self.ledger = OwnershipLog(stage.timing.restore_ms, stage.restore_ms, intervals=[] if owners else None)
        self.cluster = SimulatedTopics(dict(stage.partitions), self.ledger, self.clock)
        self.members: dict[str, M] = {}
        self.by_id: dict[str, M] = {}
        self.noted = 0
        self.trace: list[TraceRow] | None = [] if traced else None

    # --- what a play asks for ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def number(self) -> int:
        """Of the group's round: its generation, or its epoch."""

    @property
    @abstractmethod
    def heartbeat_interval_ms(self) -> int:
        """From one heartbeat of a member to its next."""

    @property
    @abstractmethod
    def rounds(self) -> list[RebalanceRow]:
        """The rebalances that are over."""

    @abstractmethod
    def settle(self, members: Sequence[M], generation_id: int) -> None:
        """The play begins with these members, at rest with what they own."""

    @abstractmethod
    def serve(self) -> Generator[Any, Any, None]:
        """Do what is to be done now: yields assignments that have to be found, and is sent the answers.

        Raises:
            KafkaFails, Endless: see there.
        """

    @abstractmethod
    def close(self) -> None:
        """The play is over."""

    # --- what happens to members (`event_handlers`) ---------------------------------------------------------------

    @abstractmethod
    def comes(self, name: str, group_instance_id: str | None, topics: frozenset[int], strategies: tuple[str, ...]) -> M:
        """Somebody whom the group has not seen before; it is not running yet."""

    @abstractmethod
    def start(self, member: M, member_id: str | None) -> None:
        """A new process of a member: it joins, with this id if it may choose."""

    @abstractmethod
    def leaves(self, member: M, owned: Sequence[int], why: str) -> None:
        """It has closed, gives up what it owned and says that it leaves."""

    @abstractmethod
    def away(self, member: M, owned: Sequence[int]) -> None:
        """A static member has closed and means to come back; its partitions wait for it."""

    @abstractmethod
    def falls_silent(self, member: M, state: str) -> None:
        """It sends no heartbeats any more."""

    @abstractmethod
    def poll_timeout(self, member: M) -> None:
        """It has not polled for `max.poll.interval.ms`, and will again at `busy_until`."""

    @abstractmethod
    def subscribes(self, member: M) -> None:
        """It asks for other topics from now on."""

    @abstractmethod
    def topic_changes(self, topic: int) -> None:
        """A topic was created, has more partitions, or is gone."""

    @abstractmethod
    def looks_at_topics(self, member: M) -> None:
        """It renews its metadata."""

    def comes_to_rest(self) -> None:
        """Raises Endless if it does not."""
        if self.number - self.noted > MOST_ROUNDS:
            why = "does giving up partitions take longer than the rebalance timeout?"
            raise DoesNotConvergeError(
                f"the group is still rebalancing {MOST_ROUNDS} rounds after the last event; {why}"
            )

    # --- what is said -----------------------------------------------------------------------------------------

    def says(self, message: str, detail: str) -> None:
        """The coordinator does something by itself."""
        self.say(COORDINATOR, message, None, detail)

    def say(self, actor: str | None, message: str, to: str | None, detail: str = "") -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(TraceRow(self.clock.now, self.number, str(actor), message, to, detail))

    def tell(self, member: M, message: str, codes: Iterable[int]) -> None:
        """What the member's rebalance listener is told."""
        if self.trace is not None:
            self.say(member.member_id, message, None, self.text(codes))

    def text(self, codes: Iterable[int]) -> str:
        """Partitions as the trace writes them."""
        return partitions_text(codes, self.topics.names)

    # --- ids --------------------------------------------------------------------------------------------------

    def named(self, member: M, member_id: str | None) -> None:
        """A new member id."""
        member.ids += 1
        member.member_id = member_id or self._new_id(member)
        self.knows(member)

    def knows(self, member: M) -> None:
        """The member has an id from now on."""
        member_id = str(member.member_id)
        member.hash = string_hash(member_id)
        self.by_id[member_id] = member

    def _new_id(self, member: M) -> str:
        number = member.ids
        name = member.name if number == 1 else f"{member.name}~{number}"
        while name in self.by_id:
            number += 1
            name = f"{member.name}~{number}"
        return name

    # --- time -------------------------------------------------------------------------------------------------

    def when_it_polls(self, at: int, member: M, what: Callable[..., None], *args: object) -> None:
        """Do it then, or as soon as the member is no longer busy; never if it does something else by then."""
        self.later(max(at, member.busy_until), self._polls, member, member.epoch, what, args)

    def _polls(self, member: M, epoch: int, what: Callable[..., None], args: tuple[object, ...]) -> None:
        if epoch != member.epoch:
            return
        if member.busy_until > self.clock.now:  # it has become so in the meantime
            self.when_it_polls(member.busy_until, member, what, *args)
        else:
            what(member, *args)

    def later(self, at: int, what: Callable[..., None], *args: object) -> None:
        """Do it then; if that is now, at once."""
        if at > self.clock.now:
            self.clock.at(at, what, *args)
        else:
            what(*args)

    # --- giving up --------------------------------------------------------------------------------------------

    def give_up(self, member: M, codes: Sequence[int]) -> int:
        """Stop consuming partitions, one after the other; returns when the member is through with it."""
        now = self.clock.now
        if not codes:
            return now
        self.ledger.pause(codes, member, BEING_REVOKED, now)
        return now + sum(self.revoke_ms.get(each, self.timing.revoke_ms) for each in codes)

    def has_given_up(self, member: M, codes: Sequence[int]) -> int:
        """The partitions are nobody's now; returns how many were still the member's."""
        if not codes:
            return 0
        revoked = self.ledger.pause(codes, member, UNOWNED, self.clock.now)
        gone = set(codes)
        member.owned = [each for each in member.owned if each not in gone]
        self.tell(member, "revoked", codes)
        return revoked

    def loses(self, member: M) -> int:
        """The member has learned that its partitions are no longer its own (`onPartitionsLost`)."""
        if not member.owned:
            return 0
        lost = self.ledger.pause(member.owned, member, UNOWNED, self.clock.now)
        self.tell(member, "lost", member.owned)
        member.owned = []
        return lost
