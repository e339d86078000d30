"""Groups of every kind whose members join, leave, are killed and come back, all at once: who they are, and what is
known of it afterwards. `history_stage` plays it, `history_truth` says what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.kafka.group_members import Consumer

PREFIX = "hl-"
TOPICS = {"hl.a": 6, "hl.b": 4}
SENT = 20
"""So many records are in each partition."""
COMMIT_EVERY_MS, LONG_SESSION_TIMEOUT_MS = 1_000, 300_000
SESSION_TIMEOUT_MS = 20_000
"""The session timeout of members of classic groups that are killed. It is longer than the gap between commits (10 s)
that the history counts as a pause."""
BROKERS_SESSION_MS = 45_000
"""The session timeout of the broker's protocols, by default. A shorter one can't tell a crash from a leave on a busy
machine, whose members commit seldom."""
QUIET_MS = 4_000
PATIENCE_S = 300
FIRST, JOINED, RESTARTED, LEFT, CRASHED, IS_THERE = "first", "joined", "restarted", "left", "crashed", "active"

CLASSIC = ("range", "roundrobin", "sticky", "cooperative-sticky")
STATIC, STOPPED, CONNECT = f"{PREFIX}static", f"{PREFIX}stopped", f"{PREFIX}connect"
STREAMS, CLASSIC_STREAMS = f"{PREFIX}streams", f"{PREFIX}streams-classic"
WITHOUT_COMMITS = (CONNECT, STREAMS, CLASSIC_STREAMS)
"""Or with some for which nothing can be said: Streams commits only what it has read."""

Item = tuple[str, str, int]
"""Role, topic and partition, as in the table of owners."""
Row = dict[str, Any]

PARTITIONS: frozenset[Item] = frozenset(("partition", t, each) for t, count in TOPICS.items() for each in range(count))
TASKS: frozenset[Item] = frozenset(("active", str(n), e) for n, c in enumerate(TOPICS.values()) for e in range(c))
CONNECTORS = [f"hl-source-{number}" for number in range(3)]


def _group(name: str, assignor: str, protocol: str = "classic") -> list[Consumer]:
    one = Consumer(
        f"{PREFIX}{name}", "", tuple(TOPICS), assignor, protocol, follow=True, commit_every_ms=COMMIT_EVERY_MS
    )
    if protocol == "classic":  # The coordinator sets both times for groups of the consumer protocol.
        one = replace(one, session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=1_000)
    return [replace(one, client_id=f"{name}-{number}") for number in range(4)]


DYNAMIC = [_group(name, name) for name in CLASSIC]
DYNAMIC += [_group(f"server-{name}", name, "consumer") for name in ("uniform", "range")]
STATICS = [
    replace(each, instance_id=f"at-{u}", session_timeout_ms=(LONG_SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)[u == 2])
    for u, each in enumerate(_group("static", "range")[:3])
]
STOPPING = _group("stopped", "range")[:2]


@dataclass
class Stay:
    """A member from its start to its end, as it really came and went."""

    group: str
    client: str
    came: str
    start_ms: int
    went: str = IS_THERE
    end_ms: int | None = None


@dataclass
class Story:
    """What was done and what came of it.

    Attributes:
        stays: of every member, in the order of their starts.
        placements: of Connect: from when to when who had what.
        listener_rows: calls of the listeners of rebalances.
        tasks: active tasks, as Streams reports them.
        log: lines of the coordinators' logs about these groups.
        settled: (from, until) of every step, when nothing happens.
    """

    stays: list[Stay] = field(default_factory=list)
    placements: list[tuple[int, int, dict[str, frozenset[Item]]]] = field(default_factory=list)
    listener_rows: list[Row] = field(default_factory=list)
    tasks: list[Row] = field(default_factory=list)
    log: list[tuple[int, str]] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)
    """What was made of it once."""

    @property
    def groups(self) -> list[str]:
        """All of them."""
        return sorted({each.group for each in self.stays})
