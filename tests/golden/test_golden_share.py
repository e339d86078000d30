"""Every recorded case of share groups of Kafka 4.4 (KIP-932), and those for which its assignor throws.

By the kernel, from the recorded orders; and as groups of a fleet, where those orders are made from ids.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet
from spark_assign.share import plan_share
from tests.frames import merged
from tests.golden import share_rows, tables
from tests.golden.share_rows import Got
from tests.slices import partitions
from tests.spark import fleets

NO_FLEET = 22
"""Rows whose assignment a fleet's tables do not determine (`tables.is_determined`)."""


@pytest.mark.once
def test_the_kernel_plans_what_the_broker_recorded() -> None:
    """Zero differences, empty sets of partitions and what is thrown included; side by side and one by one."""
    rows = share_rows.rows()
    assigned = share_rows.assign_rows(rows)
    different = [row["case"] for row, got in zip(rows, assigned, strict=True) if got != share_rows.expected(row)]
    assert not different, f"{len(different)} cases differ: {different[:20]}"
    assert assigned.count(share_rows.FAILS) == share_rows.FAILING
    assert [share_rows.assign_rows([row])[0] for row in rows[::7]] == assigned[::7]


def test_spark_plans_what_the_broker_recorded(spark: SparkSession, left_out: Callable[[str, int], None]) -> None:
    """The same from the tables of a fleet, in one call; what Kafka throws for is rejected with its words."""
    every = share_rows.rows()
    rows = [row for row in every if tables.is_determined(row)]
    assert len(every) - len(rows) == NO_FLEET
    planned = plan_share(fleet_of(spark, rows))
    got = planned_sets(planned.assignment_slices)
    for refused in planned.rejected.toArrow().to_pylist():
        assert refused["code"] == "kafka-fails"
        assert share_rows.FAILS in refused["detail"]
        assert "KAFKA-19362" in refused["detail"]
        got[refused["cluster"]] = share_rows.FAILS
    assert planned.metrics.count() + planned.rejected.count() == len(rows)
    expected = {row["case"]: share_rows.named(row, share_rows.expected(row)) for row in rows}
    assert not sorted(case for case, each in expected.items() if got.get(case, {}) != each)
    planned.unpersist()
    left_out("share-simple: a fleet does not say all that the answer hangs on", NO_FLEET)


def fleet_of(spark: SparkSession, rows: list[share_rows.Row]) -> Fleet:
    """Every case a cluster with one group; runs have positions."""
    return fleets.fleet(spark, **merged(map(share_rows.tables, rows)))


def planned_sets(runs: DataFrame) -> dict[str, Got]:
    """By cluster who has what; no partition comes twice with a member."""
    got: dict[str, Got] = {}
    for row in runs.toArrow().to_pylist():
        mine = got.setdefault(row["cluster"], {})
        assert not isinstance(mine, str)
        of_topic = mine.setdefault(row["member_id"], {}).setdefault(row["topic"], [])
        more = list(partitions(row))
        assert not set(of_topic) & set(more)
        of_topic[:] = sorted(of_topic + more)
    return got
