"""Facts of groups as kernels read them, and the rows of a plan, without Spark.

The rows of changed topics become the moves and revocations that the pandas UDF makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import FACT_TYPES
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import REASONS, find_deltas
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.groups.kernel.read_specs import open_pass

Row = dict[str, Any]


def facts_table(rows: Iterable[Row]) -> pa.Table:
    """Returns facts by column name as the table that kernels read; columns that a fact lacks are null."""
    return pa.Table.from_pylist(list(rows), schema=pa.schema(FACT_TYPES))


def read_specs(facts: pa.Table) -> GroupSpecs:
    """Returns the groups of the facts, of which some may have faults."""
    return open_pass(facts).specs


def plan_rows(facts: pa.Table, params: PlanParams) -> list[Row]:
    """Returns all rows of the plan, moves and revocations included."""
    return with_moves(pa.concat_tables(list(plan_groups(facts, params))).to_pylist())


def with_moves(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows with `move` and `revocation` rows (member_id, next_member_id, topic, first, step, count, reason)
    instead of `changed_topic` rows."""
    rows = list(rows)
    changed = [row for row in rows if row["kind"] == "changed_topic"]
    others = [row for row in rows if row["kind"] != "changed_topic"]
    return [*others, *_deltas("move", changed), *_deltas("revocation", changed)]


def _deltas(kind: str, changed: list[Row]) -> Iterator[Row]:
    lists = ([np.array(row[name], np.int64) for row in changed] for name in ("member_flags", "owned", "planned"))
    partitions = np.array([row["partitions"] for row in changed], np.int64)
    deltas = find_deltas(partitions, *lists, revocations=kind == "revocation")
    for number, row in enumerate(changed):
        of_topic = {name: column[number].tolist() for name, column in deltas.items()}
        for values in zip(*of_topic.values(), strict=True):
            delta = dict(zip(of_topic, values, strict=True))
            yield {
                **row,
                "kind": kind,
                "member_id": _member_id(row, delta["from_member"]),
                "next_member_id": _member_id(row, delta["to_member"]),
                "reason": REASONS[delta["reason"]],
                **{name: delta[name] for name in ("first", "step", "count")},
            }


def _member_id(row: Row, index: int) -> str | None:
    return None if index < 0 else row["member_ids"][index]
