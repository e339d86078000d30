"""What happens to real KIP-848 groups when a member joins, leaves, crashes or restarts, or all restart in turn: every
case in a group of its own, all at once, told by the listeners and by the members' epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.kafka import consumer_groups, group_members
from tests.kafka.broker import Cluster
from tests.kafka.consumer_groups import AWAY, State, create_topics_apart
from tests.kafka.coordinator_log import HeldUpError, expirations, repeated
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import CALLS, Calls, Row, delete_groups, events, listener_calls
from tests.kafka.protocol_story import Owners

# No two names share a bucket of a hash set of so many, nor do their ids (`create_topics_apart`).
TOPICS = {"h.a": 7, "h.b": 5}
HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, LONG_SESSION_TIMEOUT_MS = 1_000, 15_000, 60_000
DOWN_MS, PAUSE_MS = 3_000, 6_000
"""How long simulated members that come back are away, and the time between two restarts: some heartbeats each. The real
ones wait until their groups have settled."""

JOINS, LEAVES, CRASHES, RESTARTS = "member-starts", "member-leaves", "member-crashes", "member-restarts"


@dataclass(frozen=True)
class Case:
    """A group, what happens to whom in it, one after the other; who joins is not among `members`."""

    event: str
    members: tuple[Consumer, ...]
    subjects: tuple[Consumer, ...]

    @property
    def group(self) -> str:
        """The group's id."""
        return self.subjects[0].group

    @property
    def session_timeout_ms(self) -> int:
        """Short where a member is to be missed."""
        return SESSION_TIMEOUT_MS if self.event == CRASHES else LONG_SESSION_TIMEOUT_MS

    @property
    def size_after(self) -> int:
        """How many members the group has in the end."""
        return len(self.members) + {JOINS: 1, RESTARTS: 0}.get(self.event, -1)


def _case(
    group: str,
    event: str,
    assignor: str,
    subjects: Sequence[int] = (2,),
    *,
    static: bool = False,
    topics: Sequence[tuple[str, ...]] = (),
) -> Case:
    """Three members, and one who joins."""
    one = Consumer(f"h-{assignor}-{group}", "", tuple(TOPICS), assignor, "consumer", follow=True)
    members = [
        replace(
            one,
            client_id=f"c{number}",
            instance_id=f"worker-{number}" if static else None,
            topics=topics[number] if topics else one.topics,
        )
        for number in range(4 if event == JOINS else 3)
    ]
    return Case(event, tuple(members[:-1] if event == JOINS else members), tuple(members[at] for at in subjects))


def _of_assignor(assignor: str) -> list[Case]:
    a, b, both = ("h.a",), ("h.b",), ("h.a", "h.b")
    return [
        _case("joins", JOINS, assignor, (3,)),
        _case("joins-differing", JOINS, assignor, (3,), topics=(a, b, both, both)),
        _case("leaves", LEAVES, assignor),
        _case("static-leaves", LEAVES, assignor, static=True),
        _case("crashes", CRASHES, assignor),
        _case("static-crashes", CRASHES, assignor, static=True),
        _case("restarts", RESTARTS, assignor),
        _case("static-restarts", RESTARTS, assignor, static=True),
        _case("rolling", RESTARTS, assignor, (0, 1, 2)),
        _case("static-rolling", RESTARTS, assignor, (0, 1, 2), static=True),
    ]


CASES = [*_of_assignor("uniform"), *_of_assignor("range")]


def joined_calls(calls: Calls) -> Calls:
    """Calls of a kind that follow each other as one: who gives up first what somebody else is to have hangs on whose
    heartbeat comes first, and so on when each member was started, which nobody knows."""
    joined: Calls = {}
    for client, listener_rows in calls.items():
        mine = joined.setdefault(client, [])
        for event, partitions in listener_rows:
            if mine and mine[-1][0] == event:
                mine[-1] = (event, mine[-1][1] | partitions)
            else:
                mine.append((event, partitions))
    return joined


def settled(cluster: Cluster, sizes: Mapping[str, int], away: Collection[tuple[str, str]] = ()) -> State:
    """Wait until every group has so many members, all of them at its target, and stays so; then look.

    Static members that are `away` (group and client id) have left for a while.
    """
    return consumer_groups.settle(cluster, sizes, "h.*", lambda name, group: _unsettled(group, sizes[name], away))


