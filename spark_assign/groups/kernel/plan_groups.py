"""The planning pass: the facts of complete groups in, tagged rows of one table out.

The `kind` of a row says which columns it uses:

    assigned         member_id, topic, first, step, count: a slice that the member is assigned in this round
    assigned_alike   topics, member_ids, firsts, steps, counts: each member is assigned its slice of each of the topics;
                     if rows of this kind are required, topics with equal slices are in them instead of in `assigned`
    withheld         the same: a slice that its next owner gets in the following round
    order_dependent  the same: an assigned or withheld slice whose owner depends on an order that the facts
                     don't determine
    changed_topic    a topic in which a partition changes its owner: topic, partitions, member_ids, member_flags, owned,
                     planned (`ownership_changes`)
    metrics          assignor and the metrics of one group
    rejected         code, detail: a group that can't be planned

Steps of `plan_groups`
    1. Index the facts and find the groups that have faults.
    2. Read the specs of the valid groups.
    3. Select the assignor of each group.
    4. Assign, one assignor at a time, many groups side by side.
    5. Compare the assignments with the current ownership.
    6. Emit the rows of the requested kinds.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from spark_assign.assignors.custom import GroupAssignor, assign_custom
from spark_assign.assignors.franz_go.assign_franz_go import assign_by_franz_go
from spark_assign.assignors.franz_go.balancer_input import FRANZ_GO_1_20, FRANZ_GO_1_21
from spark_assign.assignors.group_facts import (
    GROUP,
    LEADER_COLUMNS,
    LISTED_MEMBER,
    IndexedFacts,
    column,
    rejected_table,
)
from spark_assign.assignors.group_specs import ALL_MEMBERS, GroupAssignments, GroupSpecs, groups_with_leaders
from spark_assign.assignors.librdkafka.assign_librdkafka import assign_by_librdkafka
from spark_assign.assignors.range import assign_range
from spark_assign.assignors.release_rules import (
    KAFKA_EQUIVALENTS,
    assignor_of_leader,
    client_assignor,
    format_leader,
    is_release_assignor,
    parse_library_assignor,
    parse_release_assignor,
)
from spark_assign.assignors.roundrobin import assign_round_robin
from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.assignors.server.assign_server import assign_by_server
from spark_assign.assignors.sticky.assign_sticky import STICKY, assign_sticky
from spark_assign.assignors.weighted import WEIGHTED_STICKY
from spark_assign.assignors.weighted.assign_weighted import assign_weighted
from spark_assign.groups.kernel.client_libraries import OR
from spark_assign.groups.kernel.member_loads import LOAD_METRICS, load_metrics
from spark_assign.groups.kernel.ownership_changes import Ownership, SubscriptionIndex, changed_topics, count_changes
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_table
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    PartitionSlices,
    expand_slices,
    find_alike,
    key_ranges,
    mask_from_indexes,
    name_pieces,
    name_sizes,
    starts_new_key,
    take_names,
)
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text

CONFIGURED = "configured"
"""Placeholder for an assignor name: plan each group with the assignor that it is configured with."""
ASSIGNED, ASSIGNED_ALIKE, WITHHELD, ORDER_DEPENDENT, CHANGED_TOPIC, METRICS, REJECTED = (
    *("assigned", "assigned_alike", "withheld", "order_dependent", "changed_topic", "metrics", "rejected"),
)
_TEXT, _INT, _LONG, _DOUBLE = pa.string(), pa.int32(), pa.int64(), pa.float64()
DISTRIBUTION_METRICS = {
    **dict.fromkeys(("final_min_per_member", "final_max_per_member"), pa.int64()),
    **dict.fromkeys(("final_max_over_mean", "topic_max_over_mean"), pa.float64()),
    "members_without_partitions": pa.int64(),
    "note": pa.string(),
}
"""Columns of `distribution_metrics`."""
METRIC_COLUMNS = {
    "assignor": _TEXT,
    **dict.fromkeys(("members", "partitions", "min_per_member", "max_per_member"), _LONG),
    **dict.fromkeys(("mean_per_member", "stddev_per_member", "max_over_mean"), _DOUBLE),
    **dict.fromkeys(("moved", "revoked", "unassigned", "withheld", "members_without_subscription"), _LONG),
    **dict.fromkeys(("unknown_topics", "owned_unknown_topic", "owned_out_of_range", "claim_conflicts"), _LONG),
    **dict.fromkeys(("order_dependent", "rack_matched"), _LONG),
    "leader_client": _TEXT,
    **LOAD_METRICS,
    "load_bound_status": _TEXT,
    **DISTRIBUTION_METRICS,
}
_NULLABLE = ("max_over_mean", "rack_matched", *LOAD_METRICS, *DISTRIBUTION_METRICS)
PLAN_ROWS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "topic"), _TEXT),
        **dict.fromkeys(("first", "step", "count"), _INT),
        **dict.fromkeys(("code", "detail"), _TEXT),
        **dict.fromkeys(("topics", "member_ids"), pa.list_(_TEXT)),
        **dict.fromkeys(("firsts", "steps", "counts", "member_flags", "owned", "planned"), pa.list_(_INT)),
        **METRIC_COLUMNS,
    }
)
COLUMNS_BY_KIND: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((ASSIGNED, WITHHELD, ORDER_DEPENDENT), ("member_id", "topic", "first", "step", "count")),
    ASSIGNED_ALIKE: ("topics", "member_ids", "firsts", "steps", "counts"),
    CHANGED_TOPIC: ("topic", "partitions", "member_ids", "member_flags", "owned", "planned"),
    METRICS: tuple(METRIC_COLUMNS),
    REJECTED: ("code", "detail"),
}
"""Columns that a row of each kind uses, in addition to cluster, group_id, and kind."""
ALL_KINDS = frozenset(COLUMNS_BY_KIND) - {ASSIGNED_ALIKE}


def columns_of(kinds: Collection[str]) -> list[str]:
    """Returns the columns of `PLAN_ROWS` that rows of these kinds use, in schema order."""
    used = {"cluster", "group_id", "kind"}.union(*(COLUMNS_BY_KIND[kind] for kind in kinds))
    return [name for name in PLAN_ROWS.names if name in used]


NO_CUSTOM: Mapping[str, GroupAssignor] = MappingProxyType({})


@dataclass(frozen=True)
class PlanParams:
    """Parameters of one planning pass.

    Attributes:
        patterns: pairs of a shell pattern over group_id and an assignor name (or `CONFIGURED`). The first match wins.
        registered: names of all registered assignors.
        custom: user-defined assignors by name; each plans one group at a time.
        required_kinds: kinds of rows to emit.
        racks_known: whether the fleet has replicas and brokers.
        loads_known: whether the fleet has partition loads.
    """

    patterns: tuple[tuple[str, str], ...]
    registered: tuple[str, ...]
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)
    required_kinds: frozenset[str] = ALL_KINDS
    racks_known: bool = False
    loads_known: bool = False


def plan_groups(table: pa.Table, params: PlanParams) -> Iterator[pa.Table]:
    """Plans all groups of a fact table.

    Args:
        table: facts of complete groups (`assignors.group_facts`).
        params: parameters of the pass.

    Yields:
        tables of tagged rows, with the columns of `PLAN_ROWS` that the required kinds use.
    """
    schema = pa.schema([PLAN_ROWS.field(name) for name in columns_of(params.required_kinds)])
    for kind, rows in _plan_rows(table, params):
        yield tagged_table(kind, rows, schema)


def _plan_rows(table: pa.Table, params: PlanParams) -> Iterator[tuple[str, pa.Table]]:
    """Yields the required kinds of rows of a batch of complete groups."""
    groups = open_pass(table)
    specs = groups.specs
    assignor, rejected = select_assignors(specs, params)
    assignments = assign_groups(specs, assignor, params.custom)
    rejected |= assignments.rejected
    if REJECTED in params.required_kinds:
        yield REJECTED, groups.rejected_groups
        fact_groups = specs.fact_group_index.tolist()
        yield REJECTED, rejected_table(specs.facts, {fact_groups[group]: fault for group, fault in rejected.items()})
    is_planned = assignments.is_planned(assignor)
    if ASSIGNED in params.required_kinds:
        assigned = assignments.assigned_now
        if ASSIGNED_ALIKE in params.required_kinds and (np.diff(assigned.topic) >= 0).all():
            alike, assigned = _alike_rows(specs, assigned)
            yield ASSIGNED_ALIKE, alike
        yield from ((ASSIGNED, rows) for rows in slice_rows(specs, assigned))
    if WITHHELD in params.required_kinds:
        yield from ((WITHHELD, rows) for rows in slice_rows(specs, assignments.withheld_slices))
    if ORDER_DEPENDENT in params.required_kinds:
        yield from ((ORDER_DEPENDENT, rows) for rows in slice_rows(specs, assignments.order_dependent))
    if not params.required_kinds & {METRICS, CHANGED_TOPIC}:
        return
    compared = read_ownership(specs, assignments, is_planned)
    if METRICS in params.required_kinds:
        metrics = group_metrics(specs, compared, assignments.order_dependent, racks_known=params.racks_known)
        statuses = [assignments.load_bound_status.get(group) for group in range(specs.num_groups)]
        texts = {"assignor": assignor, "leader_client": _leader_texts(specs), "load_bound_status": statuses}
        metrics |= {name: pa.array(values, _TEXT) for name, values in texts.items()}
        metrics |= distribution_metrics(specs, assignments.slices, assignor)
        if params.loads_known:
            metrics |= load_metrics(specs, assignments.assigned_now)
        yield METRICS, _group_rows(specs, metrics, is_planned)
        yield METRICS, _empty_group_rows(groups.empty_groups, table)
    if CHANGED_TOPIC in params.required_kinds:
        yield from ((CHANGED_TOPIC, rows) for rows in _changed_rows(specs, compared, assignments))


# --- selects the assignor of each group ----------------------------------------------------------------------------


def select_assignors(specs: GroupSpecs, params: PlanParams) -> tuple[list[str | None], dict[int, tuple[str, str]]]:
    """Selects the assignor of each group.

    Returns:
        the assignor's name per group (None: no assignor), and code and detail for each group without one.
    """
    patterns = [(re.compile(fnmatch.translate(pattern)), name) for pattern, name in params.patterns]
    selected: list[str | None] = []
    rejected: dict[int, tuple[str, str]] = {}
    columns = zip(specs.group_id.to_pylist(), read_assignors(specs), read_leaders(specs), strict=True)
    for group, (group_id, configured, (library, releases, _)) in enumerate(columns):
        pattern_assignor = next((name for pattern, name in patterns if pattern.match(group_id)), None)
        assignor = configured if pattern_assignor == CONFIGURED else pattern_assignor
        rejection = _find_rejection(pattern_assignor, assignor, params.registered)
        if pattern_assignor == CONFIGURED and assignor not in params.custom:
            assignor = assignor_of_leader(assignor, library, releases)
        selected.append(assignor if rejection is None else None)
        if rejection is not None:
            rejected[group] = rejection
    return selected, rejected


def _find_rejection(
    pattern_assignor: str | None, assignor: str | None, registered: tuple[str, ...]
) -> tuple[str, str] | None:
    """Returns the code and the text of the rejection of a group without a usable assignor; `None` if it has one."""
    if pattern_assignor is None:
        return "no-pattern", "No pattern fits the group. Add one, say '*'"
    if assignor is None:
        return "no-assignor", "groups.assignor does not say what it is configured with. Name an assignor"
    if assignor not in registered and not is_release_assignor(assignor):
        return (
            "unknown-assignor",
            f"It is configured with {in_text(assignor)}. Name one of {', '.join(registered)}, or register it",
        )
    return None


def read_configured_assignors(facts: IndexedFacts) -> dict[tuple[str, str], str]:
    """Returns the configured assignor by cluster and group_id.

    In a group of type `consumer` the name `range` stands for the broker's range assignor (KIP-848).
    """
    rows = facts.rows_by_kind[GROUP]
    columns = (facts.column(name, rows).to_pylist() for name in ("cluster", "group_id", "assignor", "group_type"))
    return {
        (cluster, group_id): "server-range" if kind == "consumer" and name == "range" else name
        for cluster, group_id, name, kind in zip(*columns, strict=True)
        if name is not None
    }


def read_assignors(specs: GroupSpecs) -> list[str | None]:
    """Returns the assignor that each group is configured with."""
    configured = read_configured_assignors(specs.facts)
    names = zip(specs.cluster.to_pylist(), specs.group_id.to_pylist(), strict=True)
    return [configured.get(name) for name in names]


def read_leaders(specs: GroupSpecs) -> list[tuple[str | None, str | None, str | None]]:
    """Returns the library, the releases, and the confidence of each group's leader, as far as known.

    A library that is one of several isn't known.
    """
    leaders = zip(*map(specs.group_values, LEADER_COLUMNS), strict=True)
    return [(None, None, known) if name and OR in name else (name, release, known) for name, release, known in leaders]


def _leader_texts(specs: GroupSpecs) -> list[str | None]:
    """Returns a text for the leader of each group, such as `Java 2.8-3.3 (likely)`."""
    is_static = specs.instance_id.is_valid().to_numpy(zero_copy_only=False)
    groups = (specs.members.group[is_static], specs.members.group[specs.members.rack >= 0], groups_with_leaders(specs))
    known = zip(*(mask_from_indexes(each, specs.num_groups).tolist() for each in groups), strict=True)
    return [
        format_leader(*leader, static=static, racks=racks, leader_racks=leader_racks)
        for leader, (static, racks, leader_racks) in zip(read_leaders(specs), known, strict=True)
    ]


# --- the one door to every assignor: `GroupSpecs` in, `GroupAssignments` out, many groups side by side -------------


_LIBRARIES: dict[str, Callable[[GroupSpecs, str, BoolArray], GroupAssignments]] = {
    "franz-go": assign_by_franz_go,
    "franz-go-1.21": partial(assign_by_franz_go, rules=FRANZ_GO_1_21),
    "franz-go-1.20": partial(assign_by_franz_go, rules=FRANZ_GO_1_20),
    "librdkafka": assign_by_librdkafka,
}
"""Libraries with assignors that behave differently from every release of Kafka's clients."""


