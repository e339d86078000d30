"""Which assignor is recommended, and in which words."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from spark_assign.comparison.kernel.recommend import AssignorMetrics, judge_assignors, percent, read_metrics
from tests.cases import cases, keyed


def of(assignor: str, **more: Any) -> AssignorMetrics:
    """A group of 4 members and 100 partitions, balanced, at rest; `more` is what differs."""
    plain: dict[str, Any] = keyed(
        "members=4 partitions=100 max_over_mean=1.0 moved=0 unassigned=0 "
        "stable=True rounds=1 cross_rack_share=None paused=0.0"
    )
    figures = {**plain, **more}
    return AssignorMetrics(assignor, paused_partition_seconds=figures.pop("paused"), **figures)


def recommended(*compared: AssignorMetrics, configured: str | None = None) -> tuple[str, str]:
    """The name and the reason of the one that is recommended; the order of the others must not matter."""
    found = set()
    for order in permutations(compared):
        verdicts = judge_assignors(order, configured)
        assert [reason.split(":")[0] for _, reason in verdicts] == [each.assignor for each in order]
        found |= {(o.assignor, reason) for o, (best, reason) in zip(order, verdicts, strict=True) if best}
    (one,) = found
    return one


def reasons(*compared: AssignorMetrics, configured: str | None = None) -> list[str]:
    """The reasons of all, in order."""
    return [reason for _, reason in judge_assignors(compared, configured)]


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


def test_reasons_of_assignors_that_are_not_recommended() -> None:
    """The decisive figure comes first; what speaks for it is not left out."""
    assert reasons(of("range", max_over_mean=1.53), of("roundrobin", moved=91), of("sticky", moved=3)) == [
        "range: max/mean 1.53 instead of 1.00, though 0 % of partitions move instead of 3 % (against sticky)",
        "roundrobin: 91 % of partitions move instead of 3 %, same balance (against sticky)",
        "sticky: max/mean 1.00 instead of 1.53, though 3 % of partitions move instead of 0 % (against range)",
    ]


@cases(
    "winner loser",
    ({"moved": 100, "max_over_mean": 2.0}, {"stable": False, "rounds": 12}),
    ({"moved": 100, "max_over_mean": 2.0, "cross_rack_share": 1.0}, {"unassigned": 1, "cross_rack_share": 0.0}),
    ({"moved": 100, "cross_rack_share": 1.0}, {"max_over_mean": 1.06, "cross_rack_share": 0.0}),
    ({"moved": 100, "cross_rack_share": 0.1}, {"cross_rack_share": 0.2}),
    ({"moved": 3, "paused": 9_000.0}, {"moved": 5, "paused": 9.0}),
    ({"moved": 6, "paused": 9.0, "max_over_mean": 1.04}, {"moved": 5, "paused": 510.0}),
)
def test_what_stays_for_good_comes_before_what_is_paid_once(winner: dict[str, Any], loser: dict[str, Any]) -> None:
    """Rest, owners, balance, racks, moves, pause: in this order, whatever comes after it; and smaller gaps are none."""
    assert recommended(of("range", **winner), of("cooperative-sticky", **loser))[0] == "range"


def test_equals() -> None:
    """A group keeps what it has; else the cooperative one is taken."""
    name, reason = recommended(of("range"), of("roundrobin"), of("cooperative-sticky"), configured="roundrobin")
    assert (name, reason) == (
        "roundrobin",
        "roundrobin: not worse in any metric, same balance, 0 % of partitions move with both, the group uses it "
        "already (against range)",
    )
    assert recommended(of("range"), of("zigzag"), of("cooperative-sticky"))[0] == "cooperative-sticky"
    assert recommended(of("zigzag"), of("abc"), configured="uniform")[0] == "abc"
    found = reasons(of("range"), of("roundrobin"), configured="range")[1]
    assert found == ("roundrobin: not better, which the group uses already (against range)")


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
    assert recommended(*alone) == ("sticky", "sticky: the only member gets all partitions, with every assignor")
    found = recommended(*alone, configured="range")[1]
    assert found == ("range: the only member gets all partitions, with every assignor, the group uses it already")
    nothing = [of(name, partitions=0, max_over_mean=None) for name in ("range", "sticky")]
    assert recommended(*nothing)[1] == "sticky: there are no partitions to assign, with every assignor"


def test_what_a_group_runs_with_may_not_be_compared() -> None:
    """A group of the new protocol, or with an assignor of its own: it is said, as moving there is another matter."""
    assert recommended(of("range", moved=9), of("sticky"), configured="uniform")[1] == (
        "sticky: 0 % of partitions move instead of 9 %, same balance, the group uses uniform, which isn't "
        "compared (against range)"
    )
    found = recommended(of("range"), configured="uniform")[1]
    assert found == ("range: the only assignor compared, the group uses uniform, which isn't compared")


def test_groups_without_a_plan() -> None:
    """Nothing is recommended without a plan, and a rejection has its code and detail."""
    refused = of("sticky", rejected="kafka-fails", detail="Kafka's StickyAssignor throws here")
    assert reasons(refused) == ["sticky: can't be planned (kafka-fails): Kafka's StickyAssignor throws here"]
    assert not any(best for best, _ in judge_assignors([refused, of("range", members=0, partitions=0)]))
    assert recommended(refused, of("range")) == ("range", "range: the only assignor that can plan the group")
    assert recommended(of("range")) == ("range", "range: the only assignor compared")
    assert reasons(of("range", members=0)) == ["range: the group has no members"]


def test_groups_that_own_nothing() -> None:
    """No topic, no partition: no balance either."""
    nothing = {"partitions": 0, "max_over_mean": None}
    assert recommended(of("range", **nothing), of("sticky", **nothing))[0] == "sticky"


@cases(
    "share text",
    *((0, "0 %"), (0.001, "under 1 %"), (0.005, "under 1 %"), (0.0051, "1 %"), (0.03, "3 %")),
    *((0.9949, "99 %"), (0.995, "over 99 %"), (0.9999, "over 99 %"), (1, "100 %"), (1.5, "150 %")),
)
def test_percents(share: float, text: str) -> None:
    """Something is never nothing, and less than all never all."""
    assert percent(share) == text


SAME, LEAST = "same balance", "0 % of partitions move with both"


@cases(
    "least same more expected",
    ({}, None, {"unassigned": 1}, "0 partitions without an owner instead of 1"),
    ({"unassigned": 1_000}, None, {"unassigned": 1_001}, "1,000 partitions without an owner instead of 1,001"),
    ({}, {"max_over_mean": 1.05}, {"max_over_mean": 1.0501}, "max/mean 1.00 instead of 1.05"),
    ({"max_over_mean": 2.0}, {"max_over_mean": 2.1}, {"max_over_mean": 2.102}, "max/mean 2.00 instead of 2.10"),
    (
        {"cross_rack_share": 0.1},
        {"cross_rack_share": 0.15},
        {"cross_rack_share": 0.1501},
        "10 % cross-rack instead of 15 %",
    ),
    ({"moved": 7}, {"moved": 8}, {"moved": 9}, "7 % of partitions move instead of 9 %"),
    ({"paused": 0.5}, {"paused": 500.5}, {"paused": 500.6}, "0.5 instead of 500.6 partition-seconds paused"),
    (
        {"paused": 10_000.0},
        {"paused": 11_000.0},
        {"paused": 11_050.0},
        "10,000.0 instead of 11,050.0 partition-seconds paused",
    ),
    ({}, None, {"stable": False, "rounds": 10}, "is stable"),
)
def test_thresholds(least: dict[str, Any], same: dict[str, Any] | None, more: dict[str, Any], expected: str) -> None:
    """Up to its threshold a figure is no reason to leave what the group has; just beyond it is, and is what is said."""
    if same is not None:
        name, reason = recommended(of("range", **same), of("sticky", **least), configured="range")
        assert name == "range"
        assert reason.startswith("range: not worse in any metric, same balance")
        assert expected[: expected.index("instead")] not in reason
    name, reason = recommended(of("range", **more), of("sticky", **least), configured="range")
    assert name == "sticky"
    assert reason.startswith(f"sticky: {expected}, ")
    assert reason.endswith(" (against range)")


def test_thresholds_of_moves_and_pauses_grow_with_the_group() -> None:
    """One percent of the partitions, five seconds for each."""
    for partitions, least in ((100, 0), (1_000, 3)):
        for name, slack in (("moved", 0.01), ("paused", 5.0)):
            for over, winner in ((0, "range"), (1, "sticky")):
                more = of("range", partitions=partitions, **{name: least + slack * partitions + over})
                held = (more, of("sticky", partitions=partitions, **{name: least}))
                assert recommended(*held, configured="range")[0] == winner


def test_each_sentence() -> None:
    """What is worse, what is the same and what is better, of the one that is taken and of the one that is not."""
    costly = {"unassigned": 2, "max_over_mean": 1.5, "cross_rack_share": 0.4, "moved": 50, "paused": 2_345.6}
    assert reasons(of("range", stable=False, rounds=12, **costly), of("sticky", cross_rack_share=0.0)) == [
        "range: isn't stable after 12 rounds, 2 partitions without an owner instead of 0, "
        "max/mean 1.50 instead of 1.00, 40 % cross-rack instead of 0 %, 50 % of partitions move instead of 0 %, "
        "2,345.6 instead of 0.0 partition-seconds paused (against sticky)",
        "sticky: is stable, 0 partitions without an owner instead of 2, max/mean 1.00 instead of 1.50, "
        "0 % cross-rack instead of 40 %, 0 % of partitions move instead of 50 %, "
        "0.0 instead of 2,345.6 partition-seconds paused (against range)",
    ]
    assert reasons(of("range", **costly), of("sticky", stable=False, rounds=3, cross_rack_share=0.0))[1] == (
        "sticky: isn't stable after 3 rounds, though 0 partitions without an owner instead of 2, "
        "max/mean 1.00 instead of 1.50, 0 % cross-rack instead of 40 %, 0 % of partitions move instead of 50 %, "
        "0.0 instead of 2,345.6 partition-seconds paused (against range)"
    )


def test_better_than_the_best_but_held_back_by_another() -> None:
    """It lost to a third one by a figure in which the best is close enough to both."""
    compared = (of("range", max_over_mean=1.06), of("sticky", max_over_mean=1.04, moved=10), of("roundrobin", moved=50))
    assert reasons(*compared)[0] == (
        "range: not sufficiently better, same balance, though 0 % of partitions move instead of 10 % (against sticky)"
    )
    assert reasons(*compared, configured="sticky")[0] == (
        "range: not sufficiently better, same balance, which the group uses already, though 0 % of partitions move "
        "instead of 10 % (against sticky)"
    )
    assert reasons(of("range"), of("sticky"))[0] == "range: not better (against sticky)"


def test_racks_count_only_where_both_are_known() -> None:
    """A share that is null is no share of 0: nothing is said of it."""
    for known in (0.4, None):
        name, reason = recommended(of("range", cross_rack_share=known), of("sticky", max_over_mean=1.5))
        assert (name, reason) == ("range", f"range: max/mean 1.00 instead of 1.50, {LEAST} (against sticky)")
        name, reason = recommended(of("range", max_over_mean=1.5, cross_rack_share=known), of("sticky"))
        assert (name, reason) == ("sticky", f"sticky: max/mean 1.00 instead of 1.50, {LEAST} (against range)")


def test_no_balance_is_as_good_as_any() -> None:
    """Null where nothing is owned: it is not held against an assignor."""
    assert recommended(of("range", max_over_mean=None), of("sticky"), configured="sticky")[0] == "range"


def test_where_nobody_comes_to_rest() -> None:
    """Then the other figures decide."""
    unstable = {"stable": False, "rounds": 12}
    name, reason = recommended(of("range", moved=9, **unstable), of("sticky", moved=2, **unstable), configured="range")
    assert (name, reason) == ("sticky", "sticky: 2 % of partitions move instead of 9 %, same balance (against range)")


def test_whom_the_best_is_held_against() -> None:
    """What the group has, else Kafka's default, else whoever costs most: rest, owners, balance, racks, moves, pause."""
    four = (of("cooperative-sticky"), of("sticky", moved=2), of("range", moved=5), of("roundrobin", moved=90))
    for configured, against in (("sticky", "sticky"), (None, "range"), ("uniform", "range"), ("range", "range")):
        assert recommended(*four, configured=configured)[1].endswith(f"(against {against})")
    for dear, cheap in (
        ({"unassigned": 1}, {"max_over_mean": 3.0}),
        ({"max_over_mean": 1.2}, {"cross_rack_share": 0.9}),
        ({"cross_rack_share": 0.9}, {"moved": 90}),
        ({"moved": 90}, {"paused": 9_000.0}),
        ({"paused": 9_000.0}, {}),
    ):
        three = (of("abc", moved=0), of("sticky", **dear), of("roundrobin", **cheap))
        taken, reason = recommended(*three, configured="abc")
        assert taken == "abc"
        assert reason.endswith("(against sticky)")
    assert recommended(of("abc"), of("xyz"), of("uvw"))[1].endswith("(against xyz)")


