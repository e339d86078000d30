"""docs/zones.md: the fleet of the page, its worked example counted once more, and what is said around it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign.advice import measure_zone_traffic
from spark_assign.advice.kernel.zones import ZoneParams
from tests.docs import given
from tests.docs.pages import ROOT, block, others

PAGE = "docs/zones.md"
ZONE_OF = {row["broker_id"]: row["rack_id"] for row in given.ZONES["brokers"]}


def tables() -> tuple[list[list[str]], list[list[str]]]:
    """The rows of partitions and of members, cell by cell."""
    partitions, _, members = "\n".join(block(PAGE, "partition ")).partition("\n\n")
    return tuple(  # type: ignore[return-value]
        [re.split(r" {2,}", line.strip()) for line in part.splitlines()[1:]] for part in (partitions, members)
    )


def test_the_fleet_of_the_page() -> None:
    """Partitions with their replicas and bytes, members with their zones and partitions."""
    partitions, members = tables()
    rate = {(row["topic"], row["partition"]): row["in_bytes_per_second"] for row in given.ZONES["loads"]}
    for row, (name, replicas, mb, gb) in zip(given.ZONES["replicas"], partitions, strict=True):
        assert name == f"{row['topic']}-{row['partition']}"
        assert replicas.split(", ") == [ZONE_OF[each] for each in row["replicas"]]
        written = rate[row["topic"], row["partition"]]
        assert (float(mb), float(gb)) == (written / 1e6, written * 86_400 / 1e9)
    owned: dict[str, list[str]] = {}
    for row in given.ZONES["owned"]:
        owned.setdefault(row["member_id"], []).append(f"{row['topic']}-{row['partition']}")
    for row, (group, member, zone, has, *_) in zip(given.ZONES["members"], members, strict=True):
        assert (group, member) == (row["group_id"], row["member_id"])
        assert zone == (row["rack_id"] or "?")
        assert has.split(", ") == owned[member]


@pytest.mark.spark
@pytest.mark.once
def test_the_worked_example(spark: SparkSession) -> None:
    """What each member reads across zones, by its row on the page, is what the table says of its group."""
    partitions, members = tables()
    gb = {name: float(size) for name, _, _, size in partitions}
    rows = measure_zone_traffic(given.zones_fleet(spark)).zones.where("assignor = 'current'").collect()
    traffic: dict[tuple[str, bool], Any] = {(row["group_id"], row["follower_fetching"]): row for row in rows}
    for group in {each[0] for each in members}:
        for fetching in (False, True):
            listed = [n for of, _, _, _, *c in members for n in re.findall(r"[\w?-]+", c[fetching]) if of == group]
            sure = sum(gb[name] for name in listed if not name.endswith("?"))
            perhaps = sum(gb[name.rstrip("?")] for name in listed)
            row = traffic[group, fetching]
            assert row["cross_zone_bytes_at_least"] == pytest.approx(sure * 1e9)
            assert row["cross_zone_bytes_at_most"] == pytest.approx(perhaps * 1e9)
            assert row["cost_at_least"] == pytest.approx(sure * ZoneParams.price_per_gb)


def test_what_the_sentences_say() -> None:
    """Price, currency and threshold; every setting of the block is in the text around it or stands there alone."""
    text = (ROOT / PAGE).read_text()
    price = ZoneParams.price_per_gb
    assert f"864 × {price} = {864 * price:.2f} {ZoneParams.currency}" in text
    assert f"(default: {ZoneParams.min_daily_savings})" in text
    settings = dict(line.split("=") for line in block(PAGE, "replica.selector.class="))
    assert list(settings) == ["replica.selector.class", "client.rack"]
    assert settings["replica.selector.class"] == "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert len(others(ROOT / PAGE)) == 2
