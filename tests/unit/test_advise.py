"""What is advised: each principle, each threshold, each contradiction, and the order of it all; no Spark."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.advice.kernel.advice_items import AdviceParams
from spark_assign.advice.kernel.advise import ADVICE_ROWS, FACT_KINDS, advise
from spark_assign.advice.kernel.streams_settings import STREAMS_ROWS
from spark_assign.tables.parameters import find_fault
from tests.cases import cases

PARAMS = AdviceParams()
Rows = list[dict[str, Any]]


def facts(*rows: dict[str, Any]) -> pa.Table:
    """Rows with all columns; `group_id` g and `cluster` c unless they say otherwise."""
    assert {row["kind"] for row in rows} <= set(FACT_KINDS)
    full = [{"cluster": "c", "group_id": "g", **row} for row in rows]
    names = sorted({name for row in full for name in row} | _ALL)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in full])


def run(
    *rows: dict[str, Any], params: AdviceParams = PARAMS, missing: dict[str, str] | None = None
) -> tuple[Rows, Rows, Rows]:
    """Advice in order, what is not advised, and what is rejected."""
    found = pa.concat_tables(advise(facts(*rows), params, missing or {})).to_pylist()
    by_kind = {k: [row for row in found if row["kind"] == k] for k in ("advice", "not-recommended", "rejected")}
    ranked = sorted(by_kind["advice"], key=lambda r: (r["category_index"], -(r["gain"] or 0), r["group_id"] or ""))
    return ranked, by_kind["not-recommended"], by_kind["rejected"]


def kinds(rows: Rows) -> list[str]:
    """Of advice its kinds."""
    return [row["action"] for row in rows]


def codes(rows: Rows, of: str) -> list[str]:
    """Why nothing is advised about it."""
    return [row["code"] for row in rows if row["adviser"] == of]


_ALL = {
    *("assignor", "verdict", "reason", "members", "needed", "max_load", "max_load_needed", "capacity", "moved"),
    *(
        *("paused_partition_seconds", "keeps_up", "recommendation", "sentence", "settings", "warning_text"),
        "recommended_membership",
    ),
    *(
        *("restart_paused_partition_seconds", "saved_seconds", "follower_fetching", "partitions"),
        *("cost_per_day", "cost_at_least"),
    ),
    *(
        *("cost_at_most", "max_over_mean", "load_max_over_mean", "rejected", "recommended"),
        *("current_assignor", "client_libraries"),
    ),
    *("note", "topic", "partition", "saved_per_day", "bytes_per_day", "groups", "change", "adviser", "code", "detail"),
}


def size(verdict: str, members: int, needed: int | None, assignor: str = "range", **more: Any) -> dict[str, Any]:
    """What `size` says by one assignor."""
    row = {"kind": "size", "assignor": assignor, "verdict": verdict, "members": members, "needed": needed}
    row |= {"reason": f"{verdict} by {assignor}.", "capacity": None if verdict == "unknown" else 100.0}
    row |= {"max_load": 300.0, "max_load_needed": None if needed is None else 80.0}
    return row | {"moved": 6, "paused_partition_seconds": 36.0} | more


def compared(assignor: str, imbalance: float = 1.0, *, recommended: bool = False, **more: Any) -> dict[str, Any]:
    """What `compare` says of one assignor."""
    row = {
        "kind": "compared",
        "assignor": assignor,
        "members": 4,
        "max_over_mean": imbalance,
        "current_assignor": "range",
    }
    row |= {"recommended": recommended, "reason": f"{assignor}: because", "client_libraries": "Java 4"}
    return row | {"paused_partition_seconds": 36.0} | more


def all_compared(**more: Any) -> Rows:
    """Range is as good as any."""
    names = ("range", "roundrobin", "sticky", "cooperative-sticky")
    return [compared(name, recommended=name == "range", **more) for name in names]


def membership(recommendation: str, saved: float, **more: Any) -> dict[str, Any]:
    """What `membership` says."""
    row = {"kind": "membership", "recommendation": recommendation, "saved_seconds": saved, "assignor": "range"}
    row |= {
        "restart_paused_partition_seconds": 400.0,
        "recommended_membership": recommendation.partition("-")[0],
        "settings": "set=it",
        "client_libraries": "Java 4",
        "membership": "dynamic" if recommendation.startswith("static") else "static",
        "protocol": "eager",
    }
    return row | {"summary": f"Make it {recommendation}."} | more


def option(assignor: str, cost: float | None, *, fetching: bool = False, **more: Any) -> dict[str, Any]:
    """What `zones` says of one way."""
    row = {"kind": "option", "assignor": assignor, "follower_fetching": fetching, "cost_per_day": cost, "members": 4}
    return row | {"partitions": 12, "moved": 0 if assignor == "current" else 6, "reason": "as racks say"} | more


def options(today: float, by_range: float, fetching: float | None = None) -> Rows:
    """Today, range and cooperative-sticky; follower fetching saves nothing unless it is said."""
    with_it = today if fetching is None else fetching
    rows = [option("current", today), option("current", with_it, fetching=True)]
    rows += [option("roundrobin", by_range), option("roundrobin", min(by_range, with_it), fetching=True)]
    return rows + [option(name, today, fetching=on) for name in ("cooperative-sticky",) for on in (False, True)]


def move(kind: str, saved: float, partition: int = 0, *, fetching: bool = False, **more: Any) -> dict[str, Any]:
    """A change of replicas."""
    row = {"kind": "move", "group_id": None, "topic": "t", "partition": partition, "follower_fetching": fetching}
    return row | {"change": kind, "saved_per_day": saved, "bytes_per_day": 10**9, "groups": 1} | more


READER = {"kind": "reader", "topic": "t"}


# --- 1. a change has to pay ----------------------------------------------------------------------------------


def test_fewer_members_have_to_pay() -> None:
    """One consumer less is 36 a month, which pays a change of 60 within 12 months, and not within one."""
    found = size("over-provisioned", 5, 4)
    advice, declined, _ = run(found)
    assert (kinds(advice), advice[0]["category"], advice[0]["gain"]) == (["scale-down"], "money", 36.0)
    assert (advice[0]["cost"], advice[0]["payback_months"]) == (60.0, pytest.approx(60 / 36))
    assert codes(declined, "size") == []
    advice, declined, _ = run(found, params=replace(PARAMS, max_payback_months=1))
    assert (advice, codes(declined, "size")) == ([], ["below-cost"])
    assert [row["gain"] for row in declined if row["adviser"] == "size"] == [36.0]
    advice, declined, _ = run(found, params=replace(PARAMS, price_per_consumer_hour=0.0))
    assert codes(declined, "size") == ["below-cost"]


def test_pauses_have_to_pay() -> None:
    """A deploy that pauses 1 second less, four times a month, does not pay a restart of 400 within 12 months."""
    assert kinds(run(membership("static", 10.0))[0]) == ["static"]
    advice, declined, _ = run(membership("static", 1.0))
    assert (advice, codes(declined, "membership")) == ([], ["below-cost"])
    assert kinds(run(membership("static", 1.0), params=replace(PARAMS, deploys_per_month=100))[0]) == ["static"]


def test_pauses_as_money() -> None:
    """With a price of an hour they are money, and have to pay the change."""
    advice, _, _ = run(membership("static", 900.0), params=replace(PARAMS, price_per_paused_hour=10.0))
    assert (advice[0]["category"], advice[0]["gain"]) == ("money", 10.0)
    assert advice[0]["cost"] == pytest.approx(60 + 400 / 360)
    _, declined, _ = run(membership("static", 900.0), params=replace(PARAMS, price_per_paused_hour=1.0))
    assert codes(declined, "membership") == ["below-cost"]


def test_balance_has_to_be_worth_it() -> None:
    """A quarter of what the most loaded member has, unless you say otherwise; by load where that is known."""
    rows = [compared("range", 2.0), compared("cooperative-sticky", 1.5, recommended=True)]
    advice, _, _ = run(*rows)
    assert [(row["action"], row["category"], row["gain"]) for row in advice] == [("assignor", "balance", 25.0)]
    assert advice[0]["settings"].endswith("CooperativeStickyAssignor")
    advice, declined, _ = run(*rows, params=replace(PARAMS, min_balance_gain=0.3))
    assert (advice, codes(declined, "assignor")) == ([], ["below-cost"])
    by_load = [{**row, "load_max_over_mean": load} for row, load in zip(rows, (2.0, 1.9), strict=True)]
    assert codes(run(*by_load)[1], "assignor") == ["below-cost"]


def test_never_fewer_than_the_least() -> None:
    """One would do, two are advised, if it is known what two do; a group of two keeps them."""
    two = {"kind": "curve", "assignor": "range", "members": 2, "keeps_up": True, "moved": 3}
    two["paused_partition_seconds"] = 9.0
    advice, _, _ = run(size("over-provisioned", 8, 1), two)
    assert (advice[0]["gain"], advice[0]["settings"]) == (6 * 36.0, "minReplicaCount: 2")
    assert codes(run(size("over-provisioned", 8, 1), {**two, "keeps_up": False})[1], "size") == ["not-known"]
    assert codes(run(size("over-provisioned", 8, 1))[1], "size") == ["not-known"]
    assert codes(run(size("over-provisioned", 2, 1))[1], "size") == ["nothing-to-do"]
    advice, _, _ = run(size("over-provisioned", 8, 1), params=replace(PARAMS, min_members=1))
    assert advice[0]["settings"] == "minReplicaCount: 1"


# --- 2. and 3. nothing is lost above -------------------------------------------------------------------------


def test_nobody_is_made_to_fall_behind() -> None:
    """Zones would save 10 a day with an assignor that needs more members than there are."""
    sizes = [size("right-sized", 4, 4), size("under-provisioned", 4, 9, "roundrobin")]
    advice, declined, _ = run(*sizes, *all_compared(), *options(12.0, 2.0))
    assert (advice, codes(declined, "zones")) == ([], ["falls-behind"])


def test_members_that_it_needs_more_are_counted() -> None:
    """Two more members cost 72 a month: of the 300 that are saved 228 are left."""
    sizes = [size("over-provisioned", 20, 10), size("over-provisioned", 20, 12, "roundrobin")]
    advice, _, _ = run(*sizes, *all_compared(), *options(12.0, 2.0))
    assert [(row["action"], row["gain"]) for row in advice] == [("scale-down", 8 * 36.0), ("assignor", 228.0)]


def test_nobody_pays_for_balance_or_less_pause() -> None:
    """Cooperative-sticky would cost 10 a day more across zones."""
    rows = [option("current", 2.0), option("cooperative-sticky", 12.0)]
    even = [compared("range", 2.0), compared("cooperative-sticky", 1.0, recommended=True)]
    advice, declined, _ = run(*rows, *even, membership("cooperative", 500.0))
    assert (advice, codes(declined, "membership"), codes(declined, "assignor")) == ([], ["costs-more"], ["costs-more"])


# --- 4. one assignor -----------------------------------------------------------------------------------------


def test_one_assignor_money_first() -> None:
    """Zones has round robin, membership cooperative-sticky, compare sticky: the first; each loser says by what."""
    even = [compared("range", 2.0), compared("sticky", 1.0, recommended=True)]
    others = [compared(name, 1.5) for name in ("roundrobin", "cooperative-sticky")]
    advice, declined, _ = run(*even, *others, *options(12.0, 2.0), membership("cooperative", 500.0))
    assert [(row["action"], row["category"]) for row in advice] == [("assignor", "money")]
    assert advice[0]["settings"].endswith("RoundRobinAssignor")
    assert (codes(declined, "membership"), codes(declined, "assignor")) == (["superseded"], ["superseded"])
    assert all(
        "roundrobin is recommended (300.00 USD a month)" in r["detail"] for r in declined if r["code"] == "superseded"
    )


def test_figures_of_today_go_with_the_assignor() -> None:
    """Static is reckoned with range; with another assignor advised nobody knows what it saves."""
    advice, declined, _ = run(*all_compared(), *options(12.0, 2.0), membership("static", 500.0))
    assert (kinds(advice), codes(declined, "membership")) == (["assignor"], ["superseded"])
    advice, declined, _ = run(*all_compared(), *options(2.0, 2.0), membership("static", 500.0))
    assert kinds(advice) == ["static"]
    assert "autoscaler" in advice[0]["risk"]


def test_the_same_assignor_twice_is_once() -> None:
    """Membership and compare both want cooperative-sticky: it brings both."""
    even = [compared("range", 2.0), compared("cooperative-sticky", 1.0, recommended=True)]
    advice, declined, _ = run(*even, membership("cooperative", 500.0))
    assert (kinds(advice), codes(declined, "assignor")) == (["cooperative"], ["included"])
    assert advice[0]["description"].endswith(" It also gains 50 % (balance).")


def test_the_note_of_a_group_is_in_each_of_its_rows() -> None:
    """That of its current assignor, also if nothing is advised."""
    even = [compared("range", 2.0, note="idle"), compared("sticky", 1.0, recommended=True, note="other")]
    advice, declined, _ = run(*even, membership("keep", 0.0))
    assert [row["note"] for row in advice] == ["idle"]
    assert {row["note"] for row in declined if row["group_id"]} == {"idle"}
    _, declined, _ = run(*all_compared(note="idle"))
    assert {row["note"] for row in declined if row["group_id"]} == {"idle"}


def test_an_assignor_that_cannot_be() -> None:
    """librdkafka has no sticky; a group's own assignor is not given up."""
    even = [compared("range", 2.0), compared("sticky", 1.0, recommended=True)]
    assert kinds(run(*even)[0]) == ["assignor"]
    for other in ({"client_libraries": "librdkafka 4"}, {"current_assignor": "ours"}):
        advice, declined, _ = run(*[{**row, **other} for row in even])
        assert (advice, codes(declined, "assignor")) == ([], ["not-possible"])


