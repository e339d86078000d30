"""Every recorded case of the broker's assignors of Kafka 4.4 (KIP-848): uniform, and range, by the kernels alone."""

from __future__ import annotations

import pytest

from tests.golden import server_rows


@pytest.mark.once
def test_the_kernels_plan_what_the_broker_recorded() -> None:
    """Zero differences, as sets of partitions per member; Kafka's classes throw in none of these cases."""
    different = [row["case"] for row in server_rows.rows() if server_rows.answered(row) != server_rows.expected(row)]
    assert not different, f"{len(different)} cases differ: {different[:20]}"
