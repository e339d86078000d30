"""Computes how many members every group needs, and the reason as a sentence, in one pass over complete groups.

A result row is tagged by its `kind`:

    size       a group and assignor: the number of members needed, the number beyond which more don't help, and why
    curve      a group, assignor, and number of members: the load per member, and the cost of the change
    rejected   code, detail: a group that can't be sized

Verdicts:

    enough      the group has the number of members that it needs
    too-few     it needs more
    too-many    it needs fewer
    cannot      no number of members keeps up: one partition exceeds a member's capacity, or there are too few
        partitions
    unknown     the capacity of a member is unknown: the curve is computed, but no number of members is needed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.size_sweep import (
    MAX_MEMBERS,
    TOLERANCE,
    LoadByMemberCount,
    SizingCriteria,
    SizingInput,
    concat_sorted,
    counts_between,
    initial_counts,
    knee,
    read_sizing_inputs,
    saturation_members,
    sweep,
)
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.kernel.group_metrics import configured_value, member_capacity
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import CONFIGURED, PlanParams, select_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

ENOUGH, TOO_FEW, TOO_MANY, CANNOT, UNKNOWN = "enough", "too-few", "too-many", "cannot", "unknown"

GIVEN, MEASURED = "given", "measured"

PARTITIONS, HOT_PARTITION, ASSIGNOR = "partitions", "hot-partition", "assignor"
"""What limits the benefit of more members: each member has one partition, one partition exceeds the mean, or the
assignor leaves members without partitions (range assigns each topic separately).
"""


def keeps_up(swept: LoadByMemberCount, capacity: float, criteria: SizingCriteria) -> BoolArray:
    """Returns which member counts keep up: all partitions are assigned, and the most loaded member has the headroom."""
    read = ~swept.refused & (swept.unassigned <= 0)
    return np.asarray(read & (swept.max_load_high * (1 + criteria.headroom) <= capacity), bool)


def build_size_row(sizing: SizingInput, swept: LoadByMemberCount, criteria: SizingCriteria) -> dict[str, Any]:
    """Returns a row of `tables.advice.SIZES`, except cluster and group_id, from the figures of one group."""
    planned = ~swept.refused
    members, most = swept.members[planned], swept.max_load[planned]
    fits = keeps_up(swept, sizing.capacity, criteria)
    current = int(np.argmax(swept.members == sizing.num_members))
    needed = int(swept.members[np.argmax(fits)]) if fits.any() else None
    topic, partition, hot, hot_high = sizing.hot
    row = {
        "assignor": sizing.assignor,
        "members": sizing.num_members,
        "partitions": sizing.partitions,
        "needed": needed,
        "knee": knee(members, most),
        "no_more_use": saturation_members(members, most),
        "load": sizing.load,
        "load_high": sizing.load_high,
        "max_load": float(swept.max_load[current]),
        "hot_topic": topic,
        "hot_partition": partition,
        "hot_load": hot,
        "capacity": None if np.isnan(sizing.capacity) else sizing.capacity,
        "capacity_is": None if np.isnan(sizing.capacity) else GIVEN if sizing.is_configured else MEASURED,
        "drain_seconds": _known(swept.drain_seconds[current]),
        "bound_by": _bound(sizing, members, most),
    }
    verdict = _verdict(sizing, needed)
    wanted = sizing.load_high * (1 + criteria.headroom) / sizing.capacity
    row |= {"verdict": verdict, "partitions_needed": int(np.ceil(wanted)) if verdict == CANNOT else None}
    if needed is not None:
        at = int(np.argmax(swept.members == needed))
        row |= {
            "max_load_needed": float(swept.max_load[at]),
            "drain_seconds_needed": _known(swept.drain_seconds[at]),
            "moved": int(swept.moved[at]),
            "paused_partition_seconds": float(swept.paused[at]),
        }
    row["reason"] = _reason(sizing, row, hot_high, criteria)
    return row


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _bound(sizing: SizingInput, members: Any, most: Any) -> str:
    """Returns what limits the benefit of more members."""
    if most.min() <= sizing.hot[2] * (1 + TOLERANCE):
        return HOT_PARTITION if members[int(np.argmin(most))] < sizing.partitions else PARTITIONS
    return ASSIGNOR


def _verdict(sizing: SizingInput, needed: int | None) -> str:
    if np.isnan(sizing.capacity):
        return UNKNOWN
    if needed is None:
        return CANNOT
    return ENOUGH if needed == sizing.num_members else TOO_FEW if needed > sizing.num_members else TOO_MANY


def _reason(case: SizingInput, row: Mapping[str, Any], hot_high: float, criteria: SizingCriteria) -> str:
    """Returns the reason for the verdict, with figures."""
    spare = f" with {criteria.headroom:.0%} headroom" if criteria.headroom else ""
    if row["verdict"] == UNKNOWN:
        return (
            f"Nobody knows how much a member can handle: none of them is behind. Say so (capacity). The curve bends at "
            f"{row['knee']} members; more than {row['no_more_use']} carry no less each."
        )
    limit = f"{case.capacity:,.0f} messages a second"
    key_note = "Keys then change their partition, and the order of a key's messages is lost across that moment."
    if row["verdict"] == CANNOT and hot_high * (1 + criteria.headroom) > case.capacity:
        return (
            f"{row['hot_topic']}-{row['hot_partition']} alone gets {hot_high:,.0f} messages a second at its peak, and "
            f"a member handles {limit}{spare}: only faster members help, or more partitions, if these are messages of "
            f"many keys. {key_note}"
        )
    if row["verdict"] == CANNOT:
        return (
            f"Its {case.partitions} partitions are too few, or {case.assignor} spreads them too unevenly: at their "
            f"peaks {row['partitions_needed']} members would have to share {case.load_high:,.0f} messages a second "
            f"evenly. With more partitions they can. {key_note}"
        )
    largest = f"With {row['needed']} members the most loaded one gets {row['max_load_needed']:,.0f} messages a second"
    reason = f"{largest}; at its peak{spare} that is within the {limit} that a member handles"
    if row["verdict"] == ENOUGH:
        return f"{reason}."
    if row["verdict"] == TOO_MANY:
        return f"{reason}. It has {case.num_members}."
    return (
        f"{reason}. With the {case.num_members} of today it gets {row['max_load']:,.0f}, which is too much at its peak."
    )


SIZE_ROW, CURVE_ROW, REJECTED = ROW_KINDS = ("size", "curve", "rejected")

FALLBACK = "range"
"""The assignor of a group whose assignor is unknown: the default of Kafka's clients."""

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
SIZED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "assignor", "verdict", "reason"), _TEXT),
        **dict.fromkeys(("members", "partitions", "needed", "knee", "no_more_use", "partitions_needed"), _LONG),
        **dict.fromkeys(("load", "load_high", "capacity", "max_load", "max_load_needed"), _DOUBLE),
        **dict.fromkeys(("drain_seconds", "drain_seconds_needed", "paused_partition_seconds", "hot_load"), _DOUBLE),
        **dict.fromkeys(("capacity_is", "bound_by", "hot_topic"), _TEXT),
        **dict.fromkeys(("hot_partition", "moved", "idle", "unassigned"), _LONG),
        **dict.fromkeys(("max_load_high", "load_max_over_mean"), _DOUBLE),
        **dict.fromkeys(("now", "keeps_up"), pa.bool_()),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Schema of the result: a row per group, number of members, or rejection (`tables.advice`)."""


@dataclass(frozen=True)
class SizeParams:
    """Parameters of a size analysis.

    Attributes:
        assignors: names of assignors; `CONFIGURED`: each group's own.
        terms: criteria for a sufficient number of members.
        known: names of all available assignors.
        numbers: member counts to evaluate; empty: the most informative ones for each group.
        custom: custom assignors by name.
    """

    assignors: tuple[str, ...]
    criteria: SizingCriteria
    all_assignors: tuple[str, ...]
    member_counts: tuple[int, ...] = ()
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)


def size(facts: pa.Table, params: SizeParams) -> Iterator[pa.Table]:
    """Yields the sizes of all groups in the facts, as tables with the columns of `SIZED`."""
    groups = open_pass(facts, action="size")
    specs = groups.specs
    yield tagged_table(REJECTED, groups.rejected_groups, SIZED)
    yield tagged_rows(REJECTED, _reject_empty_groups(groups), SIZED)
    by_assignor, unknown = _by_assignor(specs, params)
    rejections = unknown | _find_rejections(specs)
    yield tagged_rows(
        REJECTED,
        [
            _group_key(specs, group) | {"code": code, "detail": detail}
            for group, (code, detail) in sorted(rejections.items())
        ],
        SIZED,
    )
    is_valid = np.array([group not in rejections for group in range(specs.num_groups)], bool)
    for assignor, chosen in by_assignor.items():
        if (chosen & is_valid).any():
            yield from _size_with_assignor(specs, assignor, np.flatnonzero(chosen & is_valid), params)


def _reject_empty_groups(groups: PassInput) -> list[dict[str, Any]]:
    """Returns a rejection for each group without members."""
    detail = "It has no members now: nothing tells what new ones would read"
    facts = groups.facts
    return [
        {
            "cluster": facts.cluster[group].as_py(),
            "group_id": facts.group_id[group].as_py(),
            "code": "no-members",
            "detail": detail,
        }
        for group in facts.group_index[groups.empty_groups].tolist()
    ]


def _find_rejections(specs: GroupSpecs) -> dict[int, tuple[str, str]]:
    """Returns code and detail of each group that can't be sized."""
    refused = dict(specs.loads.faults)
    capacity = configured_value(specs, "capacity")
    for group in range(specs.num_groups):
        if capacity[group] <= 0 or np.isinf(capacity[group]):
            detail = f"groups: capacity={capacity[group]}. Give messages a second that one member can handle, above 0"
            refused.setdefault(group, ("bad-capacity", detail))
        if not specs.loads.has_loads[group]:
            detail = (
                "loads has no in_messages_per_second for it. Take a snapshot with readings: --interval 60s --times 5"
            )
            refused.setdefault(group, ("no-loads", detail))
    return refused


