"""How many members a group needs, read from figures of many numbers, and why, in a sentence.

enough      it has as many as it needs
too-few     it needs more
too-many    fewer would do
cannot      no number of members keeps up: one partition is too much for a member, or there are too few partitions
unknown     nobody knows how much a member can handle: the curve is there, and no number is needed

How many members every group needs, in one pass over whole groups.

A row of the answer is tagged by its `kind`:

    size       a group and assignor: how many members are enough, where more are of no use, and why
    curve      a group, assignor and number of members: who would carry how much, and what it costs to get there
    rejected   code, detail: a group that nothing can be said of
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.size_sweep import (
    MOST,
    SAME,
    LoadByMemberCount,
    SizingCriteria,
    SizingInput,
    between,
    in_order,
    knee,
    numbers_to_try,
    of_no_more_use,
    read_cases,
    sweep,
)
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.kernel.facts import IndexedFacts, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_metrics import configured_value, member_capacity
from spark_assign.groups.kernel.group_properties import find_unsupported_groups
from spark_assign.groups.kernel.group_specs import GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.plan_groups import CONFIGURED, select_assignors
from spark_assign.groups.kernel.plan_groups import PlanParams as Chosen
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

ENOUGH, TOO_FEW, TOO_MANY, CANNOT, UNKNOWN = "enough", "too-few", "too-many", "cannot", "unknown"

GIVEN, MEASURED = "given", "measured"

PARTITIONS, HOT_PARTITION, ASSIGNOR = "partitions", "hot-partition", "assignor"
"""What bounds how much more members help: each has one partition; one partition is more than the mean; the assignor
leaves some without any (range in each topic for itself)."""


def keeps_up(swept: LoadByMemberCount, capacity: float, terms: SizingCriteria) -> BoolArray:
    """Whether everything is read, and the most loaded member can read what it has, and the headroom beside it."""
    read = ~swept.refused & (swept.unassigned <= 0)
    return np.asarray(read & (swept.max_load_high * (1 + terms.headroom) <= capacity), bool)


def answer(case: SizingInput, swept: LoadByMemberCount, terms: SizingCriteria) -> dict[str, Any]:
    """A row of `tables.advice.SIZES` but for cluster and group_id, from the figures of one group."""
    fine = ~swept.refused
    members, most = swept.members[fine], swept.max_load[fine]
    fits = keeps_up(swept, case.capacity, terms)
    now = int(np.argmax(swept.members == case.now))
    needed = int(swept.members[np.argmax(fits)]) if fits.any() else None
    topic, partition, hot, hot_high = case.hot
    row = {
        "assignor": case.assignor,
        "members": case.now,
        "partitions": case.partitions,
        "needed": needed,
        "knee": knee(members, most),
        "no_more_use": of_no_more_use(members, most),
        "load": case.load,
        "load_high": case.load_high,
        "max_load": float(swept.max_load[now]),
        "hot_topic": topic,
        "hot_partition": partition,
        "hot_load": hot,
        "capacity": None if np.isnan(case.capacity) else case.capacity,
        "capacity_is": None if np.isnan(case.capacity) else GIVEN if case.given else MEASURED,
        "drain_seconds": _known(swept.drain_seconds[now]),
        "bound_by": _bound(case, members, most),
    }
    verdict = _verdict(case, needed)
    wanted = case.load_high * (1 + terms.headroom) / case.capacity
    row |= {"verdict": verdict, "partitions_needed": int(np.ceil(wanted)) if verdict == CANNOT else None}
    if needed is not None:
        at = int(np.argmax(swept.members == needed))
        row |= {
            "max_load_needed": float(swept.max_load[at]),
            "drain_seconds_needed": _known(swept.drain_seconds[at]),
            "moved": int(swept.moved[at]),
            "partition_seconds_paused": float(swept.paused[at]),
        }
    row["reason"] = _reason(case, row, hot_high, terms)
    return row


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _bound(case: SizingInput, members: Any, most: Any) -> str:
    if most.min() <= case.hot[2] * (1 + SAME):
        return HOT_PARTITION if members[int(np.argmin(most))] < case.partitions else PARTITIONS
    return ASSIGNOR


def _verdict(case: SizingInput, needed: int | None) -> str:
    if np.isnan(case.capacity):
        return UNKNOWN
    if needed is None:
        return CANNOT
    return ENOUGH if needed == case.now else TOO_FEW if needed > case.now else TOO_MANY


def _reason(case: SizingInput, row: Mapping[str, Any], hot_high: float, terms: SizingCriteria) -> str:
    """Why, with figures."""
    beside = f" with {terms.headroom:.0%} headroom" if terms.headroom else ""
    if row["verdict"] == UNKNOWN:
        return (
            f"Nobody knows how much a member can handle: none of them is behind. Say so (capacity). The curve bends at "
            f"{row['knee']} members; more than {row['no_more_use']} carry no less each."
        )
    limit = f"{case.capacity:,.0f} messages a second"
    key_note = "Keys then change their partition, and the order of a key's messages is lost across that moment."
    if row["verdict"] == CANNOT and hot_high * (1 + terms.headroom) > case.capacity:
        return (
            f"{row['hot_topic']}-{row['hot_partition']} alone gets {hot_high:,.0f} messages a second at its peak, and "
            f"a member handles {limit}{beside}: only faster members help, or more partitions, if these are messages of "
            f"many keys. {key_note}"
        )
    if row["verdict"] == CANNOT:
        return (
            f"Its {case.partitions} partitions are too few, or {case.assignor} spreads them too unevenly: at their "
            f"peaks {row['partitions_needed']} members would have to share {case.load_high:,.0f} messages a second "
            f"evenly. With more partitions they can. {key_note}"
        )
    what = f"With {row['needed']} members the most loaded one gets {row['max_load_needed']:,.0f} messages a second"
    why = f"{what}; at its peak{beside} that is within the {limit} that a member handles"
    if row["verdict"] == ENOUGH:
        return f"{why}."
    if row["verdict"] == TOO_MANY:
        return f"{why}. It has {case.now}."
    return f"{why}. With the {case.now} of today it gets {row['max_load']:,.0f}, which is too much at its peak."


OF_GROUP, OF_NUMBER, REJECTED = KINDS = ("size", "curve", "rejected")

FALLBACK = "range"
"""What a group is taken to run with where the fleet does not say it: the default of Kafka's clients."""

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
SIZED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "assignor", "verdict", "reason"), _TEXT),
        **dict.fromkeys(("members", "partitions", "needed", "knee", "no_more_use", "partitions_needed"), _LONG),
        **dict.fromkeys(("load", "load_high", "capacity", "max_load", "max_load_needed"), _DOUBLE),
        **dict.fromkeys(("drain_seconds", "drain_seconds_needed", "partition_seconds_paused", "hot_load"), _DOUBLE),
        **dict.fromkeys(("capacity_is", "bound_by", "hot_topic"), _TEXT),
        **dict.fromkeys(("hot_partition", "moved", "idle", "unassigned"), _LONG),
        **dict.fromkeys(("max_load_high", "load_max_over_mean"), _DOUBLE),
        **dict.fromkeys(("now", "keeps_up"), pa.bool_()),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Everything that is said of sizes, a row per group, number of members or refusal (`tables.advice`)."""


@dataclass(frozen=True)
class SizeParams:
    """What is asked.

    Attributes:
        assignors: their names; `CONFIGURED`: each group's own.
        terms: on which a number of members is enough.
        known: the names of all assignors there are.
        numbers: of members to look at; empty: those that tell most, group by group.
    """

    assignors: tuple[str, ...]
    terms: SizingCriteria
    known: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)


def size(facts: pa.Table, params: SizeParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `SIZED`."""
    told = index_facts(facts)
    faults = find_faults(told, also=("share", "streams"))
    others = find_unsupported_groups(told, "size")
    refused = rejected_table(told, faults | {group: why for group, why in others.items() if group not in faults})
    yield tagged_table(REJECTED, refused, SIZED)
    yield tagged_rows(REJECTED, _idle(told, {*faults, *others}), SIZED)
    specs = read_group_specs(told, {*faults, *others})
    by_assignor, unknown = _by_assignor(specs, params)
    silent = unknown | _refused(specs)
    yield tagged_rows(
        REJECTED,
        [_named(specs, group) | {"code": code, "detail": detail} for group, (code, detail) in sorted(silent.items())],
        SIZED,
    )
    sound = np.array([group not in silent for group in range(specs.num_groups)], bool)
    for assignor, chosen in by_assignor.items():
        if (chosen & sound).any():
            yield from _of_assignor(specs, assignor, np.flatnonzero(chosen & sound), params)


