"""Migrates every classic group to the consumer protocol, in one pass over complete groups.

The `kind` of a result row says what it describes:

    group      whether the group should migrate, and its metrics afterward
    step       one step of the migration: what to do, and what it costs
    rejected   code, detail: a group that can't be analyzed, or that isn't a consumer group
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server import UNIFORM
from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_properties import (
    read_assignors,
    read_client_libraries,
    read_group_types,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import group_key_columns
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.migration_metrics import MigrationMetrics, measure_migration
from spark_assign.migration.kernel.migration_steps import describe_way_back, plan_steps
from spark_assign.migration.kernel.migration_verdict import (
    DONE,
    GO,
    MigrationCandidate,
    Policy,
    can_convert_online,
    judge,
)
from spark_assign.simulation.kernel.settings import TimingConfig

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

_TEXT, _LONG, _DOUBLE = pa.string(), pa.int64(), pa.float64()
MIGRATED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "verdict"), _TEXT),
        "online": pa.bool_(),
        **dict.fromkeys(("assignor", "server_assignor", "clients", "codes", "reasons", "way_back"), _TEXT),
        **dict.fromkeys(("members", "static_members", "partitions", "moved", "moved_on_the_way"), _LONG),
        **dict.fromkeys(("stopped_on_the_way", "moved_back"), _LONG),
        **dict.fromkeys(("max_over_mean_before", "max_over_mean_after", "paused_partition_seconds"), _DOUBLE),
        **dict.fromkeys(("cross_rack_before", "cross_rack_after", "cross_rack_what_if"), _LONG),
        "what_if": _TEXT,
        "step": pa.int32(),
        **dict.fromkeys(("what", "action"), _TEXT),
        **dict.fromkeys(("restarts", "played", "revoked", "stopped"), _LONG),
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Schema of the result of `migrate`; `kind` says which columns a row uses (`tables.comparison`)."""


@dataclass(frozen=True)
class MigrationParams:
    """The parameters of a migration.

    Attributes:
        to: the broker's assignor after the migration.
        policy, max_size: of the brokers (`MigrationCandidate`).
        clients: the library of members with unrecognized client ids; `None` if unknown.
        what_if: assignors that the broker doesn't have, to compare cross-rack partitions with.
        timing: the times to estimate pauses from.
        racks_known: whether the fleet has the racks of replicas.
    """

    to: str = UNIFORM
    policy: Policy = Policy.BIDIRECTIONAL
    max_size: int | None = None
    clients: str | None = None
    what_if: tuple[str, ...] = ()
    timing: TimingConfig = field(default_factory=TimingConfig)
    racks_known: bool = False


def migrate(facts: pa.Table, params: MigrationParams) -> Iterator[pa.Table]:
    """Analyzes all groups of these facts; yields tables with the columns of `MIGRATED`."""
    groups = open_pass(facts, action="migrate")
    specs = groups.specs
    yield tagged_table(REJECTED, groups.rejected_groups, MIGRATED)
    is_done = np.array([kind == "consumer" for kind in read_group_types(specs)], bool)
    current_assignors = read_assignors(specs)
    num_members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
    can_convert = np.array(
        [
            can_convert_online(*group_and_size, params.policy, params.max_size)
            for group_and_size in zip(current_assignors, num_members, strict=True)
        ],
        bool,
    )
    measure_args = (params.to, params.what_if, params.timing, params.racks_known)
    metrics = measure_migration(specs, current_assignors, can_convert & ~is_done, *measure_args)
    yield tagged_table(REJECTED, _rejected_rows(specs, metrics), MIGRATED)
    is_planned = np.ones(specs.num_groups, bool)
    is_planned[list(metrics.rejected)] = False
    candidates = _build_candidates(specs, metrics, params)
    rows = [
        *(_done_row(specs, metrics, group) for group in np.flatnonzero(is_planned & is_done).tolist()),
        *(
            _group_row(specs, metrics, group, candidates[group])
            for group in np.flatnonzero(is_planned & ~is_done).tolist()
        ),
        *_empty_group_rows(groups, params),
    ]
    yield tagged_rows(OF_GROUP, rows, MIGRATED)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    yield tagged_rows(
        OF_STEP,
        [
            {"cluster": names[0][group], "group_id": names[1][group], **step}
            for group in np.flatnonzero(is_planned & ~is_done).tolist()
            for step in plan_steps(candidates[group], metrics.for_group(group), metrics.restarts[group])
        ],
        MIGRATED,
    )


def _rejected_rows(specs: GroupSpecs, metrics: MigrationMetrics) -> pa.Table:
    groups = sorted(metrics.rejected)
    codes, details = (
        pa.array([metrics.rejected[group][field_index] for group in groups], _TEXT) for field_index in (0, 1)
    )
    return pa.table(group_key_columns(specs, np.array(groups, np.int64)) | {"code": codes, "detail": details})


# --- what is known of the groups ----------------------------------------------------------------------------------