def _group_key(specs: GroupSpecs, group: int) -> dict[str, Any]:
    return {"cluster": specs.cluster[group].as_py(), "group_id": specs.group_id[group].as_py()}


def _by_assignor(specs: GroupSpecs, params: SizeParams) -> tuple[dict[str, BoolArray], dict[int, tuple[str, str]]]:
    """Returns a mask of groups for each assignor, and the groups whose assignor is unknown."""
    found = {name: np.ones(specs.num_groups, bool) for name in params.assignors if name != CONFIGURED}
    if CONFIGURED not in params.assignors:
        return found, {}
    chosen, refused = select_assignors(specs, PlanParams((("*", CONFIGURED),), params.all_assignors, params.custom))
    unknown = {group: fault for group, fault in refused.items() if fault[0] != "no-assignor"}
    for group, name in enumerate(chosen):
        if group not in unknown:
            found.setdefault(name or FALLBACK, np.zeros(specs.num_groups, bool))[group] = True
    return found, unknown


def _size_with_assignor(specs: GroupSpecs, assignor: str, groups: IntArray, params: SizeParams) -> Iterator[pa.Table]:
    """Yields sizes and curves of the given groups with one assignor."""
    criteria, capacity = params.criteria, member_capacity(specs)
    inputs = read_sizing_inputs(specs, assignor, groups, criteria)
    counts = {group: _first_counts(inputs[group], params) for group in groups.tolist()}
    found = _sweep_counts(specs, assignor, counts, capacity, criteria)
    while not params.member_counts:
        more = {group: _more_counts(found, group, inputs[group], criteria) for group in groups.tolist()}
        if not any(len(each) for each in more.values()):
            break
        found = concat_sorted([found, _sweep_counts(specs, assignor, more, capacity, criteria)])
    rows, curves, refused = [], [], []
    for group in groups.tolist():
        swept, sizing = _select_group(found, group), inputs[group]
        if swept.refused.all():
            detail = f"{assignor} has no plan of it with any number of members"
            refused.append(_group_key(specs, group) | {"code": "no-plan", "detail": detail})
            continue
        rows.append(_group_key(specs, group) | build_size_row(sizing, swept, criteria))
        curves.append((group, swept, sizing))
    yield tagged_rows(REJECTED, refused, SIZED)
    yield tagged_rows(SIZE_ROW, rows, SIZED)
    yield tagged_table(CURVE_ROW, _curve_table(specs, curves, criteria), SIZED)


