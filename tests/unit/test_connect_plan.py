"""From facts to results without Spark: orders, states, waiting items, and metrics."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.connect.kernel.indexed_facts import to_facts
from spark_assign.connect.kernel.plan_clusters import plan_clusters
from tests.unit.connect_facts import PLAN_SCHEMA, Result, Tables, cluster, items, merged, results, unfolded


def planned(*tables: Tables, seed: int | None = 3) -> dict[str, Result]:
    """The answers by cluster; the rows shuffled."""
    every = merged(*tables)
    for rows in every.values():
        if seed is not None:
            random.Random(seed).shuffle(rows)
    found = results(every)
    assert [row["detail"] for row in found if row["code"]] == []
    return {row["connect_cluster"]: row | {"state": unfolded(row["state"])} for row in found}


def shares(result: Result, name: str) -> dict[str, list[str]]:
    """Returns the assigned or revoked items of each worker: `c` and `c-0`."""
    found: dict[str, list[str]] = {}
    for row in result[name]:
        assert row["worker_id"] not in found
        found[row["worker_id"]] = sorted(map(_named, row["items"]))
    return found


def _named(row: dict[str, Any]) -> str:
    return row["connector"] if row["task"] is None else f"{row['connector']}-{row['task']}"


def of(
    name: str,
    configured: dict[str, int],
    reported: dict[str, list[str]],
    state: dict[str, Any] | None = None,
    **more: Any,
) -> Tables:
    """Returns a cluster: connectors with their number of tasks, and the reports of the workers."""
    key = {"connect_cluster": name}
    clock = {"protocol": "sessioned", "now_ms": 1_000, "generation_id": 8, "last_completed_generation_id": 7}
    return {
        "clusters": [key | clock | {"max_delay_ms": 300_000} | more],
        "connectors": [key | {"connector": name} for name in configured],
        "tasks": [
            key | {"connector": name, "task": index} for name, count in configured.items() for index in range(count)
        ],
        "workers": [key | {"worker_id": worker} for worker in reported],
        "reported": [key | {"worker_id": worker} | item for worker, runs in reported.items() for item in items(*runs)],
        "state": [] if state is None else [key | {"generation_id": 7} | state],
    }


def test_no_facts_and_no_clusters() -> None:
    """An empty table of the same shape."""
    tables = plan_clusters(to_facts(of("a", {"x": 2}, {"w1": []})).slice(0, 0), PLAN_SCHEMA)
    assert pa.concat_tables(tables).equals(PLAN_SCHEMA.empty_table())


def test_clusters_do_not_mix() -> None:
    """Two clusters with the same names, and one with nothing to run, each as if it were alone."""
    made = [
        of("a", {"x": 2}, {"w1": [], "w2": []}),
        of("b", {"x": 3}, {"w2": ["x", "x-0"], "w3": []}, protocol="eager"),
        of("c", {}, {"w1": []}, protocol="compatible"),
        of("d", {"y": 5}, {"w1": ["y", "y-0", "y-1", "y-2", "y-3", "y-4"], "w2": []}, protocol="compatible-2.6"),
    ]
    together = planned(*made)
    assert together.keys() == {"a", "b", "c", "d"}
    for index, tables in enumerate(made):
        assert planned(tables, seed=index) == {"abcd"[index]: together["abcd"[index]]}
    assert shares(together["a"], "assigned") == {"w1": ["x", "x-0"], "w2": ["x-1"]}
    assert shares(together["b"], "assigned") == {"w2": ["x", "x-1"], "w3": ["x-0", "x-2"]}
    assert (together["c"]["assigned"], together["c"]["revoked"]) == ([], [])
    assert shares(together["d"], "revoked") == {"w1": ["y-0", "y-1"]}
    assert [together[name]["metrics"]["protocol"] for name in "abcd"] == [
        "sessioned",
        "eager",
        "compatible",
        "compatible-2.6",
    ]


def test_the_figures_of_a_round() -> None:
    """w3 left with x-4 and x-5, and w4 runs a deleted task: lost, waiting, before and after."""
    reported = {"w1": ["x", "x-0", "x-1"], "w2": ["x-2", "x-3"], "w4": ["old-0"]}
    every = [*reported["w1"], *reported["w2"], *reported["w4"], "x-4", "x-5"]
    result = planned(of("c", {"x": 7}, reported, {"assignment": items(*every), "members": ["w1", "w2", "w3", "w4"]}))[
        "c"
    ]
    assert shares(result, "revoked") == {"w4": ["old-0"]}
    assert shares(result, "assigned") == {"w4": ["x-6"]}
    assert (result["delay_ms"], result["scheduled_rebalance_ms"]) == (300_000, 301_000)
    assert result["metrics"] == {
        "protocol": "sessioned",
        "rules": "3.5.2",
        "rules_note": "as 3.6.1 to 4.4, because the release is unknown",
        "note": "scheduled.rebalance.max.delay.ms is 300,000, so the lost connectors and tasks (2) wait up to 300 s "
        "for the workers that left",
        "max_waiting": None,
        "max_delay_ms": None,
        "workers": 3,
        "connectors": 1,
        "tasks": 7,
        "assigned": 1,
        "revoked": 1,
        "lost": 2,
        "waiting": 2,
        "min_connectors_before": 0,
        "max_connectors_before": 1,
        "min_tasks_before": 1,
        "max_tasks_before": 2,
        "min_connectors_after": 0,
        "max_connectors_after": 1,
        "min_tasks_after": 1,
        "max_tasks_after": 2,
    }
    state = result["state"]
    assert sorted(map(_named, state["assignment"])) == sorted({*every, "x-6"} - {"old-0"})
    assert [_named(item) for item in state["revocation"]] == ["old-0"]
    assert (state["members"], state["candidates"]) == (["w1", "w2", "w4"], ["w4"])
    assert (state["generation_id"], state["delay_ms"]) == (8, 300_000)
    assert (state["revoked_in_previous"], state["can_revoke"]) == (False, True)


UNSTATED = {"w1": ["x", "x-0"], "w2": ["x-1"]}
"""w3, which ran x-2 and x-3, is gone."""


def test_without_a_state_the_range_is_given() -> None:
    """REST tells neither what the leader remembers nor a delay: at once, or up to the maximum delay of 300 s."""
    metrics = planned(of("c", {"x": 4}, UNSTATED))["c"]["metrics"]
    assert (metrics["assigned"], metrics["waiting"], metrics["max_waiting"], metrics["max_delay_ms"]) == (
        2,
        0,
        2,
        300_000,
    )
    assert metrics["note"] == (
        "the leader's state isn't known: a new leader assigns all connectors and tasks at once, as planned here; one "
        "that remembers who ran 2 of them lets these wait up to 300 s (scheduled.rebalance.max.delay.ms)"
    )
    for unaffected in (
        of("c", {"x": 4}, UNSTATED, max_delay_ms=0),
        of("c", {"x": 4}, UNSTATED, protocol="eager"),
        of("c", {"x": 4}, {"w1": [], "w2": []}),  # nothing has ever run
        of("c", {"x": 4}, UNSTATED, {"members": ["w1", "w2"], "assignment": items("x", "x-0", "x-1")}),
    ):
        assert planned(unaffected)["c"]["metrics"].get("max_waiting") is None


def test_states_of_rest_are_used() -> None:
    """UNASSIGNED tasks had a worker; tasks without a state are new, and are assigned at once in any case."""
    tables = of("c", {"x": 4}, UNSTATED)
    for row, state in zip(tables["tasks"], ("RUNNING", "RUNNING", "UNASSIGNED", None), strict=True):
        row["state"] = state
    assert planned(tables)["c"]["metrics"]["max_waiting"] == 1


def test_an_announced_delay_is_used() -> None:
    """The group says that the last rebalance announced a delay: what no worker runs waits for it."""
    result = planned(of("c", {"x": 4}, UNSTATED, delay_ms=120_000))["c"]
    metrics = result["metrics"]
    assert (metrics["assigned"], metrics["waiting"], metrics.get("max_waiting")) == (0, 2, None)
    assert (result["delay_ms"], result["scheduled_rebalance_ms"]) == (120_000, 121_000)
    assert "wait up to 120 s for the workers that left" in metrics["note"]


def test_assigned_items_do_not_wait() -> None:
    """At the end of the delay the candidate gets both lost tasks; without one they are spread. Both are no longer
    waiting."""
    reported = {"w1": ["x", "x-0", "x-1"], "w3": []}
    state = {"assignment": items("x", "x-0", "x-1", "x-2", "x-3"), "members": ["w1", "w2"]}
    state |= {"scheduled_rebalance_ms": 1_000, "delay_ms": 300_000}
    for candidates in ([], ["w3"], ["w2"]):
        result = planned(of("c", {"x": 4}, reported, state | {"candidates": candidates}))["c"]
        assert shares(result, "assigned") == {"w3": ["x-2", "x-3"]}
        assert (result["metrics"]["lost"], result["metrics"]["waiting"]) == (2, 0)
        assert (result["delay_ms"], result["scheduled_rebalance_ms"]) == (0, 0)
        assert result["state"]["candidates"] == []


def test_eager_starts_everything_and_keeps_the_state() -> None:
    """Only newly assigned items run afterward; the state stays, and no rebalance is scheduled."""
    state = {"scheduled_rebalance_ms": 5_000, "delay_ms": 7, "members": ["w9"], "candidates": ["w8"]}
    result = planned(of("c", {"u": 0, "x": 3}, {"w1": ["x-0", "x-1", "x-2"], "w2": []}, state, protocol="eager"))["c"]
    assert result["scheduled_rebalance_ms"] == 0
    assert (result["state"]["scheduled_rebalance_ms"], result["state"]["members"]) == (5_000, ["w9"])
    figures = result["metrics"]
    assert [figures[f"{bound}_tasks_{time}"] for time in ("before", "after") for bound in ("min", "max")] == [
        0,
        3,
        1,
        2,
    ]
    assert [figures[f"{bound}_connectors_after"] for bound in ("min", "max")] == [1, 1]


def test_a_revocation_of_unreported_items_does_not_count() -> None:
    """Kafka 4.x assigns lost items to w3, the candidate, and revokes them for balance in the same rebalance."""
    reported = {"w1": ["x", "x-0"], "w2": ["x-1"], "w3": []}
    state = {"assignment": items("x", *(f"x-{index}" for index in range(6))), "members": ["w1", "w2", "w4"]}
    state |= {"scheduled_rebalance_ms": 900, "delay_ms": 10, "candidates": ["w3"]}
    result = planned(of("c", {"x": 6}, reported, state))["c"]
    assert shares(result, "assigned") == {"w3": ["x-4", "x-5"]}
    assert shares(result, "revoked") == {"w3": ["x-2", "x-3"]}
    figures = result["metrics"]
    assert (figures["lost"], figures["waiting"]) == (4, 2)
    assert (figures["min_tasks_after"], figures["max_tasks_after"]) == (1, 2)


@pytest.mark.parametrize(("can_revoke", "takes"), [(None, True), (True, True), (False, False)])
def test_a_null_can_revoke_is_as_in_the_beginning(can_revoke: bool | None, takes: bool) -> None:
    """Kafka 2.6 may revoke for balance unless the state doesn't allow it."""
    state = {"can_revoke": can_revoke, "assignment": items("x", "x-0", "x-1", "x-2")}
    made = of("c", {"x": 3}, {"w1": ["x", "x-0", "x-1", "x-2"], "w2": []}, state, protocol="compatible-2.6")
    result = planned(made)["c"]
    assert shares(result, "revoked") == ({"w1": ["x-0"]} if takes else {})
    assert result["state"]["can_revoke"] is not takes


