"""One pass over whole groups: facts in, everything that is decided out, as rows of one table.

A row of the answer is tagged by its `kind`:

    assigned     member_id, topic, first, step, count: a run of the plan
    withheld     the same: its next owner gets it in the round after this one
    order_dependent  the same, of what is assigned or withheld: who gets it hangs on an order that the facts do not say
    changed_topic  a topic in which a partition changes its owner: partitions, members, member_flags, owned, planned
                 (`changed_topics`), and the messages per second that are written to each of its partitions (loads)
    metrics      assignor and the figures of a group
    rejected     code, detail: a group that cannot be planned
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import assignor_of_leader, is_release_assignor
from spark_assign.groups.kernel import assign as by
from spark_assign.groups.kernel.changed_topics import changed_topics
from spark_assign.groups.kernel.facts import GROUP, LEADER_COLUMNS, MEMBER, IndexedFacts, column, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_metrics import LOAD_METRICS, group_metrics, load_metrics, read_ownership
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.leader_rules import format_leader
from spark_assign.groups.kernel.ownership_changes import Ownership, SubscriptionIndex
from spark_assign.groups.kernel.tagged_rows import tagged_table
from spark_assign.groups.kernel.topic_columns import slice_rates
from spark_assign.java.key_index import take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

CONFIGURED = "configured"
"""In place of a name: the assignor that each group is configured with."""

ASSIGNED, WITHHELD, ORDER_DEPENDENT, CHANGED_TOPIC, METRICS, REJECTED = (
    *("assigned", "withheld", "order_dependent", "changed_topic", "metrics", "rejected"),
)
ALL_KINDS = frozenset({ASSIGNED, WITHHELD, ORDER_DEPENDENT, CHANGED_TOPIC, METRICS, REJECTED})

_TEXT, _INT, _LONG, _DOUBLE = pa.string(), pa.int32(), pa.int64(), pa.float64()
METRIC_COLUMNS = {
    "assignor": _TEXT,
    **dict.fromkeys(("members", "partitions", "min_per_member", "max_per_member"), _LONG),
    **dict.fromkeys(("mean_per_member", "stddev_per_member", "max_over_mean"), _DOUBLE),
    **dict.fromkeys(("moved", "revoked", "unassigned", "withheld", "members_without_subscription"), _LONG),
    **dict.fromkeys(("unknown_topics", "owned_topic_gone", "owned_beyond_count", "claim_conflicts"), _LONG),
    **dict.fromkeys(("order_dependent", "rack_matched"), _LONG),
    "assignor_of_leader": _TEXT,
    **LOAD_METRICS,
    "bound": _TEXT,
}
_NULLABLE = ("max_over_mean", "rack_matched", "assignor_of_leader", *LOAD_METRICS, "bound")
PLAN_ROWS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "topic"), _TEXT),
        **dict.fromkeys(("first", "step", "count"), _INT),
        **dict.fromkeys(("code", "detail"), _TEXT),
        "member_ids": pa.list_(_TEXT),
        **dict.fromkeys(("member_flags", "owned", "planned"), pa.list_(_INT)),
        "loads": pa.list_(_DOUBLE),
        **METRIC_COLUMNS,
    }
)


_RUN = ("member_id", "topic", "first", "step", "count")
COLUMNS_BY_KIND: dict[str, tuple[str, ...]] = {
    ASSIGNED: _RUN,
    WITHHELD: _RUN,
    ORDER_DEPENDENT: _RUN,
    CHANGED_TOPIC: ("topic", "partitions", "member_ids", "member_flags", "owned", "planned", "loads"),
    METRICS: tuple(METRIC_COLUMNS),
    REJECTED: ("code", "detail"),
}
"""The columns that a row of each kind uses, beside cluster, group_id and kind."""


def columns_of(kinds: Collection[str]) -> list[str]:
    """Those columns of `PLAN_ROWS` that rows of these kinds use."""
    used = {"cluster", "group_id", "kind"}.union(*(COLUMNS_BY_KIND[kind] for kind in kinds))
    return [name for name in PLAN_ROWS.names if name in used]


@dataclass(frozen=True)
class PlanParams:
    """What is asked of a fleet's groups.

    Attributes:
        patterns: shell patterns over group_id and an assignor's name, or `CONFIGURED`; the first that fits decides.
        registered: the names of all assignors there are.
        custom: those that plan one group at a time.
        required_kinds: the kinds of rows to answer with.
        racks_known: whether the fleet says where replicas are.
        loads_known: whether it says what goes through partitions.
    """

    patterns: tuple[tuple[str, str], ...]
    registered: tuple[str, ...]
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)
    required_kinds: frozenset[str] = ALL_KINDS
    racks_known: bool = False
    loads_known: bool = False


def plan_groups(facts: pa.Table, question: PlanParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts (`groups.kernel.facts`), in tables with the columns of `PLAN_ROWS` in
    use."""
    schema = pa.schema([PLAN_ROWS.field(name) for name in columns_of(question.required_kinds)])
    for kind, rows in _answer(facts, question):
        yield tagged_table(kind, rows, schema)


