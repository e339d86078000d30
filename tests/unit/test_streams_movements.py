"""Movements of the high availability assignor: few candidates among many clients, with and without Kafka's heap."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from spark_assign.assignors.streams import classic_application, task_assignor_api
from spark_assign.assignors.streams import high_availability_task_assignor as high_availability
from spark_assign.assignors.streams.high_availability_task_assignor import (
    ClientQueue,
    FirstOfFew,
    UndeterminedFirstError,
)
from spark_assign.assignors.streams.streams_partition_assignor import describe_failure, plan_application
from spark_assign.assignors.streams.task_assignor_api import TooManyStepsError
from tests.sizes import drawn

SEED = 7


def application(random: Random) -> classic_application.ClassicApplication:
    """An application that has lost and won clients, with state in random places."""
    num_clients, num_tasks = random.randint(3, 30), random.randint(5, 80)
    members = []
    for at in range(num_clients):
        process = str(UUID(int=random.getrandbits(128)))
        members += [classic_application.ClassicMember(f"m{at}-{t}", process) for t in range(random.choice((1, 1, 2)))]
    for task in range(num_tasks):
        for owner in random.sample(members, random.randint(0, min(4, len(members)))):
            offsets = owner.offset_sums
            assert isinstance(offsets, dict)
            offsets[0, task] = random.choice((classic_application.RUNNING, 0, 50, 95, 99, 100))
    return classic_application.ClassicApplication(
        members,
        [classic_application.ClassicSubtopology(["topic"], ["changelog"], has_store=True)],
        {"topic": num_tasks},
        {"changelog": [100] * num_tasks},
        config=classic_application.ClassicConfig(
            acceptable_recovery_lag=5,
            max_warmup_replicas=random.choice((0, 1, 3, 100)),
            num_standby_replicas=random.choice((0, 0, 1, 2)),
        ),
    )


def planned(group: classic_application.ClassicApplication, *, has_heap: bool) -> Any:
    """Tasks of each client after the movements from a random target, the warmups, and the number of movements."""
    clients = sorted(classic_application.read_clients(group), key=lambda client: client.rank)
    stateful = sorted(group.stateful)
    for at, client in enumerate(clients):
        client.active.update(stateful[at :: len(clients)])
        client.standby.update(stateful[(at + 1) % len(clients) :: len(clients)])
    trace = high_availability.HighAvailabilityTrace()
    movements = high_availability.Movements(group, clients, trace)
    movements.move_all((lambda: ClientQueue(clients, lambda client: client.load)) if has_heap else FirstOfFew)
    return [(client.active, client.standby) for client in clients], trace.warmups, trace.movements


def test_the_heap_is_needed_only_where_its_layout_decides() -> None:
    """What is planned without the heap is what the heap gives; otherwise the plan falls back on the heap."""
    random, determined = Random(SEED), 0
    for _ in range(drawn(40, 600)):
        group = application(random)
        try:
            without_heap = planned(group, has_heap=False)
        except UndeterminedFirstError:
            continue
        assert without_heap == planned(group, has_heap=True)
        determined += without_heap[2] > 0
    assert determined


def tagged(clients: int, tasks: int, **config: Any) -> classic_application.ClassicApplication:
    """An application whose clients have five tags, each with a value of its own."""
    members = [
        classic_application.ClassicMember(
            f"m{at}", str(UUID(int=at)), f"r{at % 3}", {f"k{key}": f"{at}" for key in range(5)}
        )
        for at in range(clients)
    ]
    return classic_application.ClassicApplication(
        members,
        [classic_application.ClassicSubtopology([f"t{at}"], [f"c{at}"], has_store=True) for at in range(3)],
        {f"t{at}": tasks for at in range(3)},
        {f"c{at}": [0] * tasks for at in range(3)},
        {f"{kind}{at}": [[f"r{task % 3}"] for task in range(tasks)] for at in range(3) for kind in "tc"},
        classic_application.ClassicConfig(
            num_standby_replicas=3, rack_aware_tags=[f"k{key}" for key in range(5)], traffic_cost=1, non_overlap_cost=1
        ),
        **config,
    )


def test_standbys_by_tag_take_linear_time() -> None:
    """All clients were offered to the queue for each task."""
    start = time.process_time()
    assert len(plan_application(tagged(1_000, 300)).members) == 1_000
    assert time.process_time() - start < 3


@pytest.mark.parametrize("assignor", ["high-availability", "sticky", "legacy-sticky"])
@pytest.mark.parametrize("strategy", ["none", "min_traffic", "balance_subtopology"])
def test_an_application_that_takes_too_many_steps(
    monkeypatch: pytest.MonkeyPatch, assignor: str, strategy: str
) -> None:
    """Each assignor counts its steps, and the exchanges between racks have their own."""
    group = tagged(20, 20, assignor=assignor)
    group = replace(group, config=replace(group.config, rack_aware_strategy=strategy))
    plan_application(replace(group))
    monkeypatch.setattr(task_assignor_api, "MAX_STEPS", 100)
    if (assignor, strategy) == ("high-availability", "none"):  # is linear
        plan_application(replace(group))
        return
    with pytest.raises(TooManyStepsError) as caught:
        plan_application(replace(group))
    assert describe_failure(caught.value)[0] == "too-many-tasks"


def test_a_member_that_keeps_many_tasks_takes_linear_time() -> None:
    """Each kept task was searched in the queue of all tasks."""
    sums = {(at, task): classic_application.RUNNING for at in range(3) for task in range(10_000)}
    group = tagged(1, 10_000)
    group = replace(group, members=[replace(group.members[0], offset_sums=sums)])
    start = time.process_time()
    assert len(plan_application(group).members["m0"].active) == 30_000
    assert time.process_time() - start < 3
