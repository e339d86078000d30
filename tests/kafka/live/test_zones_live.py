"""Consumers with a rack on brokers with follower fetching: each reads from the broker that `zones` says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_assign.advice import measure_zone_traffic
from tests.kafka import java_programs
from tests.kafka.broker import Cluster
from tests.kafka.conftest import RACKS
from tests.kafka.live_groups import PATIENCE_S, create_topics, fleet, read

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "z.read"
PLACED = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [2, 1], 4: [2, 3]}
"""Of each partition its brokers, the leader first; broker 1 is in the first rack."""
A_SECOND = 1e6
A_DAY = int(A_SECOND * 86_400)


@pytest.fixture(scope="module")
def readers(broker: Cluster) -> Iterator[dict[str, dict[str, int]]]:
    """Which replica each consumer reads from, while all are there."""
    create_topics(broker, {TOPIC: PLACED})
    command = java_programs.command("NearReaders", broker.class_path, broker.bootstrap_servers, TOPIC)
    with subprocess.Popen(
        [*command, str(len(PLACED)), *RACKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())
        running.stdin.write("\n")
        running.stdin.close()
        assert running.wait(PATIENCE_S) == 0


def test_who_reads_from_where(readers: dict[str, dict[str, int]], broker: Cluster, spark: SparkSession) -> None:
    """The bytes that cross a zone are those of the partitions that a consumer reads from a broker in another rack."""
    read_by = readers
    assert set(read_by) == set(RACKS)
    tables = read(broker, "z.*", TOPIC)
    [cluster] = {row["cluster"] for row in tables["brokers"]}
    load = {"cluster": cluster, "topic": TOPIC, "in_bytes_per_second": A_SECOND}
    tables["loads"] = [load | {"partition": partition} for partition in PLACED]
    rows = measure_zone_traffic(fleet(spark, tables)).zones.where("assignor = 'current'").collect()
    traffic = {(row["group_id"], row["follower_fetching"]): row["cross_zone_bytes_per_day"] for row in rows}
    for rack in RACKS:
        assert set(read_by[rack]) == {str(partition) for partition in PLACED}
        read_from = [PLACED[int(at)][0] if replica < 0 else replica for at, replica in read_by[rack].items()]
        far = sum(RACKS[each - 1] != rack for each in read_from)
        assert traffic[f"z.{rack}", True] == far * A_DAY, read_by
        assert traffic[f"z.{rack}", False] == sum(RACKS[each[0] - 1] != rack for each in PLACED.values()) * A_DAY
