"""Every recorded case of Kafka's own classes, as an ask of a simulated leader."""

from __future__ import annotations

import random
from functools import cache

import pytest

from tests.golden import leader_rows, vectors
from tests.sizes import drawn

pytestmark = pytest.mark.once
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


@cache
def _cases(strategy: str) -> list[vectors.Row]:
    return vectors.cases(strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_leader_answers_what_kafka_recorded(strategy: str) -> None:
    """300 cases at once, zero differences; an error exactly where Kafka threw, with its message.

    Every third case by default: test_golden_client.py holds the same kernels against all of them.
    """
    rows = _cases(strategy)[:: drawn(3, 1)]
    asks = [leader_rows.ask_of(row, strategy) for row in rows]
    answers = leader_rows.answered(asks, 300)
    differences = vectors.differences(vectors.expected_sets(rows), leader_rows.sets_of(rows, asks, answers))
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    refused = {row["case"]: answer.error for row, answer in zip(rows, answers, strict=True) if answer.error}
    assert vectors.other_errors(rows, refused) == []


def test_asks_do_not_know_of_each_other() -> None:
    """In any order, in batches of any size, all assignors side by side: the same answers."""
    asks = [leader_rows.ask_of(row, strategy) for strategy in STRATEGIES for row in _cases(strategy)[::25]]
    expected = leader_rows.answered(asks, len(asks))
    for size in (1, 7, 300):
        order = random.Random(size).sample(range(len(asks)), len(asks))
        assert leader_rows.answered([asks[at] for at in order], size) == [expected[at] for at in order]
