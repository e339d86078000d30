"""The rebalances of a classic application until every task is at its final owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf, nan
from random import Random
from time import process_time

import pytest

from spark_assign.assignors.streams.classic_application import (
    RUNNING,
    ClassicApplication,
    ClassicConfig,
    ClassicMember,
    ClassicSubtopology,
    read_clients,
)
from spark_assign.assignors.streams.member_tasks import MemberTasks
from spark_assign.assignors.streams.streams_partition_assignor import plan_application
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.streams.kernel.changelogs import Changelogs
from spark_assign.streams.kernel.classic_rounds import MAX_ROUNDS, ClassicRounds, settle
from spark_assign.streams.kernel.state_restores import Growth, Restore, StateRestores
from tests.golden import streams_classic_rows as recorded

P, Q = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def scaled_out(tasks: int, *, has_state: bool = True, standbys: int = 0) -> ClassicApplication:
    """a runs all tasks and b, of a process with a lower ID, is new; without state, a has left."""
    sums = {(0, at): RUNNING for at in range(tasks)} if has_state else {}
    owner = ClassicMember("a", Q, owned=[("t", at) for at in range(tasks)], offset_sums=sums)
    return ClassicApplication(
        [owner, ClassicMember("b", P)] if has_state else [ClassicMember("b", P)],
        [ClassicSubtopology(["t"], ["l"], has_store=True)],
        {"t": tasks},
        {"l": [1_000_000] * tasks},
        config=ClassicConfig(num_standby_replicas=standbys, probing_rebalance_interval_ms=60_000),
        leader_process=Q,
    )


def test_a_warmup_and_two_rebalances() -> None:
    """b restores its task for 40 s; the probing rebalance moves it, and b gets it after a has revoked it."""
    rounds = ClassicRounds(scaled_out(2), {(0, 0): 4e9, (0, 1): 4e9}, 1e8)
    found = [(each.start, each.cause, each.moved, each.stopped, round(each.missing)) for each in rounds.run()]
    assert found == [(0.0, "", 0, 0, 4_000_000_000), (60.0, "probing", 0, 0, 0), (60.0, "at-once", 1, 0, 0)]
    (restore,) = rounds.state.restores
    assert (restore.process_id, restore.member_id, restore.task, restore.role) == (P, "b", (0, 0), "standby")
    assert (restore.bytes, restore.start, restore.end) == (4e9, 0.0, 40.0)
    assert rounds.state.stopped_seconds == 0


def test_all_tasks_at_one_process_without_end_offsets() -> None:
    """The class that runs then notes all pairs of tasks of a process, of which there are millions."""
    application = scaled_out(4_000, standbys=1)
    members = [*application.members, ClassicMember("c", "00000000-0000-0000-0000-000000000003")]
    application = replace(application, members=members, end_offsets=None)
    start = process_time()
    clients = plan_application(application).clients
    assert process_time() - start < 3
    assert {process: len(active) for process, (active, _) in clients.items() if active} == {Q: 4_000}
    assert sorted(len(standby) for _, standby in clients.values()) == [0, 2_000, 2_000]


def test_a_slow_restore_takes_more_probing_rebalances() -> None:
    """130 s, so that the third one, at 180 s, moves the task."""
    assert [
        (e.start, e.cause) for e in list(ClassicRounds(scaled_out(2), {(0, 0): 1.3e10, (0, 1): 1.3e10}, 1e8).run())[1:]
    ] == [(60.0, "probing"), (120.0, "probing"), (180.0, "probing"), (180.0, "at-once")]


def test_tasks_without_state_stop() -> None:
    """The process shares its rate: the small task is restored after twice its time, the large one after the sum."""
    rounds = ClassicRounds(scaled_out(2, has_state=False), {(0, 0): 1e9, (0, 1): 3e9}, 1e8)
    assert [each.stopped for each in rounds.run()] == [2]
    assert rounds.state.stopped_seconds == pytest.approx(60.0)
    ends = {restore.task: restore.end for restore in rounds.state.restores}
    assert ends == {(0, 0): pytest.approx(20.0), (0, 1): pytest.approx(40.0)}


def test_the_number_of_warmups_limits_what_moves() -> None:
    """Six tasks move, two at a time: each time a probing rebalance, and one at once."""
    sizes = {(0, at): 1e6 for at in range(12)}
    rounds = list(ClassicRounds(scaled_out(12), sizes, 1e9).run())
    assert [each.assignment.trace.movements for each in rounds if each.assignment.trace is not None] == [
        6,
        4,
        4,
        2,
        2,
        0,
        0,
    ]
    assert sum(each.moved for each in rounds) == 6


def test_a_task_writes_while_its_warmup_restores() -> None:
    """4 GB at 100 MB/s, of which the task writes 20: 50 s. A process reads 5 GB in this time."""
    growth = {(0, 0): Growth(2e7, 0.0)}
    rounds = ClassicRounds(scaled_out(2), {(0, 0): 4e9, (0, 1): 4e9}, 1e8, growth)
    assert [(each.start, each.cause, each.moved) for each in rounds.run()][1:] == [
        (60.0, "probing", 0),
        (60.0, "at-once", 1),
    ]
    (restore,) = rounds.state.restores
    assert (restore.bytes, restore.end, restore.restored) == (4e9, pytest.approx(50.0), pytest.approx(5e9))


@pytest.mark.parametrize(("records_per_second", "moves_at"), [(0.0, 60.0), (1_000.0, 120.0)])
def test_the_lag_is_that_to_the_end_of_now(records_per_second: float, moves_at: float) -> None:
    """After 60 s, 60 MB of 6.06 GB are missing: 9,901 of 1,000,000 records, or 10,495 of 1,060,000. The acceptable
    lag is 10,000."""
    growth = {(0, 0): Growth(1e6, records_per_second)}
    rounds = list(ClassicRounds(scaled_out(2), {(0, 0): 6e9, (0, 1): 6e9}, 1e8, growth).run())
    assert [each.start for each in rounds if each.moved] == [moves_at]


def test_a_warmup_never_catches_up() -> None:
    """Its task writes as much as the process restores. After the second probing rebalance, nothing can change."""
    growth = dict.fromkeys([(0, 0), (0, 1)], Growth(1e8, 1_000.0))
    rounds = ClassicRounds(scaled_out(2), {(0, 0): 4e9, (0, 1): 4e9}, 1e8, growth)
    assert [(each.start, each.missing) for each in rounds.run()] == [(0.0, 4e9), (60.0, 4e9)]
    assert (rounds.state.num_behind, [each.end for each in rounds.state.restores]) == (1, [None])


def test_a_stopped_task_writes_nothing() -> None:
    """The tasks of a lost host restore as long as if they wrote nothing."""
    sizes = {(0, 0): 1e9, (0, 1): 3e9}
    growth = dict.fromkeys(sizes, Growth(9e7, 0.0))
    rounds = ClassicRounds(scaled_out(2, has_state=False), sizes, 1e8, growth)
    list(rounds.run())
    assert rounds.state.stopped_seconds == pytest.approx(60.0)


def test_a_standby_that_has_caught_up_slows_the_others() -> None:
    """Each gets 50 MB/s, of which its task writes 10: 1 GB takes 25 s. Of 3 GB, 2 are left then, at 100 - 10 - 10."""
    sizes = {(0, 0): 1e9, (0, 1): 3e9}
    rounds = ClassicRounds(scaled_out(2, standbys=1), sizes, 1e8, dict.fromkeys(sizes, Growth(1e7, 0.0)))
    list(rounds.run())
    ends = {restore.task: restore.end for restore in rounds.state.restores if restore.process_id == P}
    assert ends == {(0, 0): pytest.approx(25.0), (0, 1): pytest.approx(50.0)}


def test_growth_of_changelogs() -> None:
    """Without a rate of messages, they are as large as before; a task without rates isn't known to grow."""
    subtopologies = [ClassicSubtopology(["t"], ["l", "m"]), ClassicSubtopology(["u"], ["n"])]
    application = replace(scaled_out(3), subtopologies=subtopologies)
    application = replace(application, num_partitions={"t": 2, "u": 1})
    rows: dict[tuple[str, int], dict[str, float | None]] = {
        ("l", 0): {"end_offset": 100, "bytes": 5_000, "in_bytes_per_second": 50.0},
        ("l", 1): {"end_offset": 0, "bytes": 0, "in_bytes_per_second": 7.0},
        ("m", 0): {"end_offset": 100, "bytes": 500, "in_bytes_per_second": 9.0, "in_messages_per_second": 3.0},
        ("m", 1): {"end_offset": 100, "bytes": 500, "in_messages_per_second": 3.0},
        ("n", 0): {"end_offset": 100, "bytes": 500},
    }
    changelogs = Changelogs(application, rows)
    assert changelogs.sizes == {(0, 0): 5_500, (0, 1): 500, (1, 0): 500}
    assert changelogs.growth == {(0, 0): Growth(59.0, 4.0), (0, 1): Growth(7.0, 0.0)}
    assert changelogs.bytes_per_second == 66.0
    unknown = Changelogs(application, {("l", 0): {"end_offset": 100, "bytes": None}})
    assert (unknown.sizes, unknown.growth, unknown.bytes_per_second) == (None, None, None)