def _answer(facts: pa.Table, question: PlanParams) -> Iterator[tuple[str, pa.Table]]:
    told = index_facts(facts)
    faults = find_faults(told)
    specs = read_group_specs(told, set(faults))
    assignor, refused = select_assignors(specs, question)
    planned = assign_groups(specs, assignor, question)
    refused |= planned.rejected
    if REJECTED in question.required_kinds:
        yield REJECTED, rejected_table(told, faults)
        yield REJECTED, _refusals(specs, refused)
    fine = np.array([name is not None for name in assignor], bool)
    fine[list(planned.rejected)] = False
    if ASSIGNED in question.required_kinds:
        yield ASSIGNED, _run_rows(specs, planned.assigned_now)
    if WITHHELD in question.required_kinds:
        yield WITHHELD, _run_rows(specs, planned.slices.take(planned.withheld))
    if ORDER_DEPENDENT in question.required_kinds:
        yield ORDER_DEPENDENT, _run_rows(specs, planned.order_dependent)
    compared = read_ownership(specs, planned.assigned_now, planned.slices.take(planned.withheld), fine)
    if METRICS in question.required_kinds:
        names = np.array([name or "" for name in assignor], object)
        figures = group_metrics(specs, compared, planned.order_dependent, racks_known=question.racks_known)
        figures |= {"assignor": pa.array(names, _TEXT), "assignor_of_leader": pa.array(_led_by(specs), _TEXT)}
        figures["bound"] = pa.array([planned.load_bound_status.get(group) for group in range(specs.num_groups)], _TEXT)
        if question.loads_known:
            figures |= load_metrics(specs, planned.assigned_now)
        yield METRICS, _group_rows(specs, figures, fine)
        yield METRICS, _idle_rows(find_empty_groups(told, set(faults)), facts)
    if CHANGED_TOPIC in question.required_kinds:
        yield CHANGED_TOPIC, _changed_rows(specs, compared, planned, loads=question.loads_known)


def assign_groups(specs: GroupSpecs, assignor: list[str | None], question: PlanParams) -> GroupAssignments:
    """Plan every group that has an assignor."""
    names = np.array([name or "" for name in assignor], object)
    planned = by.no_assignments()
    for name in sorted(set(assignor) - {None}, key=str):
        planned = planned.concat(by.assign(specs, str(name), names == name, question.custom))
    return planned


# --- which assignor -----------------------------------------------------------------------------------------------


def select_assignors(specs: GroupSpecs, question: PlanParams) -> tuple[list[str | None], dict[int, tuple[str, str]]]:
    """Of each group its assignor, null where it has none; and of those code and detail."""
    fits = [(re.compile(fnmatch.translate(pattern)), name) for pattern, name in question.patterns]
    configured, leaders = read_configured_assignors(specs.facts), read_leaders(specs.facts)
    chosen: list[str | None] = []
    refused: dict[int, tuple[str, str]] = {}
    names = zip(specs.cluster.to_pylist(), specs.group_id.to_pylist(), strict=True)
    for group, (cluster, group_id) in enumerate(names):
        wanted = next((name for pattern, name in fits if pattern.match(group_id)), None)
        own = configured.get((cluster, group_id)) if wanted == CONFIGURED else wanted
        refusal = _refusal(wanted, own, question.registered)
        if wanted == CONFIGURED and own not in question.custom:
            own = assignor_of_leader(own, *leaders.get((cluster, group_id), (None, None))[:2])
        chosen.append(own if refusal is None else None)
        if refusal is not None:
            refused[group] = refusal
    return chosen, refused


def _refusal(wanted: str | None, own: str | None, known: tuple[str, ...]) -> tuple[str, str] | None:
    if wanted is None:
        return "no-pattern", "No pattern fits the group. Add one, say '*'"
    if own is None:
        return "no-assignor", "groups.assignor does not say what it is configured with. Name an assignor"
    if own not in known and not is_release_assignor(own):
        return "unknown-assignor", f"It is configured with {own}. Name one of {', '.join(known)}, or register it"
    return None


def read_configured_assignors(told: IndexedFacts) -> dict[tuple[str, str], str]:
    """By cluster and group_id the assignor that a group is configured with.

    The broker's range of KIP-848 is another one than the client's.
    """
    rows = told.rows_by_kind[GROUP]
    columns = (told.column(name, rows).to_pylist() for name in ("cluster", "group_id", "assignor", "group_type"))
    return {
        (cluster, group_id): "server-range" if kind == "consumer" and name == "range" else name
        for cluster, group_id, name, kind in zip(*columns, strict=True)
        if name is not None
    }


