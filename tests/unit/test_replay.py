"""Pasts replayed: what was recorded is found again, and textbook rebalances by hand."""

from __future__ import annotations

import pytest

from spark_assign.kernels.replay.past import Past, read_past
from spark_assign.kernels.replay.recorded import find_again
from tests.unit import recorded_pasts


def _past(timeline, measured=None, crashed=None) -> Past:
    return read_past("c", "g", timeline, crashed or {}, measured or {})


@pytest.mark.parametrize("assignor", recorded_pasts.ASSIGNORS)
def test_recorded_generations_are_found_again(assignor: str) -> None:
    """The assignor in use, asked again with what members had told, says what was recorded: every owner of each."""
    rng = recorded_pasts.seeded()
    pasts = [_past(recorded_pasts.random_story(rng, assignor)) for _ in range(20)]
    found = find_again(pasts)
    assert sum(len(each) for each in found) == sum(len(past.thens) for past in pasts)
    assert [(past.thens[at].number, said) for past, each in zip(pasts, found) for at, said in each.items() if said.why] == []
