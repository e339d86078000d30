"""What members of a KIP-848 group and its coordinator tell each other, and what the group is set to.

Names are those of Kafka's `ConsumerGroupHeartbeatRequest` and `ConsumerGroupHeartbeatResponse`. A partition is a
`leader_asks.code`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Epochs of a heartbeat that say something else: I join; I leave; I leave, and will be back (static members)."""

NOT_SENT = -1
"""`rebalance_timeout_ms` of a heartbeat that does not say it."""

UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
"""Error codes, as Kafka's `Errors` has them."""


@dataclass(slots=True)
class Heartbeat:
    """What a member sends. What it does not send is null: it is as it was.

    Attributes:
        member_id: chosen by the member.
        member_epoch: the last one that it was told; `JOIN`, `LEAVE` or `LEAVE_STATIC`.
        instance_id: of a static member; in every heartbeat.
        rack_id: where it is; the broker's assignors do not look at it.
        rebalance_timeout_ms: how long it may take to give up partitions.
        topics: the names that it subscribes to, in the order of the request.
        regex: a regular expression for more of them; "": none any more.
        assignor: the one it prefers, by its name in the broker (`uniform`, `range`).
        owned: the partitions that it has. Only what it reports as given up counts as given up.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SENT
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Collection[int] | None = None

    @property
    def is_plain(self) -> bool:
        """It says nothing about the member that could be new."""
        return (
            self.topics is None
            and self.regex is None
            and self.assignor is None
            and self.rebalance_timeout_ms == NOT_SENT
            and self.rack_id is None
            and self.instance_id is None
        )

    @property
    def is_full(self) -> bool:
        """It says everything, as after a joining or an error; such a one is always told its assignment."""
        asks = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != NOT_SENT and asks and self.owned is not None


@dataclass(slots=True)
class Response:
    """What the coordinator answers.

    Attributes:
        member_epoch: how far the member has come; 0 with an error.
        assigned: all that the member has now; null: as before.
        error: null: none. After `FENCED_MEMBER_EPOCH` and `UNKNOWN_MEMBER_ID` a member drops all and joins anew.
    """

    member_id: str
    member_epoch: int = 0
    assigned: Collection[int] | None = None
    error: str | None = None


class HeartbeatError(Exception):
    """The coordinator answers with an error, and has changed nothing."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the broker is set to, and what differs between its releases.

    Attributes:
        session_timeout_ms: a member that was not heard of for so long is fenced
            (`group.consumer.session.timeout.ms`).
        heartbeat_interval_ms: what members are told to do (`group.consumer.heartbeat.interval.ms`).
        assignment_interval_ms: so long a target is in use at least (`group.consumer.assignment.interval.ms`); 0: a new
            one whenever it is due.
        regex_refresh_interval_ms: so often regular expressions are resolved anew
            (`group.consumer.regex.refresh.interval.ms`).
        max_size: of members (`group.consumer.max.size`).
        assignors: the first one is taken if no member prefers any (`group.consumer.assignors`).
        first_epoch: of a group without members.
        before_4_4: a change of the preferred assignor alone is no reason for a new target; a static member that is back
            counts as one more for `max_size`; whoever takes another instance id keeps the old one as well; a group that
            has lost its last member still has its last target, and the assignment interval of it to wait for.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    first_epoch: int = 1
    before_4_4: bool = False


RELEASES = {
    "4.1": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True),
    "4.2": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True),
    "4.3": GroupConfig(before_4_4=True),
    "4.4": GroupConfig(),
}
"""Defaults of each release of the broker."""