def test_a_state_is_read_field_by_field() -> None:
    """Eager returns it as it is, with sorted items; null fields are as in a new state."""
    state = {
        "assignment": items("x", "x-2", "x-10", "y", "y-1"),
        "revocation": items("x-1", "x-8", "y-2", "y-3", "y-12"),
        "revoked_in_previous": True,
        "can_revoke": False,
        "candidates": ["w3", "w1"],
        "scheduled_rebalance_ms": 12_345_678_901,
        "delay_ms": 17,
        "generation_id": 6,
        "members": ["w5", "w2"],
        "successive_revoking_rebalances": 4,
    }
    unsorted = {
        "assignment": items("y-1", "x-10", "y", "x-2", "x"),
        "revocation": items("y-12", "y-3", "y-2", "x-8", "x-1"),
    }
    initial = {
        "assignment": [],
        "revocation": [],
        "revoked_in_previous": False,
        "can_revoke": True,
        "candidates": [],
        "scheduled_rebalance_ms": 0,
        "delay_ms": 0,
        "generation_id": -1,
        "members": [],
        "successive_revoking_rebalances": 0,
    }
    reported = {"w1": ["x"]}
    results = planned(
        of("all", {"x": 1}, reported, state | unsorted, protocol="eager"),
        of("none", {"x": 1}, reported, dict.fromkeys(initial), protocol="eager"),
        of("no row", {"x": 1}, reported, protocol="eager"),
        of("zero", {"x": 1}, reported, {"generation_id": 0}, protocol="eager"),
    )
    assert results["all"]["state"] == state
    assert results["none"]["state"] == results["no row"]["state"] == initial
    assert results["zero"]["state"] == initial | {"generation_id": 0}


