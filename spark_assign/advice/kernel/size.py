"""Computes how many members every group needs, and the reason as a sentence, in one pass over complete groups.

A result row is tagged by its `kind`:

    size       a group and assignor: the number of members needed, the number above which more don't help, and why
    curve      a group, assignor, and number of members: the load per member, and the cost of the change
    topic      a group and topic: the number of partitions that the topic needs for this group, and why
    rejected   code, detail: a group that can't be sized

Verdicts:

    right-sized          the group has the number of members that it needs
    under-provisioned    it needs more
    over-provisioned     it needs fewer
    cannot-keep-up       no number of members keeps up: one partition exceeds a member's capacity, or there are too few
                         partitions
    unknown              the capacity of a member is unknown: the curve is computed, but no number of members is needed

A share group (KIP-932) isn't limited to a member per partition: the members of a partition share its records, as many
at the same time as its record locks allow (`SizingCriteria.sharing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.size_sweep import (
    MAX_MEMBERS,
    SHARE,
    SIMPLE,
    TOLERANCE,
    LoadByMemberCount,
    SizingCriteria,
    SizingInput,
    concat_sorted,
    count_new_subscribers,
    counts_between,
    high_rates,
    initial_counts,
    knee,
    read_sizing_inputs,
    saturation_members,
    sweep,
)
from spark_assign.assignors.group_facts import MAX_SUBSCRIBERS, rejected_table
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.groups.kernel.member_loads import MAX_CAPACITY, MIN_CAPACITY, member_capacity
from spark_assign.groups.kernel.plan_groups import CONFIGURED, PlanParams, group_key_columns, select_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray, mask_from_indexes
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text

RIGHT_SIZED, UNDER_PROVISIONED, OVER_PROVISIONED = "right-sized", "under-provisioned", "over-provisioned"
CANNOT_KEEP_UP, UNKNOWN = "cannot-keep-up", "unknown"

CONFIGURED_CAPACITY, MEASURED_CAPACITY = "configured", "measured"

PARTITIONS, HOT_PARTITION, ASSIGNOR = "partitions", "hot-partition", "assignor"
RECORD_LOCKS = "record-locks"
"""What limits the benefit of more members: each member has one partition, one partition exceeds the mean, or the
assignor leaves members without partitions (range assigns each topic separately); in a share group, the record locks of
the hottest partition.
"""

ENOUGH, TOO_FEW = "enough", "too-few"
"""Verdicts on the partitions of a topic, beside `UNKNOWN`."""


def keeps_up(swept: LoadByMemberCount, capacity: float | FloatArray, criteria: SizingCriteria) -> BoolArray:
    """Returns which member counts keep up: all partitions are assigned, and the most loaded member has the headroom."""
    read = ~swept.rejected & (swept.unassigned <= 0)
    return np.asarray(read & (swept.max_load_at_quantile * (1 + criteria.headroom) <= capacity), bool)


def build_size_row(
    sizing: SizingInput, swept: LoadByMemberCount, criteria: SizingCriteria, has_curve: bool
) -> dict[str, Any]:
    """Returns a row of `tables.advice.SIZES`, except cluster and group_id, from the figures of one group.

    `has_curve`: whether the figures are of more than the current number of members.
    """
    planned = ~swept.rejected
    members, most = swept.members[planned], swept.max_load[planned]
    threads = sizing.threads_per_pod
    fits = keeps_up(swept, sizing.capacity, criteria) & (swept.members % threads == 0)
    current = int(np.argmax(swept.members == sizing.num_members))
    needed = int(swept.members[np.argmax(fits)]) if fits.any() else None
    topic, partition, hot, hot_high = sizing.hot
    is_known = not np.isnan(sizing.capacity)
    source = CONFIGURED_CAPACITY if sizing.is_configured else MEASURED_CAPACITY
    row = {
        **{name: getattr(sizing, name) for name in ("assignor", "partitions", "load", "load_at_quantile")},
        "members": sizing.num_members,
        "needed": needed,
        "knee": knee(members, most),
        "saturation_members": saturation_members(members, most),
        "max_load": float(swept.max_load[current]),
        "hot_topic": topic,
        "hot_partition": partition,
        "hot_load": hot,
        "capacity": sizing.capacity if is_known else None,
        "capacity_source": source if is_known else None,
        "drain_seconds": _known(swept.drain_seconds[current]),
        "limited_by": _bound(sizing, members, most),
    }
    if sizing.threads_source:
        pods = {"pods": sizing.num_members, "pods_needed": needed}
        row |= {name: None if each is None else -(-each // threads) for name, each in pods.items()}
        row |= {"threads_per_pod": threads, "threads_per_pod_source": sizing.threads_source}
        if criteria.pods_per_node and needed is not None:
            row["nodes_needed"] = -(-row["pods_needed"] // criteria.pods_per_node)
    verdict = _verdict(sizing, needed)
    wanted = sizing.load_at_quantile * (1 + criteria.headroom) / sizing.capacity
    is_short = verdict == CANNOT_KEEP_UP
    row |= {"verdict": verdict, "partitions_needed": _whole(wanted / sizing.sharing) if is_short else None}
    if needed is not None:
        at = int(np.argmax(swept.members == needed))
        row |= {
            "max_load_needed": float(swept.max_load[at]),
            "drain_seconds_needed": _known(swept.drain_seconds[at]),
            "moved": int(swept.moved[at]),
            "paused_partition_seconds": float(swept.paused_partition_seconds[at]),
        }
    row["reason"] = _reason(sizing, row, hot_high, criteria, has_curve) + _in_pods(row)
    return row


def _in_pods(row: Mapping[str, Any]) -> str:
    """Returns the needed number of members in pods, as a sentence; empty if members per pod aren't known."""
    if row.get("pods_needed") is None:
        return ""
    source = "configured" if row["threads_per_pod_source"] == "configured" else "read from the members' hosts"
    each = f"{count(row['threads_per_pod'], 'member')} each ({source})"
    nodes = f", on {count(row['nodes_needed'], 'node')}" if "nodes_needed" in row else ""
    return f" In pods: {row['pods_needed']:,} with {each}{nodes}; today {row['pods']:,}."


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _bound(sizing: SizingInput, members: Any, most: Any) -> str:
    """Returns what limits the benefit of more members."""
    if sizing.is_share:
        return RECORD_LOCKS if most.min() <= sizing.hot[2] / sizing.sharing * (1 + TOLERANCE) else ASSIGNOR
    if most.min() <= sizing.hot[2] * (1 + TOLERANCE):
        return HOT_PARTITION if members[int(np.argmin(most))] < sizing.partitions else PARTITIONS
    return ASSIGNOR


