"""Single rounds of the incremental assignors, where recorded rounds hardly go: bounds, and what differs from 2.6."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from spark_assign.assignors.connect import incremental_cooperative_assignor as incremental
from spark_assign.assignors.connect import incremental_cooperative_assignor_2_6 as incremental_2_6
from spark_assign.assignors.connect.connectors_and_tasks import connector_item, task_item
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput, RebalanceResult
from tests.cases import cases

C, *T = connector_item(0), *(task_item(0, index) for index in range(8))
NOW, MAX = 1_000_000, 300_000


def round_of(
    reported: list[list[int]], state: AssignorState, configured: list[int] | None = None, **more: Any
) -> RebalanceInput:
    """Workers 0, 1, … with what they report; the round before was the last completed."""
    wanted = set(T[:4] if configured is None else configured)
    state.generation_id = 7
    values: dict[str, Any] = {
        "workers": list(range(len(reported))),
        "reported": [([item for item in i if item == C], [item for item in i if item != C]) for i in reported],
        "configured": wanted,
        "configured_tasks": len(wanted - {C}),
        "now_ms": NOW,
        "max_delay_ms": MAX,
        "generation_id": 8,
        "last_completed_generation_id": 7,
        "worker_spread_hash": list(range(len(reported))),
        "state": state,
    }
    return RebalanceInput(**values | more)


BOTH = pytest.mark.parametrize("assignor", [incremental, incremental_2_6])


def lost_with(assignor: Any, fields: dict[str, Any], **more: Any) -> RebalanceResult:
    """Worker 0 runs two of four tasks, worker 1 none; worker 2, which had two, left."""
    state = AssignorState(assignment=set(T[:4]), members=[0, 1, 2], **fields)
    return assignor.assign(round_of([T[:2], []], state, **more))


@BOTH
@cases(
    "scheduled max_delay_ms delay",
    (0, MAX, MAX),
    (NOW + 1, MAX, 1),
    (NOW + MAX, MAX, MAX),
    (NOW + MAX, 5_000, 5_000),  # the maximum was lowered meanwhile
    (NOW + 4_999, 5_000, 4_999),
)
def test_the_delay_that_is_left(assignor: Any, scheduled: int, max_delay_ms: int, delay: int) -> None:
    """Until the schedule, never more than the maximum; the schedule follows. Worker 1, empty, is a candidate."""
    result = lost_with(assignor, {"scheduled_rebalance_ms": scheduled, "delay_ms": 9}, max_delay_ms=max_delay_ms)
    assert (result.delay_ms, result.state.scheduled_rebalance_ms) == (delay, NOW + delay)
    assert (result.assigned, result.state.candidates) == ([[], []], [1])
    assert (result.lost, result.waiting) == (2, 2)


@BOTH
def test_a_clock_that_begins_at_0(assignor: Any) -> None:
    """A schedule of 0 is none, and not over, at time 0 too."""
    assert lost_with(assignor, {}, now_ms=0).delay_ms == MAX


@BOTH
@pytest.mark.parametrize("scheduled", [NOW, NOW - 1, 1])
def test_the_delay_is_over(assignor: Any, scheduled: int) -> None:
    """The delay ends at its exact millisecond; the candidate gets the lost items, and the delay is reset."""
    fields = {"scheduled_rebalance_ms": scheduled, "delay_ms": 9, "candidates": [5, 1], "revoked_in_previous": True}
    result = lost_with(assignor, fields)
    assert result.assigned == [[], T[2:4]]
    state = result.state
    assert (state.candidates, state.scheduled_rebalance_ms, state.delay_ms) == ([], 0, 0)
    assert (state.revoked_in_previous, result.lost, result.waiting) == (False, 2, 0)


def test_the_end_of_a_delay_ends_the_row_of_revocations() -> None:
    """Items above a share are revoked in the same rebalance, without another delay (4.x)."""
    state = AssignorState(assignment=set(T[:6]), members=[0, 2], candidates=[1], scheduled_rebalance_ms=NOW)
    state.revoked_in_previous, state.successive_revoking_rebalances = True, 2
    result = incremental.assign(round_of([T[:5], []], state, T[:6]))
    assert (result.assigned, result.revoked, result.delay_ms) == ([[], [T[5]]], {0: set(T[:2])}, 0)
    assert (result.state.revoked_in_previous, result.state.successive_revoking_rebalances) == (True, 2)


@BOTH
def test_a_worker_without_anything_leaves(assignor: Any) -> None:
    """Nothing is lost, so nothing waits."""
    result = assignor.assign(round_of([T[:2], T[2:4]], AssignorState(assignment=set(T[:4]), members=[0, 1, 2])))
    assert (result.delay_ms, result.state.scheduled_rebalance_ms) == (0, 0)


@BOTH
def test_lost_without_departed_workers(assignor: Any) -> None:
    """A worker didn't receive its assignment: the items are new at once, also if workers joined; not during a delay."""
    for reported in ([T[:2], []], [T[:2], [], []]):
        state = AssignorState(assignment=set(T[:4]), members=[0, 1])
        result = assignor.assign(round_of(reported, state))
        assert sum(map(len, result.assigned)) == 2
        assert (result.delay_ms, result.lost, result.waiting) == (0, 2, 0)
    state = AssignorState(assignment=set(T[:4]), members=[0, 1], scheduled_rebalance_ms=NOW + 10)
    assert assignor.assign(round_of([T[:2], []], state)).delay_ms == 10


