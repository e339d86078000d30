"""Advice in full: the complete rows of each change that is recommended, and of each that isn't.

The amounts follow from the defaults: a member costs 0.05 USD an hour, which is 36 USD a month of 720 hours; a change
costs 60 USD once; a month has 30 days and 4 deploys. The facts are built in test_advise.py: with `size`, the most
loaded member has 300 messages/s today and 80 with the number of members that is needed.
"""

from __future__ import annotations

import importlib
import shlex
from dataclasses import replace
from typing import Any

import click
import pyarrow as pa
import pytest

from spark_assign.advice.kernel.advice_items import AdviceParams
from spark_assign.advice.kernel.advise import advise
from tests.unit.test_advise import (
    PARAMS,
    READER,
    Rows,
    all_compared,
    compared,
    facts,
    membership,
    move,
    option,
    options,
    size,
)

Row = dict[str, Any]
UNSEEN = (
    "A leader of librdkafka doesn't see new partitions of a topic that it doesn't subscribe to: they stay unassigned "
    "until the next rebalance, so restart a member."
)

MOVES = "6 partitions move once, with a pause of 36 partition-seconds."
ROLLING = (
    "Two rolling restarts: first with roundrobin added behind range, then with roundrobin alone. Both follow one "
    "protocol, so every client library allows it."
)
ONCE = "Members restart once, one after the other."
MIXED = (
    "Two rolling restarts: first with cooperative-sticky added to range, then with cooperative-sticky alone. Java "
    "allows that. Members on Java 3.0 or later with the default list have both already: the second restart is enough."
)
SWITCH = f"Members restart, and partitions move once. {ROLLING}"
CLASSES = "org.apache.kafka.clients.consumer"


def two_restarts(assignor: str) -> str:
    """The lines to paste to go from range to another assignor."""
    return f"""# Restart the members one at a time with:
partition.assignment.strategy={CLASSES}.RangeAssignor,{CLASSES}.{assignor}
# When all members have restarted, restart them one at a time with:
partition.assignment.strategy={CLASSES}.{assignor}"""


ROUNDROBIN = two_restarts("RoundRobinAssignor")
COMMANDS = {
    "size": "advise size --details 'g' --keda",
    "assignor": "compare --group 'g'",
    "membership": "advise membership --details 'g'",
    "zones": "advise zones --details 'g'",
    "replicas": "advise zones --output LOCATION",
}


def advised(
    category: str,
    adviser: str,
    action: str,
    description: str,
    risk: str = "None.",
    gain: str | None = None,
    cost: str | None = None,
    **more: Any,
) -> Row:
    """A row of a change that is recommended. If the gain per month and the cost are in the same unit, the payback time
    is their ratio."""
    row: Row = {"kind": "advice", "category": category, "adviser": adviser, "action": action, "group_id": "g"}
    row |= {"description": description, "risk": risk, "command": COMMANDS[adviser]}
    for name, amount in {"gain": gain, "cost": cost}.items():
        if amount is not None:
            number, _, row[f"{name}_unit"] = amount.partition(" ")
            row[name] = float(number)
    if gain and cost and row["gain_unit"].removesuffix(" a month") == row["cost_unit"].removesuffix(" once"):
        row["payback_months"] = round(row["cost"] / row["gain"], 6)
    return row | more


def declined(adviser: str, code: str, detail: str, group_id: str | None = "g") -> Row:
    """A row of an adviser that proposes no change."""
    return {"kind": "not-recommended", "adviser": adviser, "code": code, "detail": detail, "group_id": group_id}


def withdrawn(change: Row, code: str, reason: str) -> Row:
    """A row of a change that is proposed, but not recommended: the reason, then what the change is."""
    row = declined(change["adviser"], code, f"{reason}. {change['description']}", change["group_id"])
    return row | {name: change[name] for name in ("action", "gain", "gain_unit", "cost", "cost_unit")}


