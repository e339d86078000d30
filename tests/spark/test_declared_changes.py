"""`compare --changes`: what a pull request does to a fleet, as a comment; and what it can't say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import compare
from spark_assign import Fleet
from spark_assign import compare as compare_fleet
from spark_assign.comparison.what_if import WhatIf
from spark_assign.report.declared_changes import MAX_LINES
from tests.cases import cases

pytestmark = [pytest.mark.spark, pytest.mark.once]

TOPIC = "kind: KafkaTopic\nmetadata: {{name: {0}}}\nspec:\n  partitions: {1}\n"
CONSUMER = (
    "kind: StatefulSet\nmetadata: {{name: {0}, annotations: {{spark-assign/group: {0}}}}}\nspec:\n  replicas: {1}\n"
)
CONNECTOR = "kind: KafkaConnector\nmetadata: {{name: {0}}}\nspec: {{tasksMax: {1}}}\n"
POOL = "kind: KafkaNodePool\nmetadata: {{name: {0}}}\nspec: {{replicas: {1}}}\n"
CLIENT = "group.id={0}\npartition.assignment.strategy=org.apache.kafka.clients.consumer.{1}\n"


def documents(*texts: str) -> str:
    """Returns one file of several resources."""
    return "---\n".join(texts)


class Review:
    """Runs the job on two versions of a file."""

    def __init__(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
        self.folder, self.capsys, self.caplog = tmp_path, capsys, caplog

    def of(self, before: str, after: str, *words: str, name: str = "x.yaml", fleet: str = "--sample") -> int:
        """The exit code; `printed` and `messages` have the output and the messages."""
        for side, text in (("old", before), ("new", after)):
            (self.folder / side).mkdir(exist_ok=True)
            (self.folder / side / name).write_text(text, encoding="utf-8")
        self.caplog.clear()
        sides = [str(self.folder / side) for side in ("old", "new")]
        code = compare.main([*fleet.split(), "--changes", *sides, "-o", "markdown", *words])
        captured = self.capsys.readouterr()
        self.printed, self.messages = captured.out, self.caplog.text + captured.err
        assert len(self.printed.splitlines()) <= MAX_LINES
        return code


@pytest.fixture
def review(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Review:
    return Review(tmp_path, capsys, caplog)


def test_the_change_is_that_of_what_ifs(
    review: Review, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Partitions added and a member removed, as the methods of a fleet do it; docs/pull-request.md shows the text.

    Settings of other comparisons stay without effect.
    """
    monkeypatch.setenv("SPARK_ASSIGN_COMPARE_TOP", "3")
    monkeypatch.setenv("SPARK_ASSIGN_COMPARE_OUTPUT", str(tmp_path / "out"))
    texts = [
        documents(TOPIC.format("orders.created", n), CONSUMER.format("notifications-email", m))
        for n, m in ((12, 3), (24, 2))
    ]
    assert review.of(*texts, "--fail-on", "rebalances") == 1

    def both(fleet: Fleet) -> Fleet:
        grown = fleet.with_partitions(topic="orders.created", count=24)
        return grown.with_members_left(group_id="notifications-email", count=1)

    sample = Fleet.read(spark, "conf/sample-fleet")
    groups = ("notifications-email", "orders-service", "inventory-projector")
    compared = compare_fleet(sample, None, [WhatIf("both", both)]).comparison.where("is_current")
    expected = {row["group_id"]: row for row in compared.collect() if row["group_id"] in groups}
    rows = [line.split(" | ") for line in review.printed.splitlines() if line.startswith("| `")]
    found = {cells[0].strip("| `"): cells[4] for cells in rows}
    assert found == {group: str(expected[group]["moved"]) for group in groups}
    assert not (tmp_path / "out").exists()
    moved = sum(row["moved"] for row in expected.values())
    assert review.printed.startswith(f"### Kafka: 3 groups rebalance, {moved} of 120 partitions move\n")
    assert "can't be removed again" in review.printed