# --- 5. how many members -------------------------------------------------------------------------------------


def test_the_size_is_that_of_the_assignor_advised() -> None:
    """Range is enough with 4 of 5, round robin needs all 5: nothing is given back."""
    sizes = [size("over-provisioned", 5, 4), size("right-sized", 5, 5, "roundrobin")]
    advice, declined, _ = run(*sizes, *all_compared(), *options(12.0, 2.0))
    assert (kinds(advice), advice[0]["gain"], codes(declined, "size")) == (
        ["assignor"],
        300.0 - 36.0,
        ["nothing-to-do"],
    )


def test_behind_with_a_better_assignor() -> None:
    """Range needs 12, round robin 8 of 5: one piece of advice with both. Where 5 are enough: the assignor alone."""
    own = size("under-provisioned", 5, 12)
    advice, _, _ = run(own, size("under-provisioned", 5, 8, "roundrobin", max_load=250.0), *all_compared())
    assert (kinds(advice), advice[0]["gain"], advice[0]["cost"]) == (["assignor-scale-up"], 220.0, 108.0)
    assert advice[0]["description"].endswith(" Assignor alone: 50 messages/s.")
    assert advice[0]["settings"].splitlines()[-1] == "minReplicaCount: 8"
    advice, declined, _ = run(own, size("over-provisioned", 5, 4, "roundrobin", max_load=90.0), *all_compared())
    assert (kinds(advice), advice[0]["category"], codes(declined, "size")) == (["assignor"], "behind", ["superseded"])
    advice, _, _ = run(
        own,
        size("under-provisioned", 5, 11, "roundrobin"),
        *all_compared(),
        params=replace(PARAMS, max_payback_months=1),
    )
    assert kinds(advice) == ["scale-up"]
    advice, _, _ = run(
        size("cannot-keep-up", 5, None),
        size("under-provisioned", 5, 40, "sticky"),
        *all_compared(),
        params=replace(PARAMS, max_payback_months=1),
    )
    assert kinds(advice) == ["assignor-scale-up"]