def assign(
    specs: GroupSpecs, assignor: str, selected: BoolArray, custom: Mapping[str, GroupAssignor] = NO_CUSTOM
) -> GroupAssignments:
    """Assigns the selected groups by one assignor, optionally of a client release
    (`assignors.release_rules`)."""
    if assignor in custom:
        return assign_custom(specs, selected, custom[assignor])
    if assignor == WEIGHTED_STICKY:
        return assign_weighted(specs, selected)
    if assignor in SERVER_ASSIGNORS:
        return assign_by_server(specs, assignor, selected)
    library = parse_library_assignor(assignor)
    if library is not None and library not in KAFKA_EQUIVALENTS:
        return _LIBRARIES[library[1]](specs, library[0], selected)
    profile = parse_release_assignor(assignor if library is None else KAFKA_EQUIVALENTS[library])
    assert profile is not None, assignor
    assignor, rules = profile
    if assignor in STICKY:
        return assign_sticky(specs, assignor, rules, selected)
    windowed, slices = window_slices(specs, assignor, selected)
    if assignor == "roundrobin":
        return GroupAssignments.of(assign_round_robin(specs, selected, windowed, slices))
    return GroupAssignments.of(assign_range(specs, selected, windowed, slices, uses_racks=rules.uses_racks))


def assign_groups(
    specs: GroupSpecs, assignors: Sequence[str | None], custom: Mapping[str, GroupAssignor] = NO_CUSTOM
) -> GroupAssignments:
    """Assigns every group that has an assignor; `assignors` has one name per group, or None."""
    names = np.array([name or "" for name in assignors], object)
    used = sorted(set(names.tolist()) - {""})
    return GroupAssignments.of(EMPTY_SLICES).concat(*(assign(specs, name, names == name, custom) for name in used))