def _first_counts(sizing: SizingInput, params: SizeParams) -> IntArray:
    """Returns the member counts to evaluate first."""
    if params.member_counts:
        return np.unique(np.append(np.array(params.member_counts, np.int64), sizing.num_members))
    enough = sizing.load_high * (1 + params.criteria.headroom) / sizing.capacity
    useful = sizing.load / sizing.hot[2] if sizing.hot[2] > 0 else 1.0
    return initial_counts(sizing.num_members, sizing.partitions, enough, useful)


def _more_counts(found: LoadByMemberCount, group: int, sizing: SizingInput, criteria: SizingCriteria) -> IntArray:
    """Returns further member counts: those below the first that keeps up, or, if none does, up to the number of
    partitions."""
    swept = _select_group(found, group)
    if np.isnan(sizing.capacity):
        return np.empty(0, np.int64)
    fits = keeps_up(swept, sizing.capacity, criteria)
    last = int(swept.members[-1])
    if fits.any() or last >= min(sizing.partitions, MAX_MEMBERS):
        return counts_between(swept.members, fits)
    return np.unique(np.geomspace(last + 1, min(sizing.partitions, MAX_MEMBERS), 20).round().astype(np.int64))


def _sweep_counts(
    specs: GroupSpecs,
    assignor: str,
    member_counts: Mapping[int, IntArray],
    capacity: FloatArray,
    criteria: SizingCriteria,
) -> LoadByMemberCount:
    group = np.repeat(list(member_counts), [len(each) for each in member_counts.values()]).astype(np.int64)
    return sweep(specs, assignor, group, np.concatenate(list(member_counts.values())), capacity, criteria)


