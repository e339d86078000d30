"""The pass over whole groups without Spark: what windows laid out, assignors of one's own, comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.custom import GroupAssignor
from spark_assign.assignors.custom import GroupSpec as CustomGroup
from spark_assign.assignors.group_facts import GROUP, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.comparison.kernel.compare import AS_GIVEN, CompareParams, compare
from spark_assign.groups.kernel.convergence import converge
from spark_assign.groups.kernel.plan_groups import PlanParams
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.golden import sticky_kernel, vectors
from tests.golden.vectors import Row, Sets
from tests.kafka import random_groups
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Group
from tests.plan_rows import facts_table, plan_rows
from tests.sizes import drawn
from tests.slices import by_owner

NAMES = ("cooperative-sticky", "range", "roundrobin", "sticky")
FIGURES = ("members", "partitions", "moved", "revoked", "unassigned", "max_over_mean", "rack_matched")
ORACLE = {"range": range_assignor, "roundrobin": roundrobin_assignor}


def windows(row: Row, assignor: str) -> Iterator[tuple[tuple[str, str, str], dict[str, int]]]:
    """What Spark's windows lay out: every topic for itself, whatever racks and differing subscriptions change."""
    group = Group.from_row(row)
    begin = 0
    for topic in group.subscribed_topics():
        line = sorted((member for member in group.members if topic in member.topics), key=lambda each: each.order)
        alone = Group({topic: group.partitions[topic]}, [replace(each, topics=[topic], rack_id=None) for each in line])
        given: Mapping[str, list[tuple[str, int]]]
        if assignor == "range":
            given = range_assignor.assign(alone)
        else:
            turns = range(group.partitions[topic])
            found = enumerate(line)
            given = {m.member_id: [(topic, p) for p in turns if (begin + p) % len(line) == at] for at, m in found}
            begin += group.partitions[topic]
        for member, pairs in given.items():
            partitions = sorted(partition for _, partition in pairs)
            step = partitions[1] - partitions[0] if len(partitions) > 1 else 1
            run = (partitions[0], step, len(partitions)) if partitions else (0, 1, 0)
            columns = (f"{assignor}_{part}" for part in ("first", "step", "count"))
            yield (row["case"], member, topic), dict(zip(columns, run, strict=True))


def facts(rows: list[Row], assignors: Iterable[str], *more: dict[str, Any]) -> pa.Table:
    """The facts of these rows, with what windows lay out for some assignors."""
    table = sticky_kernel.facts(rows).to_pylist()
    asks = {(fact["cluster"], fact["member_id"], fact["topic"]): fact for fact in table if fact["kind"] == SUBSCRIPTION}
    for row in rows:
        for name in ORACLE.keys() & set(assignors):
            for key, run in windows(row, name):
                asks[key] |= run
    return facts_table([*table, *more])


def assigned(rows: Iterable[dict[str, Any]]) -> Sets:
    """The assignment, as sets."""
    sets: Sets = {}
    runs = [row for row in rows if row["kind"] == "assigned"]
    for (case, member), owned in by_owner(runs, "cluster", "member_id").items():
        sets.setdefault(case, {})[member] = owned
    return sets


@pytest.mark.parametrize("assignor", sorted(ORACLE))
def test_what_windows_cannot_say(assignor: str, seed: int) -> None:
    """Racks, and subscriptions that differ: as Kafka's loops have it; all else stays as it was laid out."""
    rows = list(random_groups.groups(assignor, seed, small=drawn(30, 60), mid_size=0))
    question = PlanParams((("*", assignor),), NAMES, racks_known=True)
    expected = {
        r["case"]: {m: set(g) for m, g in ORACLE[assignor].assign(Group.from_row(r)).items() if g} for r in rows
    }
    found = plan_rows(facts(rows, [assignor]), question)
    assert vectors.differences(expected, assigned(found)) == []
    matched = {row["cluster"]: row["rack_matched"] for row in found if row["kind"] == "metrics"}
    for row in rows:
        assert matched[row["case"]] == near(row, expected[row["case"]])


