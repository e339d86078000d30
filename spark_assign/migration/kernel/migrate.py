"""Every classic group on its way to the broker's protocol, in one pass over whole groups.

A row of the answer is tagged by its `kind`:

    group      whether the group should go, and what it would have after that
    step       one step of the way: what is done, and what it costs
    rejected   code, detail: a group that nothing can be said of, or that is no group of consumers
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server import UNIFORM
from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.groups.kernel.facts import IndexedFacts, column, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_properties import (
    find_unsupported_groups,
    read_assignors,
    read_client_libraries,
    read_group_types,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.plan_groups import group_key_columns
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.migration_metrics import MigrationMetrics, measure_migration
from spark_assign.migration.kernel.migration_verdict import GO, THERE, MigrationCandidate, Policy, can_online, judge
from spark_assign.migration.kernel.steps import steps_of
from spark_assign.migration.kernel.words import way_back
from spark_assign.simulation.kernel.settings import Timing

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
MIGRATED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "verdict"), _TEXT),
        "online": pa.bool_(),
        **dict.fromkeys(("assignor", "server_assignor", "clients", "codes", "reasons", "way_back"), _TEXT),
        **dict.fromkeys(("members", "static_members", "partitions", "moved", "moved_on_the_way"), _LONG),
        **dict.fromkeys(("stopped_on_the_way", "moved_back"), _LONG),
        **dict.fromkeys(("max_over_mean_before", "max_over_mean_after", "partition_seconds_paused"), _DOUBLE),
        **dict.fromkeys(("cross_rack_before", "cross_rack_after", "cross_rack_what_if"), _LONG),
        "what_if": _TEXT,
        "step": pa.int32(),
        **dict.fromkeys(("what", "action"), _TEXT),
        **dict.fromkeys(("restarts", "played", "revoked", "stopped"), _LONG),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Everything that is said of a migration, a row per group, step or refusal (`tables.comparison`)."""


@dataclass(frozen=True)
class MigrationParams:
    """What is asked.

    Attributes:
        to: the broker's assignor that groups go over to.
        policy, most: of the brokers, as `rules.Case` has them.
        clients: the library of members whose client ids do not tell; null: unknown.
        what_if: assignors that the broker does not have, asked what they would save.
        timing: by which pauses are counted.
        racks_known: whether the fleet says where replicas are.
    """

    to: str = UNIFORM
    policy: Policy = Policy.BIDIRECTIONAL
    most: int | None = None
    clients: str | None = None
    what_if: tuple[str, ...] = ()
    timing: Timing = field(default_factory=Timing)
    racks_known: bool = False


