"""Random histories of groups: members join and leave, topics grow, and each round starts from the round before.

A history is told in rows of the golden format (`tests/golden/README-client.md`, "Sequences"): what a member owns is
what it was given in the last round, the round is the generation of its result, and a cooperative member does not own
what was withheld from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.golden.vectors import Row

Sets = Mapping[str, set[tuple[str, int]]]
Plan = Callable[[list[Row]], Mapping[str, Sets]]
"""Plans one row per history: case to member to partitions."""


@dataclass
class History:
    """One group over its rounds."""

    strategy: str
    seed: str
    alike: bool = True
    topics: dict[str, int] = field(default_factory=dict)
    members: dict[str, Row] = field(default_factory=dict)
    names: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.alike = self.rng.random() < 0.5
        self.racks = [f"r{n}" for n in range(self.rng.randint(2, 4))] if self.rng.random() < 0.3 else []
        self.topics = {f"t{n}": self.rng.randint(1, 12) for n in range(self.rng.randint(1, 6))}
        for _ in range(self.rng.randint(1, 6)):
            self._join()

    def _join(self) -> None:
        self.names += 1
        name = f"{self.rng.choice(['c', 'consumer', 'Aa'])}-{self.names}-{self.rng.randrange(1000)}"
        rack = self.rng.choice(self.racks) if self.racks else None
        self.members[name] = {"id": name, "instance": None, "rack": rack, "topics": self._wanted()}
        self.members[name] |= {"owned": [], "generation": None}

    def _wanted(self) -> list[str]:
        return sorted(topic for topic in self.topics if self.alike or self.rng.random() < 0.6)

    def happen(self) -> None:
        """What changes before a round: often one thing, sometimes several, sometimes nothing."""
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 4])):
            event = self.rng.choice(["join", "join", "leave", "back", "grow", "topic", "gone", "mind"])
            if event == "join":
                self._join()
            elif event in ("leave", "back") and len(self.members) > 1:
                left = self.members.pop(self.rng.choice(list(self.members)))
                if event == "back":
                    self._back(left)
            elif event == "grow" and self.topics:
                self.topics[self.rng.choice(list(self.topics))] += self.rng.randint(1, 6)
            elif event == "topic":
                self.topics[f"n{self.rng.randrange(10**6)}"] = self.rng.randint(1, 8)
                self._all_members_ask()
            elif event == "gone" and len(self.topics) > 1:
                del self.topics[self.rng.choice(list(self.topics))]
                if self.rng.random() < 0.5:
                    self._all_members_ask()
            elif event == "mind" and not self.alike:
                self.rng.choice(list(self.members.values()))["topics"] = self._wanted()

    def _all_members_ask(self) -> None:
        if self.alike:
            for member in self.members.values():
                member["topics"] = self._wanted()

    def _back(self, member: Row) -> None:
        """Thrown out, and back under a new id: its user data is of the past, its generation and partitions are lost."""
        self._join()
        again = next(reversed(self.members.values()))
        if member["generation"] is not None:
            again["user_generation"] = member["generation"]
            if self.strategy == "sticky":
                again["owned"] = member["owned"]

    def row(self, case: str) -> Row:
        """The next round."""
        members = [dict(member) for member in self.members.values()]
        if len(members) > 1:
            self.rng.shuffle(members)
        racks = self.racks
        striped = {t: [[racks[p % len(racks)]] for p in range(n)] for t, n in self.topics.items()} if racks else None
        row = {"case": case, "strategy": self.strategy, "topics": dict(self.topics)}
        return row | {"replica_racks": striped, "members": members}

    def accept(self, result: Sets, generation: int) -> None:
        """Everybody gets its new assignment, of this generation."""
        for name, member in self.members.items():
            member.pop("user_generation", None)
            member["generation"] = generation
            member["owned"] = [list(partition) for partition in sorted(result.get(name, ()))]


def rows(strategy: str, seed: int, plan: Plan, groups: int = 30, rounds: int = 8) -> list[Row]:
    """The rows of all rounds of some histories, each fed by what `plan` made of the round before."""
    histories = [History(strategy, f"{strategy}-{seed}-{number}") for number in range(groups)]
    recorded: list[Row] = []
    for generation in range(1, rounds + 1):
        generation_rows = [each.row(f"seed-{seed}-{n:03d}/round-{generation}") for n, each in enumerate(histories)]
        results = plan(generation_rows)
        for history, row in zip(histories, generation_rows, strict=True):
            history.accept(results.get(row["case"], {}), generation)
            history.happen()
        recorded += generation_rows
    return recorded
