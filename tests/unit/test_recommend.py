"""Which assignor is recommended, and in which words."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from spark_assign.kernels.recommend import Figures, judge, percent


def of(assignor: str, **more: Any) -> Figures:
    """A group of 4 members and 100 partitions, balanced, at rest; `more` is what differs."""
    plain: dict[str, Any] = {
        "members": 4,
        "partitions": 100,
        "max_over_mean": 1.0,
        "moved": 0,
        "unassigned": 0,
        "stable": True,
        "rounds": 1,
        "cross_rack_share": None,
        "paused": 0.0,
    }
    return Figures(assignor, **{**plain, **more})


def recommended(*compared: Figures, configured: str | None = None) -> tuple[str, str]:
    """The name and the reason of the one that is recommended; the order of the others must not matter."""
    found = set()
    for order in permutations(compared):
        verdicts = judge(order, configured)
        assert [each.reason.split(":")[0] for each in verdicts] == [each.assignor for each in order]
        found |= {(o.assignor, v.reason) for o, v in zip(order, verdicts, strict=True) if v.recommended}
    (one,) = found
    return one


def reasons(*compared: Figures, configured: str | None = None) -> list[str]:
    """The reasons of all, in order."""
    return [each.reason for each in judge(compared, configured)]


def test_the_example_of_the_page() -> None:
    """Range is not balanced, roundrobin moves nearly everything."""
    name, reason = recommended(
        of("range", max_over_mean=1.53),
        of("roundrobin", moved=91, paused=20.0),
        of("cooperative-sticky", moved=3, paused=10.0),
    )
    assert name == "cooperative-sticky"
    assert reason == (
        "cooperative-sticky: max/mean 1.00 instead of 1.53, though 3 % of partitions move instead of 0 % "
        "(against range)"
    )
    name, reason = recommended(of("roundrobin", moved=91), of("cooperative-sticky", moved=3))
    assert reason == ("cooperative-sticky: 3 % of partitions move instead of 91 %, same balance (against roundrobin)")


def test_who_is_not_recommended_is_told_why() -> None:
    """The decisive figure comes first; what speaks for it is not left out."""
    assert reasons(of("range", max_over_mean=1.53), of("roundrobin", moved=91), of("sticky", moved=3)) == [
        "range: max/mean 1.53 instead of 1.00, though 0 % of partitions move instead of 3 % (against sticky)",
        "roundrobin: 91 % of partitions move instead of 3 %, same balance (against sticky)",
        "sticky: max/mean 1.00 instead of 1.53, though 3 % of partitions move instead of 0 % (against range)",
    ]


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        ({"moved": 100, "max_over_mean": 2.0}, {"stable": False, "rounds": 12}),
        ({"moved": 100, "max_over_mean": 2.0, "cross_rack_share": 1.0}, {"unassigned": 1, "cross_rack_share": 0.0}),
        ({"moved": 100, "cross_rack_share": 1.0}, {"max_over_mean": 1.06, "cross_rack_share": 0.0}),
        ({"moved": 100, "cross_rack_share": 0.1}, {"cross_rack_share": 0.2}),
        ({"moved": 3, "paused": 9_000.0}, {"moved": 5, "paused": 9.0}),
        ({"moved": 6, "paused": 9.0, "max_over_mean": 1.04}, {"moved": 5, "paused": 510.0}),
    ],
)
def test_what_stays_for_good_comes_before_what_is_paid_once(winner: dict[str, Any], loser: dict[str, Any]) -> None:
    """Rest, owners, balance, racks, moves, pause: in this order, whatever comes after it; and smaller gaps are none."""
    assert recommended(of("range", **winner), of("cooperative-sticky", **loser))[0] == "range"


def test_equals() -> None:
    """A group keeps what it has; else the cooperative one is taken."""
    name, reason = recommended(of("range"), of("roundrobin"), of("cooperative-sticky"), configured="roundrobin")
    assert (name, reason) == (
        "roundrobin",
        "roundrobin: no worse in anything, same balance, 0 % of partitions move with both, the group runs with it "
        "already (against range)",
    )
    assert recommended(of("range"), of("zigzag"), of("cooperative-sticky"))[0] == "cooperative-sticky"
    assert recommended(of("zigzag"), of("abc"), configured="uniform")[0] == "abc"
    assert reasons(of("range"), of("roundrobin"), configured="range")[1] == (
        "roundrobin: no better than it, which the group runs with already (against range)"
    )


def test_a_short_pause_is_no_reason_to_restart_a_group() -> None:
    """Up to five seconds per partition, as with Kafka's default times; more is, and is said."""
    short = of("range", paused=12.5), of("sticky", moved=19, paused=12.5), of("cooperative-sticky", moved=19, paused=65)
    assert recommended(*short, configured="range")[0] == "range"
    assert recommended(*short[1:])[0] == "cooperative-sticky"
    name, reason = recommended(of("range", paused=2_000.0), of("cooperative-sticky", paused=150.0), configured="range")
    assert (name, reason) == (
        "cooperative-sticky",
        "cooperative-sticky: 150.0 instead of 2,000.0 partition-seconds paused, same balance, 0 % of partitions move "
        "with both (against range)",
    )


def test_where_all_assignors_do_the_same() -> None:
    """One member, or nothing to assign: that is said, and not that one is better."""
    alone = [of(name, members=1) for name in ("range", "sticky")]
    assert recommended(*alone) == ("sticky", "sticky: the only member gets everything, whatever the assignor")
    assert recommended(*alone, configured="range")[1] == (
        "range: the only member gets everything, whatever the assignor, the group runs with it already"
    )
    nothing = [of(name, partitions=0, max_over_mean=None) for name in ("range", "sticky")]
    assert recommended(*nothing)[1] == "sticky: there are no partitions to assign, whatever the assignor"


def test_what_a_group_runs_with_may_not_be_compared() -> None:
    """A group of the new protocol, or with an assignor of its own: it is said, as moving there is another matter."""
    assert recommended(of("range", moved=9), of("sticky"), configured="uniform")[1] == (
        "sticky: 0 % of partitions move instead of 9 %, same balance, the group runs with uniform, which is not "
        "compared (against range)"
    )
    assert recommended(of("range"), configured="uniform")[1] == (
        "range: the only one compared, the group runs with uniform, which is not compared"
    )


def test_groups_without_a_plan() -> None:
    """Nothing is recommended where there is nothing to decide, and a refusal is told in Kafka's words."""
    refused = of("sticky", rejected="kafka-fails", detail="Kafka's StickyAssignor throws here")
    assert reasons(refused) == ["sticky: cannot be planned (kafka-fails): Kafka's StickyAssignor throws here"]
    assert not any(each.recommended for each in judge([refused, of("range", members=0, partitions=0)]))
    assert recommended(refused, of("range")) == ("range", "range: the only one that can plan the group")
    assert recommended(of("range")) == ("range", "range: the only one compared")
    assert reasons(of("range", members=0)) == ["range: the group has no members, so there is nothing to decide"]


def test_groups_that_own_nothing() -> None:
    """No topic, no partition: no balance either."""
    nothing = {"partitions": 0, "max_over_mean": None}
    assert recommended(of("range", **nothing), of("sticky", **nothing))[0] == "sticky"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.001, "under 1 %"), (0.03, "3 %"), (0.9951, "over 99 %"), (1, "100 %")],
)
def test_percents(share: float, text: str) -> None:
    """Something is never nothing, and less than all never all."""
    assert percent(share) == text
