"""Which numbers of members are looked at, and what is read from them.

Groups with one number of members after the other, by one assignor: who carries how much, and what the way costs.

What there is to size: groups, what their members can handle, and what is written to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import NormalDist

import numpy as np

from spark_assign.advice.kernel.resize import resize
from spark_assign.comparison.kernel.compare import later_rounds, seconds_paused
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import WINDOW_ASSIGNORS
from spark_assign.groups.kernel.group_metrics import (
    MemberLoads,
    configured_value,
    count_subscribed_partitions,
    drain_seconds,
    max_per_group,
    member_capacity,
    read_ownership,
    sum_by_group,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.segmented_arrays import expand_slices
from spark_assign.simulation.kernel.settings import Timing

AT_ONCE = 50
"""So many numbers of members are looked at, before the gap around the answer is filled."""

MOST = 5_000
"""No group is looked at with more members than so many, unless it has more today."""

SAME = 0.05
"""The most loaded member has as good as the least that is possible if it has no more than this share above it."""


def numbers_to_try(now: int, partitions: int, enough: float, of_use: float) -> IntArray:
    """The numbers of members to begin with, ascending: all of them where those are few, else evenly spread by ratio.

    Args:
        now: how many there are.
        partitions: that the group subscribes to; with more members some have nothing.
        enough: how many could do it if load were spread evenly; `NaN`: not known.
        of_use: with how many the most loaded member has one partition only, if load were spread evenly.
    """
    known = [bound for bound in (now, enough, of_use) if np.isfinite(bound)]
    last = int(min(max(partitions, 1), max(2 * max(known), 8), max(MOST, now)))
    if last <= AT_ONCE:
        return np.arange(1, max(last, now) + 1)
    spread = np.geomspace(1, last, AT_ONCE - 10).round().astype(np.int64)
    near = [now + step for step in (-1, 0, 1)]
    if np.isfinite(enough):
        near += [int(np.ceil(enough)) + step for step in range(6)]
    fine = [each for each in near if 1 <= each <= max(last, now)]
    return np.unique(np.append(spread, fine)).astype(np.int64)


def between(tried: IntArray, fits: BoolArray) -> IntArray:
    """Numbers that were not tried between the first that fits and the one before it that does not."""
    if not fits.any():
        return np.empty(0, np.int64)
    first = int(np.argmax(fits))
    below = int(tried[first - 1]) if first else 0
    gap = np.arange(below + 1, int(tried[first]))
    return gap if len(gap) <= AT_ONCE else np.unique(np.linspace(gap[0], gap[-1], AT_ONCE).astype(np.int64))


def knee(members: IntArray, most: FloatArray) -> int:
    """Where the curve of the most loaded member bends: its point farthest below the line between its ends."""
    if len(members) < 3 or most[0] <= most[-1]:
        return int(members[0])
    across = (members - members[0]) / (members[-1] - members[0])
    down = (most - most[-1]) / (most[0] - most[-1])
    return int(members[np.argmax(1 - across - down)])


def of_no_more_use(members: IntArray, most: FloatArray) -> int:
    """The smallest number with which the most loaded member has as good as the least that any number gives it."""
    return int(members[np.argmax(most <= most.min() * (1 + SAME))])


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


@dataclass(frozen=True)
class SizingInput:
    """One group and assignor.

    Attributes:
        assignor: by its name.
        now: how many members there are.
        partitions: that it subscribes to.
        capacity: what a member can handle, messages a second; `NaN`: not known.
        given: whether that is given, and not measured.
        load, load_high: of all its partitions, on average and at the quantile.
        hot: of its hottest partition the topic, the partition, and its load on average and at the quantile.
    """

    assignor: str
    now: int
    partitions: int
    capacity: float
    given: bool
    load: float
    load_high: float
    hot: tuple[str, int, float, float]


def read_cases(specs: GroupSpecs, assignor: str, groups: IntArray, terms: SizingCriteria) -> dict[int, SizingInput]:
    """By group what there is to size; each has a partition whose rate is known."""
    loads, topics = specs.loads, specs.topics
    topic, partition = expand_slices(
        np.zeros(len(topics.with_metadata), np.int64),
        np.ones(len(topics.with_metadata), np.int64),
        topics.partitions[topics.with_metadata],
    )
    topic = topics.with_metadata[topic]
    at = loads.position_of(topic, partition)
    rate, high = (np.nan_to_num(each[at]) for each in (loads.in_rate, high_rates(specs, terms)))
    group = topics.group[topic]
    load, load_high = (np.bincount(group, each, specs.num_groups) for each in (rate, high))
    hottest = np.lexsort((-np.arange(len(rate)), rate, group))  # of equals the first by topic and partition comes last
    last = hottest[np.searchsorted(group[hottest], np.arange(specs.num_groups), "right") - 1]
    now, partitions = np.bincount(specs.members.group, minlength=specs.num_groups), count_subscribed_partitions(specs)
    capacity, given = member_capacity(specs), ~np.isnan(configured_value(specs, "capacity"))
    return {
        each: SizingInput(
            assignor=assignor,
            now=int(now[each]),
            partitions=int(partitions[each]),
            capacity=float(capacity[each]),
            given=bool(given[each]),
            load=float(load[each]),
            load_high=float(load_high[each]),
            hot=(
                specs.topic[int(topic[last[each]])].as_py(),
                int(partition[last[each]]),
                float(rate[last[each]]),
                float(high[last[each]]),
            ),
        )
        for each in groups.tolist()
    }
