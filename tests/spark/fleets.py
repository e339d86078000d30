"""Small fleets for the tests, written down as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_assign import Fleet
from spark_assign.schemas import INPUT_TABLES
from tests.frames import dataframe

Row = Sequence[Any]


def table(spark: SparkSession, name: str, rows: Iterable[Row], *more: StructField) -> DataFrame:
    """Rows of one input table; trailing nullable columns may be left out."""
    fields = [StructField(field.name, field.dataType) for field in INPUT_TABLES[name].fields]
    width = len(fields)
    padded = [(*row[:width], *[None] * (width - len(row[:width])), *row[width:]) for row in rows]
    return dataframe(spark, StructType([*fields, *more]), padded)


def fleet(spark: SparkSession, **rows: Iterable[Row]) -> Fleet:
    """A fleet of rows per table; topics, members and subscriptions may be empty."""
    wanted = {"topics": (), "members": (), "subscriptions": (), **rows}
    return Fleet(**{name: table(spark, name, given) for name, given in wanted.items()})


def group(
    members: dict[str, Sequence[str]], *, cluster: str = "c", group_id: str = "g"
) -> dict[str, list[tuple[Any, ...]]]:
    """The members and subscriptions of one group, from the topics of each member."""
    return {
        "members": [(cluster, group_id, member) for member in members],
        "subscriptions": [(cluster, group_id, member, topic) for member, topics in members.items() for topic in topics],
    }


def tuples(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """All rows of a small table, sorted; of all columns or of those named."""
    rows = [tuple(row) for row in (df.select(*columns) if columns else df).collect()]
    return sorted(rows, key=lambda row: tuple((value is not None, value) for value in row))


def written_as_json(place: Path, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> Path:
    """The folder, with a file of lines for each table."""
    place.mkdir()
    for name, rows in tables.items():
        (place / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place
