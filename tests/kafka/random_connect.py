"""Random Connect clusters, rebalance after rebalance, in the format of tests/golden/README-other.md, section 2."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from spark_assign.assignors.connect.connectors_and_tasks import (
    ConnectorsAndTasks,
    apply_assignment,
    hash_set_order,
    serialized_order,
    split_items,
)
from spark_assign.assignors.connect.rebalance_input import AssignorState
from tests.golden import connect_release_rows
from tests.golden.connect_rows import Row, RowNames

WORKERS = [f"worker-{number}" for number in range(8)]
CONNECTORS = [f"c{number}" for number in range(9)]
MAX_DELAYS = (0, 40, 300_000)


def sequences(seed: int, release: str, count: int, rounds: int = 12) -> Iterator[Row]:
    """The rounds of many clusters, driven by our own answers.

    Workers join, leave, and return with what they ran; connectors and tasks come and go; some workers don't receive a
    result. The first worker leads and stays.
    """
    for number in range(count):
        yield from _sequence(Random(f"{seed} {number}"), f"{seed}-{number}", release, rounds)


def _sequence(random: Random, name: str, release: str, rounds: int) -> Iterator[Row]:
    row_names = RowNames(CONNECTORS, WORKERS)
    hashes = row_names.connectors.spread_hash
    workers: dict[str, ConnectorsAndTasks] = {WORKERS[0]: ([], [])}
    away: dict[str, ConnectorsAndTasks] = {}
    configured: dict[str, int] = {}
    state, now, completed = AssignorState(), 1_000_000, -1
    max_delay = random.choice(MAX_DELAYS)
    for number in range(rounds):
        _change(random, workers, away, configured)
        now += random.choice((0, 10, 1_000, 200_000, 400_000))
        row: Row = {"sequence": name, "round": number, "release": release, "now_ms": now, "max_delay_ms": max_delay}
        row |= {"generation": number + 1, "last_completed_generation": completed}
        row |= {
            "configured": {each: [f"{each}-{task}" for task in range(tasks)] for each, tasks in configured.items()},
            "members": {
                each: row_names.listed([item for kind in serialized_order(*workers[each], hashes) for item in kind])
                for each in sorted(workers)
            },
            "member_order": [
                WORKERS[at]
                for at in hash_set_order(sorted(map(row_names.worker, workers)), row_names.workers.spread_hash)
            ],
            "names": CONNECTORS,
            "worker_names": WORKERS,
        }
        result = connect_release_rows.plan(row, row_names, state, release)
        state = result.state
        missed = {each for each in workers if random.random() < random.choice((0, 0, 0.3))}
        if WORKERS[0] not in missed:
            completed = number + 1
        for each, assigned in zip(row["member_order"], result.assigned, strict=True):
            if each not in missed:
                revoked = result.revoked.get(row_names.worker(each), set())
                sent = serialized_order(*split_items(assigned), hashes)
                workers[each] = apply_assignment(workers[each], sent, revoked, hashes)
        yield row


def _change(
    random: Random,
    workers: dict[str, ConnectorsAndTasks],
    away: dict[str, ConnectorsAndTasks],
    configured: dict[str, int],
) -> None:
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        idle = sorted(set(WORKERS) - workers.keys() - away.keys())
        others = sorted(workers.keys() - {WORKERS[0]})
        match random.choice(("join", "join", "leave", "back", "add", "add", "remove", "tasks")):
            case "join" if idle:
                workers[random.choice(idle)] = ([], [])
            case "leave" if others:
                gone = random.choice(others)
                listed = workers.pop(gone)
                if random.random() < 0.5:
                    away[gone] = listed
            case "back" if away:
                back = random.choice(sorted(away))
                workers[back] = away.pop(back)
            case "add":
                configured.setdefault(random.choice(CONNECTORS), random.randint(0, 6))
            case "remove" if configured:
                configured.pop(random.choice(sorted(configured)))
            case "tasks" if configured:
                configured[random.choice(sorted(configured))] = random.randint(0, 6)
