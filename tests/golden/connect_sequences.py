"""The workers of one recorded sequence, told only by its events and by our own results.

Principle: a worker's list, the last generation that it learned and its assignor's memory are its own, and go with its
process. Cut off from the group it keeps all three, and may come back under another name.

Example: w2 is cut off in round 3 with task t, and comes back in round 5 as w7: it reports t, and if it leads, what it
remembers is of round 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spark_assign.connect.kernel.serialized_order import list_after, over_the_wire
from tests.golden.connect_rows import Answer, Listed, Numbers, Row, asked


@dataclass
class Worker:
    """One process: what it lists in its order, the last generation that it learned, its assignor's memory (as `state`
    in a row; null: as in the beginning)."""

    listed: Listed = field(default_factory=lambda: {"connectors": [], "tasks": []})
    completed: int = -1
    memory: dict[str, Any] | None = None


@dataclass
class Workers:
    """All workers of a sequence."""

    there: dict[str, Worker] = field(default_factory=dict)
    cut_off: dict[str, Worker] = field(default_factory=dict)
    leader: str = ""
    came_back: int = 0

    def happens(self, row: Row) -> None:
        """The events before a round; a unit test of Kafka's tells none, and begins with its workers."""
        if not self.there and not row["events"]:
            self.there, self.leader = {name: Worker() for name in row["members"]}, row["leader"]
        for event in row["events"]:
            match event.split():
                case ["worker", name, "joins"]:
                    self.there[name] = Worker()
                case ["worker", name, "leaves"]:
                    self.there.pop(name, None)  # of one it is told twice
                case ["worker", name, "is", "cut", "off", "and", "keeps", "its", "tasks"]:
                    self.cut_off[name] = self.there.pop(name)
                case ["worker", *old, "comes", "back", "as", new, "and", "reports", "what", "it", "kept"]:
                    self.there[new] = self.cut_off.pop(*(old or self.cut_off))  # only one can be meant
                    self.came_back += 1
                case ["leader", "is", "now", name]:
                    self.leader = name
                case ["connector", *_]:
                    pass
                case _:
                    raise AssertionError(f"an event that nobody knows: {event}")

    def reports(self, row: Row, numbers: Numbers) -> dict[str, Listed]:
        """What the workers report: what they list, after a trip over the wire; with eager nothing."""
        reports = {}
        for name, worker in self.there.items():
            eager = row["system"] == "connect-eager"
            sent = ([], []) if eager else over_the_wire(*numbers.items(worker.listed), numbers.connectors.spread)
            reports[name] = numbers.listed([*sent[0], *sent[1]])
        return reports

    def learn(self, row: Row, numbers: Numbers, answer: Answer) -> None:
        """The leader's memory, and the lists of those who learned the result.

        An error (the leader is behind) is learned as well: it ends the generation, and changes nothing else.
        """
        if "state" in answer.said:
            self.there[self.leader].memory = answer.said["state"]
        for name in self.there.keys() - set(row["not_applied"]):
            worker = self.there[name]
            worker.completed = row["generation"]
            if asked(row) and row["system"] != "connect-eager":
                revoked = set().union(*numbers.items(answer.said["revoked"][name]))
                both = list_after(
                    numbers.items(worker.listed), answer.assigned[name], revoked, numbers.connectors.spread
                )
                worker.listed = numbers.listed([*both[0], *both[1]])
