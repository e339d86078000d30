"""Random share groups, fresh at every run, planned by our kernel and by the broker's own assignor (KIP-932)."""

from __future__ import annotations

from random import Random

import pytest

from tests.golden import share_rows
from tests.kafka import live_assignors
from tests.kafka.random_share_groups import ShareGroup
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

PROGRAM = "ShareAssignor"
GROUPS, ROUNDS = drawn(200, 400), 4


def test_the_kernel_plans_what_the_broker_answers_now(kafka_jars: str, seed: int) -> None:
    """Group after group through rounds of joins, departures and new topics; what is thrown is foretold, too."""
    groups = [ShareGroup(Random(f"{seed}-{number}"), f"{seed}-{number}") for number in range(GROUPS)]
    given = thrown = 0
    for _ in range(ROUNDS):
        rows = live_assignors.answered([group.row() for group in groups], kafka_jars, program=PROGRAM)
        ours = share_rows.assign_rows(rows)
        different = [row["case"] for row, got in zip(rows, ours, strict=True) if got != share_rows.expected(row)]
        assert not different, f"{len(different)} differ, {different[:20]}"
        given += sum(row["error"] is None and any(row["expect"].values()) for row in rows)
        thrown += ours.count(share_rows.FAILS)
        for group, row in zip(groups, rows, strict=True):
            group.follow(row)
    assert given > GROUPS * ROUNDS // 2
    assert thrown
