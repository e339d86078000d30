"""Plans groups with many member counts by one assignor, and measures load per member and the cost of the change.

Also selects the member counts to evaluate, and reads what to size: members' capacity and partitions' rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.custom import GroupAssignor
from spark_assign.assignors.group_facts import (
    DEPARTED_SLICE,
    GROUP,
    KINDS,
    LISTED_MEMBER,
    LISTED_TOPIC,
    LOAD_COLUMNS,
    MAX_SUBSCRIBERS,
    MEMBER,
    OWNED_ORDER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
    IndexedFacts,
    NameIndex,
    count_subscribers,
    find_owned,
)
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.comparison.kernel.compare import transition_costs
from spark_assign.groups.kernel.member_loads import (
    MemberLoads,
    drain_seconds,
    max_per_group,
    member_capacity,
    sum_by_group,
)
from spark_assign.groups.kernel.plan_groups import assign, count_subscribed_partitions, count_unassigned
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    FloatArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    expand_slices,
    invert,
    mask_from_indexes,
    ranges_by_length,
    take_names,
    to_int_array,
)
from spark_assign.share.kernel.plan_groups import assign_share_groups
from spark_assign.simulation.kernel.settings import TimingConfig

MAX_COUNTS = 50
"""Maximum number of member counts to evaluate in the first sweep, beside those near the current number if there are
fewer partitions; the gap around the result is filled afterward."""

MAX_MEMBERS = 5_000
"""Maximum member count to evaluate, unless the group has more members today."""

SHARE = "share"
"""`group_type` of share groups (KIP-932)."""

SIMPLE = "simple"
"""Name of the assignor of share groups, as in `group.share.assignors`."""

MAX_SHARE_MEMBERS = 200
"""Default of `group.share.max.size`: a share group accepts no more members (`ShareGroupConfig`)."""

TOLERANCE = 0.05
"""Share above the smallest possible maximum load that still counts as equal to it."""


def initial_counts(num_members: int, partitions: int, enough: float, useful: float) -> IntArray:
    """Returns the member counts to evaluate first, ascending: all if they are few, otherwise spaced geometrically.

    Args:
        num_members: current number of members.
        partitions: number of partitions that the group subscribes to; more members than partitions leave some idle.
        enough: number of members that suffices with an even load; NaN if unknown.
        useful: number of members at which the most loaded member has a single partition, with an even load.
    """
    known = [bound for bound in (num_members, enough, useful) if np.isfinite(bound)]
    last = int(min(max(partitions, 1), max(2 * max(known), 8), max(MAX_MEMBERS, num_members)))
    if max(last, num_members) <= MAX_COUNTS:
        return np.arange(1, max(last, num_members) + 1)
    is_short = last <= MAX_COUNTS  # fewer partitions than members
    spread = np.arange(1, last + 1) if is_short else np.geomspace(1, last, MAX_COUNTS - 10).round().astype(np.int64)
    near = [num_members + step for step in (-1, 0, 1)]
    if np.isfinite(enough):
        near += [int(np.ceil(enough)) + step for step in range(6)]
    valid = [count for count in near if 1 <= count <= max(last, num_members)]
    return np.unique(np.append(spread, valid)).astype(np.int64)


def counts_between(counts: IntArray, fits: BoolArray) -> IntArray:
    """Returns the counts not yet evaluated between the first that fits and the previous one, which doesn't."""
    if not fits.any():
        return np.empty(0, np.int64)
    first = int(np.argmax(fits))
    below = int(counts[first - 1]) if first else 0
    gap = np.arange(below + 1, int(counts[first]))
    return gap if len(gap) <= MAX_COUNTS else np.unique(np.linspace(gap[0], gap[-1], MAX_COUNTS).astype(np.int64))


