"""Runs the advisers that work on complete groups (assignor, size, zones) in one pass, on the same indexed facts.

The result is one table of the facts that `advice.kernel.advise` reads, tagged by `kind`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.advice.kernel import advise, size, zones
from spark_assign.advice.kernel.advice_items import Adviser
from spark_assign.advice.kernel.cross_zone_traffic import ZoneParams
from spark_assign.comparison.kernel.compare import CompareParams, compare
from spark_assign.groups.kernel.facts import LISTED_TOPIC, SUBSCRIPTION, IndexedFacts
from spark_assign.groups.kernel.read_specs import open_pass
from spark_assign.groups.kernel.tagged_rows import row_schema, tagged, tagged_table

_COMPARED = row_schema(
    "cluster string, group_id string, assignor string, members int64, reason string, recommended bool",
    "rejected string, current_assignor string, client_libraries string, paused_partition_seconds double",
    "max_over_mean double, load_max_over_mean double, note string",
)
FACTS = row_schema(
    ", ".join(f"{field.name} {field.type}" for field in _COMPARED.remove(0)),
    "adviser string, verdict string, needed int64, moved int64, max_load double, max_load_needed double",
    "capacity double, keeps_up bool, follower_fetching bool, partitions int64, cost_per_day double",
    "cost_at_least double, cost_at_most double, topic string, code string, detail string",
)
"""Columns of a comparison that are facts, and the schema of the result."""

_KINDS = {size.SIZE_ROW: advise.SIZE_ROW, size.CURVE_ROW: advise.CURVE_ROW, zones.OPTION_ROW: advise.OPTION_ROW}


@dataclass(frozen=True)
class GroupParams:
    """Parameters of the advisers.

    Attributes:
        compare: parameters of the comparison, which has one change.
        size: parameters of the sizes; `None`: groups aren't sized.
        zones: parameters of the zone traffic; `None`: it isn't measured.
        min_members: the member count whose curve is a fact.
    """

    compare: CompareParams
    size: size.SizeParams | None
    zones: ZoneParams | None
    min_members: int


def advise_groups(facts: pa.Table, params: GroupParams) -> Iterator[pa.Table]:
    """Yields the facts of all groups in the input, as tables with the columns of `FACTS`."""
    what_if = pa.repeat(pa.scalar(params.compare.what_ifs[0]), len(facts))
    for table in compare(facts.append_column("what_if", what_if), params.compare, _COMPARED):
        yield tagged_table(advise.COMPARED_ROW, table, FACTS)
    groups = open_pass(facts, action="size")
    if params.size is not None:
        for table in size.size_pass(groups, params.size):
            is_curve = pc.equal(table["kind"], size.CURVE_ROW)
            is_minimum = pc.equal(table["members"], params.min_members)
            yield from _adviser_facts(Adviser.SIZE, table.filter(pc.or_kleene(pc.invert(is_curve), is_minimum)))
    if params.zones is not None:
        for table in zones.zone_options(zones.read_zone_input(groups), params.zones):
            yield from _adviser_facts(Adviser.ZONES, table)
        yield _readers(groups.facts)


def _adviser_facts(adviser: str, table: pa.Table) -> Iterator[pa.Table]:
    """Yields the rows of a table, which are all of one kind, as facts; those without a fact kind are rejections."""
    if len(table):
        rows = table.append_column("adviser", pa.repeat(pa.scalar(adviser), len(table)))
        yield tagged_table(_KINDS.get(table["kind"][0].as_py(), advise.REJECTED_ROW), rows, FACTS)


def _readers(indexed: IndexedFacts) -> pa.Table:
    """Returns the topics that each group subscribes to."""
    rows = np.concatenate([indexed.rows_by_kind[kind] for kind in (SUBSCRIPTION, LISTED_TOPIC)])
    key = indexed.group_index[rows] * (len(indexed.topic_names) + 1) + indexed.topic_index[rows]
    rows = rows[np.unique(key, return_index=True)[1]]
    columns = {name: indexed.column(name, rows) for name in ("cluster", "group_id", "topic")}
    return tagged(advise.READER_ROW, columns, len(rows), FACTS)