def test_every_recorded_application_gets_where_it_should(seed: int) -> None:
    """At the end, the assignment is the target of the last rebalance, nothing moves, and nothing is left to restore;
    `settle` gets there with other warmups."""
    found = recorded.rows()
    rows = [r for r in found if r["assignor"] == "high-availability" and "model" in r and len(r["members"]) <= 8]
    for row in Random(seed).sample(rows, 12):
        application = recorded.application_of(row)
        followed = list(ClassicRounds(application, dict.fromkeys(application.stateful, 1e9), 1e7).run())
        last = followed[-1].assignment
        assert len(followed) < MAX_ROUNDS, row["case"]
        assert last.is_stable, row["case"]
        assert last.trace is not None
        assert last.trace.movements == 0, row["case"]
        for process, (active, standby) in last.trace.target.items():
            assert active == last.clients[process][0] & application.stateful, row["case"]
            assert standby == last.clients[process][1], row["case"]
        assert {task for tasks in last.members.values() for task in tasks.active} == set(application.tasks), row["case"]
        settled = settle(application)
        assert settled is not None
        for client in read_clients(settled):
            active, standby = last.clients[client.process_id]
            assert (client.previous_active, client.previous_standby) == (active, standby), row["case"]


def test_what_an_application_is_after_all_rebalances() -> None:
    """b has its task, and a has deleted its state; with standbys, each has that of the other; or nobody knows."""
    found = settle(scaled_out(2))
    assert found is not None
    assert {each.member_id: (each.owned, each.offset_sums) for each in found.members} == {
        "a": ([("t", 1)], {(0, 1): RUNNING}),
        "b": ([("t", 0)], {(0, 0): RUNNING}),
    }
    application = scaled_out(2)
    found = settle(replace(application, config=replace(application.config, num_standby_replicas=1)))
    assert found is not None
    assert sum(e.offset_sums == {(0, at): RUNNING, (0, 1 - at): 1_000_000} for e in found.members for at in (0, 1)) == 2
    assert settle(replace(application, end_offsets=None)) is None


