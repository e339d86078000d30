"""Recorded cases of Kafka's sticky assignors through the kernels alone: a part of them, in seconds."""

from __future__ import annotations

import pytest

from tests.golden import sticky_kernel, vectors

EVERY = 6
"""The chosen cases are all here; of the others each sixth (tests/golden has all, through Spark)."""


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_the_kernels_plan_what_kafka_recorded(strategy: str) -> None:
    """Zero differences, and refused exactly where Kafka threw."""
    rows, _ = vectors.cases(strategy)
    rows = [row for n, row in enumerate(rows) if row["case"].startswith("client-edge/") or n % EVERY == 0]
    answer = sticky_kernel.planned(rows, strategy)
    differences = vectors.differences(vectors.expected_sets(rows), answer.sets)
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    thrown = {row["case"]: row["error"].rpartition(".")[2] for row in rows if row["expect"] is None}
    assert {case: why.partition(":")[0] for case, why in answer.refused.items()} == thrown
    assert len(rows) > 600
