"""The sample history: the history shows what happened to its groups (conf/sample-history/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_assign.history.kernel.build_timelines import build_timelines
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.deploys import Deploy, find_deploys, is_flapping
from spark_assign.history.kernel.facts import RECORDS, bucket_facts, reduce_records
from spark_assign.history.kernel.pauses import find_pauses
from spark_assign.history.kernel.replay.replay import REBALANCES, REJECTED, SUMMARY, ReplayParams, replay_buckets
from spark_assign.history.kernel.timeline import HistoryThresholds, Timeline
from spark_assign.history.schemas import REPLAY_ROWS
from spark_assign.spark.dataframes import to_arrow_schema

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet"
THRESHOLDS = HistoryThresholds(commit_gap_ms=3_000, deploy_gap_ms=30_000, session_timeout_ms=6_000)
"""Its clients commit every second, its deploys are half a minute apart, its broker's sessions are short."""


@cache
def records() -> pa.Table:
    """RECORDS."""
    table = pq.read_table(SAMPLE)
    at_ms = pc.cast(pc.cast(table["timestamp"], pa.timestamp("ms", tz="UTC")), pa.int64())
    return table.append_column("at_ms", at_ms).select(RECORDS.names).cast(RECORDS)


@cache
def sample() -> dict[str, Timeline]:
    """The past of each group."""
    facts = reduce_records(records(), THRESHOLDS.commit_gap_ms)
    return {name: timeline for _, name, timeline in build_timelines(facts, THRESHOLDS)}


def buckets() -> pa.Table:
    """BUCKETS of the records, which were read in two parts."""
    parts = [records().slice(0, 5_000), records().slice(5_000)]
    return pa.concat_tables(bucket_facts(parts, THRESHOLDS.commit_gap_ms, 3))


def deploys(name: str) -> list[Deploy]:
    """The deploys of a group."""
    timeline = sample()[name]
    return find_deploys(timeline, find_departures(timeline, THRESHOLDS), find_pauses(timeline, THRESHOLDS), THRESHOLDS)


def went(name: str) -> list[tuple[str, str, bool]]:
    """How members went, by their client ids, and whether they came back."""
    timeline = sample()[name]
    clients = {each.member_id: each.client_id or "" for one in timeline.generations for each in one.members}
    found = find_departures(timeline, THRESHOLDS)
    return [(clients[e.member_id], e.leave_type, e.new_member_id is not None) for e in found]


def test_deploys() -> None:
    """What was done to the groups."""
    names = ["orders-service", "inventory-projector", "payments-ledger", "notifications-push"]
    assert {name: [each.deploy_type for each in deploys(name)] for name in names} == {
        "orders-service": ["rolling-restart", "restart"],
        "inventory-projector": ["scale-out", "scale-in"],
        "payments-ledger": ["rolling-restart"],
        "notifications-push": ["flapping"],
    }
    assert [(each.restarted, each.rebalances) for each in deploys("payments-ledger")] == [(3, 0)]
    assert [(each.members_before, each.members_after) for each in deploys("inventory-projector")] == [(2, 4), (4, 2)]


def test_crashes_are_distinguished_from_leaves() -> None:
    """Two members were killed, of a classic group and of one of KIP-848."""
    assert went("fraud-detection") == [("fraud-detection-2", "crashed", False)]
    assert went("recommendations-features") == [
        ("recommendations-features-2", "crashed", False),
        ("recommendations-features-0", "left", False),
    ]
    assert [each.deploy_type for each in deploys("fraud-detection")] == ["crash", "scale-out"]


def test_the_group_that_flaps() -> None:
    """One alone."""
    flapping = [name for name, timeline in sample().items() if is_flapping(timeline, deploys(name), THRESHOLDS)]
    assert flapping == ["notifications-push"]


def test_what_the_leaders_and_the_broker_assigned_is_reproduced() -> None:
    """Real Java clients and a real broker: every rebalance but one, whose order of members isn't on record."""
    params = ReplayParams(assignors=("range",), static=(False,), thresholds=THRESHOLDS)
    tables = replay_buckets(buckets(), params, to_arrow_schema(REPLAY_ROWS))
    rows = [row for table in tables for row in table.to_pylist()]
    recorded = {row["group_id"]: row for row in rows if row["kind"] == SUMMARY and row["recorded"]}
    columns = ("assignor", "protocol", "static", "rebalances", "num_replayed", "saved_ms")
    expected = {
        "connect-audit-to-disk": ("range", "eager", 0),
        "fraud-detection": ("sticky", "eager", 0),
        "inventory-projector": ("cooperative-sticky", "cooperative", 0),
        "notifications-push": ("range", "eager", 0),
        "orders-service": ("range", "eager", 0),
        "recommendations-features": ("uniform", "consumer", 1),
    }
    rebalances = {name: sum(sample()[name].is_rebalance) - 1 for name in expected}
    found = {n: tuple(r[e] for e in columns) for n, r in recorded.items()}
    assert found == {a: (s, p, False, rebalances[a], rebalances[a] - d, None) for a, (s, p, d) in expected.items()}
    got = {name: row["note"].partition(", first ")[0] for name, row in recorded.items() if row["note"]}
    assert got == {"recommendations-features": "its assignor doesn't reproduce 1 of 6 rebalances"}
    assert recorded["recommendations-features"]["note"].endswith("(depends on an order that isn't on record)")
    # Commits show every pause of this group, of which a session timeout is a part.
    pauses = find_pauses(sample()["fraud-detection"], THRESHOLDS)
    assert recorded["fraud-detection"]["paused_partition_ms"] == pauses.paused_partition_ms
    in_range = {row["group_id"] for row in rows if row["kind"] == REBALANCES and row["assignor"] == "range"}
    assert in_range == expected.keys()
    assert {row["group_id"]: (row["code"], row["detail"]) for row in rows if row["kind"] == REJECTED} == {
        "connect-orders": ("out-of-scope", "Its members aren't consumers. Their protocol type is connect"),
        "legacy-importer": ("no-rebalances", "The group has commits, but no member on record"),
        "nightly-export": ("no-rebalances", "The group has commits, but no member on record"),
        "payments-ledger": ("no-rebalances", "Fewer than two generations are on record, so there is nothing to replay"),
        "returns-workers": ("out-of-scope", "A group of type share has no consumer assignor"),
    }


def test_nobody_owns_what_another_one_has() -> None:
    """At any moment, outside of share groups."""
    for name, timeline in sample().items():
        changes = sorted(
            (at, gets, each.role, each.topic, partition)
            for each in timeline.ownership
            for at, gets in ((each.start_ms, True), (each.end_ms, False))
            if at is not None
            for partition in each.partitions
        )
        owners: dict[tuple[str, str, int], int] = {}
        for _, gets, *what in changes:  # What is given up in a moment stands before what is got in it.
            key = (what[0], what[1], what[2])
            owners[key] = owners.get(key, 0) + (1 if gets else -1)
            assert owners[key] <= 1 or timeline.group_type == "share", (name, key)