def test_of_two_that_keep_up_the_cheaper() -> None:
    """Both need 8; sticky reads for less across zones. Zones wants it as well: that is included."""
    sizes = [
        size("under-provisioned", 5, 12),
        size("under-provisioned", 5, 8, "roundrobin"),
        size("under-provisioned", 5, 8, "sticky"),
    ]
    rows = [option("current", 12.0), option("roundrobin", 12.0), option("sticky", 2.0)]
    advice, declined, _ = run(*sizes, *rows, *all_compared())
    assert (kinds(advice), codes(declined, "zones")) == (["assignor-scale-up"], ["included"])
    assert "StickyAssignor" in advice[0]["settings"]


def test_no_number_is_enough() -> None:
    """More partitions, which nobody knows the cost of; unknown capacity is a recommendation for the cluster, once."""
    advice, _, _ = run(size("cannot-keep-up", 5, None))
    assert (kinds(advice), advice[0]["cost"]) == (["more-partitions"], None)
    assert advice[0]["gain"] == pytest.approx(300 - 100 / 1.2)
    advice, declined, _ = run(size("unknown", 5, None), {**size("unknown", 5, None), "group_id": "h"})
    assert (kinds(advice), advice[0]["group_id"], codes(declined, "size")) == (["capacity"], None, ["not-known"] * 2)
    assert "for 2 groups" in advice[0]["description"]