def _idle(told: IndexedFacts, known: set[int]) -> list[dict[str, Any]]:
    """Groups without members."""
    detail = "It has no members now: nothing tells what new ones would read"
    groups = told.group_index[find_empty_groups(told, known)].tolist()
    names = [{"cluster": told.cluster[group].as_py(), "group_id": told.group_id[group].as_py()} for group in groups]
    return [name | {"code": "no-members", "detail": detail} for name in names]


def _refused(specs: GroupSpecs) -> dict[int, tuple[str, str]]:
    """Of groups that nothing can be said of code and detail."""
    refused = dict(specs.loads.faults)
    given = configured_value(specs, "capacity")
    for group in range(specs.num_groups):
        if given[group] <= 0 or np.isinf(given[group]):
            detail = f"groups: capacity={given[group]}. Give messages a second that one member can handle, above 0"
            refused.setdefault(group, ("bad-capacity", detail))
        if not specs.loads.has_loads[group]:
            detail = "loads has no in_rate of its partitions. Take a snapshot with readings: --every 60s --times 5"
            refused.setdefault(group, ("no-loads", detail))
    return refused


def _named(specs: GroupSpecs, group: int) -> dict[str, Any]:
    return {"cluster": specs.cluster[group].as_py(), "group_id": specs.group_id[group].as_py()}