def read_leaders(told: IndexedFacts) -> dict[tuple[str, str], tuple[str | None, str | None, str | None]]:
    """By cluster and group_id the library of a group's leader, its releases, and how surely that is known."""
    rows = told.rows_by_kind[GROUP]
    names = zip(*(told.column(name, rows).to_pylist() for name in ("cluster", "group_id")), strict=True)
    return dict(
        zip(names, zip(*(told.column(name, rows).to_pylist() for name in LEADER_COLUMNS), strict=True), strict=True)
    )


def read_static_groups(told: IndexedFacts) -> set[tuple[str, str]]:
    """cluster and group_id of the groups with static members."""
    rows = told.rows_by_kind[MEMBER]
    some = told.column("group_instance_id", rows).is_valid()
    return set(
        zip(*(told.column(name, rows).filter(some).to_pylist() for name in ("cluster", "group_id")), strict=True)
    )


def _led_by(specs: GroupSpecs) -> list[str | None]:
    """Of each group its leader in words: `Java 2.8-3.3 (likely)`."""
    leaders = read_leaders(specs.facts)
    names = zip(specs.cluster.to_pylist(), specs.group_id.to_pylist(), strict=True)
    static = read_static_groups(specs.facts)
    return [format_leader(*leaders.get(name, (None, None, None)), static=name in static) for name in names]


# --- the answer ---------------------------------------------------------------------------------------------------


def group_key_columns(specs: GroupSpecs, groups: IntArray) -> dict[str, pa.Array]:
    """cluster and group_id of some groups."""
    at = pa.array(groups, pa.int64())
    return {"cluster": specs.cluster.take(at), "group_id": specs.group_id.take(at)}


def _run_rows(specs: GroupSpecs, runs: PartitionSlices) -> pa.Table:
    names = group_key_columns(specs, specs.topics.group[runs.topic])
    names |= {"member_id": take_names(specs.member_id, runs.member), "topic": take_names(specs.topic, runs.topic)}
    numbers = {name: pa.array(getattr(runs, name)) for name in ("first", "step", "count")}
    return pa.table(names | numbers)


def _group_rows(specs: GroupSpecs, figures: dict[str, pa.Array], fine: BoolArray) -> pa.Table:
    table = pa.table(group_key_columns(specs, np.arange(specs.num_groups)) | figures)
    return table.filter(pa.array(fine))


def _idle_rows(rows: IntArray, facts: pa.Table) -> pa.Table:
    """Consumer groups that the fleet knows of but that have no members: nothing to decide, and not forgotten."""
    at = pa.array(rows, pa.int64())
    kinds = column(facts, "group_type").take(at).fill_null("classic").to_pylist()
    at = at.filter(pa.array([kind in ("classic", "consumer") for kind in kinds], pa.bool_()))
    names = {name: column(facts, name).take(at) for name in ("cluster", "group_id")}
    assignor = column(facts, "assignor").take(at).fill_null("none")
    zeros = {
        name: pa.array(np.zeros(len(at)), kind) for name, kind in METRIC_COLUMNS.items() if kind in (_LONG, _DOUBLE)
    }
    for name in _NULLABLE:
        zeros[name] = pa.nulls(len(at), METRIC_COLUMNS[name])
    return pa.table(names | zeros | {"assignor": assignor})


def _refusals(specs: GroupSpecs, refused: dict[int, tuple[str, str]]) -> pa.Table:
    groups = sorted(refused)
    codes, details = ([refused[group][at] for group in groups] for at in (0, 1))
    names = group_key_columns(specs, np.array(groups, np.int64))
    return pa.table(names | {"code": pa.array(codes, _TEXT), "detail": pa.array(details, _TEXT)})


def _changed_rows(specs: GroupSpecs, compared: Ownership, planned: GroupAssignments, *, loads: bool) -> pa.Table:
    """Returns a row for each topic in which a partition changes its owner, or is withheld."""
    cause = np.append(planned.reason[~planned.withheld], planned.reason[planned.withheld])
    subscribed = SubscriptionIndex(specs.subscriptions, max(len(specs.topics), 1), len(specs.members))
    member_ids = pa.concat_arrays([specs.member_id, specs.facts.member_id])
    topics, columns = changed_topics(compared, cause, subscribed, member_ids)
    columns |= group_key_columns(specs, specs.topics.group[topics]) | {"topic": take_names(specs.topic, topics)}
    if loads:
        first, step = np.zeros(len(topics), np.int64), np.ones(len(topics), np.int64)
        count = np.maximum(specs.topics.partitions[topics], 0)
        columns["loads"] = slice_rates(specs.loads, specs.topics, topics, first, step, count)
    return pa.table(columns)
