"""What happens to real groups of Java consumers when a member joins, leaves, crashes or restarts: every case in a group
of its own, all at once, told by the listeners, by the coordinator's log and by the description of the groups."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import group_members, live_groups
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import (
    HeldUpError,
    about,
    expirations,
    generations,
    joined,
    nobody_was_held_up,
    repeated,
)
from tests.kafka.group_members import Consumer
from tests.kafka.protocol_cases import CASES, DOWN_MS, JOINS, RESTARTS, TOPICS, Case
from tests.slices import Partition

Owners = dict[str, set[Partition]]
"""Client id to partitions: member ids change when a member restarts."""


@dataclass(frozen=True)
class Story:
    """The settled groups before and after; what was told and logged in between; when it happened (ms since 1970)."""

    before: live_groups.Tables
    after: live_groups.Tables
    assignors_before: dict[str, str]
    assignors: dict[str, str]
    """The protocols that the groups chose, by their descriptions."""
    first_rows: list[live_groups.Row]
    listener_rows: list[live_groups.Row]
    first_log: list[tuple[int, str]]
    log: list[tuple[int, str]]
    happened_ms: int

    def generations(self, group: str) -> list[int]:
        """The generations that the coordinator made after the event."""
        return [generation for generation, _ in generations(group, self.log)]

    def sizes(self, group: str) -> list[int]:
        """How many members each of them had."""
        return [members for _, members in generations(group, self.log)]

    def generation_before(self, group: str) -> int:
        """The generation of the settled group, as its members were told last."""
        [generation] = {row["generation_id"] for row in _last(self.first_rows, group).values()}
        return int(generation)

    def generation_after(self, group: str) -> dict[str, int]:
        """The generation that each member was told last, of those who are there."""
        listener_rows = _last(self.first_rows, group) | _last(self.listener_rows, group)
        return {client: listener_rows[client]["generation_id"] for client in self.owners_after(group)}

    def rows(self, group: str, client_id: str | None = None) -> list[live_groups.Row]:
        """The calls of the listeners of a group, or of one member, in order of time."""
        rows = [row for row in self.listener_rows if row["group"] == group and row["event"] in live_groups.CALLS]
        return [row for row in rows if client_id in (None, row["client_id"])]

    def in_order(self, group: str) -> list[tuple[str, str, set[Partition]]]:
        """The calls of all listeners: client id, event, partitions. Within a millisecond who gives up is first."""
        rows = sorted(self.rows(group), key=_by_time)
        return [(row["client_id"], row["event"], live_groups.listener_partitions(row)) for row in rows]

    def calls(self, group: str) -> live_groups.Calls:
        """What each listener is told, in order; calls without partitions are left out."""
        return live_groups.listener_calls(self.rows(group))

    def longest_pause_ms(self, case: Case) -> int:
        """How long any partition was without an owner that lives: from revoked (or killed) to assigned; 0: none was."""
        killed = self.owners_before(case.group).get(case.subject.client_id, set()) if case.killed else set()
        since, longest = dict.fromkeys(killed, self.happened_ms), 0
        for row in sorted(self.rows(case.group), key=_by_time):
            for each in live_groups.listener_partitions(row):
                if row["event"] == "assigned":
                    longest = max(longest, row["at_ms"] - since.pop(each))
                else:
                    since[each] = row["at_ms"]
        assert not since, (case.group, since)
        return longest

    def owners_before(self, group: str) -> Owners:
        """Who owns what in the settled group."""
        return live_groups.owners_in(self.before, group)

    def owners_after(self, group: str) -> Owners:
        """Who owns what in the end."""
        return live_groups.owners_in(self.after, group)

    def log_of(self, group: str) -> list[tuple[int, str]]:
        """What the coordinator says about the group after the event."""
        return about(group, self.log)

    def joined(self, group: str) -> list[str]:
        """Every member id that the group has ever had, in the order in which they came into it."""
        return joined(group, self.first_log + self.log)

    def leaders(self, group: str, log: list[tuple[int, str]]) -> list[str]:
        """Who led the group, generation after generation: member ids."""
        sent = re.compile(r"Assignment received from leader (\S+) for group")
        return [found[1] for _, text in about(group, log) for found in [sent.search(text)] if found]


def play(cluster: Cluster, folder: Path) -> Story:
    """Let all groups settle, let everything happen at once, let them settle again; again if members were held up."""
    live_groups.create_topics(cluster, TOPICS)

    def attempted(attempt: int) -> Story:
        if attempt:
            live_groups.delete_groups(cluster, [case.group for case in CASES])
        return _play(cluster, folder / f"attempt-{attempt}")

    return repeated(attempted)


def _play(cluster: Cluster, folder: Path) -> Story:
    folder.mkdir()
    start = cluster.log_position()
    doomed = [case.subject for case in CASES if case.killed]
    staying = [each for case in CASES for each in case.members if each not in doomed]
    leaders = [case.subject for case in CASES if case.killed and case.subject == case.members[0]]
    files = [folder / "staying", folder / "doomed"]
    with group_members.running(cluster, [], files[0]) as main:
        with group_members.running(cluster, leaders, files[1]) as ending:
            # Who is in a group first leads it.
            live_groups.wait_until(
                lambda: live_groups.consumer_keys(live_groups.events(files), "assigned") >= _keys(leaders), "leaders"
            )
            group_members.start(main, staying)
            live_groups.wait_until(
                lambda: live_groups.consumer_keys(live_groups.events(files), "assigned") >= _keys(staying),
                "those who stay",
            )
            group_members.start(ending, [each for each in doomed if each not in leaders])
            group_members.wait_until_settled(cluster, {case.group: len(case.members) for case in CASES})
            before, assignors_before = _read(cluster), _assignors(cluster)
            first_rows, first_log, logged = live_groups.events(files), cluster.group_log(start), cluster.log_position()
            happened_ms = int(time.time() * 1000)
            ending.kill()
            ending.wait()
            if any(expirations(case.group, first_log) for case in CASES):
                raise HeldUpError  # who was to lead no longer does
        group_members.start(main, [case.subject for case in CASES if case.event == JOINS])
        closing = [case.subject for case in CASES if case.closes]
        group_members.leave(main, closing)

        def new_rows() -> list[live_groups.Row]:
            return live_groups.events(files)[len(first_rows) :]

        def others_went_on() -> bool:
            """Whether all that close have closed, and their groups have rebalanced without the dynamic ones."""
            left = [case.group for case in CASES if case.event == RESTARTS and not case.static]
            log, rows = cluster.group_log(logged), new_rows()
            rebalanced = all(generations(group, log) for group in left) and nobody_was_held_up(left, log, rows)
            return live_groups.consumer_keys(rows, "closed") >= _keys(closing) and rebalanced

        live_groups.wait_until(others_went_on, "those who close, and the others of their groups")
        # The simulated members are away for this long; a busy machine may need longer for the same.
        time.sleep(max(0.0, (happened_ms + DOWN_MS) / 1000 - time.time()))
        returning = [case.returning() for case in CASES if case.comes_back]
        group_members.start(main, returning)
        # By then everybody is back, and was told so.
        live_groups.wait_until(
            lambda: live_groups.consumer_keys(new_rows(), "assigned") >= _keys(returning), "those who come back"
        )
        group_members.wait_until_settled(cluster, {case.group: case.size_after for case in CASES})
        after, assignors, rows, log = _read(cluster), _assignors(cluster), new_rows(), cluster.group_log(logged)
    if not nobody_was_held_up([case.group for case in CASES], log, rows, sum(case.missed for case in CASES)):
        raise HeldUpError
    return Story(before, after, assignors_before, assignors, first_rows, rows, first_log, log, happened_ms)


def client_ids(tables: live_groups.Tables, group: str) -> dict[str, str]:
    """Member id to client id."""
    return {row["member_id"]: row["client_id"] for row in tables["members"] if row["group_id"] == group}


def _by_time(row: live_groups.Row) -> tuple[int, int]:
    return row["at_ms"], live_groups.CALLS.index(row["event"])


def _last(rows: list[live_groups.Row], group: str) -> dict[str, live_groups.Row]:
    """The last line of each member, by client id."""
    return {row["client_id"]: row for row in rows if row["group"] == group}


def _read(cluster: Cluster) -> live_groups.Tables:
    tables = live_groups.read(cluster, "t-*", "t.*")
    return {name: tables[name] for name in ("topics", "members", "subscription_lists", "owned_slices", "groups")}


def _assignors(cluster: Cluster) -> dict[str, str]:
    with cluster.admin() as admin:
        described = admin.describe_groups([case.group for case in CASES])
    return {group: found["protocol_data"] for group, found in described.items()}


def _keys(consumers: Iterable[Consumer]) -> set[tuple[str, str]]:
    return {(each.group, each.client_id) for each in consumers}
