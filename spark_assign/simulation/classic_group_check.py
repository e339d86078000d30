"""Replays recorded calls of classic groups: the result of Kafka's `ClassicGroup` for each, and the group's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_assign.simulation.kernel.classic_group_calls import Step, play_all
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
_REPLAYED = pa.schema(
    [
        ("cluster", pa.string()),
        ("group_id", pa.string()),
        ("step", pa.int32()),
        ("result", pa.string()),
    ]
)


def verify_classic_group(steps: DataFrame, *, named: str | None = RECORDED_GROUP_ID) -> DataFrame:
    """Replays the steps of each group, by step number, against an initially empty `ClassicGroup`.

    Example: `{"op": "add", "id": "m1", …}` gives `{"returned": null, "state": "EMPTY", "leader": "m1", …}`.
    `simulation.kernel.classic_group_calls` defines the ops, and `simulation.kernel.classic_group` has the rules.

    Args:
        steps: cluster, group_id, step int, op string (a call as JSON).
        named: the group ID in Kafka's errors, for every group. None uses the group_id of each group.

    Returns:
        cluster, group_id, step, result string (JSON): a row per row of steps. Where Kafka throws, the result has
        `error` with `class` and `message`, and the state that Kafka leaves behind. A step that cannot be taken (no
        JSON, an unknown op, an argument that is missing or of a wrong kind, a number that the group has more than
        once) changes nothing; its result is `{"error": "what is wrong"}` alone, and the next steps go on.

    Raises:
        FleetError: a missing column, a wrong type, or a null in cluster, group_id or step.
    """
    shaped, faults = check_schema("steps", steps, CLASSIC_GROUP_CALLS)
    if faults:
        raise FleetError(faults)
    shaped = shaped.select(*CLASSIC_GROUP_CALLS.names)
    counted = _count(shaped)
    _raise_null_keys(counted)
    tasks = 1 + counted["rows"] // STEPS_PER_TASK
    ordered = shaped.repartition(tasks, *GROUP_KEY).sortWithinPartitions(*_KEY)
    return ordered.mapInArrow(_player(named), CLASSIC_GROUP_RESULTS)


def _player(named: str | None) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Returns the function for one task, a closure of plain values that Spark sends to the executors."""

    def play(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        results = play_all(_rows(batches), named)
        while rows := list(islice(results, _ROWS_PER_BATCH)):
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _REPLAYED, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_REPLAYED)

    return play


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Step]:
    """Returns the rows of the batches."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


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
    faults = [
        Fault(
            "steps",
            name,
            f"null{' or beyond int' if name == 'step' else ''} in a key: {counted[f'{name}_null']} row(s), "
            f"e.g. {counted[f'{name}_example']}",
            "Fill it in or leave the row out",
        )
        for name in _KEY
        if counted[f"{name}_null"]
    ]
    if faults:
        raise FleetError(faults)


def _text(name: str) -> Column:
    return F.coalesce(F.col(name).cast("string"), F.lit("null"))
