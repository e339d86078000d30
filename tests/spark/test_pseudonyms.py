"""Plans of the sample fleet with pseudonyms: the same assignment, by the same rules."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_assign
from spark_assign import Fleet
from spark_assign.cli.options import packaged_conf
from spark_assign.sources.files.pseudonyms import pseudonym, with_pseudonyms
from spark_assign.sources.files.snapshot import Snapshot

KEY = b"0123456789abcdef"
EXACT = ("range", "roundrobin", "server-range", "sticky", "cooperative-sticky")


@pytest.fixture(scope="module")
def fleets(spark: SparkSession) -> tuple[Fleet, Fleet]:
    """The sample, and the sample with pseudonyms."""
    fleet = Fleet.read(spark, str(packaged_conf(spark_assign.__file__) / "sample-fleet"))
    given = {field.name: getattr(fleet, field.name) for field in fields(fleet)}
    tables = {name: table.toArrow() for name, table in given.items() if table is not None}
    hidden = with_pseudonyms(Snapshot("shop-prod", {}, datetime.now(UTC), tables), KEY).tables
    return fleet, Fleet(**{name: spark.createDataFrame(table) for name, table in hidden.items() if table.num_rows})


def rows(table: DataFrame) -> set[tuple[object, ...]]:
    """Rows of assignments; an ID is replaced by its pseudonym without the rank."""
    return {(row.group_id, row.topic, row.partition, row.member_id.partition("-")[2]) for row in table.collect()}


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("assignor", EXACT)
def test_the_assignment_is_the_same(fleets: tuple[Fleet, Fleet], assignor: str) -> None:
    """Partition by partition, with what members own."""
    original, hidden = (spark_assign.plan(fleet, assignor).assignments for fleet in fleets)
    expected = {(row.group_id, row.topic, row.partition, pseudonym(KEY, row.member_id)) for row in original.collect()}
    assert len(expected) > 100
    assert rows(hidden) == expected