# --- changes: what most cases have in common ------------------------------------------------------------------


def scaled_down(members: int, before: int, reason: str, gain: str, moves: str = MOVES) -> Row:
    """Fewer members."""
    text = f"Run {members} members instead of {before}. {reason}over-provisioned by range."
    risk = f"{moves} The load comes from the readings, which must include the busiest hours."
    amounts = {"gain": gain, "cost": "60 USD once"}
    return advised("money", "size", "scale-down", text, risk, settings=f"minReplicaCount: {members}", **amounts)


def switched_and_scaled_up(gain: str, alone: str = "") -> Row:
    """Round robin and 8 members instead of range and 5: three more cost 108 USD a month."""
    return advised(
        *("behind", "size", "assignor-scale-up"),
        "Use roundrobin: 8 members keep up with it, and 12 members with range. The group has 5. Run 8 members instead "
        f"of 5. under-provisioned by roundrobin.{alone}",
        f"{SWITCH} {MOVES}",
        settings=f"{ROUNDROBIN}\nminReplicaCount: 8",
        gain=gain,
        cost="108 USD a month",
    )


def rejoined(mode: str, risk: str, gain: str = "2000 partition-seconds a month", also: str = "") -> Row:
    """Another kind of membership; its restart pauses 400 partition-seconds."""
    amounts = {"gain": gain, "cost": "400 partition-seconds once"}
    return advised("pause", "membership", mode, f"Make it {mode}.{also}", risk, settings="set=it", **amounts)


def balanced(assignor: str, own: float, best: float, gain: str, unit: str = "partitions", **more: Any) -> Row:
    """A better balance than that of range."""
    text = f"Use {assignor}: its most loaded member has {best:.2f} times the mean in {unit}, and {own:.2f} times"
    amounts = {"gain": gain, "cost": "36 partition-seconds once"}
    return advised("balance", "assignor", "assignor", f"{text} with range.", **amounts, **more)


def near(costs: str = "2.00 USD a day instead of 12.00.", gain: str = "300 USD a month") -> Row:
    """Round robin, because its cross-zone reads cost less."""
    text, risk = f"Use roundrobin: its cross-zone reads cost {costs}", f"6 of 12 partitions move once. {ROLLING}"
    return advised("money", "zones", "assignor", text, risk, settings=ROUNDROBIN, gain=gain, cost="60 USD once")


def fetched(per_day: str, gain: str) -> Row:
    """Follower fetching."""
    return advised(
        *("money", "zones", "follower-fetching"),
        f"Let consumers read from replicas in their rack. In total, 1 group saves {per_day} USD a day, and no "
        "partition moves.",
        "Followers are slightly behind the leader. All brokers restart once. Consumers need client.rack, and a client "
        "library that supports KIP-392.",
        command="advise zones",
        settings="replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
        group_id=None,
        gain=gain,
        cost="60 USD once",
    )


NO_MOVE = declined("replicas", "nothing-to-do", "No change of replicas reduces the cross-zone traffic", group_id=None)
NEAREST = declined("zones", "nothing-to-do", "No assignor reduces the cross-zone traffic")
BEST = declined("assignor", "nothing-to-do", "range: because")
RIGHT_SIZED = declined("size", "nothing-to-do", "right-sized by range.")


def case(
    name: str,
    rows: Rows,
    advice: Rows,
    not_recommended: Rows | None = None,
    *,
    of_cluster: Rows | None = None,
    params: AdviceParams = PARAMS,
    missing: dict[str, str] | None = None,
) -> Any:
    """Facts, and all rows that they lead to, in order: advice, then what isn't recommended for the cluster (by default,
    no change of replicas), then what isn't for the group."""
    expected = [*advice, *([NO_MOVE] if of_cluster is None else of_cluster), *(not_recommended or [])]
    return pytest.param(rows, expected, params, missing or {}, id=name)


