"""Every recorded sequence of Kafka's `ClassicGroup` through Spark, in one call: no difference, no step left out."""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_assign.simulation import verify_classic_group
from spark_assign.simulation.classic_group_check import RECORDED_GROUP_ID
from spark_assign.tables.errors import FleetError
from spark_assign.tables.simulation import CLASSIC_GROUP_CALLS, CLASSIC_GROUP_RESULTS
from tests.frames import dataframe
from tests.golden import classic_group_rows

SPOILED = ["{", '{"op": "select_protocol"}', '{"op": "select_protocol"}', None, '{"op": "remove", "id": "m"}']


def test_every_sequence_in_one_call(spark: SparkSession) -> None:
    """Rows shuffled, and among them a group of which steps cannot be read, or have the same number."""
    rows = classic_group_rows.recorded()
    steps = [(row["sequence"], RECORDED_GROUP_ID, row["step"], json.dumps(row["op"])) for row in rows]
    steps += [("spoiled", "g", number, op) for number, op in zip((0, 1, 1, 2, 3), SPOILED, strict=True)]
    random.Random(0).shuffle(steps)
    answered = verify_classic_group(_steps(spark, steps)).repartition(3)
    assert [(i.name, i.dataType) for i in answered.schema] == [(f.name, f.dataType) for f in CLASSIC_GROUP_RESULTS]
    collected = answered.collect()
    results = {(row["cluster"], row["step"]): row["result"] for row in collected if row["cluster"] != "spoiled"}
    assert len(results) == len(rows) == 15_402
    assert len(collected) == len(steps)
    assert classic_group_rows.differences(rows, [results[row["sequence"], row["step"]] for row in rows]) == []
    spoiled = [json.loads(row["result"]) for row in sorted(collected, key=lambda r: r["step"]) if row[0] == "spoiled"]
    assert [next(iter(each)) for each in spoiled] == ["error"] * 4 + ["returned"]
    assert spoiled[1] == spoiled[2] == {"error": "step 1 occurs 2 times, expected once"}


def test_steps_without_a_key_are_refused_by_name(spark: SparkSession) -> None:
    """Nobody could say whose steps they are, or when."""
    steps = [("c", None, 3, "{}"), ("c", "g", None, "{}"), ("c", "g", 0, "{}")]
    with pytest.raises(FleetError) as refused:
        verify_classic_group(_steps(spark, steps))
    assert [str(fault) for fault in refused.value.faults] == [
        "steps.group_id: null in a key: 1 row(s), e.g. cluster=c, group_id=null, step=3. Fill it in, or remove the row",
        "steps.step: null or out of range in a key: 1 row(s), e.g. cluster=c, group_id=g, step=null."
        " Fill it in, or remove the row",
    ]
    with pytest.raises(FleetError, match=r"steps.op: the column is missing"):
        verify_classic_group(_steps(spark, steps).drop("op"))


def _steps(spark: SparkSession, rows: list[tuple[str, str | None, int | None, str | None]]) -> DataFrame:
    return dataframe(spark, StructType([StructField(f.name, f.dataType) for f in CLASSIC_GROUP_CALLS]), rows)
