"""No number in a table makes a kernel expand more than it may: the group is rejected, and the others are planned.

Each test limits the memory of its process, because a number without a bound costs up to 16 GiB.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.advice.kernel.size_sweep import _portions, resize
from spark_assign.assignors.custom import GroupAssignor, GroupSpec
from spark_assign.assignors.group_facts import (
    DEPARTED_SLICE,
    FACT_TYPES,
    GROUP,
    INITIALIZED,
    LISTED_MEMBER,
    LISTED_TOPIC,
    LOAD,
    MEMBER,
    OWNED_LIST,
    OWNED_ORDER,
    OWNED_SLICE,
    OWNED_TOPIC,
    REMEDIES,
    REPLICA_RACKS,
    SUBSCRIPTION,
    find_faults,
    index_facts,
)
from spark_assign.assignors.group_specs import ALL_MEMBERS
from spark_assign.groups.kernel import plan_groups as plan_groups_module
from spark_assign.groups.kernel.ownership_changes import DELTA_LISTS, REASONS, name_deltas
from spark_assign.groups.kernel.plan_groups import (
    ASSIGNED,
    ASSIGNED_ALIKE,
    CHANGED_TOPIC,
    METRICS,
    REJECTED,
    PlanParams,
    plan_groups,
)
from spark_assign.groups.kernel.read_specs import read_group_specs, select_members
from spark_assign.groups.kernel.tagged_rows import row_schema, table_of_rows
from spark_assign.numeric import arrays
from spark_assign.numeric.arrays import EMPTY_SLICES, MAX_PARTITIONS
from spark_assign.share.kernel.plan_groups import plan_share_groups
from spark_assign.share.plan import PLAN_ROWS as SHARE_PLAN
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.streams.kernel.plan_groups import ASSIGNORS as ASSIGNORS_OF_STREAMS
from spark_assign.streams.kernel.plan_groups import StreamsPlanParams, plan_streams_groups
from spark_assign.streams.plan import PLAN_ROWS as STREAMS_PLAN
from tests.golden.streams_rows import one_table

SHARE_ROWS, STREAMS_ROWS = to_arrow_schema(SHARE_PLAN), to_arrow_schema(STREAMS_PLAN)

INT_MAX = 2**31 - 1
LISTS = ("in_rate_stddevs", "out_rates", "lags", "byte_rates")
SPARE_BYTES = 3 << 30
ASSIGNORS = ("sticky", "cooperative-sticky", "sticky@2.8", "uniform", "server-range")
ASSIGNORS += ("sticky@franz-go", "cooperative-sticky@librdkafka")


@pytest.fixture(autouse=True)
def memory_limit() -> Iterator[None]:
    """Memory beyond what the process has now fails with a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory(SPARE_BYTES)
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def limit_memory(spare_bytes: int) -> None:
    """Let the process have so much memory more than now."""
    pages = int(open("/proc/self/statm", encoding="ascii").read().split()[0])  # noqa: SIM115
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare_bytes, hard))


def group(name: str, *facts: dict[str, Any], partitions: int | None = 3, members: int = 2) -> list[dict[str, Any]]:
    """A group whose members all subscribe to t."""
    key = {"cluster": "c", "group_id": name}
    rows = [key | {"kind": MEMBER, "member_id": f"m{n}", "generation_id": 1} for n in range(members)]
    topic = {"topic": "t", "partitions": partitions}
    rows += [key | {"kind": SUBSCRIPTION, "member_id": f"m{n}"} | topic for n in range(members)]
    return rows + [key | topic | fact for fact in facts]


def owned(first: int, step: int, count: int, member: int = 0, kind: int = OWNED_SLICE, **more: Any) -> dict[str, Any]:
    """A slice of t."""
    return {"kind": kind, "member_id": f"m{member}", "first": first, "step": step, "count": count} | more