def near(row: Row, sets: Mapping[str, set[tuple[str, int]]]) -> int | None:
    """Partitions of members with a replica in their own rack."""
    racks = {member["id"]: member["rack"] for member in row["members"] if member["rack"]}
    known = row.get("replica_racks") or {}
    if not racks:
        return None
    return sum(
        racks[member] in known[topic][partition]
        for member, partitions in sets.items()
        for topic, partition in partitions
        if member in racks and topic in known and partition < len(known[topic])
    )


def test_windows_that_have_left_something_out() -> None:
    """Then nothing of the plan is to be believed."""
    table = [each | {"range_count": each["range_first"]} for each in facts([plain("a", "b")], ["range"]).to_pylist()]
    with pytest.raises(AssertionError, match="have not assigned all partitions of the groups that range plans"):
        plan_rows(facts_table(table), PlanParams((("*", "range"),), NAMES))


def plain(*members: str, case: str = "c", owned: Mapping[str, list[tuple[str, int]]] | None = None) -> Row:
    """Members that read t, of four partitions."""
    about = {"instance": None, "rack": None, "generation": 1, "topics": ["t"]}
    rows = [{"id": member, "owned": (owned or {}).get(member, [])} | about for member in members]
    return {"case": case, "topics": {"t": 4}, "members": rows}


class Unspeakable(Exception):
    """An exception without a message."""

    def __str__(self) -> str:
        raise self


class Odd(GroupAssignor):
    """Goes wrong in one way or another, as the cluster's name asks."""

    def assign_group(self, group: CustomGroup) -> Mapping[str, Iterable[tuple[str, int]]]:
        assert group.partitions == {"t": 4}
        first, second = (member.member_id for member in group.members)
        assert [member.owned for member in group.members] == [[("t", 3)], []]
        group.partitions.update(t=99, u=1)
        group.members.append(replace(group.members[0], member_id="y"))
        failures = {
            "exit": SystemExit(1),
            "generator": GeneratorExit(),
            "text": Unspeakable(),
            "surrogate": ValueError("\ud800"),
        }
        if failure := failures.get(group.cluster):
            raise failure
        return {
            "float": {first: [("t", 1.0)], second: [("t", np.int8(2))]},
            "rational": {first: [("t", Fraction(1, 2))]},
            "changed": {first: [("t", 98)]},
            "added": {first: [("u", 0)]},
            "joined": {"y": [("t", 0)]},
            "fine": {second: [("t", 0), ("t", 2), ("t", 3)]},
            "twice": {first: [("t", 0)], second: [("t", 0)]},
            "beyond": {first: [("t", 4)]},
            "stranger": {"x": [("t", 0)]},
            "half": {"\ud800": [("t", 0)]},
        }[group.cluster]


def test_an_assignor_of_ones_own() -> None:
    """Each group for itself; what goes wrong in one is told and stays there."""
    missing, unknown = "which does not exist or nobody subscribes to", "which isn't a member of the group"
    failed = {
        "twice": "ValueError: it assigns t-0 to 'a' and to 'b'",
        "beyond": f"ValueError: it assigns t-4, {missing}",
        "stranger": f"ValueError: it assigns to 'x', {unknown}",
        "half": rf"ValueError: it assigns to '\ud800', {unknown}",
        "missing": "KeyError: 'missing'",
        "rational": "ValueError: it assigns t-1/2, which isn't a whole number",
        "changed": f"ValueError: it assigns t-98, {missing}",
        "added": f"ValueError: it assigns u-0, {missing}",
        "joined": f"ValueError: it assigns to 'y', {unknown}",
        "exit": "SystemExit: 1",
        "generator": "GeneratorExit: ",
        "text": "Unspeakable: its message can't be read",
        "surrogate": r"ValueError: \ud800",
    }
    cases = ("fine", "float", *failed)
    rows = [plain("a", "b", case=case, owned={"a": [("t", 3)]}) for case in cases]
    found = plan_rows(facts(rows, []), PlanParams((("*", "odd"),), (*NAMES, "odd"), {"odd": Odd()}))
    whole = {"a": {("t", 1)}, "b": {("t", 2)}}
    assert assigned(found) == {"fine": {"b": {("t", 0), ("t", 2), ("t", 3)}}, "float": whole}
    metrics, _ = [row for row in found if row["kind"] == "metrics"]
    assert (metrics["assignor"], metrics["unassigned"], metrics["moved"], metrics["revoked"]) == ("odd", 1, 1, 1)
    rejected = {row["cluster"]: (row["code"], row["detail"]) for row in found if row["kind"] == "rejected"}
    assert rejected == {name: ("assignor-failed", f"Odd: {text}") for name, text in failed.items()}


