"""What happens to real groups of Java consumers when a member joins, leaves, crashes or restarts: every case in a group
of its own, all at once, told by the listeners, by the coordinator's log and by the description of the groups."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.admin import NewTopic

from spark_assign.sources.kafka import snapshot
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import about, generations
from tests.kafka.group_members import Consumer
from tests.kafka.protocol_cases import CASES, DOWN_MS, JOINS, TOPICS, Case

CALLS = ("revoked", "lost", "assigned")
PATIENCE_S = 60

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Partition = tuple[str, int]
Owners = dict[str, set[Partition]]
"""Client id to partitions: member ids change when a member restarts."""
Calls = dict[str, list[tuple[str, set[Partition]]]]
"""Client id to what its rebalance listener is told, in order: event and partitions."""


@dataclass(frozen=True)
class Story:
    """The settled groups before and after; what was told and logged in between; when it happened (ms since 1970)."""

    before: Tables
    after: Tables
    assignors_before: dict[str, str]
    assignors: dict[str, str]
    """The protocols that the groups chose, by their descriptions."""
    first_told: list[Row]
    told: list[Row]
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
        [generation] = {row["generation_id"] for row in _last(self.first_told, group).values()}
        return int(generation)

    def generation_after(self, group: str) -> dict[str, int]:
        """The generation that each member was told last, of those who are there."""
        told = _last(self.first_told, group) | _last(self.told, group)
        return {client: told[client]["generation_id"] for client in self.owners_after(group)}

    def rows(self, group: str, client_id: str | None = None) -> list[Row]:
        """The calls of the listeners of a group, or of one member, in order of time."""
        rows = [row for row in self.told if row["group"] == group and row["event"] in CALLS]
        return [row for row in rows if client_id in (None, row["client_id"])]

    def in_order(self, group: str) -> list[tuple[str, str, set[Partition]]]:
        """The calls of all listeners: client id, event, partitions. Within a millisecond who gives up is first."""
        rows = sorted(self.rows(group), key=_by_time)
        return [(row["client_id"], row["event"], _partitions(row)) for row in rows]

    def calls(self, group: str) -> Calls:
        """What each listener is told, in order; calls without partitions are left out."""
        calls: Calls = {}
        for row in self.rows(group):
            if row["partitions"]:
                calls.setdefault(row["client_id"], []).append((row["event"], _partitions(row)))
        return calls

    def longest_pause_ms(self, case: Case) -> int:
        """How long any partition was without an owner that lives: from revoked (or killed) to assigned; 0: none was."""
        killed = self.owners_before(case.group).get(case.subject.client_id, set()) if case.killed else set()
        since, longest = dict.fromkeys(killed, self.happened_ms), 0
        for row in sorted(self.rows(case.group), key=_by_time):
            for each in _partitions(row):
                if row["event"] == "assigned":
                    longest = max(longest, row["at_ms"] - since.pop(each))
                else:
                    since[each] = row["at_ms"]
        assert not since, (case.group, since)
        return longest

    def owners_before(self, group: str) -> Owners:
        """Who owns what in the settled group."""
        return _owners(self.before, group)

    def owners_after(self, group: str) -> Owners:
        """Who owns what in the end."""
        return _owners(self.after, group)

    def log_of(self, group: str) -> list[tuple[int, str]]:
        """What the coordinator says about the group after the event."""
        return about(group, self.log)

    def joined(self, group: str) -> list[str]:
        """Every member id that the group has ever had, in the order in which they came into it."""
        came = re.compile(
            r"(?:Pending dynamic member with id|Created a new member id) (\S+) .*(?:Adding|added) to the group"
        )
        said = about(group, self.first_log + self.log)
        return [found[1] for _, text in said for found in [came.search(text)] if found]

    def leaders(self, group: str, log: list[tuple[int, str]]) -> list[str]:
        """Who led the group, generation after generation: member ids."""
        sent = re.compile(r"Assignment received from leader (\S+) for group")
        return [found[1] for _, said in about(group, log) for found in [sent.search(said)] if found]


def play(cluster: Cluster, folder: Path) -> Story:
    """Let all groups settle, let everything happen at once, and let them settle again."""
    admin = cluster.admin()
    admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()])
    admin.wait_for_topics(list(TOPICS))
    admin.close()
    doomed = [case.subject for case in CASES if case.killed]
    staying = [each for case in CASES for each in case.members if each not in doomed]
    leaders = [case.subject for case in CASES if case.killed and case.subject == case.members[0]]
    files = [folder / "staying", folder / "doomed"]
    with group_members.running(cluster, [], files[0]) as main:
        with group_members.running(cluster, leaders, files[1]) as ending:
            # Who is in a group first leads it.
            _wait_until(lambda: _assigned(read_told(files)) >= _keys(leaders), "leaders")
            group_members.start(main, staying)
            _wait_until(lambda: _assigned(read_told(files)) >= _keys(staying), "those who stay")
            group_members.start(ending, [each for each in doomed if each not in leaders])
            group_members.wait_until_settled(cluster, {case.group: len(case.members) for case in CASES})
            before, assignors_before = _read(cluster), _assignors(cluster)
            first_told, first_log = read_told(files), cluster.group_log()
            happened_ms = int(time.time() * 1000)
            ending.kill()
            ending.wait()
        group_members.start(main, [case.subject for case in CASES if case.event == JOINS])
        group_members.leave(main, [case.subject for case in CASES if case.closes])
        time.sleep(DOWN_MS / 1000)
        returning = [case.returning() for case in CASES if case.comes_back]
        group_members.start(main, returning)
        # By then everybody is back, and was told so.
        _wait_until(lambda: _assigned(read_told(files)[len(first_told) :]) >= _keys(returning), "those who come back")
        group_members.wait_until_settled(cluster, {case.group: case.size_after for case in CASES})
        return Story(
            before,
            _read(cluster),
            assignors_before,
            _assignors(cluster),
            first_told,
            read_told(files)[len(first_told) :],
            first_log,
            cluster.group_log()[len(first_log) :],
            happened_ms,
        )


def client_ids(tables: Tables, group: str) -> dict[str, str]:
    """Member id to client id."""
    return {row["member_id"]: row["client_id"] for row in tables["members"] if row["group_id"] == group}


def _owners(tables: Tables, group: str) -> Owners:
    clients = client_ids(tables, group)
    found: Owners = {client: set() for client in clients.values()}
    for run in tables["owned_runs"]:
        if run["group_id"] == group:
            partitions = range(run["first"], run["first"] + run["step"] * run["count"], run["step"])
            found[clients[run["member_id"]]] |= {(run["topic"], partition) for partition in partitions}
    return found


def _by_time(row: Row) -> tuple[int, int]:
    return row["at_ms"], CALLS.index(row["event"])


def _partitions(row: Row) -> set[Partition]:
    return {(topic, partition) for topic, partition in row["partitions"]}


def _last(told: list[Row], group: str) -> dict[str, Row]:
    """The last line of each member, by client id."""
    return {row["client_id"]: row for row in told if row["group"] == group}


def _read(cluster: Cluster) -> Tables:
    tables = snapshot(cluster.bootstrap_servers, groups="t-*", topics="t.*").tables
    return {name: tables[name].to_pylist() for name in ("topics", "members", "subscriptions", "owned_runs", "groups")}


def _assignors(cluster: Cluster) -> dict[str, str]:
    admin = cluster.admin()
    described = admin.describe_groups([case.group for case in CASES])
    admin.close()
    return {group: found["protocol_data"] for group, found in described.items()}


def read_told(files: Iterable[Path]) -> list[Row]:
    """Every line so far, by time; a line that is being written is left for later."""
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sorted(map(json.loads, lines), key=lambda row: int(row["at_ms"]))


def _keys(consumers: Iterable[Consumer]) -> set[tuple[str, str]]:
    return {(each.group, each.client_id) for each in consumers}


def _assigned(told: Iterable[Row]) -> set[tuple[str, str]]:
    return {(row["group"], row["client_id"]) for row in told if row["event"] == "assigned"}


def _wait_until(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.2)