def planned(rows: list[dict[str, Any]], assignor: str) -> tuple[set[str], dict[str, str]]:
    """The groups with an assignment, and the code of each other one."""
    kinds, own = frozenset({ASSIGNED, CHANGED_TOPIC, METRICS, REJECTED}), {"own": AllTopicsToOne()}
    params = PlanParams((("*", assignor),), registered=(assignor,), custom=own, required_kinds=kinds)
    assigned, rejected = set[str](), {}
    for table in plan_groups(facts_of(rows), params):
        for row in table.select(["kind", "group_id", "code"]).to_pylist():
            if row["kind"] == ASSIGNED:
                assigned.add(row["group_id"])
            elif row["kind"] == REJECTED:
                rejected[row["group_id"]] = row["code"]
    return assigned, rejected


def facts_of(rows: list[dict[str, Any]]) -> pa.Table:
    """The facts, with the columns that they use."""
    used = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, FACT_TYPES[name]) for name in used]))


class AllTopicsToOne(GroupAssignor):
    """An assignor that gives the member with the most topics all that it subscribes to."""

    def assign_group(self, group: GroupSpec) -> dict[str, list[tuple[str, int]]]:
        """Returns partitions 0."""
        member = max(group.members, key=lambda each: len(each.topics))
        return {member.member_id: [(topic, 0) for topic in member.topics]}


GOOD = group("good", owned(0, 1, 3), {"kind": LOAD, "at": [0], "in_rates": [1.0]} | {name: [None] for name in LISTS})
HOSTILE = {
    "a slice": [owned(0, 1, INT_MAX)],
    "many slices": [owned(0, 1, 900_000, n % 2) for n in range(300)],
    "the same slice": [owned(0, 1, 3, n % 2) for n in range(2)] + [owned(0, 1, MAX_PARTITIONS) for _ in range(300)],
    "an unknown topic": [owned(0, 1, INT_MAX, topic="u", partitions=None)],
    "unknown topics": [owned(0, 1, 600_000, topic=f"u{n}", partitions=None) for n in range(300)],
    "departed": [owned(0, 1, INT_MAX, member=9, kind=DEPARTED_SLICE)],
    "in order": [owned(0, 1, INT_MAX), owned(0, 1, INT_MAX, kind=OWNED_ORDER, position=0)],
    "initialized": [owned(0, 1, INT_MAX, kind=INITIALIZED)],
    "a list": [
        {"kind": OWNED_LIST, "member_id": "m0", "topics": ["t"], "firsts": [0], "steps": [1], "counts": [INT_MAX]},
        {"kind": OWNED_TOPIC},
    ],
}


@pytest.mark.parametrize("assignor", [*ASSIGNORS, "weighted-sticky"])
def test_a_slice_that_is_too_long_rejects_its_group(assignor: str) -> None:
    """Whatever lists it, and whatever plans; the other group is planned."""
    rows = [row for name, facts in HOSTILE.items() for row in group(name, *facts)]
    assert planned(rows + GOOD, assignor) == ({"good"}, dict.fromkeys(HOSTILE, "too-many-partitions"))


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_topic_that_is_too_large_rejects_its_group(assignor: str) -> None:
    """Subscribed to, or only owned; the largest topic that is allowed is planned."""
    rows = group("large", partitions=INT_MAX) + group("owned", owned(0, 1, 1, topic="u", partitions=INT_MAX))
    rows += group("most", partitions=MAX_PARTITIONS)
    assert planned(rows + GOOD, assignor) == (
        {"good", "most"},
        dict.fromkeys(("large", "owned"), "too-many-partitions"),
    )


@pytest.mark.parametrize("assignor", ["range", "sticky", "uniform"])
def test_a_thousand_groups_at_the_bound(assignor: str) -> None:
    """Each owns a million partitions: together they would take more memory than there is."""
    half = MAX_PARTITIONS // 2
    halves = [owned(0, 1, half), owned(half, 1, half, 1)]
    names = [f"g{number}" for number in range(1_000)]
    rows = [row for name in names for row in group(name, *halves, partitions=MAX_PARTITIONS)]
    assert planned(rows, assignor) == (set(names), {})


def test_the_text_names_the_number() -> None:
    """Table, topic, number, and what to do."""
    remedy = REMEDIES["too-many-partitions"]
    rows = group("a", owned(0, 1, INT_MAX)) + group("b", partitions=INT_MAX)
    assert [find_faults(index_facts(facts_of(rows)))[each] for each in (0, 1)] == [
        ("too-many-partitions", f"owned_slices: topic=t, partitions=2147483647. {remedy}"),
        ("too-many-partitions", f"topics: topic=t, partitions=2147483647. {remedy}"),
    ]


