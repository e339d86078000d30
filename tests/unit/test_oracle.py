"""The plain-Python oracle against everything that was recorded from Kafka's own classes."""

from __future__ import annotations

import pytest

from tests.golden import vectors
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Assignment, Group


def _answer(row: vectors.Row) -> Assignment:
    group = Group.from_row(row)
    if row["strategy"] == "range":
        return range_assignor.assign(group, prefer_rack_aware=row.get("prefer_rack_aware", False))
    return roundrobin_assignor.assign(group)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_the_oracle_answers_as_kafka_did(strategy: str) -> None:
    """Every recorded case, the test-only rack switch included."""
    checked = 0
    for row in vectors.recorded(strategy):
        answer = {member: set(got) for member, got in _answer(row).items()}
        assert answer == {member: {(t, p) for t, p in got} for member, got in row["expect"].items()}, row["case"]
        checked += 1
    assert checked == vectors.CASES[strategy] + vectors.LEFT_OUT[strategy]