# --- of a cluster ----------------------------------------------------------------------------------------------


def test_follower_fetching_once() -> None:
    """Two groups save 4 a day with it: once per cluster, the sum; not where assignors save more without."""
    two = [{**row, "group_id": name} for name in ("g", "h") for row in options(4.0, 4.0, 2.0)]
    advice, _, _ = run(*two)
    assert [(row["action"], row["group_id"], row["gain"]) for row in advice] == [("follower-fetching", None, 120.0)]
    advice, declined, _ = run(*options(4.0, 4.0, 3.9))
    assert (advice, codes(declined, "zones")) == ([], ["below-cost", "nothing-to-do"])
    assert run(*two, params=replace(PARAMS, follower_fetching=True))[0] == []


def test_fetching_and_an_assignor_share_what_is_saved() -> None:
    """Of 20 a day fetching saves 15, round robin 3 of the rest; nothing is counted twice."""
    rows = [option("current", 20.0), option("current", 5.0, fetching=True)]
    rows += [option("roundrobin", 12.0), option("roundrobin", 2.0, fetching=True)]
    advice, _, _ = run(*rows, *all_compared())
    assert [(row["action"], row["gain"]) for row in advice] == [("follower-fetching", 450.0), ("assignor", 90.0)]


def test_replicas() -> None:
    """One change of a partition: a move where what it saves beyond the reorder pays the copy (7 GB at 0.02)."""
    today = option("current", 10.0)
    advice, _, _ = run(today, READER, move("reorder", 2.0), move("move", 5.0))
    assert [(row["action"], row["gain"], row["cost"]) for row in advice] == [("replicas-move", 150.0, 60.14)]
    advice, _, _ = run(today, READER, move("reorder", 2.0), move("move", 5.0, bytes_per_day=10**13))
    assert [(row["action"], row["gain"]) for row in advice] == [("replicas-reorder", 60.0)]
    few = replace(PARAMS, retention_days=0.01)
    advice, _, _ = run(today, READER, move("reorder", 2.0), move("move", 5.0, bytes_per_day=10**13), params=few)
    assert kinds(advice) == ["replicas-move"]
    advice, declined, _ = run(today, READER, move("reorder", 0.1))
    assert (advice, codes(declined, "replicas")) == ([], ["below-cost"])
    assert run(today, READER, move("reorder", 2.0, fetching=True))[0] == []