def test_what_is_no_fault() -> None:
    """All partitions of a large topic owned by one member, and twice as many as the topic has."""
    rows = group("one", owned(0, 1, MAX_PARTITIONS), partitions=MAX_PARTITIONS)
    halves = [owned(first, 2, MAX_PARTITIONS // 2, first) for first in range(2)]
    rows += group("two", *halves, owned(0, 1, MAX_PARTITIONS, kind=DEPARTED_SLICE), partitions=MAX_PARTITIONS)
    assert find_faults(index_facts(facts_of(rows))) == {}


def test_a_slice_beyond_int_is_a_fault() -> None:
    """Kafka's partition is an int."""
    rows = group("far", owned(INT_MAX, 1, 2)) + group("last", owned(INT_MAX, 1, 1))
    rows += group("left", owned(0, INT_MAX, 40, member=9, kind=DEPARTED_SLICE))
    assert {group for group, (code, _) in find_faults(index_facts(facts_of(rows))).items() if code == "bad-partition"}
    assert planned(rows, "sticky") == ({"last"}, {"far": "bad-partition", "left": "bad-partition"})


def test_any_numbers(rng: Random) -> None:
    """Numbers up to 2^31 - 1 in each column, in groups of several topics: each group is planned or rejected."""
    values = (0, 1, 2, 3, 7, 1_000, MAX_PARTITIONS, MAX_PARTITIONS + 1, 2**30, INT_MAX)
    kinds = (OWNED_SLICE, OWNED_SLICE, DEPARTED_SLICE, INITIALIZED, OWNED_ORDER)
    for assignor in ASSIGNORS:
        rows = []
        for number in range(5):
            facts = []
            for _ in range(rng.randint(0, 6)):
                topic, size = rng.choice((("t", 3), ("u", rng.choice(values)), ("v", None)))
                numbers = [rng.choice(values) for _ in range(3)]
                kind = rng.choice(kinds)
                facts.append(owned(*numbers, rng.randrange(2), kind, topic=topic, partitions=size, position=0))
            rows += group(f"g{number}", *facts)
        assigned, rejected = planned(rows, assignor)
        assert assigned | rejected.keys() == {f"g{number}" for number in range(5)}


def test_a_sum_beyond_a_long_ends_there() -> None:
    """One group's sums don't end the pass of all groups."""
    rows = [{"lag": 2**70, "topic": "t"}, {"lag": -(2**64)}, {"lag": None}, {"lag": 3}]
    found = table_of_rows(rows, row_schema("topic string, lag int64, other double"))
    assert found["lag"].to_pylist() == [2**63 - 1, -(2**63 - 1), None, 3]
    assert found["topic"].to_pylist() == ["t", None, None, None]


@pytest.mark.parametrize("in_order", [False, True])
def test_partitions_further_apart_than_an_int_are_stored(in_order: bool) -> None:
    """A leader can assign any numbers to a member: they must not end the snapshot of its cluster."""
    rows, least, most = SnapshotRows("c"), -(1 << 31), (1 << 31) - 1
    rows.add_owned("g", "m", [("t", least), ("t", 0), ("u", 0), ("u", most), ("v", 9), ("v", -1)], in_order=in_order)
    [row] = rows.tables()["owned_lists"].to_pylist()
    slices = zip(*(row[name] for name in ("topics", "firsts", "steps", "counts")), strict=True)
    expected = [("t", least, 1, 1), ("t", 0, 1, 1), ("u", 0, most, 2)]
    assert list(slices) == [*expected, *([("v", 9, 1, 1), ("v", -1, 1, 1)] if in_order else [("v", -1, 10, 2)])]


def _irregular(size: int) -> list[dict[str, Any]]:
    """A member that owns the half of a topic, in no order that makes few slices of it."""
    half = sorted(Random(1).sample(range(size), size // 2))
    return group("g", *(owned(number, 1, 1) for number in half), partitions=size)


def _listed(size: int, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """As many members as topics, of which each member subscribes to all."""
    key: dict[str, Any] = {"cluster": "c", "group_id": "g"}
    rows = [
        key | {"kind": kind, "member_id": f"m{n}", "list": 1} for n in range(size) for kind in (MEMBER, LISTED_MEMBER)
    ]
    return [
        *rows,
        *(key | {"kind": LISTED_TOPIC, "topic": f"t{n}", "partitions": 1, "list": 1} for n in range(size)),
        *more,
    ]


def _racks(size: int, partitions: int) -> list[dict[str, Any]]:
    """Members of which each has a rack of its own, and two topics with replicas in two other racks by turns."""
    key: dict[str, Any] = {"cluster": "c", "group_id": "g"}
    rows = [key | {"kind": MEMBER, "member_id": f"m{n}", "rack_id": f"r{n}"} for n in range(size)]
    layout = {"at": list(range(partitions)), "racks": [[f"r{n % 2}"] for n in range(partitions)]}
    for topic in ("t", "u"):
        of_topic = key | {"topic": topic, "partitions": partitions}
        rows += [of_topic | {"kind": SUBSCRIPTION, "member_id": f"m{n}"} for n in range(size)]
        rows.append(of_topic | {"kind": REPLICA_RACKS} | layout)
    return rows


def _of_group(**fact: Any) -> dict[str, Any]:
    return {"cluster": "c", "group_id": "g"} | fact


OTHER = [
    _of_group(kind=MEMBER, member_id="x", generation_id=1),
    _of_group(kind=LISTED_MEMBER, member_id="x", list=2),
    _of_group(kind=LISTED_TOPIC, topic="t0", partitions=1, list=2),
]
"""One more member, which subscribes to the first topic only."""
MIXED = [
    _of_group(kind=MEMBER, member_id="y"),
    *(_of_group(kind=SUBSCRIPTION, member_id="y", topic=f"t{n}", partitions=1) for n in range(10_000)),
]
"""One more member, which subscribes to the same topics by rows."""

PRODUCTS: dict[str, tuple[str, Callable[[], list[dict[str, Any]]]]] = {
    "slices of a member and a topic": ("sticky", lambda: _irregular(60_000)),
    "members and topics": ("uniform", lambda: _listed(10_000)),
    "racks and partitions": ("range", lambda: _racks(20_000, 100_000)),
    "racks of members and partitions": ("rack-server-range", lambda: _racks(20_000, 100_000)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_memory_for_products(name: str) -> None:
    """Where a stranger chooses both factors."""
    assignor, rows = PRODUCTS[name]
    assert planned(rows(), assignor) == ({"g"}, {})


SHARING = dict.fromkeys(("sticky", "sticky@2.4", "cooperative-sticky@librdkafka", "uniform", "own"), 4_000)
SHARING |= {"sticky@franz-go": 1_500}


@pytest.mark.parametrize(("assignor", "size"), SHARING.items())
def test_thousands_of_members_share_thousands_of_topics(assignor: str, size: int) -> None:
    """And one subscribes to one of them. A list of the topics of each member would be larger than what is left."""
    rows = _listed(size, *OTHER, *MIXED[: size + 1])
    limit_memory(size * size * 8)
    assert planned(rows, assignor) == ({"g"}, {})


def test_a_share_group_of_ten_thousand_members_and_topics() -> None:
    """All members subscribe to all topics."""
    rows = _listed(10_000, _of_group(kind=GROUP, group_type="share"))
    limit_memory(600 << 20)
    kinds = {row for table in plan_share_groups(facts_of(rows), SHARE_ROWS) for row in table["kind"].to_pylist()}
    assert kinds == {"assigned", "change", "metrics"}


def test_members_that_restart_share_topics() -> None:
    """The specs of some members keep who subscribes to what."""
    specs = read_group_specs(index_facts(facts_of(_listed(10_000, *OTHER))), set())
    limit_memory(600 << 20)
    chosen = np.array([0, 1, len(specs.members) - 1])
    subset = select_members(specs, chosen, specs.member_id.to_pylist(), EMPTY_SLICES, EMPTY_SLICES).specs
    topics = np.arange(len(subset.topics))
    subscribed = [subset.subscribes(np.full_like(topics, member), topics).sum() for member in range(3)]
    assert subscribed == [10_000, 10_000, 1]


def test_new_members_share_the_topics_of_rows() -> None:
    """Two members subscribe to 4,000 topics, and 5,000 are tried."""
    key = {"cluster": "c", "group_id": "g"}
    rows = [key | {"kind": MEMBER, "member_id": name} for name in "ab"]
    topics = [{"kind": SUBSCRIPTION, "topic": f"t{n}", "partitions": 1} for n in range(4_000)]
    rows += [key | topic | {"member_id": name} for topic in topics for name in "ab"]
    specs = read_group_specs(index_facts(facts_of(rows)), set())
    limit_memory(600 << 20)
    resized = resize(specs, np.array([0, 0]), np.array([1, 5_000]))
    assert np.bincount(resized.members.group).tolist() == [1, 5_000]
    assert (resized.topics.subscriber_set == ALL_MEMBERS).all()
    assert resized.topics.is_subscribed.all()


def test_new_members_do_not_join_every_list() -> None:
    """400 members subscribe to 100 of 400 topics each, and 2,000 are tried: each topic has 1,700 subscribers."""
    rows = [_of_group(kind=kind, member_id=f"m{n}", list=n) for n in range(400) for kind in (MEMBER, LISTED_MEMBER)]
    topics = [(n, (n + 7 * step) % 400) for n in range(400) for step in range(100)]
    rows += [_of_group(kind=LISTED_TOPIC, topic=f"t{topic}", partitions=1, list=n) for n, topic in topics]
    specs = read_group_specs(index_facts(facts_of(rows)), set())
    limit_memory(600 << 20)
    resized = resize(specs, np.array([0]), np.array([2_000]))
    assert [len(members) for members in resized.subscriber_sets] == [1_700] * 400
    portions = list(_portions(specs, np.zeros(30, np.int64), np.arange(1, 31)))
    assert len(portions) == 2, "the 40,000 rows of topics are copied for each member count"


@pytest.mark.parametrize("assignor", ["range", "sticky", "uniform"])
def test_too_many_sets_of_subscribers_reject_their_group(assignor: str) -> None:
    """Each topic of a list has one more subscriber of its own, so that no two topics have the same ones."""
    own = [
        _of_group(**fact)
        for n in range(5_000)
        for fact in (
            {"kind": MEMBER, "member_id": f"x{n}"},
            {"kind": SUBSCRIPTION, "member_id": f"x{n}", "topic": f"t{n}", "partitions": 1},
        )
    ]
    assert planned(_listed(5_000, *own, *GOOD), assignor) == ({"good"}, {"g": "too-many-partitions"})


def test_tasks_that_were_together_are_no_pairs() -> None:
    """The sticky assignors of Streams remember who had a task together with which others."""
    processes = [str(UUID(int=number)) for number in (1, 2)]
    config = ["task.assignor.class=legacy-sticky"]
    rows: list[dict[str, Any]] = [
        {"table": "groups", "group_type": "classic", "streams_config": config},
        {"table": "subtopologies", "subtopology": "0", "source_topics": ["t"]},
        {"table": "topics", "topic": "t", "partitions": 6_000},
        *({"table": "members", "member_id": name, "process_id": name} for name in processes),
    ]
    table = one_table(rows)
    limit_memory(600 << 20)
    params = StreamsPlanParams("streams-sticky", ASSIGNORS_OF_STREAMS["streams-sticky"])
    planned_rows = [row for each in plan_streams_groups(table, STREAMS_ROWS, params) for row in each.to_pylist()]
    assert sum(row["kind"] == "task" for row in planned_rows) == 6_000


@pytest.mark.parametrize("kind", ["range", "share"])
def test_long_ids_of_slices_are_in_pieces(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A plan is the same, in whatever pieces its rows are; no piece has the IDs of all topics."""

    def plan_with(size: int) -> tuple[int, list[str]]:
        ids, slices = ["ä" * size, "ö" * size], {"first": 0, "step": 1, "count": 3, "partitions": 3}
        rows = [_of_group(kind=each, member_id=member, list=1) for member in ids for each in (MEMBER, LISTED_MEMBER)]
        rows += [_of_group(kind=LISTED_TOPIC, topic=f"t{n}", partitions=3, list=1) for n in range(200)]
        rows += [_of_group(kind=OWNED_SLICE, member_id=ids[1], topic=f"t{n}", **slices) for n in range(100)]
        rows += [_of_group(kind=GROUP, group_type="share" if kind == "share" else "classic")]
        params = PlanParams((("*", "range"),), registered=("range",))
        facts = facts_of(rows)
        found = plan_share_groups(facts, SHARE_ROWS) if kind == "share" else plan_groups(facts, params)
        tables = [table for table in found if len(table)]
        assert max(table.nbytes for table in tables) < 500_000
        texts = [str(row) for table in tables for row in table.to_pylist()]
        return len(tables), [text.replace(ids[0], "A").replace(ids[1], "B") for text in texts]

    monkeypatch.setattr(arrays, "_PIECE_BYTES", 100_000)
    few, many = plan_with(1), plan_with(1_000)
    assert many[0] > few[0] + 2
    assert many[1] == few[1]


@pytest.mark.parametrize("most", [2**30, 4_000])
def test_topics_with_equal_slices_have_a_row_each_if_their_ids_are_large(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Rows of topics with equal slices have the IDs of their members once, in one Arrow column. The slices are the same
    without such rows."""
    monkeypatch.setattr(plan_groups_module, "_MAX_ALIKE_BYTES", most)
    rows = [_of_group(kind=kind, member_id=each * 2_001, list=1) for each in "ab" for kind in (MEMBER, LISTED_MEMBER)]
    rows += [_of_group(kind=LISTED_TOPIC, topic=f"t{n}", partitions=2, list=1) for n in range(3)]
    params = PlanParams((("*", "range"),), ("range",), required_kinds=frozenset({ASSIGNED, ASSIGNED_ALIKE}))
    found = [row for table in plan_groups(facts_of(rows), params) for row in table.to_pylist()]
    alike = [row for row in found if row["kind"] == ASSIGNED_ALIKE]
    assert len(alike) == (most > 4_002)
    slices = [(row["topic"], row["member_id"][0], row["first"]) for row in found if row["kind"] == ASSIGNED]
    for row in alike:
        members = list(zip(row["member_ids"], row["firsts"], strict=True))
        slices += [(topic, member[0], first) for topic in row["topics"] for member, first in members]
    assert sorted(slices) == [(f"t{n}", each, at) for n in range(3) for at, each in enumerate("ab")]


def test_long_names_of_changes_are_in_pieces() -> None:
    """An Arrow column holds at most 2^31 - 1 bytes; each piece has a part of that, whatever the topics are."""
    ids, size = ["a" * 32_000, "b" * 32_000], 3_000
    rows = [
        {"topic": "skipped", "member_ids": ["other"] * 8, **{name: [7] for name in DELTA_LISTS}},
        {"topic": "without", "member_ids": ["other"], **{name: [] for name in DELTA_LISTS}},
        {"topic": "first", "member_ids": ["x", "y"], **{name: [1] for name in DELTA_LISTS}},
        {"topic": "large", "member_ids": ids, **{name: [0, 1] * (size // 2) for name in DELTA_LISTS}},
        {"topic": "new", "member_ids": ["z"], **{name: [-(name == "from_member")] for name in DELTA_LISTS}},
    ]
    lists = {"member_ids": pa.list_(pa.string()), **dict.fromkeys(DELTA_LISTS, pa.list_(pa.int32()))}
    schema = pa.schema({**dict.fromkeys(("cluster", "group_id", "topic"), pa.string()), **lists})
    topics = pa.Table.from_pylist([{"cluster": "c", "group_id": "g", **row} for row in rows], schema).slice(1)
    pieces = list(name_deltas([topics]))
    assert max(piece.nbytes for piece in pieces) < 160 << 20
    found = [tuple(row.values())[2:] for piece in pieces for row in piece.to_pylist()]
    large = [("large", ids[n % 2], ids[n % 2], *[n % 2] * 3, REASONS[n % 2]) for n in range(size)]
    new = ("new", None, "z", 0, 0, 0, REASONS[0])
    assert found == [("first", "y", "y", 1, 1, 1, REASONS[1]), *large, new]
