"""Groups with one number of members after the other, by one assignor: who carries how much, and what the way costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import NormalDist

import numpy as np

from spark_assign.advice.kernel.size.resize import resize
from spark_assign.comparison.kernel.transition_cost import later_rounds, seconds_paused
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import WINDOW_ASSIGNORS
from spark_assign.groups.kernel.group_metrics import (
    MemberLoads,
    count_subscribed_partitions,
    drain_seconds,
    max_per_group,
    read_ownership,
    sum_by_group,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.simulation.kernel.settings import Timing

TOGETHER = 1_000_000
"""So many members, subscriptions and partitions, about, are resized together."""


@dataclass(frozen=True)
class SizingCriteria:
    """On which terms a number of members is enough.

    Attributes:
        headroom: share of what is written that a member must be able to read beside it.
        quantile: of the rate, by which a member is measured; rates are taken to be spread normally, and all partitions
            to have their peaks at the same time.
        timing: times by which pauses are counted.
        custom: assignors that plan one group at a time.
    """

    headroom: float
    quantile: float
    timing: Timing
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)

    @property
    def deviations(self) -> float:
        """How many standard deviations that quantile is above the mean."""
        return max(NormalDist().inv_cdf(self.quantile), 0.0)


@dataclass(frozen=True)
class LoadByMemberCount:
    """Figures, side by side; of each

    Attributes:
        group: the group of the specs.
        members: with so many.
        max_load, max_load_high: messages a second that are written to what one member has, at most; on average, and at
            the quantile.
        mean_load: the mean over members, on average.
        idle: members without partitions.
        unassigned: partitions that the group subscribes to today, and nobody has.
        drain_seconds: how long the slowest takes to catch up (`carried.drain_seconds`).
        moved: partitions that get another owner than today.
        paused: partition-seconds without consumption on the way.
        refused: whether the assignor has no plan.
    """

    group: IntArray
    members: IntArray
    max_load: FloatArray
    max_load_high: FloatArray
    mean_load: FloatArray
    idle: IntArray
    unassigned: IntArray
    drain_seconds: FloatArray
    moved: IntArray
    paused: FloatArray
    refused: BoolArray


def in_order(parts: Sequence[LoadByMemberCount]) -> LoadByMemberCount:
    """All of them, by group and number of members."""
    columns = {
        one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(LoadByMemberCount)
    }
    order = np.lexsort((columns["members"], columns["group"]))
    return LoadByMemberCount(**{name: column[order] for name, column in columns.items()})


def high_rates(specs: GroupSpecs, terms: SizingCriteria) -> FloatArray:
    """Of each partition its rate at the quantile; as the mean where its spread is not known."""
    loads = specs.loads
    return loads.in_rate + terms.deviations * np.nan_to_num(loads.in_rate_stddev)


def sweep(
    specs: GroupSpecs, assignor: str, group: IntArray, members: IntArray, capacity: FloatArray, terms: SizingCriteria
) -> LoadByMemberCount:
    """Each of these groups with each of these numbers of members.

    Args:
        specs: the groups as they are.
        assignor: by its name.
        group, members: side by side.
        capacity: of each group of the specs what one member can handle; `NaN`: not known.
        terms: on which it is judged.
    """
    portions = _portions(specs, group, members)
    return in_order([_sweep(specs, assignor, group[at], members[at], capacity, terms) for at in portions])


def _portions(specs: GroupSpecs, group: IntArray, members: IntArray) -> Iterator[IntArray]:
    topics = np.bincount(specs.topics.group, minlength=specs.num_groups)
    size = (members + 1) * (topics[group] + 1) + count_subscribed_partitions(specs)[group]
    portion = np.cumsum(size) // TOGETHER
    for each in np.unique(portion).tolist():
        yield np.flatnonzero(portion == each)


def _sweep(
    specs: GroupSpecs, assignor: str, group: IntArray, members: IntArray, capacity: FloatArray, terms: SizingCriteria
) -> LoadByMemberCount:
    window_assignors = [
        name for name in WINDOW_ASSIGNORS if name == client_assignor(assignor) and assignor not in terms.custom
    ]
    new = resize(specs, group, members, window_assignors)
    everybody = np.ones(new.num_groups, bool)
    planned = assign(new, assignor, everybody, terms.custom)
    fine = everybody.copy()
    fine[list(planned.rejected)] = False
    later = later_rounds(new, assignor, fine, terms.custom)
    counts = count_changes(read_ownership(new, planned.assigned_now, planned.slices.take(planned.withheld), fine))
    carried, loads = MemberLoads(new, planned.slices), new.loads
    load = carried.sums(loads.in_rate)
    idle = np.bincount(new.members.group[carried.num_partitions() == 0], minlength=new.num_groups)
    drain = drain_seconds(carried.sums(loads.lag), load, capacity[group][new.members.group])
    behind = sum_by_group(new, carried.num_known(loads.lag)) > 0
    return LoadByMemberCount(
        group=group,
        members=members,
        max_load=max_per_group(new, load),
        max_load_high=max_per_group(new, carried.sums(high_rates(new, terms))),
        mean_load=np.bincount(new.members.group, load, new.num_groups) / members,
        idle=idle,
        unassigned=count_subscribed_partitions(specs)[group]
        - sum_by_group(new, carried.num_partitions()).astype(np.int64),
        drain_seconds=np.where(behind, max_per_group(new, drain), np.nan),
        moved=counts.owned_and_assigned - counts.kept - counts.returned + later["moved"],
        paused=seconds_paused(new, counts, planned.slices, later, assignor, terms),
        refused=~fine,
    )
