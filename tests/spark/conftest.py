"""A fleet small enough to plan in a moment, for tests of what surrounds the planning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet
from tests.spark.fleets import fleet


@pytest.fixture
def small_fleet(spark: SparkSession) -> Callable[..., Fleet]:
    """A function that makes a fleet: `topics` with their partition counts, one group `g` of two members."""

    def make(orders: int = 3, bad_group: bool = False) -> Fleet:
        members = [("c", "g", "m1"), ("c", "g", "m2")]
        subscriptions = [(*member, "orders") for member in members]
        if bad_group:
            members += [("c", "twice", "m"), ("c", "twice", "m")]
        return fleet(
            spark,
            topics=[("c", "orders", orders)],
            members=members,
            subscriptions=subscriptions,
            owned=[("c", "g", "m2", "orders", 0)],
        )

    return make
