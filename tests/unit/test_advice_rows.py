"""Advice in full: the complete rows of each change that is recommended, and of each that isn't."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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

Amount = tuple[float | None, str | None]
"""A number and its unit."""

ROLLING = (
    "Two rolling restarts: first with roundrobin added behind range, then with roundrobin alone. Both follow one "
    "protocol, so every client library allows it."
)
SWITCH = f"Members restart, and partitions move once. {ROLLING}"
ROUNDROBIN = "partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor"
ZONES = "Use roundrobin: its cross-zone reads cost 2.00 USD a day instead of 12.00."


def advised(
    category: str,
    adviser: str,
    action: str,
    description: str,
    risk: str,
    command: str,
    settings: str | None = None,
    group_id: str | None = "g",
    **amounts: Any,
) -> dict[str, Any]:
    """A row of a change that is recommended."""
    row = {"kind": "advice", "category": category, "adviser": adviser, "action": action, "group_id": group_id}
    row |= {"description": description, "risk": risk, "command": command, "settings": settings}
    return row | spelled_out(**amounts)


def declined(
    adviser: str, code: str, detail: str, action: str | None = None, group_id: str | None = "g", **amounts: Any
) -> dict[str, Any]:
    """A row of a change that isn't recommended."""
    row = {"kind": "not-recommended", "adviser": adviser, "code": code, "detail": detail, "action": action}
    return row | {"group_id": group_id} | spelled_out(**amounts)


def spelled_out(
    gain: Amount = (None, None), cost: Amount = (None, None), payback_months: float | None = None
) -> dict[str, Any]:
    """The columns of a gain and a cost."""
    row = {"gain": gain[0], "gain_unit": gain[1], "cost": cost[0], "cost_unit": cost[1]}
    return row | {"payback_months": payback_months}


NO_MOVE = declined("replicas", "nothing-to-do", "No change of replicas reduces the cross-zone traffic", group_id=None)


def case(
    name: str, rows: Rows, expected: Rows, params: AdviceParams = PARAMS, missing: dict[str, str] | None = None
) -> Any:
    """Facts, and all rows that they lead to, in order."""
    return pytest.param(rows, expected, params, missing or {}, id=name)


