"""The job history by its launcher, on a real cluster: read at once, and followed into a folder that is read then."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import NewTopic

from tests.kafka import group_members, maven
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
TOPIC, GROUP = "hj.orders", "hj-readers"
MEMBERS = [Consumer(GROUP, f"hj-{number}", (TOPIC,), "range", commit_every_ms=200) for number in (1, 2)]


@pytest.fixture(scope="module")
def written(broker: Cluster) -> Cluster:
    """A group of two members, which go."""
    with closing(broker.admin()) as admin:
        admin.create_topics([NewTopic(TOPIC, 4, 1)])
        admin.wait_for_topics([TOPIC])
    with group_members.running(broker, MEMBERS):
        group_members.wait_until_settled(broker, {GROUP: len(MEMBERS)})
    return broker


def launched(*words: str) -> str:
    """What the job prints that is started as the page has it, but with jars of this machine."""
    jars = ",".join(maven.kafka_source_jars())
    environment = os.environ | {"SPARK_ASSIGN_VENV": str(Path(sys.prefix)), "SPARK_ASSIGN_CLASS_DATA": "no"}
    command = [str(ROOT / "spark-submit.sh"), "--jars", jars, "history", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cluster_is_read(written: Cluster) -> None:
    """Its own id is the cluster's name; the group's generations are told."""
    told = launched("--bootstrap-server", written.bootstrap_servers, "--group", GROUP)
    name, _, story = told.partition(f"/{GROUP}: classic group, range")
    assert re.fullmatch(r"[\w-]{22}", name)
    assert "rebalance" in story
    assert "first on record" in story


def test_a_cluster_is_followed(written: Cluster, tmp_path: Path) -> None:
    """What is there now comes into a folder, once."""
    place = tmp_path / "records"
    words = ["--bootstrap-server", written.bootstrap_servers, "--cluster", "live", "--follow", "--into", str(place)]
    (came,) = re.fullmatch(r"history: ([\d,]+) records came to .*\n", launched(*words)).groups()  # type: ignore[union-attr]
    assert int(came.replace(",", "")) > 0
    assert f"live/{GROUP}: classic group, range" in launched("--records", str(place), "--group", GROUP)