def test_no_delay_at_all() -> None:
    """With a maximum of 0, Kafka 4.x assigns lost items at once; in 2.6, they wait for the next rebalance."""
    kafka_4 = lost_with(incremental, {}, max_delay_ms=0)
    assert (kafka_4.assigned, kafka_4.delay_ms, kafka_4.waiting) == ([[], T[2:4]], 0, 0)
    kafka_2_6 = lost_with(incremental_2_6, {}, max_delay_ms=0)
    assert (kafka_2_6.assigned, kafka_2_6.delay_ms, kafka_2_6.waiting) == ([[], []], 0, 2)
    assert kafka_2_6.state.scheduled_rebalance_ms == NOW


def test_candidates_are_added_after_known_ones() -> None:
    """Once each, in the walk over their hashes. Who runs only what is deleted is as empty; with 4.x also who runs only
    what another one runs, too."""
    reported = [T[:2], [], [T[7]], [], [T[0]], [C], [T[6]]]
    for assigned, of_4_x, of_2_6 in (
        (set(T[:4]), [3, 8, 4, 1], [3, 8, 1]),
        ({*T[:4], T[7]}, [3, 8, 4, 2, 1], [3, 8, 2, 1]),
    ):
        for assignor, candidates in ((incremental, of_4_x), (incremental_2_6, of_2_6)):
            state = AssignorState(assignment=assigned, members=[0, 9], candidates=[3, 8])
            result = assignor.assign(round_of(reported, state, worker_spread_hash=[0, 4, 3, 2, 1, 0, 0]))
            assert result.state.candidates == candidates


def test_candidates_get_connectors_and_tasks_in_turn() -> None:
    """A connector and three tasks for two candidates, which aren't the first workers."""
    state = AssignorState(assignment={C, *T[:4]}, members=[9], candidates=[2, 7, 1], scheduled_rebalance_ms=1)
    assert incremental.assign(round_of([[T[0]], [], []], state, [C, *T[:4]])).assigned == [[], [T[2]], [C, T[1], T[3]]]


def balance(state: AssignorState, reported: list[list[int]] | None = None, **more: Any) -> RebalanceResult:
    """Worker 0 runs four tasks, worker 1 none (4.x)."""
    state.assignment = set(T[:4])
    return incremental.assign(round_of(reported or [T[:4], []], state, **more))


def test_rounds_in_a_row_that_revoke() -> None:
    """The second waits instead, longer and longer; one in which nothing has to move ends the row."""
    first = balance(AssignorState())
    assert (first.revoked, first.delay_ms) == ({0: set(T[:2])}, 0)
    assert (first.state.revoked_in_previous, first.state.successive_revoking_rebalances) == (True, 0)
    for times, delay in ((0, 40), (1, 1_600), (2, 64_000), (3, MAX)):
        again = balance(AssignorState(revoked_in_previous=True, successive_revoking_rebalances=times))
        assert (again.revoked, again.delay_ms) == ({}, delay)
        assert again.state.scheduled_rebalance_ms == NOW + delay
        assert (again.state.revoked_in_previous, again.state.successive_revoking_rebalances) == (True, times + 1)
    immediate = balance(AssignorState(revoked_in_previous=True, successive_revoking_rebalances=1), max_delay_ms=0)
    assert (immediate.revoked, immediate.delay_ms, immediate.state.scheduled_rebalance_ms) == ({0: set(T[:2])}, 0, 0)
    assert immediate.state.successive_revoking_rebalances == 2
    balanced = balance(AssignorState(revoked_in_previous=True, successive_revoking_rebalances=3), [T[:2], T[2:4]])
    assert (balanced.state.revoked_in_previous, balanced.state.successive_revoking_rebalances) == (False, 0)
    unrevoked = balance(AssignorState(successive_revoking_rebalances=3), [T[:2], T[2:4]])
    assert unrevoked.state.successive_revoking_rebalances == 3


