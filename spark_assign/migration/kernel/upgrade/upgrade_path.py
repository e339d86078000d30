"""What becomes of a group in an upgrade, and what is told of it step by step."""

from __future__ import annotations

from dataclasses import dataclass

from spark_assign.migration.kernel.upgrade.group_membership import Assignors
from spark_assign.numeric.array_types import BoolArray
from spark_assign.numeric.partition_slices import PartitionSlices

RESTART, SETTLE = "restart", "settle"


@dataclass(frozen=True)
class ClientConfig:
    """How a member runs: the release of its library, and its list of assignors."""

    release: str
    assignors: Assignors


@dataclass(frozen=True)
class UpgradePath:
    """What becomes of one group.

    Attributes:
        before: how its members run now.
        bounces: how they come back; each bounce restarts all members once.
        leader: who leads now, by its id; null: not known.
    """

    before: ClientConfig
    bounces: tuple[ClientConfig, ...]
    leader: str | None = None


@dataclass(frozen=True)
class UpgradeStep:
    """One member of one group has restarted, or (`settle`) everybody has joined once more.

    Attributes:
        group: the group.
        what: `restart` or `settle`.
        bounce: which one, from 1.
        member: who restarted, by its number in the specs; -1 for nobody.
        came_back_as: its id now.
        leader, leader_release: who leads then, by the id it has, and its release.
        changed: whether somebody else led before.
        elected: the assignor.
        moved, revoked, stopped, by_rules: partitions, once for each time.
    """

    group: int
    what: str
    bounce: int
    member: int
    came_back_as: str | None
    leader: str
    leader_release: str
    changed: bool
    elected: str
    moved: int
    revoked: int
    stopped: int
    by_rules: int


@dataclass(frozen=True)
class RollingUpgrade:
    """What was played.

    Attributes:
        steps: of each group its steps, in order.
        whole: of each group whether all of it was played.
        refused: groups for which Kafka's class throws on the way: code and detail.
        after: who has what in the end, in all groups.
    """

    steps: list[list[UpgradeStep]]
    whole: BoolArray
    refused: dict[int, tuple[str, str]]
    after: PartitionSlices