def test_replicas_of_groups_that_change() -> None:
    """Who reads from where is not known after another assignor or number: these partitions are left alone."""
    rows = [*options(12.0, 2.0), *all_compared(), READER, move("reorder", 2.0)]
    advice, declined, _ = run(*rows)
    assert (kinds(advice), codes(declined, "replicas")) == (["assignor"], ["superseded"])
    advice, declined, _ = run(option("current", 9.0), size("under-provisioned", 4, 6), READER, move("reorder", 2.0))
    assert (kinds(advice), codes(declined, "replicas")) == (["scale-up"], ["superseded"])
    assert kinds(run(*rows[:-2], {**READER, "topic": "other"}, rows[-1])[0]) == ["assignor", "replicas-reorder"]


def test_what_has_to_be_known() -> None:
    """Without rates readings, once; racks where what nobody knows could pay."""
    advice, declined, _ = run(*all_compared(), missing={"size": "no rates", "zones": "no racks"})
    assert (kinds(advice), advice[0]["category"]) == (["readings"], "unknown")
    assert (codes(declined, "size"), codes(declined, "zones")) == (["not-known"], ["not-known"])
    assert all("cost" not in row or row["cost"] is None for row in declined)
    unknown = option("current", None, cost_at_least=1.0, cost_at_most=3.0)
    assert kinds(run(unknown)[0]) == ["racks"]
    assert kinds(run({**unknown, "cost_at_most": 1.1})[0]) == []


# --- Streams applications -----------------------------------------------------------------------------------


def streams(setting: str, value: int, **more: Any) -> dict[str, Any]:
    """What is measured of one value of a setting; the current one unless it is said."""
    row = dict.fromkeys(STREAMS_ROWS.names) | {"kind": "streams", "setting": setting, "value": value}
    row |= {"cluster": "c", "group_id": "g", "is_current": True, "instances": 2, "stateful_tasks": 4}
    return row | {"restored_bytes": 10**9, "stopped_task_seconds": 0.0, "standby_bytes": 10**9} | more


