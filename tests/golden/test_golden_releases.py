"""Every recorded case of older releases of Kafka's clients, each by the profile of its release."""

from __future__ import annotations

from itertools import groupby

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.assignors.sticky.assign_sticky import exception_text
from spark_assign.spark.engine import cached
from tests.golden import sticky_kernel, tables, vectors

THROWN = 5
"""In so many of them Kafka's class throws."""


@pytest.mark.once
def test_the_kernels_plan_what_older_releases_recorded() -> None:
    """The sticky assignors of 2.4, 2.8, 3.2, 3.4 and 3.5: zero differences, and refused with the words of each."""
    sticky = sorted((r for r in vectors.release_cases() if "sticky" in r["strategy"]), key=lambda row: row["profile"])
    planned, refused = {}, {}
    for profile, rows in groupby(sticky, key=lambda row: row["profile"]):
        answer = sticky_kernel.planned(list(rows), profile)
        planned |= answer.sets
        refused |= answer.refused
    assert len(sticky) == 496
    assert vectors.differences(vectors.expected_sets(sticky), planned) == []
    assert vectors.other_errors(sticky, refused) == []
    assert len(refused) == THROWN


@pytest.mark.once
def test_the_rules_of_today_would_not_do() -> None:
    """Most rows were chosen because the releases after answer otherwise; so most of them need their profile."""
    for strategy in ("sticky", "cooperative-sticky"):
        rows = [row for row in vectors.release_cases() if row["strategy"] == strategy]
        answer = sticky_kernel.planned(rows, strategy)
        assert len(vectors.differences(vectors.expected_sets(rows), answer.sets)) > len(rows) / 3


def test_the_plan_is_what_older_releases_recorded(spark: SparkSession) -> None:
    """All 750 rows in one plan, in which each group is configured with the profile of its release."""
    rows = vectors.release_cases()
    planned = plan(tables.configured_fleet_of(spark, rows))
    planned = planned.with_tagged_rows(cached(planned.tagged_rows(("assignments", "rejected"))))
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    rejected = planned.rejected.collect()
    assert {row["code"] for row in rejected} == {"kafka-fails"}
    assert {row["detail"].partition(". Fixed in ")[2] for row in rejected} == {"3.7.1 (KAFKA-15170, KAFKA-16277)"}
    errors = {row["cluster"]: exception_text(row["detail"]) for row in rejected}
    assert vectors.other_errors(rows, errors) == []
    assert (len(rows), len(errors)) == (750, THROWN)
