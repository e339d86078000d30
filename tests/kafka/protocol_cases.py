"""Groups of consumers, and what happens to one member of each: it joins, leaves, crashes, restarts, or is killed and
comes back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.kafka.group_members import Consumer

TOPICS = {"t.a": 7, "t.b": 5}
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 10_000, 1_000
LONG_SESSION_TIMEOUT_MS = 30_000
"""Of those that nobody is to miss, however slow the machine is."""

DOWN_MS = 2_500
"""Members that come back are away for two heartbeats of the others, and still within their sessions."""

KINDS = ("range", "sticky", "cooperative-sticky")
OLD, NEW = "cooperative-sticky,range", "range,cooperative-sticky"

JOINS, LEAVES, CRASHES, RESTARTS = "member-starts", "member-leaves", "member-crashes", "member-restarts"
KILLED = f"{CRASHES}, {JOINS}"
"""Restarts: it closes and starts. Killed: it crashes and starts."""


@dataclass(frozen=True)
class Case:
    """A group, what happens in it and to which of its members; one that joins is not among `members`."""

    event: str
    members: tuple[Consumer, ...]
    subject: Consumer
    rebalances: int
    """How many must follow."""

    @property
    def group(self) -> str:
        """The group's id."""
        return self.subject.group

    @property
    def killed(self) -> bool:
        """Whether the process of the subject is killed."""
        return self.event in (CRASHES, KILLED)

    @property
    def closes(self) -> bool:
        """Whether the subject closes."""
        return self.event in (LEAVES, RESTARTS)

    @property
    def comes_back(self) -> bool:
        """Whether the subject is there in the end, under a new member id."""
        return self.event in (RESTARTS, KILLED)

    @property
    def static(self) -> bool:
        """Whether the members have instance ids."""
        return self.subject.instance_id is not None

    @property
    def unnoticed(self) -> bool:
        """Whether a static member comes back before it is missed, and as it was."""
        return self.rebalances == 0

    @property
    def missed(self) -> bool:
        """Whether the session of the subject times out."""
        return self.killed and not (self.static and self.comes_back)

    @property
    def eager(self) -> bool:
        """Whether those who are there from the beginning rebalance eagerly: so they do with range in their list."""
        return self.members[0].assignor != "cooperative-sticky"

    @property
    def session_timeout_ms(self) -> int:
        """Of all members of the group."""
        return SESSION_TIMEOUT_MS if self.missed else LONG_SESSION_TIMEOUT_MS

    @property
    def size_after(self) -> int:
        """How many members the group has in the end."""
        return len(self.members) + (1 if self.event == JOINS else 0 if self.comes_back else -1)

    def returning(self) -> Consumer:
        """The subject as it comes back: where a vote is to turn, with another strategy first."""
        return replace(self.subject, assignor=OLD) if self.group == "t-votes-restart" else self.subject


def _case(
    group: str, event: str, assignors: Iterable[str], *, subject: int = 2, static: bool = False, rebalances: int = 1
) -> Case:
    """The members by their assignors; `subject` is the position of the one that something happens to."""
    consumers = [
        Consumer(
            f"t-{group}",
            f"c{number}",
            tuple(TOPICS),
            assignor,
            instance_id=f"worker-{number}" if static else None,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            follow=True,
        )
        for number, assignor in enumerate(assignors)
    ]
    timeout = Case(event, (), consumers[subject], rebalances).session_timeout_ms
    consumers = [replace(each, session_timeout_ms=timeout) for each in consumers]
    return Case(event, tuple(consumers[:-1] if event == JOINS else consumers), consumers[subject], rebalances)


def _of_kind(kind: str) -> list[Case]:
    """A cooperative group needs one more rebalance where somebody has to give up something for a newcomer."""
    more = 1 if kind == "cooperative-sticky" else 0
    return [
        _case(f"{kind}-joins", JOINS, [kind] * 4, subject=3, rebalances=1 + more),
        _case(f"{kind}-leaves", LEAVES, [kind] * 3),
        _case(f"{kind}-crashes", CRASHES, [kind] * 3),
        # A dynamic member that restarts leaves and joins. One that is killed comes back as somebody else, and the
        # group waits for who it was: then it is there already.
        _case(f"{kind}-dynamic-restarts", RESTARTS, [kind] * 3, rebalances=2 + more),
        _case(f"{kind}-dynamic-killed", KILLED, [kind] * 3),
        _case(f"{kind}-restarts", RESTARTS, [kind] * 3, static=True, rebalances=0),
        _case(f"{kind}-leader-killed", KILLED, [kind] * 3, subject=0, static=True, rebalances=0),
    ]


CASES = [
    *(case for kind in KINDS for case in _of_kind(kind)),
    _case("leader-crashes", CRASHES, ["range"] * 3, subject=0),
    _case("static-crashes", CRASHES, [KINDS[2]] * 3, static=True),
    # Members with two strategies rebalance eagerly. Votes are 2 : 1 for range, and then 2 : 2.
    _case("votes-tie", JOINS, [OLD, NEW, NEW, OLD], subject=3),
    # One more joins that has only one of the two: its strategy is the only one that all have.
    _case("votes-common", JOINS, [NEW, NEW, NEW, "cooperative-sticky"], subject=3),
    # 2 : 2, and 2 : 1 when one has left.
    _case("votes-leave", LEAVES, [OLD, NEW, NEW, OLD], subject=2),
    # The leader, static, comes back with another strategy, and its vote decides: the only such restart that is noticed.
    _case("votes-restart", KILLED, [NEW, OLD, NEW], subject=0, static=True),
]