def _unsettled(group: Any, size: int, away: Collection[tuple[str, str]]) -> str | None:
    if group is None:
        return "is not there"
    if len(group.members) != size or group.assignment_epoch != group.group_epoch:
        return f"{group.group_state}, {len(group.members)} of {size} members"
    late = [
        each.client_id
        for each in group.members
        if (
            each.member_epoch != AWAY
            if (group.group_id, each.client_id) in away
            else each.member_epoch != group.group_epoch
            or consumer_groups.assigned(each.assignment) != consumer_groups.assigned(each.target_assignment)
        )
    ]
    return f"{late} are not at their targets" if late else None


@dataclass(frozen=True)
class Story:
    """The settled groups before and after, and what was told in between."""

    before: State
    after: State
    listener_rows: list[Row]

    def calls(self, group: str) -> Calls:
        """What each listener is told, in order (`joined_calls`); calls without partitions are left out."""
        rows = [row for row in self.listener_rows if row["group"] == group and row["event"] in CALLS]
        return joined_calls(listener_calls(rows))

    def epochs(self, group: str) -> dict[str, list[int]]:
        """Every epoch that a member learns, by client id, in order, each once; without the one of before."""
        epochs: dict[str, list[int]] = {}
        for row in self.listener_rows:
            if row["group"] == group and row["event"] == "generation" and row["generation_id"] > 0:
                known = epochs.setdefault(row["client_id"], [self.before.epochs[group]])
                known += [row["generation_id"]] if row["generation_id"] not in known[-1:] else []
        return {client: known[1:] for client, known in epochs.items() if known[1:]}

    def owners(self, group: str) -> Owners:
        """Who owns what in the end, by client id."""
        members = [(client, member) for (name, client), member in self.after.members.items() if name == group]
        return {client: set(self.after.targets.get((group, member), ())) for client, member in members}


def play(cluster: Cluster, folder: Path) -> Story:
    """Lets all groups settle, lets everything happen, and settles again; repeats it if members lost their sessions."""
    create_topics_apart(cluster, TOPICS, "h.*")
    for case in CASES:
        times = {"heartbeat.interval": HEARTBEAT_INTERVAL_MS, "session.timeout": case.session_timeout_ms}
        cluster.configure_group(case.group, {f"consumer.{name}.ms": str(ms) for name, ms in times.items()})

    def attempted(attempt: int) -> Story:
        if attempt:
            # The coordinator's table of members, which decides ties, never shrinks: a group begins with a new one.
            delete_groups(cluster, [case.group for case in CASES])
        return _play(cluster, folder / f"attempt-{attempt}")

    return repeated(attempted)


def _play(cluster: Cluster, folder: Path) -> Story:
    folder.mkdir()
    start = cluster.log_position()
    doomed = [case.subjects[0] for case in CASES if case.event == CRASHES]
    files = [folder / "staying", folder / "doomed"]
    sizes = {case.group: len(case.members) for case in CASES}
    staying = [each for case in CASES for each in case.members if each not in doomed]
    with group_members.running(cluster, staying, files[0]) as main:
        with group_members.running(cluster, doomed, files[1]) as ending:
            before = settled(cluster, sizes)
            first = len(events(files))
            ending.kill()
            ending.wait()
        group_members.start(main, [case.subjects[0] for case in CASES if case.event == JOINS])
        group_members.order(main, "leave_for_good", [case.subjects[0] for case in CASES if case.event == LEAVES])
        for number in range(max(len(case.subjects) for case in CASES)):
            cycle = [case.subjects[number] for case in CASES if case.event == RESTARTS and number < len(case.subjects)]
            sizes = {case.group: len(case.members) for case in CASES if set(case.members) & set(cycle)}
            static = {(each.group, each.client_id) for each in cycle if each.instance_id}
            group_members.leave(main, cycle)
            left = Counter(each.group for each in cycle if not each.instance_id)
            settled(cluster, {group: size - left[group] for group, size in sizes.items()}, static)
            group_members.start(main, cycle)
            settled(cluster, sizes)
        story = Story(before, settled(cluster, {case.group: case.size_after for case in CASES}), events(files)[first:])
    log = cluster.group_log(start)
    for case in CASES:
        if expirations(case.group, log) > (case.event == CRASHES):
            raise HeldUpError
    return story
