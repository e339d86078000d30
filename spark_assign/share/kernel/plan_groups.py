"""One pass over whole share groups: facts in (`groups.kernel.facts`), everything that is decided out, as one table.

A row of the answer is tagged by its `kind`:

    assigned    member_id, topic, first, step, count: a run of the plan; a count of 0: a topic without partitions
    change      the same of what a member is given or loses: change (given, taken), reason
    metrics     the figures of a group
    rejected    code, detail: a group that cannot be planned

Reasons, the first that fits. What is taken
    member-left     the member has left the group
    topic-gone      the topic does not exist (any more)
    unsubscribed    the member does not subscribe to the topic (any more)
    over-shared     the partition has more members than it should
    over-quota      the member has more than its share
What is given
    new             no member had it
    under-shared    it has fewer members than it should
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.server.coordinator_hash_order import TopicIds
from spark_assign.groups.kernel.coordinator_order import read_topic_ids_of_specs
from spark_assign.groups.kernel.facts import column, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_specs import GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.plan_groups import group_key_columns
from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.java.key_index import named
from spark_assign.java.tree_bin import IdentityDecides
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.share.kernel.assignment_changes import REASONS, ShareAssignmentChanges
from spark_assign.share.kernel.group_metrics import FIGURES, measure
from spark_assign.share.kernel.share_group_input import list_groups
from spark_assign.share.kernel.simple_assignor import assign_simple

ASSIGNED, CHANGE, METRICS, REJECTED = "assigned", "change", "metrics", "rejected"
GIVEN, TAKEN = "given", "taken"

_TEXT = pa.string()
DECIDED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "topic"), _TEXT),
        **dict.fromkeys(("first", "step", "count"), pa.int32()),
        **dict.fromkeys(("change", "reason", "code", "detail"), _TEXT),
        **FIGURES,
    }
)

FAILS = (
    "kafka-fails",
    "Kafka's SimpleAssignor throws here: java.util.NoSuchElementException. The group keeps the assignment that it has; "
    "a member that joins or leaves, or another number of partitions, may let it go on",
)
IDENTITY = (
    "identity-order",
    "More than seven partitions share a bucket of the assignor's HashMap, and two of them a hash code. Their order "
    "hangs on System.identityHashCode, which is another one in every broker",
)


def decide(facts: pa.Table) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `DECIDED`."""
    for kind, rows in _answer(facts):
        yield tagged(kind, {name: rows[name] for name in rows.column_names}, len(rows), DECIDED)


def _answer(facts: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    told = index_facts(facts)
    faults = find_faults(told, also=("share",))
    specs = read_group_specs(told, set(faults))
    found = read_topic_ids_of_specs(specs)
    ids, refused = found.topic_ids, dict(found.rejected)
    fine = np.ones(specs.num_groups, bool)
    fine[list(refused)] = False
    for outcome in _ask(specs, ids, fine, refused):
        refused |= dict.fromkeys(np.flatnonzero(outcome.answer.failed).tolist(), FAILS)
        yield ASSIGNED, _rows(specs, outcome.runs(), specs.member_id)
        yield from ((CHANGE, rows) for rows in _changes(outcome))
        figures = pa.table(group_key_columns(specs, np.arange(specs.num_groups)) | measure(specs, outcome))
        yield METRICS, figures.filter(pa.array(outcome.chosen))
    yield REJECTED, rejected_table(told, faults)
    groups = sorted(refused)
    words = {
        name: pa.array([refused[group][at] for group in groups], _TEXT) for at, name in enumerate(("code", "detail"))
    }
    yield REJECTED, pa.table(group_key_columns(specs, np.array(groups, np.int64)) | words)
    yield METRICS, _without_members(facts, find_empty_groups(told, set(faults)))


def _ask(
    specs: GroupSpecs, ids: TopicIds, chosen: BoolArray, refused: dict[int, tuple[str, str]]
) -> Iterator[ShareAssignmentChanges]:
    """The answer for these groups, all at once; those that cannot be foretold are found by halving, and refused."""
    listed = list_groups(specs, ids, chosen)
    try:
        yield ShareAssignmentChanges(specs, listed, assign_simple(listed.groups))
    except IdentityDecides:
        groups = np.flatnonzero(chosen)
        if len(groups) == 1:
            refused[int(groups[0])] = IDENTITY
            return
        for half in np.array_split(groups, 2):
            some = np.zeros_like(chosen)
            some[half] = True
            yield from _ask(specs, ids, some, refused)


# --- the answer ---------------------------------------------------------------------------------------------------


def _rows(specs: GroupSpecs, runs: PartitionSlices, ids: pa.Array) -> pa.Table:
    """Runs by name; their members are numbers of these ids."""
    names = group_key_columns(specs, specs.topics.group[runs.topic])
    names |= {"member_id": named(ids, runs.member), "topic": named(specs.topic, runs.topic)}
    return pa.table(names | {name: pa.array(getattr(runs, name)) for name in ("first", "step", "count")})


def _changes(outcome: ShareAssignmentChanges) -> Iterator[pa.Table]:
    specs = outcome.specs
    left = outcome.left()
    went = left, np.full(len(left), REASONS.index("member-left"))
    taken = outcome.compressed(outcome.taken, outcome.why_taken())
    given = outcome.compressed(outcome.given, outcome.why_given())
    parts = ((TAKEN, went, specs.facts.member_id), (TAKEN, taken, specs.member_id), (GIVEN, given, specs.member_id))
    for change, (runs, why), ids in parts:
        rows = _rows(specs, runs, ids)
        reason = pa.array(REASONS, _TEXT).take(pa.array(why, pa.int64()))
        change_of = pa.repeat(pa.scalar(change, _TEXT), len(rows))
        yield rows.append_column("change", change_of).append_column("reason", reason)


def _without_members(facts: pa.Table, rows: IntArray) -> pa.Table:
    """The figures of groups that nobody is in: nothing to decide, and not forgotten."""
    at = pa.array(rows, pa.int64())
    names = {name: column(facts, name).take(at) for name in ("cluster", "group_id")}
    return pa.table(names | {name: pa.array(np.zeros(len(at)), kind) for name, kind in FIGURES.items()})