def _placed(made: Tables, table: str, order: list[str]) -> Tables:
    """The rows of a table with positions: those of these workers, or items, in this order."""
    for row in made[table]:
        name = row["worker_id"] if table == "workers" else _named(row)
        if name in order:
            row["position"] = order.index(name)
    return made


@pytest.mark.parametrize(("first", "last"), [("w1", "w2"), ("AaAa", "AaBB"), ("AaBB", "BBBB"), ("a1", "a")])
def test_workers_are_iterated_by_position_or_by_hash(first: str, last: str) -> None:
    """Of 6 tasks w1 and w2 run 3 each, a seventh comes, so that one may keep 3: the first in the walk over a HashMap.

    Names with one hash are walked as they were put in, sorted by id. As soon as one worker has a position, those
    without come last.
    """
    reported = {last: ["x-3", "x-4", "x-5"], first: ["x", "x-0", "x-1", "x-2"], "zz": []}

    def revoking(order: list[str]) -> list[str]:
        made = of("c", {"x": 6, "y": 1}, reported, {"assignment": items("x", *(f"x-{index}" for index in range(6)))})
        other = _placed(cluster("other"), "workers", ["w2"])  # a position in another cluster has no say
        return [*shares(planned(_placed(made, "workers", order), other)["c"], "revoked")]

    assert revoking([]) == revoking([first, last]) == revoking([first]) == [last]
    assert revoking([last, first]) == revoking([last]) == [first]