def knee(members: IntArray, max_load: FloatArray) -> int:
    """Returns the knee of the curve of the maximum load: the point farthest below the line between its ends."""
    if len(members) < 3 or max_load[0] <= max_load[-1]:
        return int(members[0])
    across = (members - members[0]) / (members[-1] - members[0])
    down = (max_load - max_load[-1]) / (max_load[0] - max_load[-1])
    return int(members[np.argmax(1 - across - down)])


def saturation_members(members: IntArray, max_load: FloatArray) -> int:
    """Returns the smallest member count whose maximum load is about the smallest that any count reaches."""
    return int(members[np.argmax(max_load <= max_load.min() * (1 + TOLERANCE))])


ROWS_PER_SWEEP = 1_000_000
"""Approximate number of members, subscriptions, and partitions that are resized together."""


@dataclass(frozen=True)
class SizingCriteria:
    """Criteria for a sufficient number of members.

    Attributes:
        headroom: share of its load that a member must have in reserve.
        quantile: quantile of the rates that a member must be able to read. Rates are assumed to be normally
            distributed, and all partitions to peak at the same time.
        timing: times for the estimate of pauses.
        custom: assignors that plan one group at a time, by name.
        threads_per_pod: members per pod; None: as the hosts of the members show.
        pods_per_node: pods per node; None: nodes aren't counted.
        record_locks: records of one partition that the members of a share group can hold at the same time.
        records_in_flight: records of one partition that a member of a share group holds at a time.
    """

    headroom: float = 0.2
    quantile: float = 0.95
    timing: TimingConfig = field(default_factory=TimingConfig)
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)
    threads_per_pod: int | None = None
    pods_per_node: int | None = None
    record_locks: int = 2_000
    records_in_flight: int = 500

    def sharing(self, assignor: str) -> int:
        """Returns the number of members that can work on a partition at the same time; 0 in consumer groups."""
        return max(1, self.record_locks // self.records_in_flight) if assignor == SIMPLE else 0


@dataclass(frozen=True)
class LoadByMemberCount:
    """Figures for pairs of a group and a member count, one array element each.

    Attributes:
        group: index into the groups of the specs.
        members: member count.
        max_load, max_load_at_quantile: messages per second of the most loaded member: mean, and at the quantile.
        mean_load: mean load per member in messages per second.
        idle: number of members without partitions.
        unassigned: number of subscribed partitions that aren't assigned.
        drain_seconds: seconds until the slowest member has caught up (`member_loads.drain_seconds`).
        moved: number of partitions that get another owner than today.
        paused_partition_seconds: partition-seconds without consumption during the change.
        rejected: whether the assignor has no plan.
    """

    group: IntArray
    members: IntArray
    max_load: FloatArray
    max_load_at_quantile: FloatArray
    mean_load: FloatArray
    idle: IntArray
    unassigned: IntArray
    drain_seconds: FloatArray
    moved: IntArray
    paused_partition_seconds: FloatArray
    rejected: BoolArray

    def of_group(self, group: int) -> LoadByMemberCount:
        """Returns the figures of one group, sorted by member count."""
        start, end = np.searchsorted(self.group, [group, group + 1])
        return LoadByMemberCount(*(getattr(self, field.name)[start:end] for field in fields(self)))


def concat_sorted(sweeps: Sequence[LoadByMemberCount]) -> LoadByMemberCount:
    """Returns the concatenation, sorted by group and member count."""
    names = [field.name for field in fields(LoadByMemberCount)]
    columns = {name: np.concatenate([getattr(sweep, name) for sweep in sweeps]) for name in names}
    order = np.lexsort((columns["members"], columns["group"]))
    return LoadByMemberCount(**{name: column[order] for name, column in columns.items()})


def high_rates(specs: GroupSpecs, criteria: SizingCriteria) -> FloatArray:
    """Returns the rate of each partition at the quantile; the mean if its deviation is unknown. Shape:
    (num_partitions,)."""
    loads, deviations = specs.loads, max(NormalDist().inv_cdf(criteria.quantile), 0.0)
    return loads.in_messages_per_second + deviations * np.nan_to_num(loads.in_messages_per_second_stddev)


def sweep(
    specs: GroupSpecs,
    assignor: str,
    member_counts: Mapping[int, IntArray],
    capacity: FloatArray,
    criteria: SizingCriteria,
) -> LoadByMemberCount:
    """Plans the given groups with the given member counts.

    Args:
        specs: the current groups.
        assignor: name of the assignor.
        member_counts: member counts by group index.
        capacity: capacity of a member of each group of the specs, in messages per second; NaN if unknown.
        criteria: criteria for a sufficient number of members.
    """
    members = np.concatenate(list(member_counts.values()))
    group = np.repeat(np.array(list(member_counts), np.int64), list(map(len, member_counts.values())))
    portions = _portions(specs, group, members)
    return concat_sorted([_sweep(specs, assignor, group[at], members[at], capacity, criteria) for at in portions])


def _portions(specs: GroupSpecs, group: IntArray, members: IntArray) -> Iterator[IntArray]:
    """Yields the indexes of pairs that are resized together. All rows of a group are copied, whoever stays."""
    topics = np.bincount(specs.topics.group, minlength=specs.num_groups)
    rows = np.bincount(specs.facts.group_index)[specs.fact_group_index]
    size = (members + 1) * (topics[group] + 1) + (count_subscribed_partitions(specs) + rows)[group]
    portion = np.cumsum(size) // ROWS_PER_SWEEP
    for index in np.unique(portion).tolist():
        yield np.flatnonzero(portion == index)


def count_new_subscribers(specs: GroupSpecs, member_counts: Mapping[int, IntArray]) -> dict[int, int]:
    """Returns the most subscribers of all topics of each given group with one of its member counts, for groups with
    more than `MAX_SUBSCRIBERS`. New members are subscribers of every topic; topics with the same ones count once."""
    topics = np.bincount(specs.topics.group, minlength=specs.num_groups)
    most = {group: int(members.max(initial=0)) for group, members in member_counts.items()}
    if all(members * int(topics[group]) <= MAX_SUBSCRIBERS for group, members in most.items()):
        return {}
    totals, sets = (each[specs.fact_group_index] for each in count_subscribers(specs.facts))
    joining = {group: max(0, most[group] - int((specs.members.group == group).sum())) for group in most}
    found = {group: int(totals[group]) + joining[group] * int(sets[group]) for group in most if joining[group]}
    return {group: subscribers for group, subscribers in found.items() if subscribers > MAX_SUBSCRIBERS}


def _sweep(
    specs: GroupSpecs, assignor: str, group: IntArray, members: IntArray, capacity: FloatArray, criteria: SizingCriteria
) -> LoadByMemberCount:
    """Plans each group with the given number of members, and returns the loads that result."""
    new = resize(specs, group, members)
    all_groups = np.ones(new.num_groups, bool)
    sharing = criteria.sharing(assignor)
    if sharing:
        slices, costs, is_planned = _plan_share_groups(new)
    else:
        planned = assign(new, assignor, all_groups, criteria.custom)
        slices, is_planned = planned.slices, ~mask_from_indexes(list(planned.rejected), new.num_groups)
        costs = transition_costs(new, assignor, planned, is_planned, criteria.timing, criteria.custom)
    member_loads, loads = MemberLoads(new, slices, sharing), new.loads
    load = member_loads.sums(loads.in_messages_per_second)
    drain = drain_seconds(member_loads.sums(loads.lag), load, capacity[group][new.members.group])
    behind = sum_by_group(new, member_loads.num_known(loads.lag)) > 0
    return LoadByMemberCount(
        group=group,
        members=members,
        max_load=max_per_group(new, load),
        max_load_at_quantile=max_per_group(new, member_loads.sums(high_rates(new, criteria))),
        mean_load=np.bincount(new.members.group, load, new.num_groups) / members,
        idle=np.bincount(new.members.group[member_loads.num_partitions() == 0], minlength=new.num_groups),
        unassigned=count_subscribed_partitions(specs)[group] - _count_assigned(new, member_loads),
        drain_seconds=np.where(behind, max_per_group(new, drain), np.nan),
        moved=costs["moved"],
        paused_partition_seconds=costs["paused_partition_seconds"],
        rejected=~is_planned,
    )


def _plan_share_groups(specs: GroupSpecs) -> tuple[PartitionSlices, dict[str, Any], BoolArray]:
    """Returns what `SimpleAssignor` assigns, the cost of the change, and which groups have a plan. Share groups don't
    pause: a member gets its new partitions with its next heartbeat."""
    assigned, rejected = assign_share_groups(specs)
    slices = PartitionSlices(*(np.empty(0, np.int64),) * 5).concat(*(changes.assigned for changes in assigned))
    added = np.concatenate([np.empty(0, np.int64), *(changes.group(changes.added.topic) for changes in assigned)])
    moved = np.bincount(added, minlength=specs.num_groups)
    costs = {"moved": moved, "paused_partition_seconds": np.zeros(specs.num_groups)}
    return slices, costs, ~mask_from_indexes(list(rejected), specs.num_groups)


def _count_assigned(specs: GroupSpecs, member_loads: MemberLoads) -> IntArray:
    """Returns the number of partitions with an owner, per group. Members of a share group can have the same one."""
    if not member_loads.sharing:
        return count_subscribed_partitions(specs) - count_unassigned(specs, member_loads.slices)
    topics = np.unique(member_loads.slices.partition_keys) >> PARTITION_BITS
    return np.bincount(specs.topics.group[topics], minlength=specs.num_groups)


@dataclass(frozen=True)
class SizingInput:
    """The current state of one group, for one assignor.

    Attributes:
        assignor: name of the assignor.
        num_members: current number of members.
        partitions: number of subscribed partitions.
        capacity: capacity of a member in messages per second; NaN if unknown.
        is_configured: whether the capacity is configured, not measured.
        load, load_at_quantile: load of all partitions in messages per second: mean, and at the quantile.
        hot: the hottest partition: topic, partition, mean load, and load at the quantile.
        sharing: number of members that can work on a partition at the same time: 1 in consumer groups.
        is_share: whether the group is a share group.
        threads_per_pod: members per pod; 1 if unknown.
        threads_source: where that number is from: `configured`, `read` from hosts; None if it is unknown.
    """

    assignor: str
    num_members: int
    partitions: int
    capacity: float
    is_configured: bool
    load: float
    load_at_quantile: float
    hot: tuple[str, int, float, float]
    sharing: int = 1
    is_share: bool = False
    threads_per_pod: int = 1
    threads_source: str | None = None

    @property
    def most_members(self) -> int:
        """The number of members above which one more has nothing to do, or isn't admitted."""
        most = self.partitions * self.sharing
        return max(self.num_members, min(most, MAX_SHARE_MEMBERS)) if self.is_share else most

    def in_whole_pods(self, members: IntArray) -> IntArray:
        """Returns the numbers of members rounded up to whole pods, and the current number."""
        pods = -(-members // self.threads_per_pod) * self.threads_per_pod
        if self.is_share:  # the broker admits no more
            pods = pods[pods <= self.most_members]
        return np.unique(np.append(pods, self.num_members)) if len(members) else members


def read_sizing_inputs(
    specs: GroupSpecs, assignor: str, groups: IntArray, criteria: SizingCriteria
) -> dict[int, SizingInput]:
    """Returns the sizing input of each group. Each group must have a partition whose rate is known."""
    loads, topics = specs.loads, specs.topics
    counts = topics.partitions[topics.with_metadata]
    topic, partition = np.repeat(topics.with_metadata, counts), ranges_by_length(counts)
    at = loads.position_of(topic, partition)
    rate, high = (np.nan_to_num(rates[at]) for rates in (loads.in_messages_per_second, high_rates(specs, criteria)))
    group = topics.group[topic]
    load, load_at_quantile = (np.bincount(group, rates, specs.num_groups) for rates in (rate, high))
    by_rate = np.lexsort((-np.arange(len(rate)), rate, group))  # of equal rates, the first partition is last
    hottest = by_rate[np.searchsorted(group[by_rate], groups, "right") - 1]
    topics = specs.topic.take(pa.array(topic[hottest])).to_pylist()
    hot = zip(topics, *(values[hottest].tolist() for values in (partition, rate, high)), strict=True)
    sharing, (threads, source) = criteria.sharing(assignor), _threads_per_pod(specs, criteria)
    figures = {
        "num_members": np.bincount(specs.members.group, minlength=specs.num_groups),
        "partitions": count_subscribed_partitions(specs),
        "capacity": member_capacity(specs, sharing),
        "is_configured": ~np.isnan(specs.load_setting("capacity")),
        "load": load,
        "load_at_quantile": load_at_quantile,
        "threads_per_pod": np.maximum(threads, 1),
    }
    rows = pa.table(figures).take(groups).to_pylist()
    return {
        index: SizingInput(
            assignor=assignor,
            hot=hot_partition,
            sharing=max(sharing, 1),
            is_share=sharing > 0,
            threads_source=source if threads[index] else None,
            **row,
        )
        for index, hot_partition, row in zip(groups.tolist(), hot, rows, strict=True)
    }


def _threads_per_pod(specs: GroupSpecs, criteria: SizingCriteria) -> tuple[IntArray, str]:
    """Returns the number of members per pod of each group, 0 if unknown, and whether it is `configured` or `read`.

    A host counts as a pod if at least two hosts have members, and all have the same number, more than one. Otherwise
    the hosts don't show it: all members on one host can be of one pod or of several.
    """
    if criteria.threads_per_pod is not None:
        return np.full(specs.num_groups, criteria.threads_per_pod), "configured"
    members = specs.members
    hosts = specs.facts.column("client_host", members.row)
    host = to_int_array(hosts.dictionary_encode().indices, -1) + 1  # 0: unknown
    is_known = np.bincount(members.group, host == 0, specs.num_groups) == 0
    pairs, counts = np.unique(members.group * (len(hosts) + 1) + host, return_counts=True)
    group = pairs // (len(hosts) + 1)
    num_hosts, total = (np.bincount(group, each, specs.num_groups) for each in (None, counts))
    least = np.full(specs.num_groups, np.iinfo(np.int64).max)
    np.minimum.at(least, group, counts)
    is_even = is_known & (num_hosts > 1) & (least * num_hosts == total) & (least > 1)
    return np.where(is_even, least, 0), "read"


# --- the same groups with other member counts, as after `Fleet.with_members_left` -----------------------------
#
# Members leave in order of their ids, and no member owns their partitions afterward. New members have new ids, own
# nothing, and subscribe to all topics of their group. All of it is done with row and name indexes, without reading
# text.


JOINER = "joiner-"

GROUP_LEVEL_KINDS = (GROUP, REPLICA_RACKS, LISTED_TOPIC, DEPARTED_SLICE)
"""Kinds of facts that don't belong to a single live member."""

_SLICE = ("first", "step", "count")
_DROPPED = {
    *("bits", "twice", "block", "cluster", "group_id", "kind", "member_id", "topic", "list", *LOAD_COLUMNS.values()),
    *(f"{name}_{column}" for name in ("range", "roundrobin") for column in _SLICE),
}


def resize(specs: GroupSpecs, group: IntArray, members: IntArray) -> GroupSpecs:
    """Returns specs with one group for each element of `group`, in this order.

    Args:
        specs: the current groups.
        group: index of the group that each new group is derived from.
        members: number of members of each new group, at least 1.
    """
    rows = _Rows(specs, group, members)
    facts = rows.build_facts()
    new = read_group_specs(facts, set())
    size = max(len(facts.topic_names), 1)
    source_topic = KeyIndex(specs.topics.group * size + specs.topics.name).lookup(
        group[new.topics.group] * size + new.topics.name
    )
    loads = replace(
        specs.loads, start=specs.loads.start[source_topic], faults={}, has_loads=specs.loads.has_loads[group]
    )
    return replace(new, subscription_rows=None, partition_loads=loads)


class _Rows:
    """Rows of the new facts, in blocks of one kind: source row (-1: none), new group, and joiner (-1: a member)."""

    def __init__(self, specs: GroupSpecs, group: IntArray, members: IntArray) -> None:
        self.specs, self.group, facts = specs, group, specs.facts
        self.base_group = invert(specs.fact_group_index, facts.num_groups)
        member_group = specs.members.group
        num_members = np.bincount(member_group, minlength=specs.num_groups)
        self.member_rank = ranges_by_length(num_members)
        self.joining = np.maximum(members - num_members[group], 0)
        self.leaving = np.maximum(num_members[group] - members, 0)
        self.num_member_ids = max(len(facts.member_id), 1)
        most = int(self.joining.max(initial=0))
        most += int(pc.starts_with(facts.member_id, JOINER).sum().as_py() or 0) if most else 0
        self.joiner_ids = pa.array([f"{JOINER}{nth:02d}" for nth in range(1, most + 1)], pa.string())
        self.member_keys = KeyIndex(member_group * self.num_member_ids + facts.member_index[specs.members.row])
        self.blocks: list[tuple[int, IntArray, IntArray, IntArray]] = []
        self.slices_by_block: dict[int, tuple[IntArray, IntArray, IntArray]] = {}
        for kind in GROUP_LEVEL_KINDS:
            self._add(kind, *self._copies(facts.rows_by_kind[kind]))
        for kind in (MEMBER, SUBSCRIPTION, LISTED_MEMBER, OWNED_ORDER):
            row, new = self._copies(facts.rows_by_kind[kind])
            stays = self._stays(row, new)
            self._add(kind, row[stays], new[stays])
        self._add_joiners()
        owned = find_owned(facts, self.base_group >= 0)
        position, new = self._copies(owned.row, positions=True)
        row, stays = owned.row[position], self._stays(owned.row[position], new)
        for kind, mask in ((OWNED_SLICE, stays), (DEPARTED_SLICE, ~stays)):
            slices = position[mask]
            self.slices_by_block[len(self.blocks)] = (owned.first[slices], owned.step[slices], owned.count[slices])
            self._add(kind, row[mask], new[mask])

    def _copies(self, rows: IntArray, *, positions: bool = False) -> tuple[IntArray, IntArray]:
        """Returns the rows (or their positions) of the group that each new group is derived from, and the new group."""
        base = self.base_group[self.specs.facts.group_index[rows]]
        order = np.argsort(base, kind="stable")
        start, end = (np.searchsorted(base[order], self.group, side) for side in ("left", "right"))
        group, position = expand_slices(start, np.ones_like(start), end - start)
        return (order[position] if positions else rows[order[position]]), group

    def _stays(self, row: IntArray, group: IntArray) -> BoolArray:
        """Returns whether the member of each row stays in the new group."""
        facts = self.specs.facts
        key = self.base_group[facts.group_index[row]] * self.num_member_ids + facts.member_index[row]
        return np.asarray(self.member_rank[self.member_keys.lookup(key)] >= self.leaving[group], bool)

    def _add(self, kind: int, row: IntArray, group: IntArray, joiner: IntArray | None = None) -> None:
        self.blocks.append((kind, row, group, np.full(len(row), -1) if joiner is None else joiner))

    def _add_joiners(self) -> None:
        """Adds the new members and one list that they share, of every topic that a member of their group subscribes to.

        They don't join the lists of other members: a row for each new member and list, or topic, can be too many.
        """
        facts = self.specs.facts
        group = np.repeat(np.arange(len(self.joining)), self.joining)
        nth = self._free_ids(self.group[group], ranges_by_length(self.joining))
        for kind in (MEMBER, LISTED_MEMBER):
            self._add(kind, np.full(len(nth), -1), group, nth)
        rows = np.concatenate([facts.rows_of(kind, self.base_group >= 0) for kind in (SUBSCRIPTION, LISTED_TOPIC)])
        key = facts.group_index[rows] * max(len(facts.topic_names), 1) + facts.topic_index[rows]
        self.joiner_topics = len(self.blocks)
        self._add(LISTED_TOPIC, *self._copies(rows[np.unique(key, return_index=True)[1]]))

    def _free_ids(self, group: IntArray, nth: IntArray) -> IntArray:
        """Returns the position in `joiner_ids` of the nth ID that no member of the source group has."""
        facts, size = self.specs.facts, len(self.joiner_ids) + 1
        position = np.append(to_int_array(pc.index_in(facts.member_id, self.joiner_ids), -1), -1)[facts.member_index]
        rows = np.flatnonzero((position >= 0) & (self.base_group[facts.group_index] >= 0))
        taken = np.unique(self.base_group[facts.group_index[rows]] * size + position[rows])
        first = np.searchsorted(taken, taken // size * size)
        # Number of free IDs before each ID that is taken. Example: of the IDs 0 to 4, 1 and 2 are taken.
        #     taken [1, 2]    num_free [1, 1]    nth [0, 1, 2]    result [0, 3, 4]
        num_free = taken - (np.arange(len(taken)) - first)
        return nth + np.searchsorted(num_free, group * size + nth, "right") - np.searchsorted(taken, group * size)

    def build_facts(self) -> IndexedFacts:
        """Returns the facts of the new groups."""
        base = self.specs.facts
        numbered = NameIndex(base.member_id, self.joiner_ids)
        names, (new_index, joiner_index) = numbered.names, numbered.columns
        starts = np.cumsum([0, *(len(row) for _, row, *_ in self.blocks)])
        row, group, joiner = (np.concatenate([block[column] for block in self.blocks]) for column in (1, 2, 3))
        is_copy, is_joiner = row >= 0, joiner >= 0
        member = np.where(is_copy, np.append(new_index, -1)[base.member_index[row]], -1)
        member[is_joiner] = joiner_index[joiner[is_joiner]]
        rows: dict[int, list[IntArray]] = {kind: [np.empty(0, np.int64)] for kind in KINDS}
        for (kind, *_), start, end in zip(self.blocks, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            rows[kind].append(np.arange(start, end))
        of_list = is_copy & (base.list_index[row] >= 0)
        of_list[starts[self.joiner_topics] : starts[self.joiner_topics + 1]] = False
        table = base.table
        kept = [name for name in table.column_names if name not in _DROPPED and table[name].null_count < len(table)]
        copied = table.select(kept).take(pa.array(row, pa.int64(), mask=~is_copy))
        columns = {name: copied[name] for name in kept} | {"member_id": take_names(names, member)}
        for index, name in enumerate(_SLICE):
            values = base.int_column(name)[row]
            for block, slices in self.slices_by_block.items():
                values[starts[block] : starts[block + 1]] = slices[index]
            columns[name] = pa.array(values, pa.int32(), mask=values < 0)
        return IndexedFacts(
            table=pa.table(columns),
            rows_by_kind={kind: np.concatenate(arrays) for kind, arrays in rows.items()},
            group_index=group,
            member_index=member,
            topic_index=np.where(is_copy, base.topic_index[row], -1),
            list_index=np.where(of_list, base.list_index[row], base.list_index.max() + 1),
            cluster=self.specs.cluster.take(pa.array(self.group)),
            group_id=self.specs.group_id.take(pa.array(self.group)),
            member_id=names,
            topic_names=base.topic_names,
        )
