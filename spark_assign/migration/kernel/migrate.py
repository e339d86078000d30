"""Plans the migration of every classic group to the consumer protocol, in one pass over complete groups.

The `kind` of a result row says what it describes:

    group      whether the group should migrate, and its metrics afterward
    step       one step of the migration: what to do, and what it costs
    rejected   code, detail: a group that can't be analyzed, or that isn't a consumer group
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import column
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    STREAMS,
    UNKNOWN,
    candidates,
    read_client_libraries,
    read_clients,
)
from spark_assign.groups.kernel.client_settings import FORBIDDEN, assignor_lines, has_forbidden_settings
from spark_assign.groups.kernel.plan_groups import read_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.migration.kernel import migration_verdict
from spark_assign.migration.kernel.migration_metrics import MigrationPassParams, measure_migration
from spark_assign.migration.kernel.migration_verdict import (
    DONE,
    READY,
    ROLLBACK,
    SERVER_ASSIGNOR,
    MigrationCandidate,
    can_convert_online,
    judge_migration,
)
from spark_assign.migration.kernel.rolling_restart import COSTS, plan_groups_apart

OF_GROUP, OF_STEP, REJECTED = KINDS = ("group", "step", "rejected")

_Row = dict[str, Any]


def plan_migrations(facts: pa.Table, params: MigrationPassParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Returns the rows of all groups of these facts, with the columns of `schema`."""
    return plan_groups_apart(partial(_plan_migrations, params=params, schema=schema), facts, REJECTED, schema)


def _plan_migrations(facts: pa.Table, params: MigrationPassParams, schema: pa.Schema) -> Iterator[pa.Table]:
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


# --- the steps of a migration to the consumer protocol, with their descriptions and costs ---------------------
#
# If the broker converts the group online:
#     1 prepare         the settings of all members change; nothing else happens
#     2 first-member    the first member restarts; the coordinator converts the group
#     3 other-members   the other members restart, one at a time
#     4 last-member     the last classic member restarts; from then on no rebalance waits for the whole group
#     5 next-rebalance  only groups of static members: what the broker's assignor changes at the next rebalance
# Otherwise:
#     1 prepare, 2 stop-all, 3 start-all
# In both cases, the last step is:
#     rollback          how the group becomes a classic group again, and how many partitions move then
# A Kafka Streams application takes the same steps to its own protocol, always with a full stop.


ROLLBACK_FAULT = (
    "Afterward, a broker that loads the group while __consumer_offsets is compacted can fail, and all groups of that "
    "partition have no coordinator (KAFKA-21117, open in 4.4)."
)

_StepRow = dict[str, Any]