def migrate(facts: pa.Table, asked: MigrationParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `MIGRATED`."""
    told = index_facts(facts)
    faults = find_faults(told, also=("share", "streams"))
    others = find_unsupported_groups(told, "migrate")
    refused = rejected_table(told, faults | {group: why for group, why in others.items() if group not in faults})
    yield tagged_table(REJECTED, refused, MIGRATED)
    specs = read_group_specs(told, {*faults, *others})
    there = np.array([kind == "consumer" for kind in read_group_types(specs)], bool)
    now = read_assignors(specs)
    members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
    online = np.array([can_online(*each, asked.policy, asked.most) for each in zip(now, members, strict=True)], bool)
    asking = (asked.to, asked.what_if, asked.timing, asked.racks_known)
    found = measure_migration(specs, now, online & ~there, *asking)
    yield tagged_table(REJECTED, _refused(specs, found), MIGRATED)
    fine = np.ones(specs.num_groups, bool)
    fine[list(found.refused)] = False
    cases = _cases(specs, found, asked)
    rows = [
        *(_there(specs, found, group) for group in np.flatnonzero(fine & there).tolist()),
        *(_row(specs, found, group, cases[group]) for group in np.flatnonzero(fine & ~there).tolist()),
        *_idle(told, {*faults, *others}, asked),
    ]
    yield tagged_rows(OF_GROUP, rows, MIGRATED)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    yield tagged_rows(
        OF_STEP,
        [
            {"cluster": names[0][group], "group_id": names[1][group], **step}
            for group in np.flatnonzero(fine & ~there).tolist()
            for step in steps_of(cases[group], found.of(group), found.restarts[group])
        ],
        MIGRATED,
    )


def _refused(specs: GroupSpecs, found: MigrationMetrics) -> pa.Table:
    groups = sorted(found.refused)
    codes, details = (pa.array([found.refused[group][at] for group in groups], _TEXT) for at in (0, 1))
    return pa.table(group_key_columns(specs, np.array(groups, np.int64)) | {"code": codes, "detail": details})


# --- what is known of the groups ----------------------------------------------------------------------------------


def _alike(specs: GroupSpecs) -> list[int]:
    """Of each group the topics that have as many partitions and the same subscribers as another one of it."""
    topics, known = specs.topics, specs.topics.with_metadata
    keys = np.stack([topics.group[known], topics.partitions[known], topics.subscriber_set[known]])
    same, number = np.unique(keys, axis=1, return_counts=True)
    several = number > 1
    counts: list[int] = np.bincount(same[0][several], number[several], specs.num_groups).astype(np.int64).tolist()
    return counts


def _cases(specs: GroupSpecs, found: MigrationMetrics, asked: MigrationParams) -> list[MigrationCandidate]:
    now = read_assignors(specs)
    clients, alike = read_client_libraries(specs, now, [asked.clients] * specs.num_groups), _alike(specs)
    instances = specs.facts.column("group_instance_id", specs.members.row)
    static = np.bincount(specs.members.group[instances.is_valid()], minlength=specs.num_groups).tolist()
    cases = []
    for group in range(specs.num_groups):
        of = found.of(group)
        cases.append(
            MigrationCandidate(
                now=now[group],
                to=asked.to,
                clients=clients[group],
                members=of["members"],
                static=static[group],
                partitions=of["partitions"],
                moved=of["moved"],
                uneven_before=of["max_over_mean_before"],
                uneven_after=of["max_over_mean_after"],
                across_before=of["cross_rack_before"],
                across_after=of["cross_rack_after"],
                alike=alike[group],
                policy=asked.policy,
                most=asked.most,
            )
        )
    return cases


# --- rows ---------------------------------------------------------------------------------------------------------


def _named(specs: GroupSpecs, group: int) -> dict[str, Any]:
    return {"cluster": specs.cluster[group].as_py(), "group_id": specs.group_id[group].as_py()}


def _row(specs: GroupSpecs, found: MigrationMetrics, group: int, case: MigrationCandidate) -> dict[str, Any]:
    verdict, restarts, whole = judge(case), found.restarts[group], found.whole[group]
    figures = found.of(group)
    row = _named(specs, group) | {name: figures[name] for name in figures if name in MIGRATED.names}
    return row | {
        "verdict": verdict.verdict,
        "online": case.online,
        "assignor": case.now,
        "server_assignor": case.to,
        "clients": case.clients,
        "codes": ", ".join(verdict.codes),
        "reasons": verdict.reasons,
        "way_back": None if case.now == STREAMS else way_back(case),
        "static_members": case.static,
        "moved_on_the_way": sum(each["moved"] for each in restarts) if whole else None,
        "stopped_on_the_way": sum(each["stopped"] for each in restarts) if whole else None,
    }


def _there(specs: GroupSpecs, found: MigrationMetrics, group: int) -> dict[str, Any]:
    """A group that runs by the broker's protocol already."""
    figures = found.of(group)
    shown = ("members", "partitions", "max_over_mean_before", "cross_rack_before")
    now = found.now[group]
    return (
        _named(specs, group)
        | {name: figures[name] for name in shown}
        | {
            "verdict": THERE,
            "assignor": now,
            "server_assignor": now,
            "codes": "",
            "reasons": "It runs by the broker's protocol already.",
        }
    )


def _idle(told: IndexedFacts, excluded: set[int], asked: MigrationParams) -> Iterator[dict[str, Any]]:
    """Groups without members: nothing to convert."""
    for row in find_empty_groups(told, excluded).tolist():
        kind = column(told.table, "group_type")[row].as_py()
        there = kind == "consumer"
        words = (
            "It has no members now, and is a group of the broker's protocol already."
            if there
            else "It has no members: the first one founds it anew by its own protocol, and offsets stay. If nobody "
            "ever joins it (a simple group, offsets alone), nothing changes."
        )
        yield {
            "cluster": column(told.table, "cluster")[row].as_py(),
            "group_id": column(told.table, "group_id")[row].as_py(),
            "verdict": THERE if there else GO,
            "online": None if there else True,
            "assignor": column(told.table, "assignor")[row].as_py(),
            "server_assignor": asked.to,
            "codes": "",
            "reasons": words,
            "members": 0,
            "static_members": 0,
            "partitions": 0,
            **({} if there else dict.fromkeys(("moved", "moved_on_the_way", "stopped_on_the_way"), 0)),
        }