def test_no_numbers_restore_without_end() -> None:
    """Sizes below 0, rates that are too small to add, infinity, and what isn't a number."""
    application, tasks = scaled_out(3), [(0, at) for at in range(3)]
    assigned = {"a": MemberTasks({tasks[0]}), "b": MemberTasks({tasks[1]}, {tasks[0], tasks[2]})}
    sizes, rates = [-1e3, 0.0, 5e-324, 1e3, 1e300, inf, nan], [1e-300, 1.0, 1e300, inf]
    for size, rate, growth in product(sizes, rates, [-1.0, 0.0, 5e-324, 1.0, 1e300, inf, nan]):
        written = dict.fromkeys(tasks, Growth(growth, growth))
        state = StateRestores(application, dict.fromkeys(tasks, size), rate, written)
        for until in (0.1, 60.0, 1e300, inf):
            state.assign(assigned, {"a": Q, "b": P})
            state.advance(until)
        assert state.now == inf


class _InRounds(StateRestores):
    """Restores as `StateRestores`, but computes what each task lacks again whenever one is restored."""

    def _restore_in_shares(self, keys: Sequence[tuple[str, TaskId]], now: float, until: float) -> float:
        left = list(keys)
        while left and now < until:
            each = self._rate / len(left)
            times = {key: self._open[key].missing / each for key in left}
            took = min(*times.values(), until - now)
            now += took
            for key in left:
                restore, missing = self._open[key], self._open[key].missing - took * each if times[key] > took else 0
                self.stopped_seconds += took if restore.role == "active" else 0
                self._read(key, took * each, missing, now)
                if key not in self._open and restore.role == "active":
                    self._running_since.setdefault(key[1], now)
            left = [key for key in left if key in self._open]
        return now