CASES = [
    # A consumer costs 36 USD a month.
    case(
        "fewer members",
        [size("over-provisioned", 5, 4)],
        [
            advised(
                "money",
                "size",
                "scale-down",
                "Run 4 members instead of 5. over-provisioned by range.",
                "6 partitions move once, with a pause of 36 partition-seconds. The load is that "
                "of the readings, which must include the busiest hours.",
                "size --details 'g' --keda",
                settings="minReplicaCount: 4",
                gain=(36, "USD a month"),
                cost=(60, "USD once"),
                payback_months=1.666667,
            ),
            NO_MOVE,
        ],
    ),
    # One would keep up, and two are the minimum.
    case(
        "members in reserve",
        [
            size("over-provisioned", 8, 1),
            {
                "kind": "curve",
                "assignor": "range",
                "members": 2,
                "keeps_up": True,
                "moved": 3,
                "paused_partition_seconds": 9.0,
            },
        ],
        [
            advised(
                "money",
                "size",
                "scale-down",
                "Run 2 members instead of 8. 1 keep up; the rest are a reserve for failures. "
                "over-provisioned by range.",
                "3 partitions move once, with a pause of 9 partition-seconds. The load is that "
                "of the readings, which must include the busiest hours.",
                "size --details 'g' --keda",
                settings="minReplicaCount: 2",
                gain=(216, "USD a month"),
                cost=(60, "USD once"),
                payback_months=0.277778,
            ),
            NO_MOVE,
        ],
    ),
    case(
        "too few to give up",
        [size("over-provisioned", 2, 1)],
        [
            NO_MOVE,
            declined(
                "size", "nothing-to-do", "No group is advised to have fewer than 2 members. over-provisioned by range."
            ),
        ],
    ),
    case(
        "enough members",
        [size("right-sized", 4, 4)],
        [NO_MOVE, declined("size", "nothing-to-do", "right-sized by range.")],
    ),
    case(
        "more members",
        [size("under-provisioned", 4, 6)],
        [
            advised(
                "behind",
                "size",
                "scale-up",
                "Run 6 members instead of 4. under-provisioned by range.",
                "6 partitions move once, with a pause of 36 partition-seconds.",
                "size --details 'g' --keda",
                settings="minReplicaCount: 6",
                gain=(220, "messages/s"),
                cost=(72, "USD a month"),
            ),
            NO_MOVE,
        ],
    ),
    case(
        "another assignor and more members",
        [
            size("under-provisioned", 5, 12),
            size("under-provisioned", 5, 8, "roundrobin", max_load=250.0),
            *all_compared(),
        ],
        [
            advised(
                "behind",
                "size",
                "assignor-scale-up",
                "Use roundrobin: 8 members keep up with it, and 12 members with range. The group"
                " has 5. Run 8 members instead of 5. under-provisioned by roundrobin.",
                f"{SWITCH} 6 partitions move once, with a pause of 36 partition-seconds.",
                "size --details 'g' --keda",
                settings=f"{ROUNDROBIN}\nminReplicaCount: 8",
                gain=(220, "messages/s"),
                cost=(108, "USD a month"),
            ),
            NO_MOVE,
        ],
    ),
    # The load of the most loaded member becomes no smaller.
    case(
        "no relief",
        [
            size("under-provisioned", 5, 12),
            size("under-provisioned", 5, 8, "roundrobin", max_load_needed=310.0),
            *all_compared(),
        ],
        [
            advised(
                "behind",
                "size",
                "assignor-scale-up",
                "Use roundrobin: 8 members keep up with it, and 12 members with range. The group"
                " has 5. Run 8 members instead of 5. under-provisioned by roundrobin.",
                f"{SWITCH} 6 partitions move once, with a pause of 36 partition-seconds.",
                "size --details 'g' --keda",
                settings=f"{ROUNDROBIN}\nminReplicaCount: 8",
                gain=(0, "messages/s"),
                cost=(108, "USD a month"),
            ),
            NO_MOVE,
        ],
    ),
    case(
        "another assignor alone",
        [
            size("under-provisioned", 5, 12),
            size("over-provisioned", 5, 4, "roundrobin", max_load=90.0),
            *all_compared(),
        ],
        [
            advised(
                "behind",
                "assignor",
                "assignor",
                "Use roundrobin: 4 members keep up with it, and 12 members with range. The group has 5.",
                SWITCH,
                "compare --details 'g'",
                settings=ROUNDROBIN,
                gain=(210, "messages/s"),
                cost=(36, "partition-seconds once"),
            ),
            NO_MOVE,
            declined(
                "size", "superseded", "The group falls behind today. Switch to roundrobin first, and run advise again"
            ),
        ],
    ),
    case(
        "no number of members",
        [size("cannot-keep-up", 5, None)],
        [
            advised(
                "behind",
                "size",
                "more-partitions",
                "cannot-keep-up by range.",
                "Keys move to other partitions, which affects consumers that rely on the order "
                "of keys, and joins with other topics.",
                "size --details 'g'",
                gain=(216.666667, "messages/s"),
            ),
            NO_MOVE,
        ],
    ),
    case(
        "unknown capacity",
        [size("unknown", 5, None)],
        [
            advised(
                "unknown",
                "size",
                "capacity",
                "Set the capacity of a member: it is unknown for 1 groups, because no member has lag.",
                "None.",
                "size --capacity 'GLOB=RATE'",
                settings="groups.capacity",
                group_id=None,
            ),
            NO_MOVE,
            declined("size", "not-known", "unknown by range."),
        ],
    ),
    case(
        "static members",
        [membership("static", 500.0)],
        [
            advised(
                "pause",
                "membership",
                "static",
                "Make it static.",
                "The partitions of a static member wait for it: if an autoscaler removes it, or "
                "if it crashes for good, no other member reads them until its session expires.",
                "membership --details 'g'",
                settings="set=it",
                gain=(2000, "partition-seconds a month"),
                cost=(400, "partition-seconds once"),
                payback_months=0.2,
            ),
            NO_MOVE,
        ],
    ),
    case(
        "cooperative members",
        [
            membership("cooperative", 500.0, warning_text="It warns."),
            compared("range", 2.0),
            compared("cooperative-sticky", 1.0, recommended=True),
        ],
        [
            advised(
                "pause",
                "membership",
                "cooperative",
                "Make it cooperative.",
                "It warns.",
                "membership --details 'g'",
                settings="set=it",
                gain=(2000, "partition-seconds a month"),
                cost=(400, "partition-seconds once"),
                payback_months=0.2,
            ),
            NO_MOVE,
            declined(
                "assignor",
                "included",
                "cooperative-sticky is already recommended (pause), which includes this change. "
                "Use cooperative-sticky: its most loaded member has 1.00 times the mean in "
                "partitions, and 2.00 times with range.",
                gain=(50, "%"),
                cost=(36, "partition-seconds once"),
                action="assignor",
            ),
        ],
    ),
    case(
        "no other membership",
        [membership("keep", 0.0)],
        [NO_MOVE, declined("membership", "nothing-to-do", "Make it keep.")],
    ),
    # 1 second less, four times a month.
    case(
        "a pause that is hardly shorter",
        [membership("dynamic", 1.0)],
        [
            NO_MOVE,
            declined(
                "membership",
                "below-cost",
                "4.00 partition-seconds a month doesn't pay 400.00 partition-seconds once within"
                " 12 months. Make it dynamic.",
                gain=(4, "partition-seconds a month"),
                cost=(400, "partition-seconds once"),
                action="dynamic",
            ),
        ],
    ),
    case(
        "better balance",
        [compared("range", 2.0), compared("cooperative-sticky", 1.5, recommended=True)],
        [
            advised(
                "balance",
                "assignor",
                "assignor",
                "Use cooperative-sticky: its most loaded member has 1.50 times the mean in "
                "partitions, and 2.00 times with range.",
                "Members restart, and partitions move once. Two rolling restarts: first with "
                "cooperative-sticky added to range, then with cooperative-sticky alone. Java "
                "allows that.",
                "compare --details 'g'",
                settings="partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
                gain=(25, "%"),
                cost=(36, "partition-seconds once"),
            ),
            NO_MOVE,
        ],
    ),
    case(
        "hardly better balance",
        [compared("range", 2.0), compared("cooperative-sticky", 1.9, recommended=True)],
        [
            NO_MOVE,
            declined(
                "assignor",
                "below-cost",
                "Reduces the load of the most loaded member by 5%, less than 25%. Use "
                "cooperative-sticky: its most loaded member has 1.90 times the mean in "
                "partitions, and 2.00 times with range.",
                gain=(5, "%"),
                cost=(36, "partition-seconds once"),
                action="assignor",
            ),
        ],
    ),
    case(
        "better balance of messages",
        [
            compared("range", 1.0, load_max_over_mean=4.0),
            compared("sticky", 1.0, recommended=True, load_max_over_mean=1.0),
        ],
        [
            advised(
                "balance",
                "assignor",
                "assignor",
                "Use sticky: its most loaded member has 1.00 times the mean in messages, and 4.00 times with range.",
                "Members restart, and partitions move once. Two rolling restarts: first with "
                "sticky added behind range, then with sticky alone. Both follow one protocol, so"
                " every client library allows it.",
                "compare --details 'g'",
                settings="partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor",
                gain=(75, "%"),
                cost=(36, "partition-seconds once"),
            ),
            NO_MOVE,
        ],
    ),
    case(
        "no recommendation",
        [compared("range", 2.0), compared("sticky", 1.0)],
        [NO_MOVE, declined("assignor", "not-known", "range: because")],
    ),
    case(
        "an assignor that the library doesn't have",
        [
            compared("range", 2.0, client_libraries="librdkafka 4"),
            compared("sticky", 1.0, recommended=True, client_libraries="librdkafka 4"),
        ],
        [NO_MOVE, declined("assignor", "not-possible", "sticky: because")],
    ),
    case(
        "a rack-aware assignor",
        [*options(1.0, 0.5), *all_compared()],
        [
            advised(
                "money",
                "zones",
                "assignor",
                "Use roundrobin: its cross-zone reads cost 0.50 USD a day instead of 1.00.",
                f"6 of 12 partitions move once. {ROLLING}",
                "zones --details 'g'",
                settings=ROUNDROBIN,
                gain=(15, "USD a month"),
                cost=(60, "USD once"),
                payback_months=4,
            ),
            NO_MOVE,
            declined("assignor", "nothing-to-do", "range: because"),
        ],
    ),
    # A pause of 36 seconds at 100 USD an hour is 1 USD. Nobody knows how many partitions move.
    case(
        "the own assignor",
        [
            option("current", 12.0),
            option("range@3.5", 2.0, moved=None),
            compared("range@3.5", 1.0, recommended=True, current_assignor="range@3.5"),
        ],
        [
            advised(
                "money",
                "zones",
                "rebalance",
                "Rebalance with range@3.5, which is rack-aware in Java clients since 3.5: its cross-zone reads cost "
                "2.00 USD a day instead of 12.00.",
                "0 of 12 partitions move once.",
                "zones --details 'g'",
                gain=(300, "USD a month"),
                cost=(61, "USD once"),
                payback_months=0.203333,
            ),
            NO_MOVE,
            declined("assignor", "nothing-to-do", "range@3.5: because"),
        ],
        replace(PARAMS, price_per_paused_hour=100.0),
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
            advised(
                "money",
                "zones",
                "assignor",
                f"{ZONES} It needs more members, which cost 72.00 USD a month.",
                f"6 of 12 partitions move once. {ROLLING}",
                "zones --details 'g'",
                settings=ROUNDROBIN,
                gain=(228, "USD a month"),
                cost=(60, "USD once"),
                payback_months=0.263158,
            ),
            NO_MOVE,
            declined("size", "nothing-to-do", "right-sized by roundrobin."),
            declined("assignor", "nothing-to-do", "range: because"),
        ],
    ),
    case(
        "an assignor that makes it fall behind",
        [
            size("right-sized", 4, 4),
            size("under-provisioned", 4, 9, "roundrobin"),
            *all_compared(),
            *options(12.0, 2.0),
        ],
        [
            NO_MOVE,
            declined("size", "nothing-to-do", "right-sized by range."),
            declined("assignor", "nothing-to-do", "range: because"),
            declined(
                "zones",
                "falls-behind",
                f"With roundrobin, 9 members are needed, and the group has 4. {ZONES} It needs "
                "more members, which cost 180.00 USD a month.",
                gain=(120, "USD a month"),
                cost=(60, "USD once"),
                action="assignor",
            ),
        ],
    ),
    case(
        "balance that costs more",
        [
            option("current", 2.0),
            option("cooperative-sticky", 12.0),
            compared("range", 2.0),
            compared("cooperative-sticky", 1.0, recommended=True),
        ],
        [
            NO_MOVE,
            declined(
                "assignor",
                "costs-more",
                "With cooperative-sticky, the group costs 300.00 USD a month more. Use "
                "cooperative-sticky: its most loaded member has 1.00 times the mean in "
                "partitions, and 2.00 times with range.",
                gain=(50, "%"),
                cost=(36, "partition-seconds once"),
                action="assignor",
            ),
            declined("zones", "nothing-to-do", "No assignor reduces the cross-zone traffic"),
        ],
    ),
    case(
        "two assignors",
        [*options(12.0, 2.0), *all_compared(), membership("cooperative", 500.0)],
        [
            advised(
                "money",
                "zones",
                "assignor",
                ZONES,
                f"6 of 12 partitions move once. {ROLLING}",
                "zones --details 'g'",
                settings=ROUNDROBIN,
                gain=(300, "USD a month"),
                cost=(60, "USD once"),
                payback_months=0.2,
            ),
            NO_MOVE,
            declined("assignor", "nothing-to-do", "range: because"),
            declined(
                "membership",
                "superseded",
                "The figures are valid for cooperative-sticky, but roundrobin is recommended "
                "(300.00 USD a month). Run advise again after that change. Make it cooperative.",
                gain=(2000, "partition-seconds a month"),
                cost=(400, "partition-seconds once"),
                action="cooperative",
            ),
        ],
    ),
    case(
        "follower fetching",
        [*options(4.0, 4.0, 2.0)],
        [
            advised(
                "money",
                "zones",
                "follower-fetching",
                "Let consumers read from replicas in their rack. In total, 1 groups save 2.00 "
                "USD a day, and no partition moves.",
                "Followers are slightly behind the leader. All brokers restart once. Consumers "
                "need client.rack, and a client library that supports KIP-392.",
                "zones",
                settings="replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
                gain=(60, "USD a month"),
                cost=(60, "USD once"),
                payback_months=1,
                group_id=None,
            ),
            NO_MOVE,
            declined("zones", "nothing-to-do", "No assignor reduces the cross-zone traffic"),
        ],
    ),
    case(
        "follower fetching that saves little",
        [*options(4.0, 4.0, 3.9)],
        [
            declined(
                "zones",
                "below-cost",
                "3.00 USD a month doesn't pay 60.00 USD once within 12 months. Let consumers "
                "read from replicas in their rack. In total, 1 groups save 0.10 USD a day, and "
                "no partition moves.",
                gain=(3, "USD a month"),
                cost=(60, "USD once"),
                group_id=None,
                action="follower-fetching",
            ),
            NO_MOVE,
            declined("zones", "nothing-to-do", "No assignor reduces the cross-zone traffic"),
        ],
    ),
    # 7 days of 1 GB at 0.02 USD are 0.14 USD.
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
                "money",
                "replicas",
                "replicas-reorder",
                "Make another replica the leader of 1 partitions, in the rack that reads most: saves 3.00 USD a day.",
                "Copies no data. Leaders might be spread less evenly over brokers; check this with replicas check.",
                "zones --output LOCATION",
                settings=("kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/reorder/…"),
                gain=(90, "USD a month"),
                cost=(60, "USD once"),
                payback_months=0.666667,
                group_id=None,
            ),
            advised(
                "money",
                "replicas",
                "replicas-move",
                "Move a replica of 2 partitions to the rack that reads most: saves 9.00 USD a day.",
                "Copies logs once: 7 days of data, for 0.28 USD. Kafka's tools can throttle it.",
                "zones --output LOCATION",
                settings=("kafka-reassign-partitions.sh --execute --reassignment-json-file LOCATION/json/move/…"),
                gain=(270, "USD a month"),
                cost=(60.28, "USD once"),
                payback_months=0.223259,
                group_id=None,
            ),
            declined("zones", "nothing-to-do", "No assignor reduces the cross-zone traffic"),
        ],
    ),
    case(
        "replicas and another assignor",
        [*options(12.0, 2.0), *all_compared(), READER, move("reorder", 2.0)],
        [
            advised(
                "money",
                "zones",
                "assignor",
                ZONES,
                f"6 of 12 partitions move once. {ROLLING}",
                "zones --details 'g'",
                settings=ROUNDROBIN,
                gain=(300, "USD a month"),
                cost=(60, "USD once"),
                payback_months=0.2,
            ),
            declined(
                "replicas",
                "superseded",
                "1 partitions have no replica where they are read, which costs 60.00 USD a "
                "month. Other advice changes the owners of these partitions. Run advise again "
                "after that change",
                group_id=None,
            ),
            declined("assignor", "nothing-to-do", "range: because"),
        ],
    ),
    case(
        "missing tables",
        [*all_compared()],
        [
            advised(
                "unknown",
                "size",
                "readings",
                "Take readings: without rates, it is unknown which groups fall behind or have too many members.",
                "None.",
                "snapshot --interval 60s --times 5",
                group_id=None,
            ),
            declined("size", "not-known", "no rates", group_id=None),
            declined("zones", "not-known", "no racks", group_id=None),
            declined("assignor", "nothing-to-do", "range: because"),
        ],
        missing={"size": "no rates", "zones": "no racks"},
    ),
    case(
        "missing racks",
        [option("current", None, cost_at_least=1.0, cost_at_most=3.0)],
        [
            advised(
                "unknown",
                "zones",
                "racks",
                "Set the racks of all members and brokers: the cross-zone traffic of 1 groups is"
                " unknown, and might cost up to 60.00 USD a month more.",
                "None.",
                "zones",
                settings="client.rack, broker.rack",
                group_id=None,
            ),
            NO_MOVE,
            declined("zones", "not-known", "as racks say"),
        ],
    ),
    case(
        "rejected",
        [
            {"kind": "rejected", "adviser": "size", "code": "no-plan", "detail": "It has no plan"},
            {"kind": "rejected", "adviser": "zones", "code": "no-owners", "detail": "Nobody owns"},
            size("right-sized", 4, 4),
        ],
        [
            NO_MOVE,
            declined("size", "nothing-to-do", "right-sized by range."),
            declined("zones", "no-owners", "Nobody owns"),
        ],
    ),
]


@pytest.mark.parametrize(("rows", "expected", "params", "missing"), CASES)
def test_rows_in_full(rows: Rows, expected: Rows, params: AdviceParams, missing: dict[str, str]) -> None:
    """What changes, for what gain, cost, and risk, by which command and settings, or why not."""
    found = pa.concat_tables(advise(facts(*rows), params, missing)).to_pylist()
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        shown = {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
        assert {name: value for name, value in shown.items() if value is not None and name in NAMES} == {
            name: value for name, value in other.items() if value is not None
        }


NAMES = {*NO_MOVE, *advised("", "", "", "", "", "")}
"""All columns but `cluster` and `category_index`."""
