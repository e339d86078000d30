"""Plans the migration of every classic group to the consumer protocol, in one pass over complete groups.

The `kind` of a result row says what it describes:

    group      whether the group should migrate, and its metrics afterward
    step       one step of the migration: what to do, and what it costs
    rejected   code, detail: a group that can't be analyzed, or that isn't a consumer group
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.client_libraries import STREAMS, read_client_libraries
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import read_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel.migration_metrics import MigrationPassParams, measure_migration
from spark_assign.migration.kernel.migration_steps import describe_rollback, plan_steps
from spark_assign.migration.kernel.migration_verdict import (
    DONE,
    READY,
    MigrationCandidate,
    can_convert_online,
    judge_migration,
)
from spark_assign.migration.kernel.streams_migration import ROLLBACK, SERVER_ASSIGNOR

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

_Row = dict[str, Any]


def plan_migrations(facts: pa.Table, params: MigrationPassParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of all groups of these facts, with the columns of `schema`."""
    pass_input = open_pass(facts, action="migrate")
    specs = pass_input.specs
    yield tagged_table(REJECTED, pass_input.rejected_groups, schema)
    is_done = [kind == "consumer" for kind in specs.group_values("group_type")]
    assignors, num_members = read_assignors(specs), np.bincount(specs.members.group, minlength=specs.num_groups)
    is_online = [
        not done and can_convert_online(assignor, size, params.policy, params.max_size)
        for assignor, size, done in zip(assignors, num_members.tolist(), is_done, strict=True)
    ]
    metrics = measure_migration(specs, assignors, np.array(is_online, bool), params)
    candidates = _build_candidates(specs, assignors, metrics.rows, params)
    keys: list[_Row] = pa.table({"cluster": specs.cluster, "group_id": specs.group_id}).to_pylist()
    rejected: list[_Row] = []
    groups: list[_Row] = []
    steps: list[_Row] = []
    for group, (key, candidate, group_metrics) in enumerate(zip(keys, candidates, metrics.rows, strict=True)):
        if group in metrics.rejected:
            rejected.append(key | dict(zip(("code", "detail"), metrics.rejected[group], strict=True)))
        elif is_done[group]:
            groups.append(key | _done_row(candidate, group_metrics))
        else:
            restarts = metrics.restarts[group]
            groups.append(key | _group_row(candidate, group_metrics, restarts if metrics.is_complete[group] else None))
            steps += [key | step for step in plan_steps(candidate, group_metrics, restarts)]
    yield tagged_rows(REJECTED, rejected, schema)
    yield tagged_rows(OF_GROUP, [*groups, *_empty_group_rows(pass_input, params)], schema)
    yield tagged_rows(OF_STEP, steps, schema)


def _build_candidates(
    specs: GroupSpecs, assignors: Sequence[str | None], metrics: Sequence[_Row], params: MigrationPassParams
) -> list[MigrationCandidate]:
    """Returns what is known of each group before its migration."""
    named = [
        next((name for glob, name in params.library.items() if fnmatch.fnmatchcase(group_id, glob)), None)
        for group_id in specs.group_id.to_pylist()
    ]
    libraries = read_client_libraries(specs, assignors, named)
    num_static = np.bincount(specs.members.group[specs.instance_id.is_valid()], minlength=specs.num_groups).tolist()
    copartitioned_topics = _count_copartitioned(specs)
    metric_names = [
        *("members", "partitions", "moved", "max_over_mean_before", "max_over_mean_after"),
        *("cross_rack_before", "cross_rack_after"),
    ]
    return [
        MigrationCandidate(
            assignor=assignors[group],
            server_assignor=params.server_assignor,
            client_libraries=libraries[group],
            static_members=num_static[group],
            copartitioned_topics=copartitioned_topics[group],
            policy=params.policy,
            max_size=params.max_size,
            broker_release=params.broker_release,
            **{name: row[name] for name in metric_names},
        )
        for group, row in enumerate(metrics)
    ]


def _count_copartitioned(specs: GroupSpecs) -> list[int]:
    """Returns, per group, the number of topics that share partition count and subscribers with another topic."""
    topics, with_metadata = specs.topics, specs.topics.with_metadata
    keys = np.stack([topics.group, topics.partitions, topics.subscriber_set])[:, with_metadata]
    distinct, num_topics = np.unique(keys, axis=1, return_counts=True)
    num_shared = np.where(num_topics > 1, num_topics, 0)
    counts: list[int] = np.bincount(distinct[0], num_shared, specs.num_groups).astype(np.int64).tolist()
    return counts


# --- rows ---------------------------------------------------------------------------------------------------------


def _group_row(candidate: MigrationCandidate, metrics: _Row, restarts: list[dict[str, int]] | None) -> _Row:
    """Returns the row of a classic group; `restarts` is `None` if not all restarts were simulated."""
    verdict, codes, reasons = judge_migration(candidate)
    copied = ("online", "assignor", "server_assignor", "client_libraries", "static_members")
    if candidate.assignor == STREAMS:
        names = ("members", "partitions", "max_over_mean_before", "cross_rack_before")
        return {name: metrics[name] for name in names} | {
            **{name: getattr(candidate, name) for name in copied},
            "server_assignor": SERVER_ASSIGNOR,
            "verdict": verdict,
            "codes": ", ".join(codes),
            "reasons": reasons,
            "rollback": ROLLBACK,
        }
    return metrics | {
        **{name: getattr(candidate, name) for name in copied},
        "verdict": verdict,
        "codes": ", ".join(codes),
        "reasons": reasons,
        "rollback": describe_rollback(candidate),
        "moved_during_migration": None if restarts is None else sum(costs["moved"] for costs in restarts),
        "paused_during_migration": None if restarts is None else sum(costs["paused_partitions"] for costs in restarts),
    }


def _done_row(candidate: MigrationCandidate, metrics: _Row) -> _Row:
    """Returns the row of a group that uses the consumer protocol already."""
    columns = ("members", "partitions", "max_over_mean_before", "cross_rack_before")
    return {name: metrics[name] for name in columns} | {
        "verdict": DONE,
        "assignor": candidate.assignor,
        "server_assignor": candidate.assignor,
        "codes": "",
        "reasons": "The group uses the consumer protocol already.",
    }


def _empty_group_rows(pass_input: PassInput, params: MigrationPassParams) -> Iterator[_Row]:
    """Yields the rows of groups without members, which have nothing to convert."""
    table = pass_input.facts.table
    for row in pass_input.empty_groups.tolist():
        is_done = column(table, "group_type")[row].as_py() == "consumer"
        yield {
            **{name: column(table, name)[row].as_py() for name in ("cluster", "group_id", "assignor")},
            "verdict": DONE if is_done else READY,
            "online": None if is_done else True,
            "server_assignor": params.server_assignor,
            "codes": "",
            "reasons": "The group has no members and uses the consumer protocol already."
            if is_done
            else "The group has no members. The first member to join sets the protocol; committed offsets stay. A "
            "group that only commits offsets (a simple group) doesn't change.",
            **dict.fromkeys(("members", "static_members", "partitions"), 0),
            **({} if is_done else dict.fromkeys(("moved", "moved_during_migration", "paused_during_migration"), 0)),
        }
