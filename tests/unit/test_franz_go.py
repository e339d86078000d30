"""franz-go's sticky balancers: what is sure in small groups, and what hangs on the order of Go's maps."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from spark_assign.assignors.franz_go import heterogeneous, order_dependence
from spark_assign.assignors.franz_go.balancer_input import (
    FRANZ_GO_1_21,
    FRANZ_GO_1_22,
    NO_MEMBER,
    FranzGoGroup,
    FranzGoRules,
    resolve_owners,
)
from spark_assign.assignors.franz_go.heterogeneous import Steal, plan_heterogeneous
from spark_assign.assignors.franz_go.order_dependence import BalancedGroup, plan_group
from spark_assign.assignors.release_rules import client_assignor
from spark_assign.groups.kernel.convergence import simulate_rounds
from spark_assign.groups.kernel.plan_groups import assign
from spark_assign.groups.planning import find_assignor
from tests.golden import sticky_kernel
from tests.plan_rows import read_specs


def answer(group: FranzGoGroup) -> BalancedGroup:
    """Where every topic is known."""
    return plan_group(group, unmatched_subscriptions=False)


def test_new_members_take_the_last_partitions_in_turn() -> None:
    """One topic: nothing hangs on an order."""
    found = answer(FranzGoGroup(3, [6], [[0, 1, 2]], [0] * 6))
    assert found.owner == [0, 0, 2, 1, 2, 1]
    assert not any(found.order_dependent)


def test_which_topic_is_dealt_first_is_chance() -> None:
    """What members have is sure, and what nobody has is not."""
    found = answer(FranzGoGroup(3, [3, 3], [[0, 1, 2]] * 2, [0, 1, NO_MEMBER, 0, 2, NO_MEMBER]))
    assert found.order_dependent == [False, False, True, False, False, True]


@pytest.mark.parametrize("topics", [1, 4, 40])
def test_a_group_at_rest_is_sure(topics: int) -> None:
    """However many topics it has; also where subscriptions differ."""
    assert not any(answer(FranzGoGroup(2, [2] * topics, [[0, 1]] * topics, [0, 1] * topics)).order_dependent)
    differing = answer(FranzGoGroup(3, [2] * topics, [[0, 1]] * topics, [0, 1] * topics))
    assert differing.owner == [0, 1] * topics
    assert not any(differing.order_dependent)


def test_many_claims_and_topics_take_no_time() -> None:
    """The numbers of their orders, and the states that their returns lead to, aren't counted."""
    size = 1_000_000
    group = FranzGoGroup(3, [1] * size, [[0, 1, 2]] * size, [0] * size)
    assert order_dependence._num_orders(range(size), range(size)) > order_dependence.MAX_ORDERS
    pairs = {partition: 1 + partition // 2_000 for partition in range(4_000)}
    group = FranzGoGroup(4_001, [4_000], [list(range(4_001))], [*range(3, 4_001), 0, 0], pairs)
    assert order_dependence.find_outcomes(group) == []


@pytest.mark.parametrize(("rules", "most"), [(FRANZ_GO_1_22, 200), (FRANZ_GO_1_21, 20_200)])
def test_members_that_cannot_steal_search_once(monkeypatch: pytest.MonkeyPatch, rules: FranzGoRules, most: int) -> None:
    """A hundred members have nothing, and could steal only from a hundred that have one partition each."""
    steals = []
    monkeypatch.setattr(heterogeneous, "Steal", lambda *of: steals.append(of) or Steal(*of))
    owner = [*range(100), 200, 200, 200]
    group = FranzGoGroup(201, [100, 3], [list(range(200)), [200]], owner, {}, rules)
    assert answer(group).owner == owner
    assert len(steals) <= most


def test_what_two_claim_goes_back_by_chance() -> None:
    """Half of six partitions go back to the older claimer: which of them, nobody knows; a seventh stays."""
    owner, stale = resolve_owners(np.repeat([0, 1], [7, 6]), np.array([*range(7), *range(6)]), np.array([2, 1]), 7)
    assert (owner.tolist(), stale) == ([0] * 7, dict.fromkeys(range(6), 1))
    found = answer(FranzGoGroup(2, [7], [[0, 1]], owner.tolist(), stale))
    assert sorted(found.owner) == [0] * 4 + [1] * 3
    assert found.order_dependent == [True] * 6 + [False]


def test_a_topic_without_partitions_counts_if_the_leader_asks_for_it() -> None:
    """Then the group counts as one of differing subscriptions, which gives up other partitions."""
    group = FranzGoGroup(2, [6, 0], [[0, 1], [0]], [0] * 6)
    both = plan_group(group, unmatched_subscriptions=True)
    one, other = plan_group(group, unmatched_subscriptions=False), plan_heterogeneous(group, [0, 1], [])
    assert both.owner == one.owner
    assert both.order_dependent == [here != there for here, there in zip(one.owner, other.owner, strict=True)]


def test_every_order_of_few_topics_is_tried() -> None:
    """Whatever is called sure has that owner in all orders, and what is not has another one in some."""
    group = FranzGoGroup(
        3, [2, 3, 1, 2], [[0, 1], [1, 2], [2], [0, 2]], [0, 0, NO_MEMBER, 1, 1, NO_MEMBER, NO_MEMBER, 0]
    )
    found = answer(group)
    owners = [plan_heterogeneous(group, order, []).owner for order in permutations(range(4))]
    assert found.order_dependent == [len(set(each)) > 1 for each in zip(*owners, strict=True)]
    assert any(found.order_dependent)
    assert not found.order_dependent[5], "it has a single subscriber"


def test_its_cooperative_groups_come_to_rest() -> None:
    """Two rounds: what changes hands is given up in the first and handed out in the second."""
    members = [
        {"id": name, "instance": None, "rack": None, "topics": ["t"], "owned": own, "generation": 1}
        for name, own in (("C0", [["t", at] for at in range(4)]), ("C1", []))
    ]
    specs = read_specs(sticky_kernel.facts([{"case": "c", "topics": {"t": 4}, "members": members}]))
    rounds = simulate_rounds("cooperative-sticky@franz-go", specs, np.ones(1, bool), 5)
    assert rounds is not None
    assert [(each.assigned[0], each.revoked[0], each.stable[0]) for each in rounds] == [(2, 2, False), (4, 0, True)]


@pytest.mark.parametrize("release", ["", "-1.21"])
def test_searches_without_end(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """A group whose members search for too long is rejected, and the others are planned."""
    monkeypatch.setattr(heterogeneous, "MOST_REACHED", 20)

    def row(case: str, size: int) -> dict[str, Any]:
        shared = {"instance": None, "rack": None, "generation": 1}
        owners = [{"id": f"C{at}", "topics": ["t"], "owned": [["t", at]], **shared} for at in range(size)]
        busy = {"id": "D", "topics": ["t"], "owned": [["t", at] for at in range(size, 4 * size)], **shared}
        return {
            "case": case,
            "topics": {"t": 4 * size, "u": 1},
            "members": [*owners, busy, {"id": "E", "topics": ["u"], "owned": [["u", 0]], **shared}],
        }

    specs = read_specs(sticky_kernel.facts([row("a", 9), row("b", 2)]))
    planned = assign(specs, f"sticky@franz-go{release}", np.ones(2, bool))
    assert planned.rejected == {
        0: ("too-many-steals", "11 members, 37 partitions: their balance takes more than 20 steps")
    }
    assert sum(planned.slices.count.tolist()) == 9


def test_its_names() -> None:
    """They stand wherever an assignor's name does."""
    assert find_assignor("sticky@franz-go") == "sticky@franz-go"
    assert client_assignor("range@franz-go") == "range"