@cases(
    "before after expected",
    (TOPIC.format("orders.created", 12), TOPIC.format("orders.created", 12) + "#", ["nothing changes"]),
    (
        *(CONSUMER.format("pricing-engine", 3), CONSUMER.format("pricing-engine", 4)),
        [
            "members | 8 | 9 |",
            "8 members in the snapshot, and 3 replicas with 1 each",
            "of 9 members get no partitions",
        ],
    ),
    (TOPIC.format("payments.ledger", 16), "", ["1 group rebalances", "is deleted, with all its records"]),
    (
        documents(TOPIC.format("orders.created", 9), CONNECTOR.format("mine", 2), POOL.format("pool", 3)),
        documents(
            *(TOPIC.format("orders.created", 12), TOPIC.format("orders.new", 3)),
            *(CONNECTOR.format("mine", 4), POOL.format("pool", 4)),
        ),
        [
            "no group rebalances",
            "is new: groups that subscribe to it by a pattern",
            "12 partitions in the snapshot, not 9",
            "no group `connect-mine`",
            "`replicas reassign --add`",
        ],
    ),
    (
        documents(
            *(TOPIC.format("orders.created", 9), CONSUMER.format("payments-ledger", 2)),
            *(CONSUMER.format("audit-archiver", 3), POOL.format("pool", 3)),
        ),
        documents(
            *(TOPIC.format("orders.created", 18), CONSUMER.format("payments-ledger", 1)),
            *(CONSUMER.format("audit-archiver", 0), POOL.format("pool", 2)),
        ),
        [
            "12 partitions in the snapshot, not 9",
            "members | 4 | 2 |",
            "has static members",
            "has no members left",
            "Strimzi doesn't remove a broker that has replicas",
        ],
    ),
)
def test_changes(review: Review, before: str, after: str, expected: list[str]) -> None:
    """Each kind, with its risks."""
    assert review.of(before, after) == 0, review.messages
    for text in expected:
        assert text in review.printed


def test_a_cluster_that_the_snapshot_lacks(review: Review) -> None:
    """A change of another cluster isn't planned without a word."""
    topics = [TOPIC.format("orders.created, labels: {strimzi.io/cluster: b}", n) for n in (12, 24)]
    assert review.of(*topics, "--fail-on", "risks") == 1
    assert "- cluster `b` isn't in the snapshot, so its changes are planned on `shop-prod`. Map it in" in review.printed


@cases(
    "flag value message",
    ("--top", "3", "--changes prints a comment with limits of its own. Remove --top."),
    ("--run-id", "x", "Remove --run-id."),
    ("--output-format", "csv", "Remove --output-format."),
    ("--standby-replicas", "1", "--standby-replicas can't be used with --changes"),
    ("--restore-bytes-per-second", "1e6", "--restore-bytes-per-second can't be used with --changes"),
)
def test_options_of_other_reports(review: Review, flag: str, value: str, message: str) -> None:
    """Exit code 2: the comment has no such lists, no tables, and no Streams groups."""
    assert review.of("", "", flag, value) == 2
    assert message in review.messages


def test_client_settings(review: Review) -> None:
    """The new assignor is planned, and the way to it shown; one that isn't known is named."""
    texts = [CLIENT.format("orders-service", name) for name in ("RangeAssignor", "CooperativeStickyAssignor", "Mine")]
    assert review.of(*texts[:2], "--fail-on", "risks", name="x.properties") == 1
    assert "| `orders-service` | `cooperative-sticky` | 6 | 36 | 0 |" in review.printed
    assert "librdkafka (Python, Go, .NET, Node) doesn't start with such a list" in review.printed
    assert review.of(texts[0], texts[2], name="x.properties") == 0
    assert "`org.apache.kafka.clients.consumer.Mine` isn't known" in review.printed


