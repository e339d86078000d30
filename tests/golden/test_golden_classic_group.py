"""Every recorded sequence of Kafka's `ClassicGroup` through Spark, in one call: no difference, no step left out."""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql import SparkSession

from spark_assign.protocol import replay
from spark_assign.protocol.replay import RECORDED_GROUP_ID
from spark_assign.protocol.schemas import REPLAYED, STEPS
from tests.frames import dataframe
from tests.golden import classic_group_rows

pytestmark = pytest.mark.spark


def test_every_sequence_in_one_call(spark: SparkSession) -> None:
    """Rows shuffled, and among them a group in which one step cannot be read and one is there twice."""
    rows = classic_group_rows.recorded()
    steps = [(row["sequence"], RECORDED_GROUP_ID, row["step"], json.dumps(row["op"])) for row in rows]
    spoiled = ["{", '{"op": "select_protocol"}', '{"op": "select_protocol"}']
    steps += [("spoiled", "g", max(number, 1), op) for number, op in enumerate(spoiled)]
    random.Random(0).shuffle(steps)
    answered = replay(dataframe(spark, STEPS, steps))
    assert [(field.name, field.dataType) for field in answered.schema] == [(f.name, f.dataType) for f in REPLAYED]
    results = {(row["cluster"], row["step"]): row["result"] for row in answered.collect() if row["group_id"] != "g"}
    assert len(results) == len(rows) == 15_402
    ordered = [results[row["sequence"], row["step"]] for row in rows]
    assert classic_group_rows.differences(rows, ordered) == []
