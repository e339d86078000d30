"""Runs recorded calls of classic groups, to compare the simulated group with Kafka's `ClassicGroup`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.simulation.kernel.classic_group_calls import run_calls
from spark_assign.spark.arrow_batches import sorted_rows
from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.simulation import CLASSIC_GROUP_CALLS, CLASSIC_GROUP_RESULTS

RECORDED_GROUP_ID = "group-1"
"""The group ID in recorded sequences. Steps lack it, but a few of Kafka's errors contain it."""

STEPS_PER_TASK = 20_000
"""Number of steps per task, which takes one to two seconds."""

_ROWS_PER_BATCH = 1_000
_KEY = (*GROUP_KEY, "step")
_RESULTS: pa.Schema = to_arrow_schema(CLASSIC_GROUP_RESULTS)


def verify_classic_group(steps: DataFrame, *, named: str | None = RECORDED_GROUP_ID) -> DataFrame:
    """Runs the steps of each group, by step number, on a `ClassicGroup` that starts empty.

    Example: `{"op": "add", "id": "m1", …}` gives `{"returned": null, "state": "EMPTY", "leader": "m1", …}`. To verify
    the simulated group, compare the results with those of Kafka's class. `simulation.kernel.classic_group_calls`
    defines the ops, and `simulation.kernel.classic_group` has the rules.

    Args:
        steps: cluster, group_id, step int, op string (a call as JSON).
        named: the group ID in Kafka's errors, for every group. None uses the group_id of each group.

    Returns:
        cluster, group_id, step, result string (JSON): one row per row of `steps`. If Kafka throws, the result has
        `error` with `class` and `message`, and the state that Kafka leaves behind. A step that can't be run (no JSON,
        an unknown op, a missing argument or one of a wrong type, a number that the group has more than once) changes
        nothing; its result is `{"error": "reason"}`, and the next steps continue.

    Raises:
        FleetError: a column is missing or has a wrong type, or cluster, group_id, or step is null.
    """
    shaped, faults = check_schema("steps", steps, CLASSIC_GROUP_CALLS)
    if faults:
        raise FleetError(faults)
    shaped = shaped.select(*CLASSIC_GROUP_CALLS.names)
    counted = _count(shaped)
    _raise_null_keys(counted)
    tasks = 1 + counted["rows"] // STEPS_PER_TASK
    return shaped.repartition(tasks, *GROUP_KEY).mapInArrow(partial(_run_calls, group_id=named), CLASSIC_GROUP_RESULTS)


def _run_calls(batches: Iterable[pa.RecordBatch], group_id: str | None) -> Iterator[pa.RecordBatch]:
    """Runs the steps of one task."""
    steps = (tuple(row.values()) for row in sorted_rows(batches, _KEY))
    results = run_calls(steps, group_id)
    while rows := list(islice(results, _ROWS_PER_BATCH)):
        columns = dict(zip(_RESULTS.names, zip(*rows, strict=True), strict=True))
        yield pa.RecordBatch.from_pydict(columns, schema=_RESULTS)


def _count(steps: DataFrame) -> Row:
    """Counts the rows, and the rows with a null in each key column, with an example."""
    shown = F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), _text(name)) for name in _KEY))
    counts = [F.count("*").alias("rows")]
    for name in _KEY:
        lacking = F.when(F.col(name).isNull(), shown)
        counts += [F.count(lacking).alias(f"{name}_null"), F.min(lacking).alias(f"{name}_example")]
    return steps.agg(*counts).collect()[0]  # one row


def _raise_null_keys(counted: Row) -> None:
    """Raises FleetError if key columns have nulls."""
    faults = []
    for name in (name for name in _KEY if counted[f"{name}_null"]):
        problem = "null or out of range in a key" if name == "step" else "null in a key"
        example = f"{counted[f'{name}_null']} row(s), e.g. {counted[f'{name}_example']}"
        faults.append(Fault("steps", name, f"{problem}: {example}", "Fill it in, or remove the row"))
    if faults:
        raise FleetError(faults)


def _text(name: str) -> Column:
    return F.coalesce(F.col(name).cast("string"), F.lit("null"))