def test_reports_are_read_by_position_or_serialized() -> None:
    """A worker gives up what it lists first: by position where one row of the cluster has one, those without last;
    else connectors as a HashSet walks them, and their tasks after them."""
    reported = {"w1": ["b-0", "a-0", "a-1", "b-1"], "w2": []}
    state = {"assignment": items(*reported["w1"])}

    def revoked(*order: str, other: str = "") -> list[str]:
        made = _placed(of("c", {"a": 2, "b": 2}, reported, state), "reported", [*order])
        if other:  # a position in another cluster has no say
            made = merged(made, _placed(of("d", {"a": 2, "b": 2}, reported, state), "reported", [other]))
        made = merged(made, of("e", {"a": 2, "b": 2}, reported, state))
        return shares(planned(made)["c"], "revoked")["w1"]

    assert revoked("b-1", "a-1", "a-0", "b-0") == ["a-1", "b-1"]
    assert revoked("b-0") == ["a-0", "b-0"]
    assert revoked("b-1") == ["a-0", "b-1"]
    assert revoked() == revoked(other="b-1") == ["a-0", "a-1"]


@pytest.mark.parametrize(("first", "second"), [("Q", "a"), ("a", "B")])
def test_reports_without_positions_are_serialized(first: str, second: str) -> None:
    """Connectors as a HashSet walks them: `Q` and `a` share bucket 1, `B` is in bucket 2. Tasks follow their
    connectors."""
    reported = {"w1": [second, first, f"{second}-1", f"{second}-0", f"{first}-1", f"{first}-0"], "w2": []}
    result = planned(of("c", {first: 2, second: 2}, reported, {"assignment": items(*reported["w1"])}))["c"]
    assert shares(result, "revoked")["w1"] == [first, f"{first}-0", f"{first}-1"]


def test_orders_of_a_state_are_kept() -> None:
    """Candidates get lost items in the order of the state, for every order of the rows."""
    reported = {"w1": ["x", "x-0"], "w3": [], "w2": []}
    state = {"assignment": items("x", "x-0", "x-1", "x-2"), "members": ["w1"], "candidates": ["w3", "w9", "w2"]}
    state |= {"scheduled_rebalance_ms": 1}
    result = planned(of("c", {"x": 3}, reported, state), cluster("other"))["c"]
    assert shares(result, "assigned") == {"w2": ["x-2"], "w3": ["x-1"]}