def _verdict(sizing: SizingInput, needed: int | None) -> str:
    if np.isnan(sizing.capacity):
        return UNKNOWN
    if needed is None:
        return CANNOT_KEEP_UP
    num_pods, needed_pods = (-(-members // sizing.threads_per_pod) for members in (sizing.num_members, needed))
    if needed <= sizing.num_members and num_pods == needed_pods:
        return RIGHT_SIZED
    return UNDER_PROVISIONED if needed > sizing.num_members else OVER_PROVISIONED


def _reason(
    sizing: SizingInput, row: Mapping[str, Any], hot_high: float, criteria: SizingCriteria, has_curve: bool
) -> str:
    """Returns the reason for the verdict, with figures."""
    verdict, needed, with_headroom = row["verdict"], row["needed"], f" with {criteria.headroom:.0%} headroom"
    if verdict == UNKNOWN:
        reason = "The capacity of a member is unknown because no member has lag. Set it with --capacity."
        if not has_curve:
            return reason
        more = f"more than {row['saturation_members']} don't reduce the maximum load"
        return f"{reason} The knee of the curve is at {count(row['knee'], 'member')}; {more}."
    capacity = f"a member handles {sizing.capacity:,.0f} messages/s{with_headroom if criteria.headroom else ''}"
    key_note = "More partitions move keys to other partitions, so the order of a key's messages is lost once."
    is_short = (row["partitions_needed"] or 0) > sizing.partitions
    more = f"at least {count(row['partitions_needed'], 'partition')} in total" if is_short else "more partitions"
    hot = f"{in_text(row['hot_topic'])}-{row['hot_partition']}" if row["hot_topic"] else ""
    if verdict == CANNOT_KEEP_UP and sizing.is_share:
        at_once = f"at most {count(sizing.sharing, 'member')} can work on a partition at the same time"
        locks = f"{criteria.record_locks:,} record locks, {criteria.records_in_flight:,} records per member"
        return (
            f"{hot} receives {hot_high:,.0f} messages/s at its peak, and all "
            f"partitions {sizing.load_at_quantile:,.0f}. Of the group, {at_once} ({locks}), "
            f"{sizing.most_members:,} altogether, and {capacity}. Raise share.partition.max.record.locks, lower "
            f"max.poll.records, or use {more}."
        )
    if verdict == CANNOT_KEEP_UP and hot_high * (1 + criteria.headroom) > sizing.capacity:
        return (
            f"{hot} alone receives {hot_high:,.0f} messages/s at its peak, and "
            f"{capacity}. Use faster members, or, if the messages have many keys, {more}. {key_note}"
        )
    if verdict == CANNOT_KEEP_UP:
        return (
            f"{count(sizing.partitions, 'partition', 'is', 'are')} too few, or {sizing.assignor} distributes them too "
            f"unevenly: at their peaks, {count(row['partitions_needed'], 'member')} must share "
            f"{sizing.load_at_quantile:,.0f} messages/s evenly. Use {more}. {key_note}"
        )
    reason = f"With {count(needed, 'member')}, the most loaded one receives {row['max_load_needed']:,.0f} messages/s"
    if verdict == UNDER_PROVISIONED:
        reason = f"{reason}, and with the current {sizing.num_members}, {row['max_load']:,.0f}"
    elif verdict == OVER_PROVISIONED:
        reason = f"{reason}. The group has {count(sizing.num_members, 'member')}"
    return f"{reason}. At its peak, {capacity}."


SIZE_ROW, CURVE_ROW, REJECTED, TOPIC_ROW = ("size", "curve", "rejected", "topic")

FALLBACK = "range"
"""The assignor of a group whose assignor is unknown: the default of Kafka's clients."""


@dataclass(frozen=True)
class SizeParams:
    """Parameters of a size analysis.

    Attributes:
        assignors: names of assignors; `CONFIGURED`: each group's own.
        criteria: criteria for a sufficient number of members.
        all_assignors: names of all available assignors.
        member_counts: member counts to evaluate; empty: the most informative ones for each group.
        all_curves: whether groups whose capacity is unknown have a curve for each assignor. Otherwise they have one for
            their own, and only the current number of members for the others.
    """

    assignors: tuple[str, ...]
    criteria: SizingCriteria
    all_assignors: tuple[str, ...]
    member_counts: tuple[int, ...] = ()
    all_curves: bool = True


NO_MEMBERS = ("no-members", "The group has no members, so the subscriptions of new ones are unknown")


def size_groups(facts: pa.Table, params: SizeParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the sizes of all groups in the facts, and of their topics, as tagged rows (`tables.advice`).

    Share groups have one assignor, so they are sized if each group's own assignor is selected.
    """
    groups = open_pass(facts, action="size", kinds=(SHARE,) if CONFIGURED in params.assignors else ())
    yield from size_pass(groups, params, schema)
    yield tagged_rows(TOPIC_ROW, list(_size_topics(groups.specs, params.criteria)), schema)


def size_pass(groups: PassInput, params: SizeParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the sizes of all groups of a pass, with the columns of the schema."""
    facts, specs = groups.facts, groups.specs
    own, unknown = _own_assignors(specs, params)
    invalid = unknown | _find_rejections(specs)
    rejected = groups.rejected | {int(specs.fact_group_index[group]): fault for group, fault in invalid.items()}
    rejected |= dict.fromkeys(facts.group_index[groups.empty_groups].tolist(), NO_MEMBERS)
    yield tagged_table(REJECTED, rejected_table(facts, rejected), schema)
    is_valid = ~mask_from_indexes(list(invalid), specs.num_groups)
    named = [name for name in params.assignors if name != CONFIGURED]
    is_share = np.array([name == SIMPLE for name in own], bool)
    for assignor in dict.fromkeys([*named, *filter(None, own)]):
        is_own = np.array([name == assignor for name in own], bool)
        chosen = np.flatnonzero(is_valid & (is_own | ((assignor in named) & ~is_share)))
        if len(chosen):
            yield from _size_with_assignor(specs, assignor, chosen, params, is_own | params.all_curves, schema)


def _find_rejections(specs: GroupSpecs) -> dict[int, tuple[str, str]]:
    """Returns code and detail of each group that can't be sized."""
    rejected = dict(specs.loads.faults)
    capacity = specs.load_setting("capacity")
    for group in range(specs.num_groups):
        if capacity[group] < MIN_CAPACITY or capacity[group] > MAX_CAPACITY:
            remedy = "Set it to the messages/s that a member can handle, from 2^-63 to 2^63"
            detail = f"groups: capacity={capacity[group]}. {remedy}"
            rejected.setdefault(group, ("bad-capacity", detail))
        if not specs.loads.has_loads[group]:
            detail = "loads has no in_messages_per_second. Take a snapshot with readings: --interval 60s --times 5"
            rejected.setdefault(group, ("no-loads", detail))
    return rejected


def _own_assignors(specs: GroupSpecs, params: SizeParams) -> tuple[list[str | None], dict[int, tuple[str, str]]]:
    """Returns the assignor of each group, and the groups for which it is unknown; all `None` if none is asked for."""
    if CONFIGURED not in params.assignors:
        return [None] * specs.num_groups, {}
    configured = PlanParams((("*", CONFIGURED),), params.all_assignors, params.criteria.custom)
    names, rejected = select_assignors(specs, configured)
    is_share = [kind == SHARE for kind in specs.group_values("group_type")]
    unknown = {group: rejected[group] for group in rejected if rejected[group][0] != "no-assignor"}
    unknown = {group: fault for group, fault in unknown.items() if not is_share[group]}
    own = [SIMPLE if is_share[group] else name or FALLBACK for group, name in enumerate(names)]
    return [None if group in unknown else name for group, name in enumerate(own)], unknown


def _size_with_assignor(
    specs: GroupSpecs,
    assignor: str,
    groups: IntArray,
    params: SizeParams,
    has_curve: BoolArray,
    schema: pa.Schema,
) -> Iterator[pa.Table]:
    """Yields sizes and curves of the given groups with one assignor.

    `has_curve`: whether each group of the specs has a curve although its capacity is unknown.
    """
    criteria = params.criteria
    capacity = member_capacity(specs, criteria.sharing(assignor))
    has_curve = has_curve | ~np.isnan(capacity)
    inputs = read_sizing_inputs(specs, assignor, groups, criteria)
    counts = {
        group: _first_counts(sizing, params) if has_curve[group] else np.array([sizing.num_members])
        for group, sizing in inputs.items()
    }
    keys = dict(zip(groups.tolist(), pa.table(group_key_columns(specs, groups)).to_pylist(), strict=True))
    swept: list[LoadByMemberCount] = []  # at most one
    rows, rejected = [], []
    while counts:
        for group, subscribers in count_new_subscribers(specs, counts).items():
            detail = (
                f"{assignor}: with {counts.pop(group).max():,} members, the topics have {subscribers:,} subscribers, "
                f"expected at most {MAX_SUBSCRIBERS:,} (counted once if topics have the same ones). Evaluate fewer "
                "members (--member-counts)"
            )
            rejected.append(keys[group] | {"code": "too-many-partitions", "detail": detail})
            del inputs[group]
        if counts:
            swept = [concat_sorted([*swept, sweep(specs, assignor, counts, capacity, criteria)])]
        tried = {} if params.member_counts else inputs
        more = {group: _more_counts(swept[0].of_group(group), sizing, criteria) for group, sizing in tried.items()}
        counts = {group: members for group, members in more.items() if len(members)}
    for group, sizing in inputs.items():
        group_loads = swept[0].of_group(group)
        if group_loads.rejected.all():
            detail = f"{assignor} can't plan the group with any number of members"
            rejected.append(keys[group] | {"code": "no-plan", "detail": detail})
        else:
            rows.append(keys[group] | build_size_row(sizing, group_loads, criteria, bool(has_curve[group])))
    yield tagged_rows(REJECTED, rejected, schema)
    yield tagged_rows(SIZE_ROW, rows, schema)
    for loads in swept:
        loads = replace(loads, rejected=loads.rejected | ~np.isin(loads.group, list(inputs)))
        yield tagged_table(CURVE_ROW, _curve_table(specs, assignor, loads, capacity[loads.group], criteria), schema)


def _first_counts(sizing: SizingInput, params: SizeParams) -> IntArray:
    """Returns the member counts to evaluate first."""
    if params.member_counts:
        return sizing.in_whole_pods(np.array(params.member_counts, np.int64))
    enough = sizing.load_at_quantile * (1 + params.criteria.headroom) / sizing.capacity
    useful = sizing.load / sizing.hot[2] * sizing.sharing if sizing.hot[2] > 0 else 1.0
    return sizing.in_whole_pods(initial_counts(sizing.num_members, sizing.most_members, enough, useful))


def _more_counts(swept: LoadByMemberCount, sizing: SizingInput, criteria: SizingCriteria) -> IntArray:
    """Returns further member counts: those below the first that keeps up, or, if none does, up to the number of
    partitions (in a share group, of members that they can occupy)."""
    if np.isnan(sizing.capacity):
        return np.empty(0, np.int64)
    whole = swept.members % sizing.threads_per_pod == 0
    fits, counts = keeps_up(swept, sizing.capacity, criteria)[whole], swept.members[whole]
    last, most = int(swept.members[-1]), min(sizing.most_members, MAX_MEMBERS)
    if fits.any() or last >= most:
        more = counts_between(counts, fits)
    else:
        more = np.unique(np.geomspace(last + 1, most, 20).round().astype(np.int64))
    return np.setdiff1d(sizing.in_whole_pods(more), swept.members)


def _whole(number: float) -> int:
    """Returns a number rounded up, at least 1, and at most 2^53, above which a tiny capacity is not meant."""
    return max(1, int(min(np.ceil(number), 2.0**53)))


def _size_topics(specs: GroupSpecs, criteria: SizingCriteria) -> Iterator[dict[str, Any]]:
    """Yields a row per group and subscribed topic: the number of partitions that the topic needs for this group.

    The number is the smallest with which a member, or the members of a share group that can work on one partition at
    the same time, can handle the hottest one with the headroom. Its share of the load is assumed to remain the same
    multiple of the mean: n partitions with the hottest at h messages/s become n * h / limit partitions.
    """
    topics, loads, high = specs.topics, specs.loads, high_rates(specs, criteria)
    is_share = np.array([kind == SHARE for kind in specs.group_values("group_type")], bool)
    capacity = np.where(is_share, member_capacity(specs, criteria.sharing(SIMPLE)), member_capacity(specs))
    limit = capacity / (1 + criteria.headroom) * np.where(is_share, criteria.sharing(SIMPLE), 1)
    at = np.flatnonzero(topics.is_subscribed & (topics.partitions > 0))
    keys = pa.table(group_key_columns(specs, topics.group[at])).to_pylist()
    for key, topic, name in zip(keys, at.tolist(), specs.topic.take(pa.array(at)).to_pylist(), strict=True):
        group, partitions = int(topics.group[topic]), int(topics.partitions[topic])
        if group in loads.faults:
            continue
        known = slice(loads.start[topic], loads.start[topic] + partitions)
        rates, peaks = loads.in_messages_per_second[known], high[known]
        is_known = not np.isnan(rates).all() and capacity[group] >= MIN_CAPACITY
        hottest = int(np.argmax(np.nan_to_num(peaks)))
        most = float(np.nan_to_num(peaks)[hottest])
        load, load_at_quantile = (float(np.nan_to_num(each).sum()) for each in (rates, peaks))
        needed = _whole(partitions * most / limit[group]) if is_known else None
        row = {"partitions": partitions, "partitions_needed": needed, "load": load, "topic": name}
        row |= {"hot_partition": hottest, "hot_load": float(np.nan_to_num(rates)[hottest])}
        row["verdict"] = UNKNOWN if needed is None else TOO_FEW if needed > partitions else ENOUGH
        row["reason"] = "The rates of its partitions, or the capacity of a member, are unknown."
        if needed is not None:
            even = _whole(load_at_quantile / limit[group])
            who = f"{criteria.sharing(SIMPLE)} members at a time handle" if is_share[group] else "a member handles"
            peaks_text = f"{most:,.0f} of {load_at_quantile:,.0f} messages/s"
            row["reason"] = (
                f"Partition {hottest} receives {peaks_text} at the peak, and {who} "
                f"{limit[group]:,.0f} of one partition beside the headroom. "
                f"With equally loaded partitions, {even:,} would be enough."
            )
        yield key | row | {"load_at_quantile": load_at_quantile}


def _curve_table(
    specs: GroupSpecs, assignor: str, loads: LoadByMemberCount, capacity: FloatArray, criteria: SizingCriteria
) -> pa.Table:
    """Returns a row per group and number of members; `capacity`: of a member, per row."""
    num_members = np.bincount(specs.members.group, minlength=specs.num_groups)[loads.group]
    has_load = loads.mean_load > 0
    imbalance = np.divide(loads.max_load, loads.mean_load, out=np.zeros(len(has_load)), where=has_load)
    names = ("members", "max_load", "max_load_at_quantile", "idle", "unassigned", "moved", "paused_partition_seconds")
    columns = {
        **group_key_columns(specs, loads.group),
        "assignor": pa.repeat(pa.scalar(assignor), len(has_load)),
        **{name: pa.array(getattr(loads, name)) for name in names},
        "load_max_over_mean": pa.array(imbalance, mask=~has_load),
        "drain_seconds": pa.array(loads.drain_seconds, mask=np.isnan(loads.drain_seconds)),
        "is_current": pa.array(loads.members == num_members),
        "keeps_up": pa.array(keeps_up(loads, capacity, criteria), mask=np.isnan(capacity)),
    }
    return pa.table(columns).filter(pa.array(~loads.rejected))