def configured(case: str, assignor: str | None, kind: str | None = None) -> dict[str, Any]:
    """What a group is configured with."""
    about = {"cluster": case, "group_id": "group", "kind": GROUP, "listed": 1}
    return about | {"assignor": assignor, "group_type": kind}


def test_every_group_gets_its_own_plan() -> None:
    """By the first pattern that fits; else it is rejected with what to do. Idle groups are not forgotten."""
    rows = [plain("a", case=case) for case in ("set", "unset", "unknown", "server", "absent")]
    more = [
        configured("set", "sticky"),
        configured("unset", None),
        configured("unknown", "mystery"),
        configured("server", "range", "consumer"),
        configured("idle", None),
        configured("empty", "uniform", "consumer"),
        configured("connect", None, "connect"),
    ]
    table = facts(rows, [], *more)
    found = plan_rows(table, PlanParams((("nothing", "range"), ("*", "configured")), NAMES))
    planned = {row["cluster"]: (row["assignor"], row["members"]) for row in found if row["kind"] == "metrics"}
    assert planned == {"set": ("sticky", 1), "idle": ("none", 0), "empty": ("uniform", 0)}
    known = "cooperative-sticky, range, roundrobin, sticky"
    unset = ("no-assignor", "groups.assignor does not say what it is configured with. Name an assignor")
    assert {row["cluster"]: (row["code"], row["detail"]) for row in found if row["kind"] == "rejected"} == {
        "unset": unset,
        "absent": unset,
        "unknown": ("unknown-assignor", f"It is configured with mystery. Name one of {known}, or register it"),
        "server": ("unknown-assignor", f"It is configured with server-range. Name one of {known}, or register it"),
    }
    nobody = plan_rows(table, PlanParams((("g", "sticky"),), NAMES, required_kinds=frozenset({"rejected"})))
    assert {row["code"] for row in nobody} == {"no-pattern"}
    assert {row["kind"] for row in nobody} == {"rejected"}


def test_the_one_round_of_the_eager_protocol() -> None:
    """All that is owned is revoked, then all is assigned; a cooperative group beside it takes its rounds."""
    rows = [plain("a", "b", case=c, owned={"a": [("t", each) for each in range(4)]}) for c in ("eager", "cooperative")]
    more = [configured("eager", "sticky"), configured("cooperative", "cooperative-sticky")]
    tables = converge(facts(rows, [], *more), PlanParams((("*", "configured"),), NAMES), 5)
    assert sorted(tuple(row.values()) for table in tables for row in table.to_pylist()) == [
        ("cooperative", "group", 1, "cooperative-sticky", 2, 2, 2, 2, False),
        ("cooperative", "group", 2, "cooperative-sticky", 4, 0, 0, 0, True),
        ("eager", "group", 1, "sticky", 4, 4, 2, 4, True),
    ]