def test_a_clock_of_zeros_is_read_as_it_is() -> None:
    """Generation 0 was completed, and with a maximum delay of 0 lost items are assigned at once."""
    state = {"generation_id": 0, "assignment": items("x", "x-0", "x-1"), "members": ["w1", "w2"]}
    clock = {"now_ms": 0, "generation_id": 1, "last_completed_generation_id": 0, "max_delay_ms": 0}
    result = planned(of("c", {"x": 2}, {"w1": ["x", "x-0"]}, state, **clock))["c"]
    assert shares(result, "assigned") == {"w1": ["x-1"]}
    assert (result["metrics"]["lost"], result["metrics"]["waiting"], result["delay_ms"]) == (1, 0, 0)
    setting = "scheduled.rebalance.max.delay.ms is 0, so the lost connectors and tasks (1)"
    assert result["metrics"]["note"] == f"{setting} are assigned at once"
    older = planned(of("c", {"x": 2}, {"w1": ["x", "x-0"]}, state, **clock, protocol="sessioned@3.4.0"))["c"]
    assert older["metrics"]["note"] == f"{setting} aren't assigned"


@pytest.mark.parametrize(
    ("protocol", "rules", "note"),
    [
        ("sessioned@3.6.1", "3.5.2", None),
        ("compatible@3.3.2", "3.3.0", None),
        ("sessioned@7.5.1-ccs", "3.4.0", "as Kafka 3.5.1, but 7.5.1-ccs of Confluent Platform can have later fixes"),
        ("sessioned@7.4.3-ccs", "3.4.0", None),
        ("sessioned@6.0.1-ce", "2.5.1", "as Kafka 2.6.1, but 6.0.1-ce of Confluent Platform can have later fixes"),
        ("sessioned@8.0.0-ccs", "3.5.2", None),
        ("sessioned@5.5.0-ccs", "2.4.0", "as Kafka 2.5.0, but 5.5.0-ccs of Confluent Platform can have later fixes"),
        ("sessioned@2.3.1", "2.4.0", "as 2.4, not 2.3.1"),
        ("sessioned@4.5.0", "3.5.2", "as 4.4, not 4.5.0"),
        ("sessioned@trunk", "3.5.2", "as 3.6.1 to 4.4, because the release is trunk"),
        ("compatible-2.6@4.3.1", "2.6.2", None),
        ("eager@4.3.1", None, None),
    ],
)
def test_the_release_of_the_workers_decides(protocol: str, rules: str | None, note: str | None) -> None:
    """And the plan says which rules it took, and what may differ."""
    metrics = planned(of("c", {"x": 2}, {"w1": ["x"]}, protocol=protocol))["c"]["metrics"]
    assert (metrics["protocol"], metrics["rules"], metrics["rules_note"]) == (protocol.partition("@")[0], rules, note)


def test_uneven_tasks_of_a_connector() -> None:
    """Two connectors are even as a sum, and each has all tasks on one worker; spread tasks have no note."""
    a, b = ([f"{name}-{n}" for n in range(5)] for name in "ab")
    odd = of("f", {"a": 5, "b": 5}, {"w1": ["a", *a], "w2": ["b", *b]})
    a, b = a[:4], b[:4]
    uneven = of("c", {"a": 4, "b": 4}, {"w1": ["a", *a], "w2": ["b", *b]})
    spread = of("d", {"a": 4, "b": 4}, {"w1": ["a", *a[:2], *b[:2]], "w2": ["b", *a[2:], *b[2:]]})
    eager = of("e", {"a": 4}, {"w1": ["a", *a], "w2": []}, protocol="eager")
    found = planned(uneven, spread, eager, odd)
    assert "one worker has 4 of 4 tasks of a, which are on 1 of 2 workers" in found["c"]["metrics"]["note"]
    assert "tasks.max" not in found["c"]["metrics"]["note"]
    assert found["f"]["metrics"]["note"].endswith("fewest. With tasks.max=6, each worker can have the same number")
    assert [found[name]["metrics"]["note"] for name in ("d", "e")] == [None, None]