def test_of_equals_the_first_preferred() -> None:
    """Who moves least in the long run; what Kafka does not know comes last, by name."""
    line = ["cooperative-sticky", "sticky", "range", "roundrobin", "abc", "xyz"]
    for at in range(len(line) - 1):
        assert recommended(*map(of, line[at : at + 3]))[0] == line[at]
    assert recommended(*map(of, line[:3]), configured="range")[0] == "range"
    assert recommended(*map(of, line[2:5]), configured="abc")[0] == "abc"


def test_one_member_may_still_lose_partitions() -> None:
    """The only member gets everything, but that is not said where the assignors differ."""
    found = recommended(of("range", members=1, moved=9), of("sticky", members=1))[1]
    assert found == ("sticky: 0 % of partitions move instead of 9 %, same balance (against range)")
    held_back = (of("range", members=1, max_over_mean=1.06), of("sticky", members=1, max_over_mean=1.04, moved=10))
    assert recommended(*held_back, of("roundrobin", members=1, moved=50))[1] == (
        "sticky: not worse in any metric, same balance, though 10 % of partitions move instead of 0 % (against range)"
    )
    two = [of(name, members=2, paused=1.0) for name in ("range", "sticky")]
    assert recommended(*two)[1] == f"sticky: not worse in any metric, {SAME}, {LEAST} (against range)"


