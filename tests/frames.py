"""Small DataFrames for the tests, from rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_assign.connect import ConnectFleet
from spark_assign.connect.simulate import ConnectScenario
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.spark.engine import dataframe_of
from spark_assign.tables.connect import EVENTS, INPUT_TABLES, REQUIRED_TABLES
from spark_assign.tables.schema_fields import ONLY_IF_GIVEN


def dataframe(spark: SparkSession, schema: StructType | str, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """By way of Arrow: rows that a session is given as Python objects go through Python workers in every query.

    Rows may leave out the last columns, if those are `ONLY_IF_GIVEN`.
    """
    parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(parsed, StructType)
    arrow = to_arrow_schema(parsed)
    least = len([field for field in parsed if field.metadata != ONLY_IF_GIVEN])
    whole = [(*row, *[None] * (len(arrow) - max(len(row), least))) for row in rows]
    columns = list(zip(*whole, strict=True)) or [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return dataframe_of(spark, pa.Table.from_arrays(arrays, names=arrow.names), parsed)


def frame_of(spark: SparkSession, schema: StructType, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Returns a frame of rows by column name; what a row lacks is null, and what the schema lacks is left out."""
    return dataframe(spark, schema, [tuple(map(row.get, schema.names)) for row in rows])


def merged(several: Iterable[Mapping[str, Iterable[Any]]]) -> dict[str, list[Any]]:
    """Returns tables, by name, with the rows of several."""
    found: dict[str, list[Any]] = defaultdict(list)
    for tables in several:
        for name, rows in tables.items():
            found[name] += rows
    return found


def scenario_tables(spark: SparkSession, scenario: ConnectScenario) -> tuple[ConnectFleet, DataFrame]:
    """Returns the initially empty cluster of a scenario, and its events."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in REQUIRED_TABLES} | {"clusters": [scenario.cluster]}
    fleet = ConnectFleet(**{name: frame_of(spark, INPUT_TABLES[name], rows[name]) for name in rows})
    return fleet, frame_of(spark, EVENTS, scenario.events)
