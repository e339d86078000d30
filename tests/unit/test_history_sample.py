"""The sample history: what happened to its groups is what is told (conf/sample-history/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_assign.history.kernel.build_timelines import build_timelines
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.deploys import Deploy, find_deploys, is_flapping
from spark_assign.history.kernel.facts import RECORDS, reduce_records
from spark_assign.history.kernel.pauses import find_pauses
from spark_assign.history.kernel.timeline import HistoryThresholds, Timeline

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet"
THRESHOLDS = HistoryThresholds(commit_gap_ms=3_000, deploy_gap_ms=30_000, session_timeout_ms=6_000)
"""Its clients commit every second, its deploys are half a minute apart, its broker's sessions are short."""


@cache
def sample() -> dict[str, Timeline]:
    """The past of each group."""
    records = pq.read_table(SAMPLE)
    at_ms = pc.cast(pc.cast(records["timestamp"], pa.timestamp("ms", tz="UTC")), pa.int64())
    records = records.append_column("at_ms", at_ms).select(RECORDS.names).cast(RECORDS)
    return {
        name: timeline
        for _, name, timeline in build_timelines(reduce_records(records, THRESHOLDS.commit_gap_ms), THRESHOLDS)
    }


def deploys(name: str) -> list[Deploy]:
    """The deploys of a group."""
    timeline = sample()[name]
    return find_deploys(timeline, find_departures(timeline, THRESHOLDS), find_pauses(timeline, THRESHOLDS), THRESHOLDS)


def went(name: str) -> list[tuple[str, str, bool]]:
    """How members went, by their client ids, and whether they came back."""
    timeline = sample()[name]
    clients = {each.member_id: each.client_id or "" for one in timeline.generations for each in one.members}
    return [
        (clients[each.member_id], each.leave_type, each.new_member_id is not None)
        for each in find_departures(timeline, THRESHOLDS)
    ]


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
