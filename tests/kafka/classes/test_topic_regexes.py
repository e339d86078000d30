"""Regular expressions of KIP-848 subscriptions match what the broker's library matches."""

from __future__ import annotations

import pytest

from tests.kafka import topic_regexes

pytestmark = pytest.mark.kafka


def test_random_expressions_match_the_same_topics(kafka_jars: str, seed: int) -> None:
    """Whatever RE2/J accepts is accepted, and matches the same names."""
    found = topic_regexes.matched_by_broker(topic_regexes.rows(seed, 5_000), kafka_jars)
    assert topic_regexes.differing(found) == []
    assert sum(row["matched"] is not None for row in found) > 1_000
