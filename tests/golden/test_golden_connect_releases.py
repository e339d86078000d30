"""Recorded rebalances of releases of Kafka Connect, sequence by sequence, each from our own state."""

from __future__ import annotations

import pytest

from tests.golden import connect_release_rows
from tests.golden.connect_release_rows import NEIGHBORS
from tests.recorded_lines import read_rows


@pytest.mark.once
@pytest.mark.parametrize("release", NEIGHBORS)
def test_every_profile_answers_as_its_release(release: str) -> None:
    """Zero differences by the rules of the release; the profiles beside it differ in every sequence."""
    rows = [row for row in read_rows(connect_release_rows.FILE) if row["release"] == release]
    sequences = {row["sequence"] for row in rows}
    assert connect_release_rows.different(rows, release) == []
    for neighbor in NEIGHBORS[release]:
        assert {each.partition("/")[0] for each in connect_release_rows.different(rows, neighbor)} == sequences
    assert len(sequences) > 1
    assert len(rows) == 12 * len(sequences)