def plan_steps(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    """Yields the steps of one group, in order.

    Args:
        candidate: the group.
        metrics: the metrics of the group (`MigrationMetrics.rows`).
        restarts: the costs of each simulated restart, in order.
    """
    if candidate.assignor == STREAMS:
        num_owned = metrics["owned"]
        steps = [
            _step("prepare", migration_verdict.PREPARE),
            _step(
                "stop-all", migration_verdict.STOP, candidate.members, revoked=num_owned, paused_partitions=num_owned
            ),
            _step("start-all", migration_verdict.START),
            _step("rollback", migration_verdict.ROLLBACK, candidate.members),
        ]
    else:
        steps = [
            _step("prepare", describe_prepare(candidate)),
            *(_plan_online(candidate, metrics, restarts) if candidate.online else _plan_offline(candidate, metrics)),
            _step("rollback", describe_rollback(candidate), candidate.members, moved=metrics["moved_on_rollback"]),
        ]
    for ordinal, step in enumerate(steps, 1):
        yield {"step": ordinal, **step}


def _plan_online(
    candidate: MigrationCandidate, metrics: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[_StepRow]:
    """Yields the steps of a migration without a full stop."""
    last = candidate.members - 1
    phases = (
        ("first-member", describe_first_restart(candidate), 0, 1),
        ("other-members", describe_other_restarts(candidate), 1, last),
        (
            "last-member",
            "Restart the last classic member. From now on, no rebalance waits for the whole group.",
            max(last, 1),
            candidate.members,
        ),
    )
    for step_type, description, start, end in phases:
        if end > start:
            simulated = restarts[start:end]
            costs = {cost: sum(restart[cost] for restart in simulated) for cost in COSTS} if simulated else {}
            yield _step(step_type, description, end - start, len(simulated), **costs)
    if candidate.is_static:
        text = (
            f"The target assignment is still from {candidate.assignor or 'the classic group'}. "
            f"{candidate.server_assignor} computes a new one when a member or a subscription is added or removed, a "
            "topic gets partitions, a replica moves across racks (brokers 4.1 or later), or all members change "
            "group.remote.assignor (4.4 or later)."
        )
        yield _step("next-rebalance", text, moved=metrics["moved"])


def _plan_offline(candidate: MigrationCandidate, metrics: Mapping[str, Any]) -> Iterator[_StepRow]:
    """Yields the steps of a migration that stops the group."""
    stop = (
        "Stop all members, and wait until the group is Empty. The broker converts an empty group under every "
        "migration policy."
    )
    start = (
        f"Start all members with the new settings. Committed offsets stay; {candidate.server_assignor} assigns all "
        "partitions from scratch."
    )
    num_owned = metrics["owned"]
    yield _step("stop-all", stop, candidate.members, revoked=num_owned, paused_partitions=num_owned)
    yield _step("start-all", start, moved=metrics["moved"])


def _step(
    step_type: str, description: str, restarts: int = 0, num_simulated: int | None = None, **costs: int | None
) -> _StepRow:
    row = {"step_type": step_type, "description": description, "restarts": restarts}
    return row | {"simulated_restarts": num_simulated, **costs}


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_prepare(candidate: MigrationCandidate) -> str:
    """Describes the change to the settings of all members."""
    names = [name for name in read_clients(candidate.client_libraries) if name != UNKNOWN] or ["Java"]
    libraries = [each for name in names for each in candidates(name) if each.consumer_protocol]
    if not libraries:
        return f"{' and '.join(names)} can't use the consumer protocol: move the members to another library first."
    settings = dict.fromkeys(" and ".join(assignor_lines(each, (candidate.server_assignor,))) for each in libraries)
    is_forbidden = any(map(has_forbidden_settings, libraries))
    removed = f", and remove {', '.join(FORBIDDEN)}. A client doesn't start with them" if is_forbidden else ""
    return f"In the settings of every member, set {', or '.join(settings)}{removed}."


def describe_first_restart(candidate: MigrationCandidate) -> str:
    """Describes the restart of the first member."""
    if candidate.static_members:
        dynamic = (
            ""
            if candidate.is_static
            else (f" A dynamic member leaves and joins, so {candidate.server_assignor} computes a new target.")
        )
        return (
            "Restart one member. The coordinator converts the classic group to a consumer group; the current "
            f"assignment becomes the target assignment. A static member keeps its partitions.{dynamic}"
        )
    reassigned = (
        f", and {candidate.assignor} assigns its partitions to the other members"
        if candidate.members > 1 and candidate.assignor
        else ""
    )
    return (
        f"Restart one member. It leaves{reassigned}. When it rejoins, the coordinator converts the classic group to a "
        f"consumer group, and {candidate.server_assignor} computes the target assignment."
    )


def describe_other_restarts(candidate: MigrationCandidate) -> str:
    """Describes the restarts of the other members."""
    if candidate.is_static:
        return "Restart the other members, one at a time, within their session timeout. They keep their partitions."
    is_eager = candidate.assignor in CLIENT_ASSIGNORS and candidate.assignor != COOPERATIVE
    effect = (
        "revoke all their partitions at each new target"
        if is_eager
        else "revoke the partitions that move, in an additional round"
    )
    return f"Restart the other members, one at a time. The remaining classic members {effect}."


def describe_rollback(candidate: MigrationCandidate) -> str:
    """Describes how the group becomes a classic group again."""
    previous = candidate.assignor if candidate.assignor in CLIENT_ASSIGNORS else "the previous assignor"
    if not candidate.policy.down:
        return (
            f"Stop all members, and start them with the previous settings ({previous}). With "
            f"group.consumer.migration.policy={candidate.policy}, the broker doesn't convert a running group back."
        )
    return (
        f"Restart the members with the previous settings ({previous}). When the last member with the consumer protocol "
        f"has left, the coordinator converts the group to a classic group, and {previous} assigns all partitions "
        f"again. {ROLLBACK_FAULT}"
    )
