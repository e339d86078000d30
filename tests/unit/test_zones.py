"""What crosses a zone: small cases by hand, and random groups against a loop over single partitions."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.advice.kernel.replica_moves import replica_moves
from spark_assign.advice.kernel.zones import CLIENT_SIDE, CURRENT, GB, ZONE_ROWS, ZoneParams, measure_traffic, recommend
from spark_assign.assignors.group_facts import (
    FACT_TYPES,
    GROUP,
    LOAD,
    LOAD_COLUMNS,
    MEMBER,
    OWNED_SLICE,
    REPLICA_RACKS,
    SUBSCRIPTION,
)
from tests.cases import cases, tuples

RACKS = ("a", "b", "c", "d")
PARAMS = ZoneParams(price_per_gb=0.02, currency="USD", min_daily_savings=0.01)
DAY = 86_400
Row = dict[str, Any]


def facts(groups: list[Row], random: Random | None = None) -> pa.Table:
    """Groups of the broker, in this or in any order of their rows.

    A group has a name, members (id to rack and partitions), and topics: of each partition the racks of its replicas
    (null: on a broker without one; no list: no such row) and the bytes a second.
    """
    rows: list[Row] = []
    for group in groups:
        key = {"cluster": "c", "group_id": group["name"]}
        group_rows = [key | {"kind": GROUP, "group_type": "consumer", "assignor": "uniform"}]
        for member, (rack, owned) in group["members"].items():
            mine = key | {"member_id": member}
            group_rows.append(mine | {"kind": MEMBER, "rack_id": rack})
            for topic, partitions in group["topics"].items():
                group_rows.append(mine | {"kind": SUBSCRIPTION, "topic": topic, "partitions": len(partitions)})
            for topic, partition in owned:
                run = {"first": partition, "step": 1, "count": 1, "partitions": len(group["topics"].get(topic, ()))}
                group_rows.append(mine | {"kind": OWNED_SLICE, "topic": topic, **run})
        for topic, partitions in group["topics"].items():
            placed = [(at, racks) for at, (racks, _) in enumerate(partitions) if racks is not None]
            layout = {"at": [at for at, _ in placed], "leader_racks": [racks[0] for _, racks in placed]}
            layout["racks"] = [[rack for rack in racks if rack is not None] for _, racks in placed]
            group_rows.append(key | {"kind": REPLICA_RACKS, "topic": topic, **layout})
            rates = {name: [None] * len(partitions) for name in LOAD_COLUMNS.values()}
            rates |= {"at": list(range(len(partitions))), "byte_rates": [rate for _, rate in partitions]}
            group_rows.append(key | {"kind": LOAD, "topic": topic, **rates})
        rows += group_rows
    if random is not None:
        random.shuffle(rows)
    schema = pa.schema(FACT_TYPES)
    return pa.table({n: pa.array([row.get(n) for row in rows], kind) for n, kind in FACT_TYPES.items()}, schema)


def run(table: pa.Table, params: ZoneParams = PARAMS) -> dict[str, list[Row]]:
    """The rows of each kind."""
    rows = pa.concat_tables(list(measure_traffic(table, params))).to_pylist()
    assert all(list(row) == ZONE_ROWS.names for row in rows)
    return {kind: [row for row in rows if row["kind"] == kind] for kind in ("option", "read", "rejected")}


def today(rows: list[Row], name: str = "g") -> tuple[Row, Row]:
    """Without and with follower fetching."""
    off, on = (row for row in rows if row["assignor"] == CURRENT and row["group_id"] == name)
    assert (off["follower_fetching"], on["follower_fetching"]) == (False, True)
    return off, on


def one(rack: str | None, racks: list[str | None] | None, rate: float | None = 1e6) -> tuple[Row, Row]:
    """A member with one partition."""
    group = {"name": "g", "members": {"m": (rack, [("t", 0)])}, "topics": {"t": [(racks, rate)]}}
    return today(run(facts([group]))["option"])


# --- by hand ------------------------------------------------------------------------------------------------------


@cases(
    "rack racks off on",
    ("a", ["a", "b"], 0, 0),  # the leader is there
    ("b", ["a", "b"], 1, 0),  # a follower is
    ("c", ["a", "b"], 1, 1),  # none is
    ("c", ["a", "c", "c"], 1, 0),
    ("b", [None, "b"], None, 0),  # where the leader is nobody knows
    ("c", [None, "b"], None, None),
    ("b", ["a", None], 1, 1),  # a broker without a rack is in no rack for the selector
    (None, ["a", "b"], None, None),
    ("a", None, None, None),
)
def test_one_member(rack: str | None, racks: list[str | None] | None, off: int | None, on: int | None) -> None:
    """Who reads from the leader, who from a replica in its rack, and of whom nobody knows."""
    for row, crosses in zip(one(rack, racks), (off, on), strict=True):
        assert row["bytes_per_day"] == DAY * 10**6
        assert row["cross_zone_bytes_per_day"] == (None if crosses is None else crosses * DAY * 10**6)
        assert row["cost_per_day"] == (None if crosses is None else crosses * 86.4 * 0.02)
        assert row["cross_zone_bytes_at_least"] == (crosses or 0) * DAY * 10**6
        assert row["cross_zone_bytes_at_most"] == (1 if crosses is None else crosses) * DAY * 10**6
        assert (row["partitions"], row["partitions_without_bytes"]) == (1, 0)
        assert row["partitions_without_rack"] == (crosses is None)
        assert row["members_without_rack"] == (rack is None)


def test_bytes_that_nobody_knows() -> None:
    """They are counted, and no figure takes them for nothing."""
    off, on = one("b", ["a", "b"], None)
    for row in (off, on):
        assert (row["partitions"], row["partitions_without_bytes"]) == (1, 1)
        for name in ("bytes_per_day", "cross_zone_bytes_per_day", "cost_per_day", "cost_at_most", "saved_per_day"):
            assert row[name] is None
        assert not row["recommended"]
    assert off["reason"] == "The traffic is unknown. Add loads.in_bytes_per_second"
    group = {"name": "g", "members": {"m": ("b", [("t", 0), ("t", 1)])}}
    group["topics"] = {"t": [(["a", "b"], None), (["a", "b"], 2e6)]}
    off, on = today(run(facts([group]))["option"])
    assert (off["bytes_per_day"], off["partitions"], off["partitions_without_bytes"]) == (DAY * 2 * 10**6, 2, 1)
    assert on["saved_per_day"] == off["cost_per_day"] == pytest.approx(172.8 * 0.02)
    assert on["recommended"]


@pytest.mark.parametrize("rate", [-1.0, float("inf"), 1e17])
def test_bytes_that_cannot_be(rate: float) -> None:
    """The group is rejected, and the other is analyzed."""
    groups = [
        {"name": name, "members": {"m": ("b", [("t", 0)])}, "topics": {"t": [(["a", "b"], of)]}}
        for name, of in (("bad", rate), ("good", 1e6))
    ]
    found = run(facts(groups))
    assert [(row["group_id"], row["code"]) for row in found["rejected"]] == [("bad", "bad-load")]
    assert found["rejected"][0]["detail"].startswith("loads: ")
    assert {row["group_id"] for row in found["option"]} == {"good"}
    assert sum(row["bytes_per_day"] for row in found["read"]) == DAY * 10**6


def test_sums_over_groups_and_claims_do_not_wrap() -> None:
    """Groups below the bound together end at the largest long; a group is rejected if its members claim too much."""
    rate, size = 1.157e13, round(1.157e13 * DAY)
    topics = {"t": [(["a", "b"], rate)]}
    groups = [{"name": f"g{each}", "members": {"m": ("c", [("t", 0)])}, "topics": topics} for each in range(10)]
    members = {f"m{each}": ("b", [("t", 0)]) for each in range(11)}
    found = run(facts([*groups, {"name": "claims", "members": members, "topics": topics}]))
    assert [(row["group_id"], row["code"]) for row in found["rejected"]] == [("claims", "bad-load")]
    assert {row["bytes_per_day"] for row in found["option"] if row["assignor"] == CURRENT} == {size}
    assert [(row["bytes_per_day"], row["groups"]) for row in found["read"]] == [(2**63 - 1, 10)]
    assert [row["bytes_per_day"] for row in run(facts(groups[:9]))["read"]] == [9 * size]
    reads = [("a", 2**63 - 1), ("b", 2**63 - 1), ("c", 2**63 - 1), ("c", 2**63 - 1)]
    most = 2**62 // 4
    got = moves([{"racks": ["a", "b"], "brokers": ["a", "b", "c"], "reads": reads}])
    assert got == tuples(f"0 False move a c 1 {3 * most} {most}; 0 True move b c 1 {2 * most} {most}")


def test_what_is_not_there() -> None:
    """Topics that are gone, partitions beyond the count, partitions that nobody owns: nobody reads them."""
    owned = [("t", 0), ("t", 7), ("gone", 0)]
    group = {"name": "g", "members": {"m": ("b", owned)}, "topics": {"t": [(["a"], 1e6), (["b"], 1e6)]}}
    off, _ = today(run(facts([group]))["option"])
    assert (off["partitions"], off["bytes_per_day"]) == (1, DAY * 10**6)
    group["members"] = {"m": ("b", [])}
    off, _ = today(run(facts([group]))["option"])
    assert (off["partitions"], off["reason"]) == (0, "The owners are unknown. Add the table owned or owned_slices")
    assert not off["recommended"]


# --- random -------------------------------------------------------------------------------------------------------


def random_group(random: Random, name: str) -> Row:
    """Some racks, bytes and owners are not known."""
    topics = {
        f"t{number}": [
            (
                None
                if random.random() < 0.1
                else [None if random.random() < 0.1 else r for r in random.choices(RACKS, k=random.randint(1, 3))],
                None if random.random() < 0.2 else random.choice([0.0, random.random() * 1e7]),
            )
            for _ in range(random.randint(1, 12))
        ]
        for number in range(random.randint(1, 3))
    }
    members: dict[str, Any] = {f"m{at}": (random.choice([*RACKS, None]), []) for at in range(random.randint(1, 5))}
    for topic, partitions in topics.items():
        for partition in range(len(partitions)):
            if random.random() < 0.9:
                members[random.choice(list(members))][1].append((topic, partition))
    return {"name": name, "members": members, "topics": topics}


def by_loop(group: Row, fetching: bool) -> tuple[int, int, int, int, int, int]:
    """Partitions, without bytes, without a rack; bytes that are read, that cross, that may."""
    figures = [0] * 6
    for rack, owned in group["members"].values():
        for topic, partition in owned:
            racks, rate = group["topics"][topic][partition]
            leader = racks[0] if racks else None
            if fetching and rack is not None and rack in (racks or ()):
                where: bool | None = False
            elif rack is None or leader is None:
                where = None
            else:
                where = rack != leader
            figures[0] += 1
            figures[1] += rate is None
            figures[2] += where is None
            size = 0 if rate is None else round(rate * DAY)
            figures[3] += size
            figures[4] += size * (where is True)
            figures[5] += size * (where is None)
    return tuple(figures)  # type: ignore[return-value]


def test_random_groups(rng: Random) -> None:
    """Many at once, in any order of rows, as a loop over single partitions has it."""
    groups = [random_group(rng, f"g{number:02d}") for number in range(60)]
    found = run(facts(groups, rng))
    assert found == run(facts(groups, rng))
    assert not found["rejected"]
    for group in groups:
        if not any(owned for _, owned in group["members"].values()):
            continue
        for fetching, row in enumerate(today(found["option"], group["name"])):
            values = [row[name] for name in ("partitions", "partitions_without_bytes", "partitions_without_rack")]
            least, most = row["cross_zone_bytes_at_least"], row["cross_zone_bytes_at_most"]
            expected = by_loop(group, bool(fetching))
            case = f"{group['name']}, {fetching}"
            assert tuple(values) == expected[:3], case
            if expected[0] > expected[1]:
                assert (row["bytes_per_day"], least, most - least) == expected[3:], case
                assert (row["cost_per_day"] is None) == (most > least), case
    reads: dict[tuple[str, int, str | None], list[int]] = {}
    for group in groups:
        for rack, owned in group["members"].values():
            for topic, partition in owned:
                if (rate := group["topics"][topic][partition][1]) is not None:
                    reads.setdefault((topic, partition, rack), []).append(round(rate * DAY))
    assert {
        (row["topic"], row["partition"], row["rack_id"]): (row["bytes_per_day"], row["groups"]) for row in found["read"]
    } == {key: (sum(each), len(each)) for key, each in reads.items()}


# --- replica moves ------------------------------------------------------------------------------------------------


def moves(partitions: list[Row]) -> list[tuple[Any, ...]]:
    """What would save something: partition, follower fetching, kind, from, to, place, what crosses, what is saved."""
    table = pa.table(
        {
            "p": list(range(len(partitions))),
            "replica_racks": pa.array([each["racks"] for each in partitions], pa.list_(pa.string())),
            "broker_racks": pa.array([each["brokers"] for each in partitions], pa.list_(pa.string())),
            "read_from": pa.array([[rack for rack, _ in each["reads"]] for each in partitions], pa.list_(pa.string())),
            "read_bytes": pa.array([[size for _, size in each["reads"]] for each in partitions], pa.list_(pa.int64())),
        }
    )
    names = ("p", "follower_fetching", "kind", "from_rack", "to_rack", "replica_index")
    sizes = ("cross_zone_bytes_per_day", "saved_bytes_per_day")
    return sorted(tuple(row[name] for name in (*names, *sizes)) for row in replica_moves(table).to_pylist())


def test_a_replica_where_it_is_read() -> None:
    """The example of the kernel's page; a rack without brokers gets none; what has no rack counts against it."""
    reads = [("a", 10), ("b", 40), ("c", 50), ("c", 40)]
    partition = {"racks": ["a", "b"], "brokers": ["a", "b", "c"], "reads": reads}
    found = moves([partition])
    assert found == tuples("0 False move a c 1 130 80; 0 False reorder a b 1 130 30; 0 True move b c 1 90 50")
    assert moves([partition | {"brokers": ["a", "b"]}]) == [(0, False, "reorder", "a", "b", 1, 130, 30)]
    got = moves([partition | {"reads": [*reads, (None, 30)]}])
    assert got == tuples("0 False move a c 1 130 50; 0 True move b c 1 90 50")
    assert moves([partition | {"racks": ["a"]}]) == tuples("0 False move a c 0 130 80; 0 True move a c 0 130 80")
    assert moves([partition | {"racks": ["c", "a", "b"]}, partition | {"racks": []}]) == []
    assert moves([partition | {"racks": ["a"] * 1_001}, partition]) == [(1, *each[1:]) for each in found]
    own = [(f"rack of m{n}", 1) for n in range(5_000)]  # each member can choose one
    assert moves([partition | {"reads": [*reads, *own]}])[0] == (0, False, "move", "a", "c", 1, 5_130, 80)