def test_a_delay_ends_with_what_was_lost() -> None:
    """Nothing lost and nothing revoked before: no candidates, no schedule, no delay; but a backoff goes on."""
    fields: dict[str, Any] = {"candidates": [1], "scheduled_rebalance_ms": NOW + 9, "delay_ms": 9}
    for assignor in (incremental, incremental_2_6):
        ended = assignor.assign(round_of([T[:2], T[2:4]], AssignorState(assignment=set(T[:4]), **fields))).state
        assert (ended.candidates, ended.scheduled_rebalance_ms, ended.delay_ms) == ([], 0, 0)
    within = balance(AssignorState(revoked_in_previous=True, successive_revoking_rebalances=2, **fields))
    assert (within.revoked, within.delay_ms) == ({}, 9)
    assert (within.state.revoked_in_previous, within.state.successive_revoking_rebalances) == (False, 2)


@BOTH
def test_a_generation_that_was_not_completed_is_forgotten(assignor: Any) -> None:
    """Then what nobody runs is new, and what is not configured is not known to be deleted; what was revoked and still
    runs, though, makes what is reported the assignment."""
    state = AssignorState(assignment={*T[:4], T[6]}, members=[0, 1, 2])
    result = assignor.assign(round_of([T[:2], [T[6]]], state, last_completed_generation_id=6))
    assert sorted(chain(*result.assigned)) == T[2:4]
    assert (result.revoked, result.lost) == ({}, 0)
    state = AssignorState(assignment={*T[:4], T[6]}, revocation={T[6]}, members=[0, 1, 2])
    result = assignor.assign(round_of([T[:2], [T[6]]], state, last_completed_generation_id=6))
    assert (result.revoked, result.lost) == ({1: {T[6]}}, 0)
    assert result.state.revocation == {T[6]}


def test_duplicated_and_deleted_items() -> None:
    """All holders give up what several run. 2.6 revokes nothing else from them, and remembers as revoked what is
    deleted and nobody reports."""
    reported = [[T[0], T[1], T[7]], [T[1], T[2], T[3]], [T[6]]]
    state = AssignorState(assignment={*T[:4], *T[5:8]})
    kafka_4 = incremental.assign(round_of(reported, state))
    assert kafka_4.revoked == {0: {T[1], T[7]}, 1: {T[1]}, 2: {T[6]}}
    assert kafka_4.state.revocation == {T[1], T[6], T[7]}
    kafka_2_6 = incremental_2_6.assign(round_of(reported, state))
    assert kafka_2_6.revoked == {0: {T[1]}, 1: {T[1]}, 2: {T[6]}}
    assert kafka_2_6.state.revocation == {T[1], T[5], T[6]}
    assert kafka_2_6.state.assignment == {T[0], T[2], T[3]}


def test_balance_of_2_6_is_for_new_workers() -> None:
    """Revokes items above the rounded-up average if a worker has none; not after such a revocation or a delay."""

    def revocations(
        reported: list[list[int]], *, can_revoke: bool = True, **more: Any
    ) -> tuple[dict[int, set[int]], bool]:
        state = AssignorState(assignment=set(T[:5]), can_revoke=can_revoke, members=list(range(len(reported))), **more)
        result = incremental_2_6.assign(round_of(reported, state, [*T[:5]]))
        assert not result.state.revoked_in_previous
        return result.revoked, result.state.can_revoke

    assert revocations([T[:4], [T[4]], []]) == ({0: set(T[:2])}, False)
    assert revocations([T[:4], [T[4]], []], can_revoke=False) == ({}, True)
    assert revocations([T[:4], [T[4]], []], can_revoke=False, revocation={T[2]}) == ({0: set(T[:2])}, False)
    assert revocations([T[:4], [T[4]]]) == ({}, True)  # nobody has nothing
    assert revocations([T[:4], [C]]) == revocations([[], []]) == ({}, True)
    assert revocations([T[:2], T[2:4], [T[4]], []]) == ({}, True)
    departed = AssignorState(assignment=set(T[:4]), members=[0, 1, 2])
    assert incremental_2_6.assign(round_of([T[:2], []], departed)).state.can_revoke is False


def test_an_empty_configuration_is_balanced() -> None:
    """Reported items that were never assigned keep running (4.x)."""
    result = incremental.assign(round_of([T[:3], []], AssignorState(), []))
    assert (result.revoked, result.state.revoked_in_previous) == ({}, False)


@BOTH
def test_the_least_loaded_worker_with_the_lowest_id(assignor: Any) -> None:
    """The first worker in the leader's iteration order isn't preferred."""
    result = assignor.assign(round_of([[], [], []], AssignorState(), [C, *T[:3]], workers=[2, 0, 1]))
    assert result.assigned == [[T[2]], [C, T[0]], [T[1]]]


def test_successive_rebalances_are_a_java_int() -> None:
    """It wraps, and then there is no delay: the items above a share are revoked at once."""
    state = AssignorState(assignment=set(T[:4]), members=[0, 1], revoked_in_previous=True)
    state.successive_revoking_rebalances = 2**31 - 1
    result = incremental.assign(round_of([T[:4], []], state))
    assert (result.state.successive_revoking_rebalances, result.delay_ms) == (-(2**31), 0)
    assert result.revoked == {0: set(T[:2])}
