"""The closed form of Kafka's minimum-cost flow against a twin that makes every step."""

from __future__ import annotations

import numpy as np
import pytest

from spark_assign.assignors.streams.rack_aware_task_assignor import find_cheapest_owners
from tests.sizes import drawn
from tests.unit import streams_flow_twin as twin

SEED = 31


@pytest.mark.parametrize("has_groups", [False, True])
def test_the_same_flow_as_the_twin(has_groups: bool) -> None:
    """Many equal costs, so that the choice between equally cheap flows counts."""
    random = np.random.default_rng(SEED + has_groups)
    moved = 0
    for _ in range(drawn(60, 200)):
        num_tasks, num_clients = int(random.integers(1, 24)), int(random.integers(1, 6))
        cost = random.integers(0, 4, (num_tasks, num_clients))
        owner = random.integers(0, num_clients, num_tasks)
        groups = None
        if has_groups:
            groups = np.unique(np.sort(random.integers(0, 3, num_tasks)), return_inverse=True)[1]
        owners = find_cheapest_owners(cost, owner, groups)
        assert owners.tolist() == twin.find_cheapest_owners(cost, owner, groups).tolist()
        moved += int((owners != owner).sum())
    assert moved


def test_the_number_of_tasks_stays() -> None:
    """What a client gives up it gets in other tasks."""
    cost = np.array([[9, 0], [0, 9], [9, 0]])
    assert find_cheapest_owners(cost, np.array([0, 1, 0]), None).tolist() in ([1, 0, 0], [0, 0, 1])