CASES = [
    case(
        "fewer members",
        [size("over-provisioned", 5, 4)],
        [scaled_down(4, 5, "", gain="36 USD a month")],
    ),
    # One would keep up, and two are the minimum: six members less, at 36 each.
    case(
        "members in reserve",
        [
            size("over-provisioned", 8, 1),
            {"kind": "curve", "assignor": "range", "members": 2, "keeps_up": True, "moved": 3}
            | {"paused_partition_seconds": 9.0},
        ],
        [
            scaled_down(
                *(2, 8, "1 keep up; the rest are a reserve for failures. "),
                gain="216 USD a month",
                moves="3 partitions move once, with a pause of 9 partition-seconds.",
            )
        ],
    ),
    case(
        "too few to give up",
        [size("over-provisioned", 2, 1)],
        [],
        [
            declined(
                *("size", "nothing-to-do"),
                "No group is advised to have fewer than 2 members. over-provisioned by range.",
            )
        ],
    ),
    case("enough members", [size("right-sized", 4, 4)], [], [RIGHT_SIZED]),
    # The most loaded member has 80 messages/s instead of 300; two more members cost 36 each.
    case(
        "more members",
        [size("under-provisioned", 4, 6)],
        [
            advised(
                *("behind", "size", "scale-up"),
                "Run 6 members instead of 4. under-provisioned by range.",
                MOVES,
                settings="minReplicaCount: 6",
                gain="220 messages/s",
                cost="72 USD a month",
            )
        ],
    ),
    # From 300 messages/s with range and 5 members to 80 with round robin and 8; what 5 have with it doesn't count.
    case(
        "another assignor and more members",
        [
            size("under-provisioned", 5, 12),
            size("under-provisioned", 5, 8, "roundrobin", max_load=250.0),
            *all_compared(),
        ],
        [switched_and_scaled_up(gain="220 messages/s", alone=" Assignor alone: 50 messages/s.")],
    ),
    # The load of the most loaded member becomes no smaller.
    case(
        "no relief",
        [
            size("under-provisioned", 5, 12),
            size("under-provisioned", 5, 8, "roundrobin", max_load_needed=310.0),
            *all_compared(),
        ],
        [switched_and_scaled_up(gain="0 messages/s")],
    ),
    # From 300 messages/s to 90 with as many members. The pause is that of the comparison.
    case(
        "another assignor alone",
        [
            size("under-provisioned", 5, 12),
            size("over-provisioned", 5, 4, "roundrobin", max_load=90.0),
            *all_compared(),
        ],
        [
            advised(
                *("behind", "assignor", "assignor"),
                "Use roundrobin: 4 members keep up with it, and 12 members with range. The group has 5.",
                SWITCH,
                settings=ROUNDROBIN,
                gain="210 messages/s",
                cost="36 partition-seconds once",
            )
        ],
        [
            declined(
                *("size", "superseded"),
                "The group falls behind today. Switch to roundrobin first, and run advise again",
            )
        ],
    ),
    # A capacity of 100 messages/s with a headroom of 20 % is 83.333333 of the 300.
    case(
        "no number of members",
        [size("cannot-keep-up", 5, None)],
        [
            advised(
                *("behind", "size", "more-partitions"),
                "cannot-keep-up by range.",
                "Keys move to other partitions, which affects consumers that rely on the order of keys, and joins with "
                "other topics.",
                command="advise size --details 'g'",
                gain="216.666667 messages/s",
            )
        ],
    ),
    case(
        "new partitions that a leader of librdkafka doesn't see",
        [size("cannot-keep-up", 5, None), *all_compared(client_libraries="librdkafka 4")],
        [
            advised(
                *("behind", "size", "more-partitions"),
                "cannot-keep-up by range.",
                "Keys move to other partitions, which affects consumers that rely on the order of keys, and joins with "
                f"other topics. {UNSEEN}",
                command="advise size --details 'g'",
                gain="216.666667 messages/s",
            )
        ],
        [declined("assignor", "nothing-to-do", "range: because")],
    ),
    case(
        "unknown capacity",
        [size("unknown", 5, None)],
        [
            advised(
                *("unknown", "size", "capacity"),
                "Set the capacity of a member: it is unknown for 1 group, because no member has lag.",
                command="advise size --capacity 'GLOB=RATE'",
                settings="groups.capacity",
                group_id=None,
            )
        ],
        [declined("size", "not-known", "unknown by range.")],
    ),
    # 500 partition-seconds less in each of four deploys.
    case(
        "static members",
        [membership("static", 500.0)],
        [
            rejoined(
                "static",
                "The partitions of a static member wait for it: if an autoscaler removes it, or if it crashes for "
                f"good, no other member reads them until its session expires. {ONCE}",
            )
        ],
    ),
    case(
        "cooperative members",
        [
            membership("cooperative", 500.0, warning_text="It warns."),
            compared("range", 2.0),
            compared("cooperative-sticky", 1.0, recommended=True),
        ],
        [rejoined("cooperative", f"It warns. {MIXED}", also=" It also gains 50 % (balance).")],
        [
            withdrawn(
                balanced("cooperative-sticky", 2.0, 1.0, gain="50 %"),
                "included",
                "cooperative-sticky is already recommended (pause), which includes this change",
            )
        ],
    ),
    case(
        "no other membership",
        [membership("keep", 0.0)],
        [],
        [declined("membership", "nothing-to-do", "Make it keep.")],
    ),
    # 1 second less, four times a month.
    case(
        "a pause that is hardly shorter",
        [membership("dynamic", 1.0)],
        [],
        [
            withdrawn(
                rejoined("dynamic", ONCE, gain="4 partition-seconds a month"),
                "below-cost",
                "4.00 partition-seconds a month doesn't pay 400.00 partition-seconds once within 12 months",
            )
        ],
    ),
    # Of 2.0 times the mean, 1.5 are a quarter less.
    case(
        "better balance",
        [compared("range", 2.0), compared("cooperative-sticky", 1.5, recommended=True)],
        [
            balanced(
                *("cooperative-sticky", 2.0, 1.5),
                gain="25 %",
                risk="Members restart, and partitions move once. Two rolling restarts: first with cooperative-sticky "
                "added to range, then with cooperative-sticky alone. Java allows that. Members on Java 3.0 or later "
                "with the default list have both already: the second restart is enough.",
                settings=two_restarts("CooperativeStickyAssignor"),
            )
        ],
    ),
    case(
        "hardly better balance",
        [compared("range", 2.0), compared("cooperative-sticky", 1.9, recommended=True)],
        [],
        [
            withdrawn(
                balanced("cooperative-sticky", 2.0, 1.9, gain="5 %"),
                "below-cost",
                "Reduces the load of the most loaded member by 5%, less than 25%",
            )
        ],
    ),
    case(
        "better balance of messages",
        [
            compared("range", 1.0, load_max_over_mean=4.0),
            compared("sticky", 1.0, recommended=True, load_max_over_mean=1.0),
        ],
        [
            balanced(
                *("sticky", 4.0, 1.0),
                gain="75 %",
                unit="messages",
                risk=SWITCH.replace("roundrobin", "sticky"),
                settings=two_restarts("StickyAssignor"),
            )
        ],
    ),
    case(
        "no recommendation",
        [compared("range", 2.0), compared("sticky", 1.0)],
        [],
        [declined("assignor", "not-known", "range: because")],
    ),
    case(
        "an assignor that the library doesn't have",
        [
            compared("range", 2.0, client_libraries="librdkafka 4"),
            compared("sticky", 1.0, recommended=True, client_libraries="librdkafka 4"),
        ],
        [],
        [declined("assignor", "not-possible", "sticky: because")],
    ),
    case(
        "a rack-aware assignor",
        [*options(1.0, 0.5), *all_compared()],
        [near("0.50 USD a day instead of 1.00.", gain="15 USD a month")],
        [BEST],
    ),
    # A pause of 36 seconds at 100 USD an hour is 1 USD. An unknown number of moved partitions is shown as 0.
    case(
        "the own assignor",
        [
            option("current", 12.0),
            option("range@3.5", 2.0, moved=None),
            compared("range@3.5", 1.0, recommended=True, current_assignor="range@3.5"),
        ],
        [
            advised(
                *("money", "zones", "rebalance"),
                "Rebalance with range@3.5, which is rack-aware in Java clients since 3.5: its cross-zone reads cost "
                "2.00 USD a day instead of 12.00.",
                "0 of 12 partitions move once.",
                gain="300 USD a month",
                cost="61 USD once",
            )
        ],
        [declined("assignor", "nothing-to-do", "range@3.5: because")],
        params=replace(PARAMS, price_per_paused_hour=100.0),
    ),
    # Of 300, two more members cost 72.
    case(
        "an assignor that needs more members",
        [
            size("over-provisioned", 20, 20),
            size("right-sized", 20, 22, "roundrobin"),
            *all_compared(),
            *options(12.0, 2.0),
        ],
        [
            near(
                "2.00 USD a day instead of 12.00. It needs more members, which cost 72.00 USD a month.",
                gain="228 USD a month",
            )
        ],
        [declined("size", "nothing-to-do", "right-sized by roundrobin."), BEST],
    ),
    # Of 300, five more members cost 180.
    case(
        "an assignor that makes it fall behind",
        [
            size("right-sized", 4, 4),
            size("under-provisioned", 4, 9, "roundrobin"),
            *all_compared(),
            *options(12.0, 2.0),
        ],
        [],
        [
            RIGHT_SIZED,
            BEST,
            withdrawn(
                near(
                    "2.00 USD a day instead of 12.00. It needs more members, which cost 180.00 USD a month.",
                    gain="120 USD a month",
                ),
                "falls-behind",
                "With roundrobin, 9 members are needed, and the group has 4",
            ),
        ],
    ),
    # 10 USD a day more.
    case(
        "balance that costs more",
        [
            option("current", 2.0),
            option("cooperative-sticky", 12.0),
            compared("range", 2.0),
            compared("cooperative-sticky", 1.0, recommended=True),
        ],
        [],
        [
            withdrawn(
                balanced("cooperative-sticky", 2.0, 1.0, gain="50 %"),
                "costs-more",
                "With cooperative-sticky, the group costs 300.00 USD a month more",
            ),
            NEAREST,
        ],
    ),
    case(
        "two assignors",
        [*options(12.0, 2.0), *all_compared(), membership("cooperative", 500.0)],
        [near()],
        [
            BEST,
            withdrawn(
                rejoined("cooperative", ""),
                "superseded",
                "The figures are valid for cooperative-sticky, but roundrobin is recommended (300.00 USD a month). Run "
                "advise again after that change",
            ),
        ],
    ),
    case(
        "follower fetching",
        [*options(4.0, 4.0, 2.0)],
        [fetched("2.00", gain="60 USD a month")],
        [NEAREST],
    ),
    # 3 USD in each of twelve months are less than 60.
    case(
        "follower fetching that saves little",
        [*options(4.0, 4.0, 3.9)],
        [],
        [NEAREST],
        of_cluster=[
            withdrawn(
                fetched("0.10", gain="3 USD a month"),
                "below-cost",
                "3.00 USD a month doesn't pay 60.00 USD once within 12 months",
            ),
            NO_MOVE,
        ],
    ),
    # Partition 0 moves, because that saves 3 USD a day more than a reorder. 7 days of 1 GB at 0.02 USD are 0.14 USD.
    case(
        "replicas",
        [
            option("current", 10.0),
            READER,
            move("reorder", 2.0),
            move("move", 5.0),
            move("reorder", 3.0, 1),
            move("move", 4.0, 2),
        ],
        [
            advised(
                *("money", "replicas", "replicas-reorder"),
                "Make another replica the leader of 1 partition, in the rack that reads most: saves 3.00 USD a day.",
                "Copies no data. Leaders might be spread less evenly over brokers; check this with replicas check.",
                settings="kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/reorder/…",
                gain="90 USD a month",
                cost="60 USD once",
                group_id=None,
            ),
            advised(
                *("money", "replicas", "replicas-move"),
                "Move a replica of 2 partitions to the rack that reads most: saves 9.00 USD a day.",
                "Copies logs once: 7 days of data, for 0.28 USD. Kafka's tools can throttle it.",
                settings="kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/move/…",
                gain="270 USD a month",
                cost="60.28 USD once",
                group_id=None,
            ),
        ],
        [NEAREST],
        of_cluster=[],
    ),
    case(
        "replicas and another assignor",
        [*options(12.0, 2.0), *all_compared(), READER, move("reorder", 2.0)],
        [near()],
        [BEST],
        of_cluster=[
            declined(
                *("replicas", "superseded"),
                "1 partition has no replica where they are read, which costs 60.00 USD a month. Other advice changes "
                "the owners of these partitions. Run advise again after that change",
                group_id=None,
            )
        ],
    ),
    case(
        "missing tables",
        [*all_compared()],
        [
            advised(
                *("unknown", "size", "readings"),
                "Take readings: without rates, it is unknown which groups fall behind or have too many members.",
                command="snapshot --interval 60s --times 5",
                group_id=None,
            )
        ],
        [BEST],
        of_cluster=[
            declined("size", "not-known", "no rates", group_id=None),
            declined("zones", "not-known", "no racks", group_id=None),
        ],
        missing={"size": "no rates", "zones": "no racks"},
    ),
    # Between 1 and 3 USD a day.
    case(
        "missing racks",
        [option("current", None, cost_at_least=1.0, cost_at_most=3.0)],
        [
            advised(
                *("unknown", "zones", "racks"),
                "Set the racks of all members and brokers: the cross-zone traffic of 1 group is unknown, and might "
                "cost up to 60.00 USD a month more.",
                command="advise zones",
                settings="client.rack, broker.rack",
                group_id=None,
            )
        ],
        [declined("zones", "not-known", "as racks say")],
    ),
    # It is enough that one assignor has a plan.
    case(
        "rejected",
        [
            {"kind": "rejected", "adviser": "size", "code": "no-plan", "detail": "It has no plan"},
            {"kind": "rejected", "adviser": "zones", "code": "no-owners", "detail": "Nobody owns"},
            size("right-sized", 4, 4),
        ],
        [],
        [RIGHT_SIZED, declined("zones", "no-owners", "Nobody owns")],
    ),
]


@pytest.mark.parametrize(("rows", "expected", "params", "missing"), CASES)
def test_rows_in_full(rows: Rows, expected: Rows, params: AdviceParams, missing: dict[str, str]) -> None:
    """What changes, for what gain, cost, and risk, by which command and settings, or why not."""
    found = pa.concat_tables(advise(facts(*rows), params, missing)).to_pylist()
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        shown = {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
        assert {name: value for name, value in shown.items() if value is not None and name not in UNCHECKED} == {
            name: value for name, value in other.items() if value is not None
        }


UNCHECKED = ("cluster", "category_index")
"""Columns that are the same in all cases, or that follow from another one."""


@pytest.mark.parametrize(
    "command", sorted({row["command"] for each in CASES for row in each.values[1] if "command" in row})
)
def test_commands_are_accepted(command: str) -> None:
    """Each command names a job, and options that it has."""
    job, *words = shlex.split(command)
    main = importlib.import_module(f"jobs.{job}").main
    main = main.commands[words.pop(0)] if words and words[0] in main.commands else main
    _, left, _ = main.make_parser(click.Context(main)).parse_args(words)
    assert left == []
