"""For how long tasks do not run, above all where an event comes before a start is over."""

from __future__ import annotations

import pytest

from spark_assign.assignors.connect.connectors_and_tasks import connector_item, task_item
from spark_assign.connect.kernel.simulated_cluster import ConnectCosts, ConnectTiming
from tests.golden.connect_scripts import Happened
from tests.unit.test_connect_simulation import ADDED, TWO, play

TASK = task_item(0, 0)
SLOW = ConnectTiming(start_ms=1_000, stop_ms=50, rebalance_ms=100)


def started() -> ConnectCosts:
    """A task that is created at 0, and given at 100 to a worker that takes a second to start it."""
    costs = ConnectCosts(start_ms=1_000)
    costs.add_configured([connector_item(0), TASK], 0)
    costs.start([connector_item(0), TASK], 100)
    assert (costs.task_ms_not_running, costs.not_running) == (1_100, 0)
    return costs


@pytest.mark.parametrize(("at_ms", "charged"), [(300, 300), (1_099, 1_099), (1_100, 1_100), (5_000, 1_100)])
def test_a_task_that_is_removed_before_it_is_up(at_ms: int, charged: int) -> None:
    """It does not run until it is no longer configured, and not until it would have been up."""
    costs = started()
    costs.remove_configured([connector_item(0), TASK], at_ms)
    assert costs.task_ms_not_running == charged
    costs.end(9_000)
    assert (costs.task_ms_not_running, costs.not_running) == (charged, 0)


@pytest.mark.parametrize(("at_ms", "charged"), [(500, 500), (1_100, 1_100), (1_500, 1_500)])
def test_removed_while_unassigned(at_ms: int, charged: int) -> None:
    """Its worker leaves while it starts; then it is removed, and later created again."""
    costs = started()
    costs.lose([TASK], 300, {TASK})
    assert costs.not_running == 1
    costs.remove_configured([TASK], at_ms)
    assert (costs.task_ms_not_running, costs.not_running) == (charged, 0)
    costs.add_configured([TASK], 2_000)
    costs.start([TASK], 2_100)
    assert costs.task_ms_not_running == charged + 1_100


@pytest.mark.parametrize(("at_ms", "charged"), [(700, 700), (1_100, 1_100), (1_500, 1_500)])
def test_the_simulation_ends_while_unassigned(at_ms: int, charged: int) -> None:
    """Its worker went before it was up, and no other worker gets it: it has not run until then."""
    costs = started()
    costs.lose([TASK], 300, {TASK})
    costs.end(at_ms)
    assert (costs.task_ms_not_running, costs.not_running) == (charged, 0)


def test_removed_before_it_is_up_and_created_again() -> None:
    """Of the first life nothing is left to be given back."""
    costs = started()
    costs.remove_configured([TASK], 300)
    costs.add_configured([TASK], 400)
    costs.remove_configured([TASK], 500)
    assert costs.task_ms_not_running == 300 + 100


def test_configured_again_before_its_worker_stops_it() -> None:
    """The worker goes on starting it, so that it runs when it would have run anyway."""
    costs = started()
    costs.remove_configured([TASK], 300)
    costs.add_configured([TASK], 400, {TASK})
    assert (costs.task_ms_not_running, costs.not_running) == (300 + 700, 0)
    costs.remove_configured([TASK], 500)
    assert costs.task_ms_not_running == 300 + 100


def test_removed_items_do_not_count() -> None:
    """Connectors and removed tasks don't count; unassigned tasks count until the end."""
    costs = ConnectCosts(start_ms=1_000)
    costs.stop([connector_item(0), TASK], 100, {connector_item(0)})
    costs.lose([connector_item(0), TASK], 100, {connector_item(0)})
    assert (costs.starts, costs.stops, costs.lost_with_worker, costs.not_running) == ([0, 0], [1, 1], 2, 0)
    costs.stop([TASK], 200, {TASK})
    costs.end(700)
    assert costs.task_ms_not_running == 500


@pytest.mark.parametrize("protocol", ["sessioned", "compatible-2.6", "eager"])
def test_a_removed_task_counts_until_its_removal(protocol: str) -> None:
    """Created with its worker at 0, given at 100, removed at 300, long before it is up at 1,100."""
    events: list[Happened] = [TWO[0], (0, "connector-added", "c", 1), (300, "connector-removed", "c", None)]
    _, costs, _ = play(protocol, events, SLOW)
    assert costs.task_ms_not_running == 300


def test_a_connector_that_is_replaced_runs_on() -> None:
    """Removed and added at one time: its worker reports the tasks that are configured, and nothing is handed out."""
    events: list[Happened] = [*TWO, ADDED, (9_000, "connector-removed", "c", None), (9_000, "connector-added", "c", 5)]
    rounds, costs, _ = play("sessioned", events)
    assert [(row["started"], row["stopped"], row["not_running"]) for row in rounds] == [(5, 0, 0), (1, 0, 0)]
    assert costs.task_ms_not_running == 0