def test_a_text_has_an_end(review: Review) -> None:
    """Every topic and four groups change, and kinds that aren't read; a group that the broker assigns stays there."""
    with open("conf/sample-fleet/topics.csv", encoding="utf-8") as file:
        topics = list(csv.DictReader(file))
    texts = [
        documents(
            *(TOPIC.format(each["topic"], factor * int(each["partitions"])) for each in topics),
            *(f"kind: K{n}\nmetadata: {{name: {factor}}}\n" for n in range(12)),
        )
        for factor in (1, 2)
    ]
    for side, name in (("old", "RangeAssignor"), ("new", "CooperativeStickyAssignor")):
        for group in ("pricing-engine", "search-ranking", "data-quality"):
            (review.folder / side).mkdir(exist_ok=True)
            (review.folder / side / f"{group}.properties").write_text(CLIENT.format(group, name))
    assert review.of(*texts) == 0
    assert len(review.printed.splitlines()) == MAX_LINES
    assert review.printed.startswith("### Kafka: 17 groups rebalance")
    assert "group `billing-aggregator`: with" not in review.printed


@cases(
    "before after message",
    (
        TOPIC.format("orders.created", 12),
        TOPIC.format("orders.created", 6),
        "x.yaml:4: the topic 'orders.created' has 12",
    ),
    (TOPIC.format("orders.created", 4), TOPIC.format("orders.created", 6), "has 12 partitions in the snapshot"),
    (TOPIC.format("order", 4), TOPIC.format("order", 6), "x.yaml:4: the topic 'order' isn't in the snapshot"),
    (CONSUMER.format("mail", 1), CONSUMER.format("mail", 2), "x.yaml:4: the group 'mail' isn't in the snapshot"),
    ("", "a: [", "isn't valid YAML"),
    (
        "",
        documents(
            TOPIC.format("orders.created, labels: {strimzi.io/cluster: a}", 24),
            TOPIC.format("orders.created, labels: {strimzi.io/cluster: b}", 36),
        ),
        "x.yaml:4 and x.yaml:9 change the topic 'orders.created' of the snapshot differently",
    ),
    (
        TOPIC.format("a", 1),
        documents(*(TOPIC.format(f"a{n}", 1) for n in range(1_001))),
        "changes, expected at most",
    ),
    (
        "",
        "".join(f"---\n{TOPIC.format(f'a{n}', 100_000)}" for n in range(11)),
        "1,100,000 partitions are new, expected at most 1,000,000",
    ),
)
def test_wrong_changes(review: Review, before: str, after: str, message: str) -> None:
    """Exit code 2, with file and line."""
    assert review.of(before, after) == 2
    assert message in review.messages


def test_several_clusters(review: Review, tmp_path: Path) -> None:
    """Names have their cluster; a group in two of them needs the mapping file; strangers' names stay names."""
    evil = "](http://x) @you <img> `|\n# x"
    members = [{"cluster": c, "group_id": g, "member_id": m} for c in "ab" for g in ("g", evil) for m in ("m1", "m2")]
    tables = {
        "topics": [{"cluster": c, "topic": "t", "partitions": 4} for c in "ab"],
        "members": members,
        "subscriptions": [{**each, "topic": "t"} for each in members],
    }
    (tmp_path / "fleet").mkdir()
    for name, rows in tables.items():
        (tmp_path / "fleet" / f"{name}.json").write_text("\n".join(map(json.dumps, rows)))
    texts = [CONSUMER.format("g", n) for n in (2, 3)]
    place = f"--fleet {tmp_path / 'fleet'}"
    assert review.of(*texts, fleet=place) == 2
    assert "the group 'g' can be in several clusters" in review.messages
    (tmp_path / "map.toml").write_text('consumers.g = {group = "g", cluster = "B"}\nclusters = {B = "b"}')
    assert review.of(*texts, "--changes-map", str(tmp_path / "map.toml"), fleet=place) == 0
    assert "| group `b/g`: members | 2 | 3 | `x.yaml:4` |" in review.printed
    topics = [TOPIC.format("t, labels: {strimzi.io/cluster: A}", n) for n in (4, 5)]
    (tmp_path / "map.toml").write_text('clusters = {A = "a"}')
    assert review.of(*topics, "--changes-map", str(tmp_path / "map.toml"), fleet=place) == 0
    assert r"| ``a/](http://x) @you <img> `\x7c\n# x`` |" in review.printed
    (tmp_path / "map.toml").write_text("consumer = 1")
    assert review.of(*texts, "--changes-map", str(tmp_path / "map.toml"), fleet=place) == 2
    assert "unknown key consumer. Did you mean consumers?" in review.messages
