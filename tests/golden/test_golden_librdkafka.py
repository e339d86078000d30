"""Every recorded case of librdkafka's assignors, called in C (`tests/kafka/c`), by the profiles of their names."""

from __future__ import annotations

import gzip
import json

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.caching import cached
from tests.golden import sticky_kernel, tables, vectors

CASES = {"range": 120, "roundrobin": 60, "cooperative-sticky": 420}
ENDED = 20
"""In so many of cooperative-sticky librdkafka ends with a signal."""


def rows_of(strategy: str) -> list[vectors.Row]:
    """The recorded rows of one assignor; `profile` is its name here."""
    with gzip.open(vectors.FOLDER / "client-librdkafka.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["strategy"] == strategy]
    assert len(rows) == CASES[strategy]
    return [row | {"profile": f"{strategy}@librdkafka"} for row in rows]


def ended(rows: list[vectors.Row]) -> set[str]:
    """Those that it does not answer."""
    return {row["case"] for row in rows if row["expect"] is None}


@pytest.mark.once
@pytest.mark.parametrize("strategy", CASES)
def test_the_kernels_plan_what_librdkafka_answered(strategy: str) -> None:
    """Zero differences, and refused is exactly where librdkafka ends."""
    rows = rows_of(strategy)
    answer = sticky_kernel.planned(rows, f"{strategy}@librdkafka")
    assert vectors.differences(vectors.expected_sets(rows), answer.sets) == []
    assert set(answer.refused) == ended(rows)
    assert len(answer.refused) == (ENDED if strategy == "cooperative-sticky" else 0)


@pytest.mark.once
def test_the_rules_of_kafkas_own_clients_would_not_do() -> None:
    """Two thirds of the rows of cooperative-sticky were chosen because Java answers otherwise."""
    rows = [row for row in rows_of("cooperative-sticky") if row["expect"] is not None]
    answer = sticky_kernel.planned(rows, "cooperative-sticky")
    alike = {row["case"] for row in rows if row["equals_java"]}
    differing = {line.partition(": ")[0] for line in vectors.differences(vectors.expected_sets(rows), answer.sets)}
    assert differing == {row["case"] for row in rows} - alike
    assert len(alike) == 126


@pytest.mark.spark
def test_the_plan_is_what_librdkafka_answered(spark: SparkSession) -> None:
    """All rows in one plan, in which a leader of librdkafka is known; groups name the plain assignor."""
    rows = [row for strategy in CASES for row in rows_of(strategy)]
    fleet = tables.configured_fleet_of(spark, [row | {"profile": row["strategy"]} for row in rows])
    planned = plan(fleet.with_clients("librdkafka", None))
    planned = planned.with_decided(cached(planned.decided(("assignments", "rejected", "metrics"))))
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert {row["cluster"] for row in planned.rejected.collect()} == ended(rows)
    names = {row["assignor"] for row in planned.metrics.select("assignor").distinct().collect()}
    assert names == {f"{strategy}@librdkafka" for strategy in CASES}
