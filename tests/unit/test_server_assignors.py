"""The broker's assignors (KIP-848) against plain loops over single partitions, and as assignors of a fleet's groups."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import GROUP, MEMBER
from spark_assign.assignors.server.coordinator_order import (
    CoordinatorTable,
    read_topic_ids,
    set_order,
    table_slots,
)
from spark_assign.assignors.server.uniform import assign_homogeneous
from spark_assign.comparison.kernel.compare import CompareParams, compare
from spark_assign.groups.kernel.convergence import converge
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.java.hash_map import HashTable, string_hashes
from spark_assign.numeric.arrays import PartitionSlices
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.plan_rows import plan_rows

NAMES = ("uniform", "server-range", "range", "sticky", "cooperative-sticky")
Partition = tuple[int, int]


def kafkas_loop(sizes: list[int], previous: list[list[Partition]]) -> list[set[Partition]]:
    """`UniformHomogeneousAssignmentBuilder`, step by step: who gets which (topic, partition)."""
    had = {each for mine in previous for each in mine}
    every = [(topic, number) for topic, size in enumerate(sizes) for number in range(size)]
    free = [each for each in every if each not in had]
    quota, extra = divmod(len(every), len(previous))
    kept: list[list[Partition]] = []
    unfilled = []
    for at, mine in enumerate(previous):
        wanted, holds = quota + (extra > 0), extra > 0
        kept.append(mine[:wanted])
        free += mine[wanted:]
        lacking = wanted - len(kept[-1])
        if lacking > 0 and holds and len(previous) - at > extra:
            lacking, holds = lacking - 1, False
        if lacking > 0:
            unfilled.append((at, lacking))
        extra -= holds
    for at, lacking in unfilled:
        kept[at] += free[:lacking]
        free = free[lacking:]
    assert not free
    return [set(mine) for mine in kept]


def random_previous(random: Random, members: int, sizes: list[int]) -> list[list[Partition]]:
    """Some of the partitions, each with one member at most, in any order; members differ in how much they have."""
    mine: list[list[Partition]] = [[] for _ in range(members)]
    owners = [random.randrange(members) for _ in range(random.randint(1, members))]
    for topic, size in enumerate(sizes):
        for number in range(size):
            if random.random() < 0.8:
                mine[random.choice(owners)].append((topic, number))
    for each in mine:
        topics = random.sample(range(len(sizes)), len(sizes))
        random.shuffle(each)
        each.sort(key=lambda one: topics.index(one[0]))
    return mine


def test_many_groups_side_by_side_are_what_a_loop_makes_of_each() -> None:
    """Quotas, extras, free list: sums over runs come to what Kafka does partition by partition."""
    random = Random(848)
    group: list[int] = []
    topic_group: list[int] = []
    partitions: list[int] = []
    runs: list[tuple[int, ...]] = []
    expected: list[set[Partition]] = []
    for number in range(400):
        sizes = [random.randrange(9) + 1 for _ in range(random.randrange(4))]
        members = random.randint(1, 7)
        previous = random_previous(random, members, sizes)
        first_member, first_topic = len(group), len(topic_group)
        for at, mine in enumerate(previous):
            runs += [(first_member + at, first_topic + topic, partition, 1, 1) for topic, partition in mine]
        expected += [{(first_topic + topic, n) for topic, n in mine} for mine in kafkas_loop(sizes, previous)]
        group += [number] * members
        topic_group += [number] * len(sizes)
        partitions += sizes
    arrays = (np.array(each, np.int64) for each in (group, topic_group, partitions))
    targets = assign_homogeneous(*arrays, PartitionSlices(*np.array(runs, np.int64).T))
    got: list[set[Partition]] = [set() for _ in group]
    rows = targets.slices.expand()
    for member, topic, partition in zip(rows.member.tolist(), rows.topic.tolist(), rows.first.tolist(), strict=True):
        assert (topic, partition) not in got[member]
        got[member].add((topic, partition))
    assert got == expected


def test_sets_are_walked_as_java_walks_them() -> None:
    """Sets made of a collection begin as large as it needs; nine keys of one bucket make a small one double."""
    random = Random(1)
    keys: list[list[int]] = [random.sample(range(200_000), random.randrange(1, 60)) for _ in range(200)]
    keys += [list(range(0, 16 * 12, 16)), list(range(0, 64 * 40, 64)), []]
    flat = np.array([key for each in keys for key in each], np.int64)
    walked = flat[set_order(flat, flat, np.repeat(np.arange(len(keys)), [len(each) for each in keys]))].tolist()
    for each in keys:
        capacity = 16
        while capacity < int(len(each) / 0.75) + 1:
            capacity *= 2
        table: HashTable[int] = HashTable(capacity, lambda key: key)
        for key in each:
            table.add(key, key)
        assert walked[: len(each)] == table.iteration_order()
        walked = walked[len(each) :]


def test_topic_ids_sort_and_hash_as_java_has_them() -> None:
    """`Uuid.compareTo` takes both halves as signed; the hash is theirs folded twice."""
    ids = read_topic_ids(
        ["gAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAACAAAAAAAAAAA", None, "nonsense"]
    )
    assert ids.is_valid.tolist() == [True, True, True, False, False]
    assert np.argsort(ids.rank[:3]).tolist() == [0, 2, 1]
    assert ids.hash[:3].tolist() == [0x80000000, 1, 0x80000000]


def test_slots_of_the_coordinators_table() -> None:
    """The top bits of the hash times the golden ratio; of three members four slots, of six eight."""
    hashes = string_hashes(["a", "b", "c"])
    product = [(code * 0x9E3779B97F4A7C15) % 2**64 for code in hashes.tolist()]
    assert table_slots(hashes, np.zeros(3, np.int64)).tolist() == [each >> 62 for each in product]
    assert table_slots(string_hashes([str(each) for each in range(6)]), np.zeros(6, np.int64)).max() > 3


def test_the_table_of_one_group_is_walked_by_those_slots() -> None:
    """Each member is put in twice, when it joins and when it is given something."""
    ids = [f"member-{number}" for number in range(200)]
    table = CoordinatorTable()
    for number, each in enumerate(ids, 1):
        hashes = string_hashes(ids[:number])
        for _ in range(2):
            table.put(each, int(hashes[-1]))
        slots = dict(zip(ids, table_slots(hashes, np.zeros(number, np.int64)).tolist(), strict=False))
        walked = [slots[one] for one in table.iteration_order()]
        assert walked == sorted(walked)
    table.remove("member-7")
    assert "member-7" not in table.iteration_order()
    assert len(table) == len(table.iteration_order()) == 199


def test_of_one_slot_the_last_one_is_walked_first() -> None:
    """Two ids that share a slot of eight; seen of Kafka's own table."""
    both = ["DGvs6a05AN31WENXxbm4TQ", "6RVrPV7Pmbo1G1MplLIXtA"]
    for ids in (both, both[::-1]):
        table = CoordinatorTable()
        for each, code in zip(ids, string_hashes(ids).tolist(), strict=True):
            table.put(each, code)
        assert table.iteration_order() == ids[::-1]


