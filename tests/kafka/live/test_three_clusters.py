"""Three Kafka clusters, of which two are of one broker, whose snapshots are taken at the same time into one fleet."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import snapshot as snapshot_job
from spark_assign import Fleet
from spark_assign.cli.cluster_snapshots import read_clusters
from spark_assign.sources.files.snapshot_catalog import write_tables
from spark_assign.sources.kafka import cluster_snapshot as kafka
from tests.docs.pages import block
from tests.kafka import broker as kafka_broker
from tests.kafka import documented
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import create_topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PAGE = "docs/forty-clusters.md"
NAMES = ("eu", "us", "ap")
TOPICS = dict(zip(NAMES, (1, 2, 3), strict=True))
SHARED = "us"
"""The cluster of all tests; only its topics `t-*` and no groups are read."""


@pytest.fixture(scope="module")
def clusters(kafka_jars: str, broker: Cluster) -> Iterator[tuple[dict[str, Cluster], dict[str, contextlib.ExitStack]]]:
    """Each with a number of topics of its own; and how to stop those that aren't shared."""
    with contextlib.ExitStack() as all_of_them:
        stacks = {name: all_of_them.enter_context(contextlib.ExitStack()) for name in NAMES if name != SHARED}
        with ThreadPoolExecutor(len(stacks)) as pool:
            clusters = pool.map(lambda stack: stack.enter_context(kafka_broker.cluster(kafka_jars)), stacks.values())
        started = {SHARED: broker, **dict(zip(stacks, clusters, strict=True))}
        for name, cluster in started.items():
            create_topics(cluster, {f"t-{number}": 2 for number in range(TOPICS[name])})
        yield started, stacks


def arguments(name: str, cluster: Cluster, fleet: Path) -> list[str]:
    """Returns the arguments of the job for one cluster."""
    read = ["--bootstrap-server", cluster.bootstrap_servers, "--cluster-name", name, "--topic", "t-*"]
    return [*read, "--group", "none", "--fleet-dir", str(fleet)]


def take_all(clusters: Mapping[str, Cluster]) -> int:
    """Returns the exit code of the documented command for a file with all clusters, in the working folder."""
    (step,) = documented.steps("test_three_clusters")
    tables = [
        f'[clusters.{name}]\nbootstrap_server = "{cluster.bootstrap_servers}"\ntopic = ["t-*"]\ngroup = ["none"]\n'
        for name, cluster in clusters.items()
    ]
    Path("clusters.toml").write_text("".join(tables))
    return snapshot_job.main(step.words[2:])


def topics(spark: SparkSession, place: str) -> dict[str, int]:
    """How many each cluster of a fleet has, without Kafka's own."""
    rows = Fleet.read(spark, place).topics.where("topic like 't-%'").collect()
    return dict(Counter(row.cluster for row in rows))


def test_the_documented_file(tmp_path: Path) -> None:
    """Its keys are options of the job."""
    (tmp_path / "clusters.toml").write_text("\n".join(block(PAGE, "[clusters.shop-prod]")))
    found = read_clusters(tmp_path / "clusters.toml", snapshot_job.main.params)
    assert found["shop-prod"]["command_config"] == str(tmp_path / "prod.properties")
    assert found["shop-eu"]["group"] == ["payments-*", "orders-*"]


def test_snapshots_in_a_catalog(
    spark: SparkSession, clusters: tuple[dict[str, Cluster], dict[str, contextlib.ExitStack]]
) -> None:
    """Into tables that the clusters share, at the same time."""
    spark.sql("CREATE DATABASE IF NOT EXISTS three_clusters")

    def in_catalog(name: str) -> None:
        taken = kafka.snapshot(clusters[0][name].bootstrap_servers, cluster=name, groups="none", topics="t-*")
        write_tables(taken, spark, "three_clusters")

    with ThreadPoolExecutor(len(NAMES)) as pool:
        list(pool.map(in_catalog, NAMES))
    assert topics(spark, "three_clusters") == TOPICS


def test_three_clusters(
    spark: SparkSession,
    clusters: tuple[dict[str, Cluster], dict[str, contextlib.ExitStack]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Into a folder; again after one has changed; then one that is down stays as it was."""
    monkeypatch.chdir(tmp_path)
    started, stacks = clusters
    fleet = tmp_path / "clusters"
    assert take_all(started) == 0
    assert topics(spark, str(fleet)) == TOPICS

    create_topics(started["us"], {"t-new": 2})
    assert snapshot_job.main(arguments("us", started["us"], fleet)) == 0
    assert topics(spark, str(fleet)) == TOPICS | {"us": 3}

    assert snapshot_job.main(arguments("eu", started["ap"], fleet)) == 2
    assert "already, as ap" in capfd.readouterr().err + caplog.text

    stacks["eu"].close()
    create_topics(started["ap"], {"t-new": 2})
    capfd.readouterr()
    assert take_all(started) == 3
    printed = capfd.readouterr()
    assert "2 of 3 snapshots written to ./clusters\n" in printed.out
    assert "eu: not read: Kafka at 127.0.0.1:" in printed.err
    assert " UTC, 0.0 h old.\n" in printed.err
    _, not_read, written = (re.sub(r"\d+", "#", line) for line in block(PAGE, "shop-prod: "))
    assert f"{written}\n" in re.sub(r"\d+", "#", printed.out)
    assert f"{not_read[not_read.index('Last snapshot') :]}\n" in re.sub(r"\d+", "#", printed.err)
    assert topics(spark, str(fleet)) == TOPICS | {"us": 3, "ap": 4}