def window_slices(specs: GroupSpecs, assignor: str, selected: BoolArray) -> tuple[BoolArray, PartitionSlices]:
    """Returns the mask of the selected groups for which Spark windows have computed range or roundrobin, and
    the slices. Windows compute the groups that have their subscriptions as rows.

    Raises:
        AssertionError: partitions of these groups are missing, so that the plan would be incomplete.
    """
    facts, topics = specs.facts, specs.topics
    if specs.subscription_rows is None or column(facts.table, f"{assignor}_count").null_count == len(facts.table):
        return np.zeros_like(selected), EMPTY_SLICES
    has_lists = mask_from_indexes(facts.group_index[facts.rows_by_kind[LISTED_MEMBER]], facts.num_groups)
    selected = selected & ~has_lists[specs.fact_group_index]
    member, topic = np.divmod(specs.subscription_rows.key, max(len(topics), 1))
    columns = [
        facts.int_column(f"{assignor}_{field}", 0)[specs.subscription_rows.row] for field in ("first", "step", "count")
    ]
    slices = PartitionSlices(member, topic, *columns).take((columns[-1] > 0) & selected[topics.group[topic]])
    partitions = topics.partitions_to_assign(selected)
    if (np.bincount(slices.topic, slices.count, len(partitions)) != partitions).any():
        raise AssertionError(f"windows have not assigned all partitions of the groups that {assignor} plans")
    return selected, slices


