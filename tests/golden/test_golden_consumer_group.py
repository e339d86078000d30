"""Every recorded sequence of Kafka's `GroupMetadataManager` by our coordinator: no difference, no step left out."""

from __future__ import annotations

import json
from collections import Counter

from tests.golden import consumer_group_rows
from tests.recorded_lines import differences


def test_every_sequence() -> None:
    """Answers, errors, and the whole group after each step."""
    rows = consumer_group_rows.recorded()
    assert differences(rows, [json.loads(json.dumps(each)) for each in consumer_group_rows.ours(rows)]) == []
    assert (len(rows), len({row["sequence"] for row in rows})) == (15_704, 300)
    errors = Counter(row["expect"].get("error") for row in rows)
    assert errors["FENCED_MEMBER_EPOCH"] > 100
    assert errors["UNRELEASED_INSTANCE_ID"] > 100
    states = Counter(member["state"] for row in rows for member in row["expect"].get("members", {}).values())
    assert min(states.values()) > 1_000, states