def test_streams_settings_have_to_save_enough() -> None:
    """A minute for which tasks stop, unless you say otherwise; other advisers' rejections aren't repeated."""
    current = streams("num.standby.replicas", 0, moved_without_state=2, stopped_task_seconds=80.0)
    other = streams("num.standby.replicas", 1, moved_without_state=0, stopped_task_seconds=20.0, is_current=False)
    lag = streams("acceptable.recovery.lag", 10, code="not-known", detail="No sizes")
    refused = {"kind": "rejected", "adviser": "zones", "code": "streams-group", "detail": "It has tasks"}
    advice, declined, rejected = run(current, other, lag, refused)
    assert [(r["action"], r["category"], r["gain"], r["cost"]) for r in advice] == [("standbys", "pause", 60.0, 1.0)]
    assert ([(row["adviser"], row["code"]) for row in declined], rejected) == (
        [("replicas", "nothing-to-do"), ("streams", "not-known")],
        [],
    )
    advice, declined, _ = run(current, other, params=replace(PARAMS, min_stopped_task_seconds=61))
    assert (advice, codes(declined, "streams")) == ([], ["below-cost"])
    assert declined[1]["detail"].startswith(
        "Saves 60 task-seconds per lost instance, and the minimum is 61. Keep a standby"
    )
    same = {**other, "stopped_task_seconds": 80.0}
    assert codes(run(current, same, params=replace(PARAMS, min_stopped_task_seconds=0))[1], "streams") == ["below-cost"]


def test_streams_settings_without_a_price() -> None:
    """Standbys that no instance gets, and moves that wait: one is enough."""
    standbys = [streams("num.standby.replicas", 2, unassigned_standby=4)]
    standbys += [streams("num.standby.replicas", 1, unassigned_standby=0, is_current=False)]
    lags = [streams("acceptable.recovery.lag", 10, pending_moves=1, restore_seconds=1.0)]
    lags += [streams("acceptable.recovery.lag", 90, pending_moves=0, restore_seconds=9.0, is_current=False)]
    assert kinds(run(*standbys, *lags)[0]) == ["recovery-lag", "fewer-standbys"]
    assert codes(run({**lags[0], "pending_moves": 0}, lags[1])[1], "streams") == ["below-cost"]


def test_a_rejected_streams_application() -> None:
    """With the reason of the plan of its tasks."""
    refused = [("size", "streams-group"), ("streams", "no-end-offsets")]
    rows = [{"kind": "rejected", "adviser": adviser, "code": code, "detail": "x"} for adviser, code in refused]
    assert [row["code"] for row in run(*rows)[2]] == ["no-end-offsets"]


# --- all of it --------------------------------------------------------------------------------------------------


def test_the_order() -> None:
    """Groups that fall behind, money, pauses, balance, what has to be known; in each the largest gain first."""
    rows = [
        {**size("under-provisioned", 4, 6), "group_id": "behind"},
        {**size("over-provisioned", 9, 4), "group_id": "many"},
        {**size("over-provisioned", 5, 4), "group_id": "some"},
        {**size("unknown", 5, None), "group_id": "unknown"},
        {**membership("static", 500.0), "group_id": "paused"},
        {**membership("static", 900.0), "group_id": "paused more"},
        {**compared("range", 2.0), "group_id": "uneven"},
        {**compared("sticky", 1.0, recommended=True), "group_id": "uneven"},
    ]
    advice, _, _ = run(*rows)
    assert [row["group_id"] for row in advice] == ["behind", "many", "some", "paused more", "paused", "uneven", None]


def test_no_group_is_left_out_and_rows_come_in_any_order(seed: int) -> None:
    """Each is in one of the three; figures are the same to the last digit."""
    rows = [*all_compared(), *options(12.0, 2.0, 7.3), membership("keep", 0.0), size("right-sized", 4, 4), READER]
    rows += [move("reorder", saved / 7, partition) for partition, saved in enumerate(range(1, 30))]
    refused = {"kind": "rejected", "adviser": "membership", "code": "no-members", "detail": "It has none"}
    rows += [{**refused, "group_id": "idle"}, {**option("current", None, members=0), "group_id": "idle"}]
    first = run(*rows)
    assert {row["group_id"] for found in first for row in found} == {"g", "idle", None}
    assert [(row["group_id"], row["code"]) for row in first[2]] == [("idle", "no-members")]
    for _ in range(5):
        Random(seed).shuffle(rows)
        assert run(*rows) == first


@cases(
    "name value",
    ("price_per_gb", -1.0),
    ("change_cost", float("nan")),
    ("max_payback_months", 0.0),
    ("min_members", 0),
    ("min_balance_gain", 0.0),
    ("restore_bytes_per_second", 0.0),
    ("min_stopped_task_seconds", -1.0),
)
def test_values_that_cannot_be(name: str, value: Any) -> None:
    """The name and what is expected."""
    assert name in (find_fault(replace(PARAMS, **{name: value})) or "")
    assert find_fault(PARAMS) is None
    assert set(ADVICE_ROWS.names) >= {"kind", "gain", "cost", "risk", "command"}