# --- metrics: balance, moves, irregularities -----------------------------------------------------------------------


def read_ownership(specs: GroupSpecs, assignments: GroupAssignments, is_planned: BoolArray) -> Ownership:
    """Returns what the planned groups own and what they are assigned."""
    members = is_planned[specs.members.group]
    return Ownership(
        num_groups=specs.num_groups,
        topic_group=specs.topics.group,
        partitions=specs.topics.partitions,
        owned=specs.owned.take(members[specs.owned.member]),
        departed=specs.departed_owned.take(is_planned[specs.topics.group[specs.departed_owned.topic]]),
        assigned=assignments.assigned_now,
        withheld=assignments.withheld_slices,
    )


def group_metrics(
    specs: GroupSpecs, compared: Ownership, order_dependent: PartitionSlices, *, racks_known: bool
) -> dict[str, pa.Array]:
    """Returns the metrics of each group; columns and units: `tables.groups.METRICS`."""
    counts, topics = count_changes(compared), specs.topics
    assigned, withheld = compared.assigned, compared.withheld
    no_subscription = ~specs.members.has_subscription
    unknown = topics.is_subscribed & (topics.partitions <= 0)
    return {
        **balance_metrics(specs.members.group, specs.num_groups, assigned),
        "moved": pa.array(counts.moved),
        "revoked": pa.array(counts.owned - counts.kept),
        "unassigned": pa.array(count_unassigned(specs, assigned)),
        "withheld": pa.array(compared.sum_by_group(withheld.topic, withheld.count)),
        "members_without_subscription": pa.array(
            np.bincount(specs.members.group[no_subscription], minlength=specs.num_groups)
        ),
        "unknown_topics": pa.array(np.bincount(topics.group[unknown], minlength=specs.num_groups)),
        "owned_unknown_topic": pa.array(counts.topic_gone),
        "owned_out_of_range": pa.array(counts.out_of_range),
        "claim_conflicts": pa.array(counts.conflicts),
        "order_dependent": pa.array(compared.sum_by_group(order_dependent.topic, order_dependent.count)),
        "rack_matched": count_rack_matched(specs, assigned, racks_known=racks_known),
    }


