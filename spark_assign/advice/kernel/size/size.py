"""How many members every group needs, in one pass over whole groups.

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

from spark_assign.advice.kernel.size.candidate_counts import MOST, between, numbers_to_try
from spark_assign.advice.kernel.size.sizing_inputs import SizingInput, read_cases
from spark_assign.advice.kernel.size.sweep import LoadByMemberCount, SizingCriteria, in_order, sweep
from spark_assign.advice.kernel.size.verdict import answer, keeps_up
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


def size(facts: pa.Table, asked: SizeParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `SIZED`."""
    told = index_facts(facts)
    faults = find_faults(told, also=("share", "streams"))
    others = find_unsupported_groups(told, "size")
    refused = rejected_table(told, faults | {group: why for group, why in others.items() if group not in faults})
    yield tagged_table(REJECTED, refused, SIZED)
    yield tagged_rows(REJECTED, _idle(told, {*faults, *others}), SIZED)
    specs = read_group_specs(told, {*faults, *others})
    by_assignor, unknown = _by_assignor(specs, asked)
    silent = unknown | _refused(specs)
    yield tagged_rows(
        REJECTED,
        [_named(specs, group) | {"code": code, "detail": detail} for group, (code, detail) in sorted(silent.items())],
        SIZED,
    )
    sound = np.array([group not in silent for group in range(specs.num_groups)], bool)
    for assignor, chosen in by_assignor.items():
        if (chosen & sound).any():
            yield from _of_assignor(specs, assignor, np.flatnonzero(chosen & sound), asked)


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


def _by_assignor(specs: GroupSpecs, asked: SizeParams) -> tuple[dict[str, BoolArray], dict[int, tuple[str, str]]]:
    """By assignor the groups that it is asked for; and those that have an assignor that nobody knows."""
    found = {name: np.ones(specs.num_groups, bool) for name in asked.assignors if name != CONFIGURED}
    if CONFIGURED not in asked.assignors:
        return found, {}
    chosen, refused = select_assignors(specs, Chosen((("*", CONFIGURED),), asked.known, asked.custom))
    unknown = {group: why for group, why in refused.items() if why[0] != "no-assignor"}
    for group, name in enumerate(chosen):
        if group not in unknown:
            found.setdefault(name or FALLBACK, np.zeros(specs.num_groups, bool))[group] = True
    return found, unknown


def _of_assignor(specs: GroupSpecs, assignor: str, groups: IntArray, asked: SizeParams) -> Iterator[pa.Table]:
    terms, capacity = asked.terms, member_capacity(specs)
    cases = read_cases(specs, assignor, groups, terms)
    tried = {group: _numbers(cases[group], asked) for group in groups.tolist()}
    found = _swept(specs, assignor, tried, capacity, terms)
    while not asked.numbers:
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


def _numbers(case: SizingInput, asked: SizeParams) -> IntArray:
    if asked.numbers:
        return np.unique(np.append(np.array(asked.numbers, np.int64), case.now))
    enough = case.load_high * (1 + asked.terms.headroom) / case.capacity
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