@pytest.mark.parametrize("number", [Fraction, float])
def test_restores_in_equal_shares(number: Callable[[int], float]) -> None:
    """The results are those of one round per restored task: the same numbers, if none is rounded."""
    random = Random(5)
    for _ in range(300):
        tasks = [(0, at) for at in range(random.randint(1, 12))]
        sizes = {task: number(random.choice([1, 2, 2, 5, 10**9, 10**9 + 1, 10**12, 10**12 + 1])) for task in tasks}
        roles = {task: random.choice(["active", "standby"]) for task in tasks}
        ends = sorted(number(random.randint(1, 10**13)) for _ in range(3))
        rate, found = number(random.randint(1, 7)), []
        for kind in (StateRestores, _InRounds):
            state = kind(scaled_out(1, has_state=False), sizes, rate)
            state.now = state.stopped_seconds = number(0)
            for at, task in enumerate(tasks):
                state._open[P, task] = Restore(
                    P, "b", task, roles[task], 0, 0, missing=sizes[task], restored=number(at)
                )
            restores = dict(state._open)
            numbers = []
            for until in (*ends, inf):
                state.advance(until)
                numbers += [state.stopped_seconds, state.missing, len(state._open)]
                numbers += [
                    value for each in restores.values() for value in (each.end or 0, each.missing, each.restored)
                ]
                numbers += [state._running_since.get(task, 0) for task in tasks]
            found.append(numbers)
        assert found[0] == (found[1] if number is Fraction else pytest.approx(found[1], rel=1e-8, abs=1e-3))


@pytest.mark.parametrize("number", [4_000, 20_000])
def test_thousands_of_sizes_take_little_time(number: int) -> None:
    """Tasks of one process with changelogs of different sizes, half of them standbys. 20,000 took minutes, and so did
    a few thousand with changelogs that grow, 4,000 here."""
    tasks = [(0, at) for at in range(number)]
    growth = {task: Growth(10.0 + task[1] / number, 1.0) for task in tasks} if number < 20_000 else {}
    state = StateRestores(scaled_out(1, has_state=False), {task: 1e6 + task[1] for task in tasks}, 1e6, growth)
    state.assign({"b": MemberTasks({*tasks[::2]}, {*tasks[1::2]})}, {"b": P})
    start = process_time()
    state.advance(inf)
    assert process_time() - start < 1.5
    assert state.missing == state.num_behind == 0
    assert state.now == inf
