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
        more = [("c", "twice", "m")] * 2 if bad_group else []
        subscribed = {"g": dict.fromkeys(("m1", "m2"), ("orders",))}
        owned = {("g", "m2", "orders"): [0]}
        return fleet(spark, subscribed, topics={"orders": orders}, members=more, owned=owned)

    return make
