"""What a report is made from: plain rows, few enough for one page; the names of columns are those of the tables.

Bounds. Whatever the fleet's size, the driver holds at most

    MOST_GROUPS     rows of groups; a larger fleet shows those with most partitions affected, and says so;
    WORST_GROUPS    groups whose members and movements are shown,
    MOST_MEMBERS    members of each, and a matrix of MATRIX by MATRIX members, the rest added up as others;
    LISTED_MEMBERS  members with their partitions, in all of these groups, and LISTED_ROWS slices and moves;
    MOST_ROWS       rows of any other table.

Totals, the distribution of imbalance and the reasons are added up by Spark, over all groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_assign.report.formatting import Rows
from spark_assign.report.group_members import GroupMembers
from spark_assign.report.views import MOST_ROWS as MOST_ROWS

MOST_GROUPS = 10_000
WORST_GROUPS = 50
MOST_MEMBERS = 40
MATRIX = 12
LISTED_MEMBERS, LISTED_ROWS = 5_000, 40_000
DRAWN_GROUPS = 6
"""Groups whose rebalances are drawn."""

MAPPED_GROUPS, MAX_INTERVALS = 25, 28
"""Rows and columns of a heat map; a longer history has wider columns."""

BUCKETS = 200
"""Points in time of such a drawing."""

EDGES = (1.005, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Upper bounds of the classes of max_over_mean; the last class has none."""

NOTHING_ASSIGNED = -1
"""The class of groups without a max_over_mean."""


@dataclass(frozen=True)
class PlanRows:
    """A plan.

    Attributes:
        classes: cluster, assignor, imbalance (class 0 to len(EDGES), or NOTHING_ASSIGNED), even (whether the imbalance
            is the minimum for these numbers of partitions and members), groups (count), and sums of
            `listed_groups.SUMS`.
        groups: `tables.groups.METRICS`, most affected partitions first (`listed_groups`).
        members: members of the worst groups: cluster, group_id, member_id, before, after, waiting (partitions
            owned now, owned after this rebalance, withheld until the next), gone (the member left), listed (number
            of members of the group that own partitions), silent (number of partitions in `after` without traffic; 0 if
            offsets are unknown). `before` is null if unknown.
        moves: moves in the worst groups: cluster, group_id, from_member_id, to_member_id (null: no member), reason,
            partitions. All members outside the matrix are OTHERS.
        reasons: reason, partitions, groups.
        rejected: cluster, group_id, code, detail.
        rejected_total: total number of rejected groups.
        about: run_id, finished_at, inputs, and versions, if known.
        notes: sentences about missing data.
        ruled: assignor, leader_client, groups (count), partitions: whose rules groups with members are planned with.
        silent: listed groups that have partitions without traffic: cluster, group_id, partitions (number to which no
            record was ever written); None if offsets are unknown.
        who: the members of the worst groups with their partitions; None if they aren't known.
    """

    classes: Rows
    groups: Rows
    members: Rows = ()
    moves: Rows = ()
    reasons: Rows = ()
    rejected: Rows = ()
    rejected_total: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    ruled: Rows = ()
    silent: Rows | None = None
    who: GroupMembers | None = None


OTHERS = "\u0000others"
"""Represents all members outside the matrix; no member can have this ID."""