def balance_metrics(group: IntArray, num_groups: int, assigned: PartitionSlices) -> dict[str, pa.Array]:
    """Returns how evenly the assigned partitions are spread over the members of each group.

    Args:
        group: group index of each member, ascending; every group has members.
        num_groups: number of groups.
        assigned: the assignment; `member` indexes into `group`.
    """
    starts = np.searchsorted(group, np.arange(num_groups))
    num_owned = np.bincount(assigned.member, assigned.count, len(group)).astype(np.int64)
    members = np.diff(np.append(starts, len(group)))
    total, minimum, maximum = (
        function.reduceat(num_owned, starts) if len(starts) else num_owned
        for function in (np.add, np.minimum, np.maximum)
    )
    mean = total / np.maximum(members, 1)
    squares = (num_owned - np.repeat(mean, members)) ** 2
    variance = (np.add.reduceat(squares, starts) if len(starts) else squares) / np.maximum(members, 1)
    max_over_mean = np.divide(maximum, mean, out=np.zeros(len(mean)), where=total > 0)
    return {
        "members": pa.array(members),
        "partitions": pa.array(total),
        "min_per_member": pa.array(minimum),
        "max_per_member": pa.array(maximum),
        "mean_per_member": pa.array(mean),
        "stddev_per_member": pa.array(np.sqrt(variance)),
        "max_over_mean": pa.array(max_over_mean, mask=total == 0),
    }