def _count_copartitioned(specs: GroupSpecs) -> list[int]:
    """Returns, per group, the number of topics that share partition count and subscribers with another topic."""
    topics, with_metadata = specs.topics, specs.topics.with_metadata
    keys = np.stack(
        [topics.group[with_metadata], topics.partitions[with_metadata], topics.subscriber_set[with_metadata]]
    )
    distinct, num_topics = np.unique(keys, axis=1, return_counts=True)
    is_shared = num_topics > 1
    counts: list[int] = (
        np.bincount(distinct[0][is_shared], num_topics[is_shared], specs.num_groups).astype(np.int64).tolist()
    )
    return counts


def _build_candidates(
    specs: GroupSpecs, metrics: MigrationMetrics, params: MigrationParams
) -> list[MigrationCandidate]:
    current_assignors = read_assignors(specs)
    clients, copartitioned_topics = (
        read_client_libraries(specs, current_assignors, [params.clients] * specs.num_groups),
        _count_copartitioned(specs),
    )
    instances = specs.facts.column("group_instance_id", specs.members.row)
    num_static = np.bincount(specs.members.group[instances.is_valid()], minlength=specs.num_groups).tolist()
    candidates = []
    for group in range(specs.num_groups):
        group_metrics = metrics.for_group(group)
        candidates.append(
            MigrationCandidate(
                assignor=current_assignors[group],
                server_assignor=params.to,
                clients=clients[group],
                members=group_metrics["members"],
                static=num_static[group],
                partitions=group_metrics["partitions"],
                moved=group_metrics["moved"],
                max_over_mean_before=group_metrics["max_over_mean_before"],
                max_over_mean_after=group_metrics["max_over_mean_after"],
                cross_rack_before=group_metrics["cross_rack_before"],
                cross_rack_after=group_metrics["cross_rack_after"],
                copartitioned_topics=copartitioned_topics[group],
                policy=params.policy,
                max_size=params.max_size,
            )
        )
    return candidates


# --- rows ---------------------------------------------------------------------------------------------------------


def _group_key(specs: GroupSpecs, group: int) -> dict[str, Any]:
    return {"cluster": specs.cluster[group].as_py(), "group_id": specs.group_id[group].as_py()}


def _group_row(
    specs: GroupSpecs, metrics: MigrationMetrics, group: int, candidate: MigrationCandidate
) -> dict[str, Any]:
    verdict, restarts, is_complete = judge(candidate), metrics.restarts[group], metrics.is_complete[group]
    group_metrics = metrics.for_group(group)
    row = _group_key(specs, group) | {name: group_metrics[name] for name in group_metrics if name in MIGRATED.names}
    return row | {
        "verdict": verdict.verdict,
        "online": candidate.online,
        "assignor": candidate.assignor,
        "server_assignor": candidate.server_assignor,
        "clients": candidate.clients,
        "codes": ", ".join(verdict.codes),
        "reasons": verdict.reasons,
        "way_back": None if candidate.assignor == STREAMS else describe_way_back(candidate),
        "static_members": candidate.static,
        "moved_on_the_way": sum(costs["moved"] for costs in restarts) if is_complete else None,
        "stopped_on_the_way": sum(costs["stopped"] for costs in restarts) if is_complete else None,
    }


def _done_row(specs: GroupSpecs, metrics: MigrationMetrics, group: int) -> dict[str, Any]:
    """Returns the row of a group that uses the consumer protocol already."""
    group_metrics = metrics.for_group(group)
    columns = ("members", "partitions", "max_over_mean_before", "cross_rack_before")
    assignor = metrics.current_assignors[group]
    return (
        _group_key(specs, group)
        | {name: group_metrics[name] for name in columns}
        | {
            "verdict": DONE,
            "assignor": assignor,
            "server_assignor": assignor,
            "codes": "",
            "reasons": "It runs by the broker's protocol already.",
        }
    )


def _empty_group_rows(groups: PassInput, params: MigrationParams) -> Iterator[dict[str, Any]]:
    """Yields the rows of groups without members, which have nothing to convert."""
    for row in groups.empty_groups.tolist():
        kind = column(groups.facts.table, "group_type")[row].as_py()
        is_done = kind == "consumer"
        reasons = (
            "It has no members now, and is a group of the broker's protocol already."
            if is_done
            else "It has no members: the first one founds it anew by its own protocol, and offsets stay. If nobody "
            "ever joins it (a simple group, offsets alone), nothing changes."
        )
        yield {
            "cluster": column(groups.facts.table, "cluster")[row].as_py(),
            "group_id": column(groups.facts.table, "group_id")[row].as_py(),
            "verdict": DONE if is_done else GO,
            "online": None if is_done else True,
            "assignor": column(groups.facts.table, "assignor")[row].as_py(),
            "server_assignor": params.to,
            "codes": "",
            "reasons": reasons,
            "members": 0,
            "static_members": 0,
            "partitions": 0,
            **({} if is_done else dict.fromkeys(("moved", "moved_on_the_way", "stopped_on_the_way"), 0)),
        }