def compared(group_facts: pa.Table, **params: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Rows of a comparison by group, change and assignor."""
    kinds = {"members": pa.int64(), "partitions": pa.int64(), "moved": pa.int64(), "revoked": pa.int64()}
    kinds |= {"unassigned": pa.int64(), "rounds": pa.int32(), "stable": pa.bool_(), "rack_matched": pa.int64()}
    kinds |= dict.fromkeys(("max_over_mean", "stddev_per_member"), pa.float64())
    kinds |= dict.fromkeys(("paused_partition_seconds", "cross_rack_share"), pa.float64())
    kinds |= dict.fromkeys(("is_current", "recommended"), pa.bool_())
    names = ("cluster", "group_id", "assignor", "what_if", "rejected", "reason")
    schema = pa.schema(kinds | dict.fromkeys(names, pa.string()))
    question = CompareParams(**({"timing": TimingConfig()} | params))
    rows = [row for table in compare(group_facts, question, schema) for row in table.to_pylist()]
    found = {(row["cluster"], row["what_if"], row["assignor"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_comparison_counts_as_plans_do(seed: int) -> None:
    """The figures of every assignor are those of its plan; all that is withheld has arrived."""
    rows = list(random_groups.groups("sticky", seed, small=drawn(20, 40), mid_size=0))
    table = facts(rows, NAMES)
    change = table.append_column("what_if", pa.repeat(pa.scalar("as-is"), len(table)))
    found = compared(change, assignors=NAMES, what_ifs=("as-is",), as_is="as-is", racks_known=True)
    for name in ("range", "roundrobin", "sticky"):
        alone = plan_rows(table, PlanParams((("*", name),), NAMES, racks_known=True))
        metrics = {row["cluster"]: row for row in alone if row["kind"] == "metrics"}
        refused = {row["cluster"]: row["code"] for row in alone if row["kind"] == "rejected"}
        for row in rows:
            mine = found[row["case"], "as-is", name]
            assert mine["rejected"] == refused.get(row["case"])
            if row["case"] in metrics:
                one = metrics[row["case"]]
                for figure in FIGURES:
                    assert mine[figure] == one[figure], figure
                assert (mine["rounds"], mine["stable"]) == (1, True)
    rounds = sticky_kernel.counted_rounds(rows, 12)
    counted = {row["case"]: found[row["case"], "as-is", "cooperative-sticky"] for row in rows}
    assert {case: row["rounds"] for case, row in counted.items() if row["rejected"] is None} == rounds
    recommended = {key[0] for key, row in found.items() if row["recommended"]}
    assert recommended == {key[0] for key, row in found.items() if row["rejected"] is None}


def test_changes_side_by_side() -> None:
    """A group that nobody is left in, one with a fault from before, one that came, one that is only known of."""
    before = [plain("a", "b", case="stays"), plain("a", case="leaves"), plain("a", case="broken")]
    after = [plain("a", case="stays"), plain("x", case="comes"), plain("a", case="broken")]
    twice = {"cluster": "broken", "group_id": "group", "kind": MEMBER, "member_id": "a"}
    parts = [(AS_GIVEN, facts(before, [], twice, configured("known", "sticky"))), ("later", facts(after, []))]
    table = pa.concat_tables([t.append_column("what_if", pa.repeat(pa.scalar(name), len(t))) for name, t in parts])
    found = compared(table, assignors=("sticky",), what_ifs=("later",), as_is=None)
    assert {key[0] for key in found} == {"stays", "leaves", "broken", "comes", "known"}
    assert {key[0]: (row["members"], row["partitions"], row["rejected"]) for key, row in found.items()} == {
        "stays": (1, 4, None),
        "leaves": (0, 0, None),
        "broken": (None, None, "duplicate-member"),
        "comes": (1, 4, None),
        "known": (0, 0, None),
    }
    assert found["known", "later", "sticky"]["is_current"] is True
    assert found["stays", "later", "sticky"]["is_current"] is None


def test_several_assignors_in_one_pass(seed: int) -> None:
    """Each plans its own groups as if the others were not there."""
    rows = list(random_groups.groups("sticky", seed, small=drawn(20, 40), mid_size=0))
    chosen = {row["case"]: NAMES[at % len(NAMES)] for at, row in enumerate(rows)}
    more = [configured(case, name) for case, name in chosen.items()]
    found = plan_rows(facts(rows, NAMES, *more), PlanParams((("*", "configured"),), NAMES, racks_known=True))
    expected: Sets = {}
    for name in NAMES:
        mine = [row for row in rows if chosen[row["case"]] == name]
        expected |= assigned(plan_rows(facts(mine, [name]), PlanParams((("*", name),), NAMES, racks_known=True)))
    assert vectors.differences(expected, assigned(found)) == []
    assert {row["cluster"]: row["assignor"] for row in found if row["kind"] == "metrics"}.items() <= chosen.items()


def fact(kind: int, member_id: str | None, **more: Any) -> dict[str, Any]:
    """A fact of a member of group c."""
    return {"cluster": "c", "group_id": "group", "kind": kind, "member_id": member_id} | more


A, B = fact(MEMBER, "a"), fact(MEMBER, "b")


FAULTS = {
    "a member twice": ([A, A], "duplicate-member", "members: member_id=a. Keep one row per member"),
    "two members twice": (
        [B, A, A, A, B],
        "duplicate-member",
        "members: member_id=a and 1 more. Keep one row per member",
    ),
    "an instance twice": (
        [fact(MEMBER, name, group_instance_id=instance) for name, instance in (("a", "i"), ("b", "i"), ("d", "j"))],
        "duplicate-instance",
        "members: group_instance_id=i. Kafka fences all but one member of an instance id; leave the others out",
    ),
    "a group twice": (
        [A, configured("c", "range"), configured("c", "range")],
        "duplicate-group",
        "groups: group_id=group. Keep one row per group",
    ),
    "a subscriber unknown": (
        [A, *[fact(SUBSCRIPTION, "x", topic=topic, partitions=1) for topic in "tu"]],
        "unknown-member",
        "subscriptions: member_id=x. Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    ),
    "a member without a name": (
        [A, fact(MEMBER, None), fact(SUBSCRIPTION, None, topic="t", partitions=1)],
        "null-key",
        "members: member_id=null. Fill the key in or leave the row out",
    ),
    "a topic without a name": (
        [A, fact(SUBSCRIPTION, "a"), fact(SUBSCRIPTION, "a")],
        "null-key",
        "subscriptions: topic=null. Fill the key in or leave the row out",
    ),
    "several": (
        [A, A, fact(SUBSCRIPTION, "a")],
        "null-key",
        "subscriptions: topic=null. Fill the key in or leave the row out; "
        "members: member_id=a. Keep one row per member",
    ),
    "runs of nobody": (
        [A, fact(OWNED_SLICE, "x", topic="t", first=0, step=1, count=2)],
        "unknown-member",
        "owned_slices: member_id=x. Add the member to members, or take its rows out (Fleet.with_members_left does so)",
    ),
    "a run without an end": (
        [A, fact(OWNED_SLICE, "a", topic="t", first=0, step=1)],
        "null-key",
        "owned_slices: member_id=a, topic=t, first=0, step=1, count=null. Fill the key in or leave the row out",
    ),
    "a run without a step": (
        [A, fact(OWNED_SLICE, "a", topic="t", first=0, step=0, count=2)],
        "bad-partition",
        "owned_slices: member_id=a, topic=t, first=0, step=0, count=2. Partitions count from 0, a run's step from 1",
    ),
}


@pytest.mark.parametrize(("given", "code", "detail"), FAULTS.values(), ids=FAULTS)
def test_faults_of_a_group(given: list[dict[str, Any]], code: str, detail: str) -> None:
    """It is rejected with what is wrong and what to do; the group beside it is planned."""
    found = plan_rows(facts([plain("a", case="fine")], [], *given), PlanParams((("*", "sticky"),), NAMES))
    assert [(r["cluster"], r["code"], r["detail"]) for r in found if r["kind"] == "rejected"] == [("c", code, detail)]
    assert [row["cluster"] for row in found if row["kind"] == "metrics"] == ["fine"]


def test_one_topic_alone() -> None:
    """Its subscribers are known as such; b, which does not subscribe to it any more, is told apart."""
    row = plain("a", "b", "d", owned={"a": [("t", 3)], "b": [("t", 0)]})
    row["members"][1]["topics"] = []
    found = plan_rows(facts([row], ["range"]), PlanParams((("*", "range"),), NAMES))
    moves = {(run["first"], run["count"], run["member_id"]): run["reason"] for run in found if run["kind"] == "move"}
    new = {(1, 1, None): "new", (2, 1, None): "new"}
    assert moves == {(3, 1, "a"): "rebalanced", (0, 1, "b"): "unsubscribed", **new}