def distribution_metrics(
    specs: GroupSpecs, target: PartitionSlices, assignors: Sequence[str | None]
) -> dict[str, pa.Array]:
    """Returns how each group's partitions are distributed after the last round, and what is conspicuous about it.

    Args:
        specs: the groups.
        target: the assignment, including withheld partitions.
        assignors: the assignor of each group; None: no assignor.
    """
    members, topics = specs.members, specs.topics
    final = balance_metrics(members.group, specs.num_groups, target)
    idle = (np.bincount(target.member, target.count, len(members)) == 0) & members.has_subscription
    num_idle = np.bincount(members.group[idle], minlength=specs.num_groups)
    lists = specs.list_subscribers(np.arange(len(members)))
    mean = topics.partitions / np.maximum(lists.size[lists.of_topic], 1)
    largest = _largest_shares(target, len(topics), max(len(members), 1))
    skew = largest / np.maximum(mean, 1)
    by_skew = np.lexsort((-np.arange(len(topics)), skew, topics.group))
    num_topics = np.bincount(topics.group, minlength=specs.num_groups)
    worst = np.append(by_skew, -1)[np.where(num_topics > 0, np.cumsum(num_topics) - 1, -1)]
    largest_topic = np.zeros(specs.num_groups, np.int64)
    np.maximum.at(largest_topic, topics.group, np.where(topics.is_subscribed, topics.partitions, 0))
    even, most = np.ceil(mean).astype(np.int64), final["max_per_member"].to_numpy()
    partitions = count_subscribed_partitions(specs)
    sizes = np.bincount(members.group[members.has_subscription], minlength=specs.num_groups)
    is_uneven = (worst >= 0) & ((largest > even + 1) & (largest >= 2 * even))[worst] if len(topics) else worst > 0
    is_range = np.array([client_assignor(name or "") in ("range", "server-range") for name in assignors], bool)
    share = -(-partitions // np.maximum(sizes, 1))
    is_mixed = _is_heterogeneous(specs)
    is_skewed = (is_range | is_mixed) & (most > share)
    notes: list[str | None] = [None] * specs.num_groups
    for group in np.flatnonzero((num_idle > 0) | is_uneven | is_skewed).tolist():
        by_topic, texts = f"{assignors[group]} divides each topic separately, ", []
        if num_idle[group]:
            reason = "other members have all partitions of the topics that they subscribe to"
            if partitions[group] < sizes[group]:
                reason = f"the topics have {count(partitions[group], 'partition')} in total"
            elif is_range[group] and not is_mixed[group] and largest_topic[group] < sizes[group]:
                reason = f"{by_topic}and no topic has more partitions than {largest_topic[group]:,}"
            have = "has" if num_idle[group] == 1 else "have"
            texts.append(f"{num_idle[group]:,} of {sizes[group]:,} members {have} no partitions: {reason}")
        elif is_skewed[group]:
            reason = f"{by_topic}so the same members have the larger share of each: up to"
            if is_mixed[group]:
                reason = "members subscribe to different topics, and one has"
            texts.append(f"{reason} {most[group]:,} partitions, and an even share is {share[group]:,}")
        if is_uneven[group]:
            topic = worst[group]
            name, counts = (
                in_text(specs.topic[topic].as_py()),
                f"{largest[topic]:,} of {topics.partitions[topic]:,} partitions",
            )
            texts.append(f"one member has {counts} of {name}, and an even share is {even[topic]:,}")
        notes[group] = "; ".join(texts)
    return {
        **{f"final_{name}": final[name] for name in ("min_per_member", "max_per_member", "max_over_mean")},
        "topic_max_over_mean": pa.array(np.append(skew, 0)[worst], mask=np.append(skew, 0)[worst] == 0),
        "members_without_partitions": pa.array(num_idle),
        "note": pa.array(notes, pa.string()),
    }


def _is_heterogeneous(specs: GroupSpecs) -> BoolArray:
    """Checks, for each group, whether members subscribe to different topics. Members without a subscription don't
    count."""
    topics, num_sets = specs.topics, len(specs.subscriber_sets) + 1
    sets = topics.group * num_sets + topics.subscriber_set - ALL_MEMBERS
    return np.bincount(np.unique(sets[topics.is_subscribed]) // num_sets, minlength=specs.num_groups) > 1


def _largest_shares(target: PartitionSlices, num_topics: int, num_members: int) -> IntArray:
    """Returns the number of partitions that one member has of each topic, at most."""
    key = target.topic * num_members + target.member
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(starts_new_key(key[order]))
    largest = np.zeros(num_topics, np.int64)
    if len(starts):
        np.maximum.at(largest, target.topic[order[starts]], np.add.reduceat(target.count[order], starts))
    return largest


def count_subscribed_partitions(specs: GroupSpecs) -> IntArray:
    """Returns the number of partitions of all subscribed topics, per group."""
    known = specs.topics.with_metadata
    return np.bincount(specs.topics.group[known], specs.topics.partitions[known], specs.num_groups).astype(np.int64)


def count_unassigned(specs: GroupSpecs, assigned: PartitionSlices) -> IntArray:
    """Returns the number of partitions of all subscribed topics, per group, that have no owner. Sticky assignors leave
    a member a partition that it claims beyond the topic's; it stands for none of these."""
    existing = assigned.below(specs.topics.partitions)
    owned = np.bincount(specs.topics.group[existing.topic], existing.count, specs.num_groups).astype(np.int64)
    return count_subscribed_partitions(specs) - owned


def count_rack_matched(specs: GroupSpecs, assigned: PartitionSlices, *, racks_known: bool) -> pa.Array:
    """Returns the number of partitions, per group, that have a replica in the rack of their member; null if no member
    has a rack.
    """
    has_racks = np.zeros(specs.num_groups, bool)
    has_racks[specs.members.group[specs.members.rack >= 0]] = racks_known
    set_has_rack = np.zeros((len(specs.rack_sets), len(specs.racks)), bool)
    for index, rack_set in enumerate(specs.rack_sets):
        set_has_rack[index, list(rack_set)] = True
    matched = np.zeros(specs.num_groups, np.int64)
    has_rack_set = mask_from_indexes(list(specs.rack_set), len(specs.topics))
    runs = assigned.take(has_rack_set[assigned.topic] & (specs.members.rack[assigned.member] >= 0))
    runs = runs.take(np.argsort(runs.topic, kind="stable"))
    for start, end in key_ranges(runs.topic):
        topic = int(runs.topic[start])
        topic_slices = runs.take(np.arange(start, end))
        run, partition = expand_slices(topic_slices.first, topic_slices.step, topic_slices.count)
        partition_sets = specs.rack_set[topic]
        exists = partition < len(partition_sets)
        rack = specs.members.rack[topic_slices.member[run[exists]]]
        matched[specs.topics.group[topic]] += int(set_has_rack[partition_sets[partition[exists]], rack].sum())
    return pa.array(matched, mask=~has_racks)


# --- rows ----------------------------------------------------------------------------------------------------------


def group_key_columns(specs: GroupSpecs, groups: IntArray) -> dict[str, pa.Array]:
    """Returns the columns cluster and group_id for an array of group indexes."""
    indexes = pa.array(groups, pa.int64())
    return {"cluster": specs.cluster.take(indexes), "group_id": specs.group_id.take(indexes)}


def slice_rows(specs: GroupSpecs, slices: PartitionSlices, member_ids: pa.Array | None = None) -> Iterator[pa.Table]:
    """Yields slices with names, in pieces that no length of a name makes large; their members index into `member_ids`,
    by default those of the specs."""
    ids, group = specs.member_id if member_ids is None else member_ids, specs.topics.group[slices.topic]
    named = ((specs.cluster, group), (specs.group_id, group), (ids, slices.member), (specs.topic, slices.topic))
    for piece in name_pieces(*named):
        some = slices.take(piece)
        names = group_key_columns(specs, group[piece])
        names |= {"member_id": take_names(ids, some.member), "topic": take_names(specs.topic, some.topic)}
        yield pa.table(names | {name: pa.array(getattr(some, name)) for name in ("first", "step", "count")})


_MAX_ALIKE_BYTES = 2**30
"""Maximum size of the member IDs in rows of kind ASSIGNED_ALIKE, which are in one column of Arrow texts."""


def _alike_rows(specs: GroupSpecs, slices: PartitionSlices) -> tuple[pa.Table, PartitionSlices]:
    """Returns rows of kind ASSIGNED_ALIKE, and the slices of all other topics; slices are in the order of topics."""
    start, size, like = find_alike(slices, specs.topics.group[slices.topic])
    num_topics = np.bincount(like, minlength=len(like))
    is_alike = num_topics[like] > 1
    first = np.flatnonzero(num_topics > 1)
    topic = slices.topic[start]
    _, row = expand_slices(start[first], np.ones_like(first), size[first])
    if name_sizes(specs.member_id, slices.member[row]).sum() > _MAX_ALIKE_BYTES:
        first, row, is_alike = first[:0], row[:0], np.zeros_like(is_alike)
    alike_topics = np.flatnonzero(is_alike)[np.argsort(like[is_alike], kind="stable")]
    columns = group_key_columns(specs, specs.topics.group[topic[first]])
    columns["topics"] = _lists(num_topics[first], take_names(specs.topic, topic[alike_topics]))
    columns["member_ids"] = _lists(size[first], take_names(specs.member_id, slices.member[row]))
    for name in ("first", "step", "count"):
        columns[f"{name}s"] = _lists(size[first], pa.array(getattr(slices, name)[row], _INT))
    return pa.table(columns), slices.take(~np.repeat(is_alike, size))


def _lists(lengths: IntArray, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), _INT), values)


