"""Plans complete share groups in one pass: takes facts (`groups.kernel.facts`) and returns one tagged table.

The `kind` of a row determines the columns that it uses:

    assigned    member_id, topic, first, step, count: a slice of the plan; a count of 0: a topic without partitions
    change      the same columns for a slice that a member gets or loses; change (given, taken), reason
    metrics     the metrics of a group
    rejected    code, detail: a group that can't be planned

Reasons; the first that applies counts. For lost partitions:
    member-left     the member has left the group
    topic-gone      the topic doesn't exist
    unsubscribed    the member doesn't subscribe to the topic
    over-shared     the partition has more members than it needs
    over-quota      the member has more partitions than its quota
For new partitions:
    new             no member had the partition
    under-shared    the partition has fewer members than it needs
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server.coordinator_hash_order import TopicIds
from spark_assign.groups.assignors.server.coordinator_order import read_topic_ids_of_specs
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import group_key_columns
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.java.key_index import take_names
from spark_assign.java.tree_bin import IdentityDecides
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.share.kernel.assignment_changes import (
    METRIC_COLUMNS,
    REASONS,
    ShareAssignmentChanges,
    compute_metrics,
)
from spark_assign.share.kernel.share_group_input import read_share_group_input
from spark_assign.share.kernel.simple_assignor import assign_simple

ASSIGNED, CHANGE, METRICS, REJECTED = "assigned", "change", "metrics", "rejected"
ADDED, REVOKED = "given", "taken"

_STRING = pa.string()
SHARE_PLAN_ROWS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "topic"), _STRING),
        **dict.fromkeys(("first", "step", "count"), pa.int32()),
        **dict.fromkeys(("change", "reason", "code", "detail"), _STRING),
        **METRIC_COLUMNS,
    }
)

ASSIGNOR_FAILS = (
    "kafka-fails",
    "Kafka's SimpleAssignor throws here: java.util.NoSuchElementException. The group keeps the assignment that it has; "
    "a member that joins or leaves, or another number of partitions, may let it go on",
)
IDENTITY_ORDER = (
    "identity-order",
    "More than seven partitions share a bucket of the assignor's HashMap, and two of them a hash code. Their order "
    "hangs on System.identityHashCode, which is another one in every broker",
)


def plan_share_groups(fact_table: pa.Table) -> Iterator[pa.Table]:
    """Yields the plan of all groups of the facts, as tables with the columns of `SHARE_PLAN_ROWS`."""
    for kind, rows in _plan(fact_table):
        yield tagged(kind, {name: rows[name] for name in rows.column_names}, len(rows), SHARE_PLAN_ROWS)


def _plan(fact_table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    groups = open_pass(fact_table, also=("share",))
    specs = groups.specs
    ids = read_topic_ids_of_specs(specs)
    rejected = dict(ids.rejected)
    is_valid = np.ones(specs.num_groups, bool)
    is_valid[list(rejected)] = False
    for changes in _assign(specs, ids.topic_ids, is_valid, rejected):
        rejected |= dict.fromkeys(np.flatnonzero(changes.assignment.failed).tolist(), ASSIGNOR_FAILS)
        yield ASSIGNED, _slice_rows(specs, changes.slices(), specs.member_id)
        yield from ((CHANGE, rows) for rows in _change_rows(changes))
        metrics = pa.table(group_key_columns(specs, np.arange(specs.num_groups)) | compute_metrics(changes))
        yield METRICS, metrics.filter(pa.array(changes.is_planned))
    yield REJECTED, groups.rejected_groups
    failed = sorted(rejected)
    reasons = {
        name: pa.array([rejected[group][index] for group in failed], _STRING)
        for index, name in enumerate(("code", "detail"))
    }
    yield REJECTED, pa.table(group_key_columns(specs, np.array(failed, np.int64)) | reasons)
    yield METRICS, _empty_group_metrics(fact_table, groups.empty_groups)


def _assign(
    specs: GroupSpecs, ids: TopicIds, selected: BoolArray, rejected: dict[int, tuple[str, str]]
) -> Iterator[ShareAssignmentChanges]:
    """Assigns the selected groups at once. If an order is unknowable, bisects the groups and rejects the affected
    ones."""
    group_input = read_share_group_input(specs, ids, selected)
    try:
        yield ShareAssignmentChanges(specs, group_input, assign_simple(group_input.share_specs))
    except IdentityDecides:
        groups = np.flatnonzero(selected)
        if len(groups) == 1:
            rejected[int(groups[0])] = IDENTITY_ORDER
            return
        for half in np.array_split(groups, 2):
            selected_half = np.zeros_like(selected)
            selected_half[half] = True
            yield from _assign(specs, ids, selected_half, rejected)


# --- rows of the result -------------------------------------------------------------------------------------------


def _slice_rows(specs: GroupSpecs, slices: PartitionSlices, member_ids: pa.Array) -> pa.Table:
    """Returns slices with names; their members index into `member_ids`."""
    names = group_key_columns(specs, specs.topics.group[slices.topic])
    names |= {"member_id": take_names(member_ids, slices.member), "topic": take_names(specs.topic, slices.topic)}
    return pa.table(names | {name: pa.array(getattr(slices, name)) for name in ("first", "step", "count")})


def _change_rows(changes: ShareAssignmentChanges) -> Iterator[pa.Table]:
    specs = changes.specs
    departed = changes.departed()
    departed_reason = np.full(len(departed), REASONS.index("member-left"))
    revoked, revoked_reason = changes.compress(changes.revoked, changes.revoked_reasons())
    added, added_reason = changes.compress(changes.added, changes.added_reasons())
    for change, slices, reason, member_ids in (
        (REVOKED, departed, departed_reason, specs.facts.member_id),
        (REVOKED, revoked, revoked_reason, specs.member_id),
        (ADDED, added, added_reason, specs.member_id),
    ):
        rows = _slice_rows(specs, slices, member_ids)
        reasons = pa.array(REASONS, _STRING).take(pa.array(reason, pa.int64()))
        yield rows.append_column("change", pa.repeat(pa.scalar(change, _STRING), len(rows))).append_column(
            "reason", reasons
        )


def _empty_group_metrics(fact_table: pa.Table, rows: IntArray) -> pa.Table:
    """Returns metrics of groups without members: 0 everywhere. `rows` are rows of the facts."""
    index = pa.array(rows, pa.int64())
    names = {name: column(fact_table, name).take(index) for name in ("cluster", "group_id")}
    return pa.table(names | {name: pa.array(np.zeros(len(index)), kind) for name, kind in METRIC_COLUMNS.items()})
