"""One group: what the advisers say of it, and what it may run with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.size import CANNOT, TOO_FEW
from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import NOT_THERE, plan_switch

Row = Mapping[str, Any]

FALLBACK = "range"
"""What a group is sized by where nobody knows what it runs with."""

CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Kafka's assignors of the clients, as `partition.assignment.strategy` takes them."""


@dataclass
class GroupFindings:
    """What is known of a group.

    Attributes:
        cluster, group_id: its name.
        sizes: of `size`, by assignor.
        fewest: numbers of members that are the least allowed, by assignor.
        membership: of `membership`; null: nothing.
        ways: of `zones`, by assignor (or `CURRENT`) and whether with follower fetching.
        compared: of `compare`, by assignor.
        refused: of advisers that refused it code and detail.
    """

    cluster: str
    group_id: str
    sizes: dict[str, Row] = field(default_factory=dict)
    fewest: dict[str, Row] = field(default_factory=dict)
    membership: Row | None = None
    ways: dict[tuple[str, bool], Row] = field(default_factory=dict)
    compared: dict[str, Row] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def runs_with(self) -> str | None:
        """The assignor that it runs with; null: not known."""
        told = next((row["runs_with"] for row in self.compared.values() if row["runs_with"]), None)
        return told or (self.membership or {}).get("assignor")

    @property
    def own(self) -> str:
        """The same, or what it is taken to run with."""
        return self.runs_with or FALLBACK

    @property
    def clients(self) -> str | None:
        """The libraries of its members."""
        return next((row["clients"] for row in self.compared.values() if row["clients"]), None)

    @property
    def is_heard(self) -> bool:
        """Whether any adviser says anything of it."""
        reads = any(row["members"] for row in (*self.ways.values(), *self.compared.values()))
        return bool(self.sizes) or self.membership is not None or reads

    def may_run(self, assignor: str) -> bool:
        """Whether it can be told to run with one: Kafka's, which the library has. One of its own is never given up."""
        own = client_assignor(self.own)
        if same(assignor, self.own):
            return True
        if own not in (*CLASSES, *KAFKA_SERVER_ASSIGNORS) or assignor not in self.compared:
            return False
        row = self.compared[assignor]
        if row["rejected"] is not None or not row["members"]:
            return False
        return plan_switch(self.runs_with and own, assignor, self.clients).kind != NOT_THERE

    def how(self, assignor: str) -> tuple[str, str | None]:
        """How it goes over to another assignor, in words, and the setting."""
        words = plan_switch(self.runs_with and client_assignor(self.own), assignor, self.clients).text
        if assignor in SERVER_ASSIGNORS:
            return words, f"group.remote.assignor={assignor.removeprefix('server-')}"
        return words, f"partition.assignment.strategy={CLASSES[assignor]}"

    def size(self, assignor: str) -> Row | None:
        """Its size by an assignor."""
        return self.sizes.get(assignor)

    def is_behind(self, assignor: str) -> bool:
        """Whether it has too few members by that assignor, or none would be enough."""
        row = self.size(assignor)
        return row is not None and row["verdict"] in (TOO_FEW, CANNOT)

    def needed(self, assignor: str) -> float:
        """The fewest members that keep up; infinitely many where none do; `NaN`: not known."""
        row = self.size(assignor)
        if row is None or row["capacity"] is None:
            return float("nan")
        return float("inf") if row["needed"] is None else float(row["needed"])

    def crossing(self, assignor: str, fetching: bool) -> float | None:
        """What it pays a day for what crosses a zone; null: not known."""
        row = self.ways.get((assignor, fetching))
        return None if row is None else row["cost_per_day"]

    def crossing_today(self, fetching: bool) -> float | None:
        """The same as it is owned today."""
        return self.crossing(CURRENT, fetching)

    def paused(self, assignor: str) -> float | None:
        """Partition-seconds of a pause until it runs by an assignor."""
        row = self.compared.get(client_assignor(assignor)) or self.compared.get(assignor)
        return None if row is None else row["partition_seconds_paused"]


def same(one: str, other: str) -> bool:
    """Whether both are one assignor, by the rules of whatever release."""
    return client_assignor(one) == client_assignor(other)