def test_a_refusal_beside_plans() -> None:
    """It keeps its own sentence, and is nobody's reference."""
    refused = of("range", rejected="kafka-fails", detail="boom", moved=99)
    assert reasons(refused, of("sticky"), of("roundrobin", moved=9)) == [
        "range: can't be planned (kafka-fails): boom",
        "sticky: 0 % of partitions move instead of 9 %, same balance (against roundrobin)",
        "roundrobin: 9 % of partitions move instead of 0 %, same balance (against sticky)",
    ]


def test_nothing_moves_where_there_is_nothing() -> None:
    """No partition is no share."""
    nothing = {"partitions": 0, "max_over_mean": None}
    assert recommended(of("range", paused=0.5, **nothing), of("sticky", **nothing))[1] == (
        "sticky: 0.0 instead of 0.5 partition-seconds paused, same balance, 0 % of partitions move with both "
        "(against range)"
    )


ROW = keyed(
    "assignor=range members=3 partitions=7 max_over_mean=1.5 moved=2 unassigned=4 stable=True "
    "rounds=5 cross_rack_share=0.25 paused_partition_seconds=8.5 rejected=r detail=d"
)


def test_figures_of_a_row() -> None:
    """Column by column; null is nothing, and claims of partitions that do not exist are no partitions."""
    assert read_metrics(ROW) == AssignorMetrics("range", 3, 7, 1.5, 2, 4, True, 5, 0.25, 8.5, "r", "d")
    empty = dict.fromkeys(ROW) | {"assignor": "range"}
    assert read_metrics(empty) == AssignorMetrics("range", 0, 0, None, 0, 0, False, 0, None, 0.0, None, None)
    assert read_metrics(ROW | {"unassigned": -2}).unassigned == 0
    assert read_metrics(ROW | {"unassigned": 1}).unassigned == 1