def _group_rows(specs: GroupSpecs, metrics: dict[str, pa.Array], is_planned: BoolArray) -> pa.Table:
    table = pa.table(group_key_columns(specs, np.arange(specs.num_groups)) | metrics)
    return table.filter(pa.array(is_planned))


def _empty_group_rows(rows: IntArray, table: pa.Table) -> pa.Table:
    """Returns the metrics of consumer groups without members: all counts are zero, and other metrics are missing."""
    indexes = pa.array(rows, pa.int64())
    kinds = column(table, "group_type").take(indexes).fill_null("classic").to_pylist()
    indexes = indexes.filter(pa.array([kind in ("classic", "consumer") for kind in kinds], pa.bool_()))
    names = {name: column(table, name).take(indexes) for name in ("cluster", "group_id")}
    assignor = column(table, "assignor").take(indexes).fill_null("none")
    counts = [name for name, kind in METRIC_COLUMNS.items() if kind != _TEXT and name not in _NULLABLE]
    return pa.table(names | {"assignor": assignor} | dict.fromkeys(counts, pa.array(np.zeros(len(indexes)))))


def _changed_rows(specs: GroupSpecs, compared: Ownership, assignments: GroupAssignments) -> Iterator[pa.Table]:
    """Yields a row for each topic in which a partition changes its owner, or is withheld."""
    cause = np.append(assignments.reason[~assignments.withheld], assignments.reason[assignments.withheld])
    slices = compared.owned.concat(compared.assigned, compared.withheld)
    slices = slices.take(specs.subscribes(slices.member, slices.topic))
    pairs = np.unique(slices.member * max(len(specs.topics), 1) + slices.topic)  # those that are looked up
    subscribed = SubscriptionIndex(pairs, max(len(specs.topics), 1), len(specs.members))
    member_ids = pa.concat_arrays([specs.member_id, specs.facts.member_id])
    for topics, columns in changed_topics(compared, cause, subscribed, member_ids):
        keys = group_key_columns(specs, specs.topics.group[topics]) | {"topic": take_names(specs.topic, topics)}
        yield pa.table(columns | keys)