def test_random_replicas(rng: Random) -> None:
    """What is saved is what crosses before less what crosses after, and nothing else would save more."""
    partitions = [
        {
            "racks": [None if rng.random() < 0.1 else r for r in rng.choices(RACKS, k=rng.randint(1, 4))],
            "brokers": sorted(set(rng.choices(RACKS, k=6))),
            "reads": [(rng.choice(RACKS), rng.randint(0, 9)) for _ in range(rng.randint(1, 5))],
        }
        for _ in range(400)
    ]
    found = {(at, fetching, kind): each for at, fetching, kind, *each in moves(partitions)}
    for at, each in enumerate(partitions):
        case = f"{each}"
        if each["racks"][0] is None:
            assert not [key for key in found if key[0] == at], case
            continue
        racks = each["racks"]
        fronts = [[rack, *racks] for rack in racks if rack is not None]
        free = [rack for rack in each["brokers"] if rack not in racks]
        leads = [[rack] for rack in free]
        drops = range(len(racks) > 1, len(racks))
        swaps = [[*racks[:place], rack, *racks[place + 1 :]] for rack in free for place in drops]
        saved: dict[str, int] = {}
        for name, fetching, ways in (("reorder", False, fronts), ("move", False, leads), ("swap", True, swaps)):
            now = crosses(each["reads"], racks, fetching)
            saved[name] = now - min((crosses(each["reads"], way, fetching) for way in ways), default=now)
            kind = "move" if fetching else name
            values = found.get((at, fetching, kind))
            assert (values is not None) == (saved[name] > (max(saved["reorder"], 0) if name == "move" else 0)), case
            assert values is None or (values[3], values[4]) == (now, saved[name]), case


