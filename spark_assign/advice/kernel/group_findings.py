"""Collects the findings of all advisers about one group, and decides which assignors it can run."""

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
"""The assignor that a group is sized with if its own is unknown: the default of Kafka's clients."""

CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Client-side assignors of Kafka, as values of `partition.assignment.strategy`."""


@dataclass
class GroupFindings:
    """The findings about one group.

    Attributes:
        cluster, group_id: key of the group.
        sizes: rows of `size`, by assignor.
        minimum_curves: rows of `curves` at the minimum number of members, by assignor.
        membership: row of `membership`; `None`: no result.
        options: rows of `zones`, by assignor (or `CURRENT`) and whether follower fetching is on.
        compared: rows of `compare`, by assignor.
        rejections: code and detail by adviser that rejects the group.
    """

    cluster: str
    group_id: str
    sizes: dict[str, Row] = field(default_factory=dict)
    minimum_curves: dict[str, Row] = field(default_factory=dict)
    membership: Row | None = None
    options: dict[tuple[str, bool], Row] = field(default_factory=dict)
    compared: dict[str, Row] = field(default_factory=dict)
    rejections: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def runs_with(self) -> str | None:
        """The assignor that the group runs with; `None`: unknown."""
        compared = next((row["runs_with"] for row in self.compared.values() if row["runs_with"]), None)
        return compared or (self.membership or {}).get("assignor")

    @property
    def own(self) -> str:
        """The assignor that the group runs with, or is assumed to run with."""
        return self.runs_with or FALLBACK

    @property
    def clients(self) -> str | None:
        """The client libraries of the members; `None`: unknown."""
        return next((row["clients"] for row in self.compared.values() if row["clients"]), None)

    @property
    def has_findings(self) -> bool:
        """Whether any adviser has a result for the group."""
        reads = any(row["members"] for row in (*self.options.values(), *self.compared.values()))
        return bool(self.sizes) or self.membership is not None or reads

    def can_run(self, assignor: str) -> bool:
        """Checks whether the group can run a Kafka assignor that its client library supports. A custom assignor is
        never replaced."""
        own = client_assignor(self.own)
        if is_same(assignor, self.own):
            return True
        if own not in (*CLASSES, *KAFKA_SERVER_ASSIGNORS) or assignor not in self.compared:
            return False
        row = self.compared[assignor]
        if row["rejected"] is not None or not row["members"]:
            return False
        return plan_switch(self.runs_with and own, assignor, self.clients).kind != NOT_THERE

    def switch_steps(self, assignor: str) -> tuple[str, str | None]:
        """Returns the steps to switch to another assignor, as text, and the setting."""
        text = plan_switch(self.runs_with and client_assignor(self.own), assignor, self.clients).text
        if assignor in SERVER_ASSIGNORS:
            return text, f"group.remote.assignor={assignor.removeprefix('server-')}"
        return text, f"partition.assignment.strategy={CLASSES[assignor]}"

    def size(self, assignor: str) -> Row | None:
        """Returns the size row for an assignor; `None` if there is none."""
        return self.sizes.get(assignor)

    def is_behind(self, assignor: str) -> bool:
        """Checks whether the group has too few members with this assignor, or can't keep up with any number."""
        row = self.size(assignor)
        return row is not None and row["verdict"] in (TOO_FEW, CANNOT)

    def needed(self, assignor: str) -> float:
        """Returns the minimum number of members that keep up; infinity if none do, NaN if unknown."""
        row = self.size(assignor)
        if row is None or row["capacity"] is None:
            return float("nan")
        return float("inf") if row["needed"] is None else float(row["needed"])

    def cost_per_day(self, assignor: str, fetching: bool) -> float | None:
        """Returns the cross-zone cost per day with an assignor; `None` if unknown."""
        row = self.options.get((assignor, fetching))
        return None if row is None else row["cost_per_day"]

    def current_cost(self, fetching: bool) -> float | None:
        """Returns the cross-zone cost per day with today's owners; `None` if unknown."""
        return self.cost_per_day(CURRENT, fetching)

    def pause_seconds(self, assignor: str) -> float | None:
        """Returns the pause of the switch to an assignor, in partition-seconds; `None` if unknown."""
        row = self.compared.get(client_assignor(assignor)) or self.compared.get(assignor)
        return None if row is None else row["paused_partition_seconds"]


def is_same(first: str, second: str) -> bool:
    """Checks whether two names are the same assignor, ignoring release rules."""
    return client_assignor(first) == client_assignor(second)