# --- as assignors of groups ---------------------------------------------------------------------------------------


def row(case: str, owned: dict[str, list[tuple[str, int]]], partitions: int = 4, **more: Any) -> Row:
    """A group that subscribes to t, a topic of so many partitions."""
    members = [
        {"id": member, "instance": None, "rack": None, "generation": 1, "topics": ["t"], "owned": mine}
        for member, mine in owned.items()
    ]
    return {"case": case, "topics": {"t": partitions}, "members": members} | more


def planned_rows(rows: list[Row], assignor: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that is decided of these groups."""
    facts = sticky_kernel.facts(rows, runs=True)
    if more:
        facts = pa.concat_tables([facts, pa.Table.from_pylist(list(more), schema=facts.schema)])
    return plan_rows(facts, PlanParams((("*", assignor),), NAMES))


def runs_of(rows: list[dict[str, Any]], kind: str) -> set[tuple[str, int, int, int]]:
    """Runs of that kind: member, first, step, count."""
    return {(each["member_id"], each["first"], each["step"], each["count"]) for each in rows if each["kind"] == kind}


ALL = [("t", 0), ("t", 1), ("t", 2), ("t", 3)]


@pytest.mark.parametrize("assignor", ["uniform", "server-range"])
def test_what_another_member_owns_is_withheld(assignor: str) -> None:
    """Whoever owns too much keeps its share and gives up the rest; who gets that gets it once it is free."""
    found = planned_rows([row("c", {"a": ALL, "b": []})], assignor)
    assert runs_of(found, "assigned") == {("a", 0, 1, 2)}
    assert runs_of(found, "withheld") == {("b", 2, 1, 2)}
    assert runs_of(found, "revocation") == {("a", 2, 1, 2)}
    reasons = {each["reason"] for each in found if each["kind"] == "move"}
    assert reasons == {"over-quota" if assignor == "uniform" else "rebalanced"}
    metrics = next(each for each in found if each["kind"] == "metrics")
    assert (metrics["assignor"], metrics["withheld"], metrics["revoked"]) == (assignor, 2, 2)


def test_a_target_that_fits_stays() -> None:
    """Uniform moves nothing that does not have to; server-range lays everything out anew."""
    rows = [row("c", {"a": ALL[1:3], "b": [ALL[0], ALL[3]]})]
    assert runs_of(planned_rows(rows, "uniform"), "move") == set()
    assert runs_of(planned_rows(rows, "server-range"), "withheld") == {("a", 0, 1, 1), ("b", 2, 1, 1)}


def test_the_configured_assignor_of_a_kip_848_group() -> None:
    """`range` of a group that the broker assigns is server-range; racks of its members say nothing."""
    kinds = {"server": ("range", "consumer"), "client": ("range", "classic"), "uniform": ("uniform", "consumer")}
    more = [
        {"cluster": case, "group_id": "group", "kind": GROUP, "assignor": assignor, "group_type": kind}
        for case, (assignor, kind) in kinds.items()
        if case != "client"
    ]
    found = planned_rows([row(case, {"a": ALL}) for case in kinds if case != "client"], "configured", *more)
    used = {each["cluster"]: each["assignor"] for each in found if each["kind"] == "metrics"}
    assert used == {"server": "server-range", "uniform": "uniform"}


def test_a_partition_of_two_owners_stays_with_one() -> None:
    """The broker has no such thing; a fleet may. Nothing is given twice, and partitions beyond the count are gone."""
    found = planned_rows([row("c", {"a": [*ALL, ("t", 7)], "b": ALL})], "uniform")
    got = runs_of(found, "assigned") | runs_of(found, "withheld")
    assert sorted(first + n * step for _, first, step, count in got for n in range(count)) == [0, 1, 2, 3]
    metrics = next(each for each in found if each["kind"] == "metrics")
    assert (metrics["max_per_member"], metrics["claim_conflicts"], metrics["owned_out_of_range"]) == (2, 4, 1)


def test_a_topic_id_that_is_none_is_refused() -> None:
    """With the place that it stands in; range does not look at it."""
    rows = [row("bad", {"a": ALL}, topic_ids={"t": "t"}), row("fine", {"a": ALL})]
    found = planned_rows(rows, "uniform")
    rejected = [(each["cluster"], each["code"], each["detail"]) for each in found if each["kind"] == "rejected"]
    message = "topics: topic_id 't' of t isn't an ID. Kafka prints one as 22 characters"
    assert rejected == [("bad", "bad-topic-id", message)]
    assert {each["cluster"] for each in found if each["kind"] == "assigned"} == {"fine"}
    assert not [each for each in planned_rows(rows, "server-range") if each["kind"] == "rejected"]


def test_members_of_classic_groups_stand_in_the_table_that_they_would_have() -> None:
    """Ten of one hash: in the coordinator's table they stand as they came, that is by position, or else by id."""
    backwards = {each: [] for each in reversed(["AaAa", "AaBB", "BBAa", "BBBB"])}
    rows = [row("known", backwards, 1), row("classic", backwards, 1)]
    about = {"cluster": "classic", "group_id": "group", "kind": GROUP, "group_type": "classic"}
    found = planned_rows(rows, "uniform", about)
    # One partition for four members: the extra goes to the last one.
    got = {each["cluster"]: each["member_id"] for each in found if each["kind"] == "assigned"}
    assert got == {"known": "AaAa", "classic": "BBBB"}


def test_the_way_to_a_target_has_two_steps() -> None:
    """What is free is there at once, the rest once its owner has given it up; without revocations one is enough."""
    rows = [row("moves", {"a": ALL[:3], "b": []}), row("grows", {"a": ALL[:1], "b": ALL[1:2]})]
    question = PlanParams((("*", "uniform"),), NAMES)
    rounds = pa.concat_tables(list(converge(sticky_kernel.facts(rows), question, 12))).to_pylist()
    figures = ("round", "assigned", "revoked", "moved", "unowned", "stable")
    assert {(each["cluster"], each["round"]): tuple(each[name] for name in figures) for each in rounds} == {
        ("moves", 1): (1, 3, 1, 1, 1, False),
        ("moves", 2): (2, 4, 0, 0, 0, True),
        ("grows", 1): (1, 4, 0, 0, 0, True),
    }


def test_compared_with_the_assignors_of_the_clients() -> None:
    """Rounds, and what the way costs: nobody waits for the group."""
    facts = sticky_kernel.facts([row("c", {"a": ALL, "b": []})])
    facts = facts.append_column("what_if", pa.array([""] * len(facts)))
    names = ("uniform", "server-range", "cooperative-sticky", "sticky")
    params = CompareParams(names, ("",), "", TimingConfig())
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("assignor", "rejected")),
            *((name, pa.int64()) for name in ("moved", "revoked", "rounds")),
            ("paused_partition_seconds", pa.float64()),
        ]
    )
    found = pa.concat_tables(list(compare(facts, params, schema))).to_pylist()
    by_name = {each.pop("assignor"): each for each in found}
    paused = {name: each.pop("paused_partition_seconds") for name, each in by_name.items()}
    wait = (TimingConfig().heartbeat_interval_ms + TimingConfig().poll_interval_ms) / 2
    rest = {"rejected": None, "moved": 2, "revoked": 2}
    assert by_name == {name: rest | {"rounds": 1 if name == "sticky" else 2} for name in names}
    assert paused["uniform"] == paused["server-range"] == pytest.approx(2 * wait / 1_000)
    assert paused["uniform"] < paused["cooperative-sticky"]


def test_kinds_of_facts_that_are_needed() -> None:
    """A group without members and without subscriptions is nothing to trip over."""
    alone = {"cluster": "c", "group_id": "group", "kind": MEMBER, "member_id": "a"}
    facts = pa.Table.from_pylist([alone], schema=sticky_kernel.facts([]).schema)
    for assignor in ("uniform", "server-range"):
        found = pa.concat_tables(list(plan_groups(facts, PlanParams((("*", assignor),), NAMES)))).to_pylist()
        assert [each["members"] for each in found if each["kind"] == "metrics"] == [1]