def crosses(reads: list[tuple[str, int]], racks: list[str | None], fetching: bool) -> int:
    """What is read from another rack."""
    near = racks if fetching else racks[:1]
    return sum(size for rack, size in reads if rack not in near)


# --- which way ----------------------------------------------------------------------------------------------------

KNOWN = ZoneParams()


def option(
    assignor: str, fetching: bool, partitions: int, moved: int, cost: float | None, rejected: str | None = None
) -> Row:
    """A read option of a group of two members that are all in a rack."""
    row = {"assignor": assignor, "follower_fetching": fetching, "partitions": partitions, "moved": moved}
    row |= {"members": 2, "members_without_rack": 0, "partitions_without_bytes": 0}
    return row | {"cost_per_day": cost, "rejected": rejected}


def recommended(*options: Row) -> tuple[int | None, str]:
    """Which option, and why."""
    best, reasons = recommend(options, KNOWN, "sticky")
    return best, reasons[0 if best is None else best]


def test_which_way() -> None:
    """The cheapest, and of those the one that changes least."""
    now, near = option(CURRENT, False, 8, 0, 5.0), option(CURRENT, True, 8, 0, 0.0)
    assert recommended(now, near, option("range", True, 8, 0, 0.0)) == (1, "Saves 5.00 USD a day, and moves nothing")
    assert recommended(
        now, option(CURRENT, True, 8, 0, 3.0), option("range", True, 8, 4, 0.0), option("sticky", True, 8, 3, 0.001)
    ) == (3, "Saves 5.00 USD a day, and moves 3 of 8 partitions once")
    assert recommended(now, option("range", False, 8, 2, 1.0), option("sticky", False, 8, 2, 1.0))[0] == 2
    assert recommended(now, option(CURRENT, True, 8, 0, 4.995)) == (0, "No option saves 0.01 USD a day")
    assert recommended(option(CURRENT, False, 8, 0, 0.0), near) == (0, "No cross-zone traffic")
    assert recommended(now, option("range", False, 7, 0, 0.0))[0] == 0
    assert recommended(now, option("sticky", False, 0, 0, None, "Kafka's class throws"))[0] == 0
    assert recommended(option(CURRENT, False, 8, 0, None), near)[0] is None
    best, reasons = recommend([now, option("rack-uniform", True, 8, 2, 0.0)], KNOWN, "sticky")
    assert (best, reasons[1]) == (0, "Would save 5.00 USD a day, but Kafka has no such assignor")


def test_all_ways_of_a_group() -> None:
    """Those of the broker where that assigns; a price of nothing saves nothing."""
    owned = [("t", 0), ("t", 1)]
    group = {"name": "g", "members": {"m": ("b", owned)}, "topics": {"t": [(["a", "b"], 1e6), (["b", "a"], 1e6)]}}
    rows = run(facts([group]))["option"]
    assert [(row["assignor"], row["follower_fetching"]) for row in rows] == [
        (n, f) for n in (CURRENT, "uniform", "server-range", "rack-uniform", "rack-server-range") for f in (False, True)
    ]
    assert not set(CLIENT_SIDE) & {row["assignor"] for row in rows}
    assert [row["cost_per_day"] for row in rows[:2]] == [DAY * 10**6 / GB * 0.02, 0.0]
    free = run(facts([group]), ZoneParams(0.0, "EUR", 0.01))["option"]
    assert {row["cost_per_day"] for row in free} == {0.0}
    assert [row["assignor"] for row in free if row["recommended"]] == [CURRENT]