def _select_group(swept: LoadByMemberCount, group: int) -> LoadByMemberCount:
    start, end = np.searchsorted(swept.group, [group, group + 1])
    return LoadByMemberCount(
        **{field.name: getattr(swept, field.name)[start:end] for field in fields(LoadByMemberCount)}
    )


def _curve_table(
    specs: GroupSpecs, curves: list[tuple[int, LoadByMemberCount, SizingInput]], criteria: SizingCriteria
) -> pa.Table:
    """Returns a row per group and number of members."""
    tables = []
    for group, swept, sizing in curves:
        planned = ~swept.refused
        fits = keeps_up(swept, sizing.capacity, criteria)
        imbalance = np.divide(swept.max_load, swept.mean_load, out=np.zeros(len(planned)), where=swept.mean_load > 0)
        all_assignors = np.full(len(planned), not np.isnan(sizing.capacity))
        columns = {
            **{name: pa.array([value] * len(planned)) for name, value in _group_key(specs, group).items()},
            "assignor": pa.array([sizing.assignor] * len(planned)),
            "members": pa.array(swept.members),
            "max_load": pa.array(swept.max_load),
            "max_load_high": pa.array(swept.max_load_high),
            "load_max_over_mean": pa.array(imbalance, mask=swept.mean_load <= 0),
            "drain_seconds": pa.array(swept.drain_seconds, mask=np.isnan(swept.drain_seconds)),
            "idle": pa.array(swept.idle),
            "unassigned": pa.array(swept.unassigned),
            "moved": pa.array(swept.moved),
            "paused_partition_seconds": pa.array(swept.paused),
            "now": pa.array(swept.members == sizing.num_members),
            "keeps_up": pa.array(fits, mask=~all_assignors),
        }
        tables.append(pa.table(columns).filter(pa.array(planned)))
    names = ("cluster", "group_id", "assignor", "members")
    return pa.concat_tables(tables) if tables else pa.table({name: pa.nulls(0) for name in names})