def _by_assignor(specs: GroupSpecs, params: SizeParams) -> tuple[dict[str, BoolArray], dict[int, tuple[str, str]]]:
    """By assignor the groups that it is asked for; and those that have an assignor that nobody knows."""
    found = {name: np.ones(specs.num_groups, bool) for name in params.assignors if name != CONFIGURED}
    if CONFIGURED not in params.assignors:
        return found, {}
    chosen, refused = select_assignors(specs, Chosen((("*", CONFIGURED),), params.known, params.custom))
    unknown = {group: why for group, why in refused.items() if why[0] != "no-assignor"}
    for group, name in enumerate(chosen):
        if group not in unknown:
            found.setdefault(name or FALLBACK, np.zeros(specs.num_groups, bool))[group] = True
    return found, unknown


def _of_assignor(specs: GroupSpecs, assignor: str, groups: IntArray, params: SizeParams) -> Iterator[pa.Table]:
    terms, capacity = params.terms, member_capacity(specs)
    cases = read_cases(specs, assignor, groups, terms)
    tried = {group: _numbers(cases[group], params) for group in groups.tolist()}
    found = _swept(specs, assignor, tried, capacity, terms)
    while not params.numbers:
        more = {group: _more(found, group, cases[group], terms) for group in groups.tolist()}
        if not any(len(each) for each in more.values()):
            break
        found = in_order([found, _swept(specs, assignor, more, capacity, terms)])
    rows, curves, refused = [], [], []
    for group in groups.tolist():
        mine, case = _of_group(found, group), cases[group]
        if mine.refused.all():
            detail = f"{assignor} has no plan of it with any number of members"
            refused.append(_named(specs, group) | {"code": "no-plan", "detail": detail})
            continue
        rows.append(_named(specs, group) | answer(case, mine, terms))
        curves.append((group, mine, case))
    yield tagged_rows(REJECTED, refused, SIZED)
    yield tagged_rows(OF_GROUP, rows, SIZED)
    yield tagged_table(OF_NUMBER, _curve(specs, curves, terms), SIZED)


def _numbers(case: SizingInput, params: SizeParams) -> IntArray:
    if params.numbers:
        return np.unique(np.append(np.array(params.numbers, np.int64), case.now))
    enough = case.load_high * (1 + params.terms.headroom) / case.capacity
    of_use = case.load / case.hot[2] if case.hot[2] > 0 else 1.0
    return numbers_to_try(case.now, case.partitions, enough, of_use)


def _more(found: LoadByMemberCount, group: int, case: SizingInput, terms: SizingCriteria) -> IntArray:
    """Numbers to look at once more: before the first that keeps up; where none does, on to that of the partitions."""
    mine = _of_group(found, group)
    if np.isnan(case.capacity):
        return np.empty(0, np.int64)
    fits = keeps_up(mine, case.capacity, terms)
    last = int(mine.members[-1])
    if fits.any() or last >= min(case.partitions, MOST):
        return between(mine.members, fits)
    return np.unique(np.geomspace(last + 1, min(case.partitions, MOST), 20).round().astype(np.int64))


def _swept(
    specs: GroupSpecs, assignor: str, numbers: Mapping[int, IntArray], capacity: FloatArray, terms: SizingCriteria
) -> LoadByMemberCount:
    group = np.repeat(list(numbers), [len(each) for each in numbers.values()]).astype(np.int64)
    return sweep(specs, assignor, group, np.concatenate(list(numbers.values())), capacity, terms)


def _of_group(found: LoadByMemberCount, group: int) -> LoadByMemberCount:
    begin, end = np.searchsorted(found.group, [group, group + 1])
    return LoadByMemberCount(**{one.name: getattr(found, one.name)[begin:end] for one in fields(LoadByMemberCount)})


def _curve(
    specs: GroupSpecs, curves: list[tuple[int, LoadByMemberCount, SizingInput]], terms: SizingCriteria
) -> pa.Table:
    """A row per group and number of members."""
    parts = []
    for group, mine, case in curves:
        fine = ~mine.refused
        fits = keeps_up(mine, case.capacity, terms)
        uneven = np.divide(mine.max_load, mine.mean_load, out=np.zeros(len(fine)), where=mine.mean_load > 0)
        known = np.full(len(fine), not np.isnan(case.capacity))
        columns = {
            **{name: pa.array([value] * len(fine)) for name, value in _named(specs, group).items()},
            "assignor": pa.array([case.assignor] * len(fine)),
            "members": pa.array(mine.members),
            "max_load": pa.array(mine.max_load),
            "max_load_high": pa.array(mine.max_load_high),
            "load_max_over_mean": pa.array(uneven, mask=mine.mean_load <= 0),
            "drain_seconds": pa.array(mine.drain_seconds, mask=np.isnan(mine.drain_seconds)),
            "idle": pa.array(mine.idle),
            "unassigned": pa.array(mine.unassigned),
            "moved": pa.array(mine.moved),
            "partition_seconds_paused": pa.array(mine.paused),
            "now": pa.array(mine.members == case.now),
            "keeps_up": pa.array(fits, mask=~known),
        }
        parts.append(pa.table(columns).filter(pa.array(fine)))
    names = ("cluster", "group_id", "assignor", "members")
    return pa.concat_tables(parts) if parts else pa.table({name: pa.nulls(0) for name in names})
