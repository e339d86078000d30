"""The workers of one recorded sequence, derived only from its events and from our own results.

A worker's list, its last completed generation, and its assignor's state belong to its process. A worker that is cut off
from the group keeps all three, and might return with another name.

Example: w2 is cut off in round 3 with task t, and returns in round 5 as w7. It reports t, and if it leads, its state is
that of round 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spark_assign.assignors.connect.connectors_and_tasks import apply_assignment, serialized_order
from tests.golden.connect_rows import Listed, Row, RowNames, RowResult, calls_assignor


@dataclass
class Worker:
    """One process: its list, its last completed generation, and its assignor's state (`state` of a row; `None` at
    first)."""

    listed: Listed = field(default_factory=lambda: {"connectors": [], "tasks": []})
    completed: int = -1
    state: dict[str, Any] | None = None


@dataclass
class Workers:
    """The workers of a sequence."""

    members: dict[str, Worker] = field(default_factory=dict)
    cut_off: dict[str, Worker] = field(default_factory=dict)
    leader: str = ""
    returned: int = 0

    def apply_events(self, row: Row) -> None:
        """Applies the events before a round. A unit test of Kafka has no events and starts with its workers."""
        if not self.members and not row["events"]:
            self.members, self.leader = {name: Worker() for name in row["members"]}, row["leader"]
        for event in row["events"]:
            match event.split():
                case ["worker", name, "joins"]:
                    self.members[name] = Worker()
                case ["worker", name, "leaves"]:
                    self.members.pop(name, None)  # one worker has two of these events
                case ["worker", name, "is", "cut", "off", "and", "keeps", "its", "tasks"]:
                    self.cut_off[name] = self.members.pop(name)
                case ["worker", *old, "comes", "back", "as", new, "and", "reports", "what", "it", "kept"]:
                    self.members[new] = self.cut_off.pop(*(old or self.cut_off))  # without a name, only one is cut off
                    self.returned += 1
                case ["leader", "is", "now", name]:
                    self.leader = name
                case ["connector", *_]:
                    pass
                case _:
                    raise AssertionError(f"unknown event: {event}")

    def reports(self, row: Row, row_names: RowNames) -> dict[str, Listed]:
        """Returns the workers' reports: their lists in serialized order; empty for eager."""
        reports = {}
        for name, worker in self.members.items():
            sent = (
                ([], [])
                if (row["system"] == "connect-eager")
                else serialized_order(*row_names.items(worker.listed), row_names.connectors.spread_hash)
            )
            reports[name] = row_names.listed([*sent[0], *sent[1]])
        return reports

    def learn(self, row: Row, row_names: RowNames, result: RowResult) -> None:
        """Updates the leader's state, and the lists of the workers that receive the result.

        An error (the leader is behind) also completes the generation, and changes nothing else.
        """
        if "state" in result.fields:
            self.members[self.leader].state = result.fields["state"]
        for name in self.members.keys() - set(row["not_applied"]):
            worker = self.members[name]
            worker.completed = row["generation"]
            if calls_assignor(row) and row["system"] != "connect-eager":
                revoked = set().union(*row_names.items(result.fields["revoked"][name]))
                both = apply_assignment(
                    row_names.items(worker.listed), result.assigned[name], revoked, row_names.connectors.spread_hash
                )
                worker.listed = row_names.listed([*both[0], *both[1]])
