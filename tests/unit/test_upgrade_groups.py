"""Upgrades of all groups of some facts: complete rows of groups and steps, and no group is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.assignors.group_facts import GROUP, MEMBER, OWNED_SLICE, REPLICA_RACKS, SUBSCRIPTION
from spark_assign.migration.kernel import rolling_restart
from spark_assign.migration.kernel.upgrade import plan_upgrades
from spark_assign.migration.kernel.upgrade_verdict import GroupMembership, next_member_id
from spark_assign.simulation.kernel.classic_group_member import IllegalState
from spark_assign.tables.comparison import UPGRADE_ROWS
from tests.cases import keyed
from tests.plan_rows import facts_table

SCHEMA = to_arrow_schema(UPGRADE_ROWS)
CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
BOTH = f"org.apache.kafka.clients.consumer.RoundRobinAssignor,{CLASSES['cooperative-sticky']}"
Row = dict[str, Any]
Rows = dict[tuple[str, str], list[Row]]
"""By kind and group."""
A2, B2 = next_member_id("a"), next_member_id("b")
A3, B3 = next_member_id(A2), next_member_id(B2)

HALVES = {"a": [0, 1], "b": [2, 3]}
"""What range assigns to two members."""


def group(
    name: str,
    assignor: str,
    owned: dict[str, list[int]] | None = None,
    leader: tuple[str, str] | None = ("Java", "2.8"),
    partitions: int = 4,
    group_type: str = "classic",
    **members: Any,
) -> Iterator[Row]:
    """The facts of a group whose members subscribe to the topic t and own these partitions; `members` has more columns
    of a member."""
    key = {"cluster": "c", "group_id": name}
    library, version = leader or (None, None)
    yield key | {
        "kind": GROUP,
        "assignor": assignor,
        "group_type": group_type,
        "leader_library": library,
        "leader_version": version,
    }
    for member_id, numbers in (owned or {}).items():
        member = key | {"member_id": member_id}
        yield member | {"kind": MEMBER, "client_id": "consumer-g-1", "generation_id": 1} | members.get(member_id, {})
        topic = member | {"topic": "t", "partitions": partitions}
        yield topic | {"kind": SUBSCRIPTION}
        for number in numbers:
            yield topic | {"kind": OWNED_SLICE, "first": number, "step": 1, "count": 1}


def upgrades(facts: Iterable[Row], to_release: str, assignor: str | None = None) -> Rows:
    """The rows by kind and group, without keys and nulls."""
    found: Rows = {}
    for row in pa.concat_tables(list(plan_upgrades(facts_table(facts), to_release, assignor, SCHEMA))).to_pylist():
        kind, name = row.pop("kind"), row.pop("group_id")
        assert row.pop("cluster") == "c"
        found.setdefault((kind, name), []).append({name: each for name, each in row.items() if each is not None})
    return found


RESTARTED: Row = {"restarts": 2, "simulated_restarts": 2, "leader_changes": 2, "revoked": 4, "moved_by_rules": 0}
RESTARTED |= dict.fromkeys(("moved", "moved_by_old_rules", "moved_by_new_rules"), 8)
"""Two restarts, each of which moves two partitions there and back."""


def row_of(assignor: str, note: str, *, from_release: str = "2.8", **more: Any) -> Row:
    """The row of a group with two Java members of 2.8 and four partitions that is upgraded to 3.9 with its assignor."""
    row: Row = {"verdict": "ready", "assignor": assignor, "to_assignor": assignor, "note": note}
    row |= {"members": 2, "static_members": 0, "partitions": 4, "client_libraries": "Java 2"}
    row |= {"from_release": from_release, "from_rules": from_release, "to_release": "3.9", "to_rules": "3.9"}
    return row | more


def unled(assignor: str, note: str, **more: Any) -> Row:
    """The row of such a group with an unknown leader, so that nothing is known about the way to another assignor."""
    row = row_of(assignor, note, client_libraries="unknown 2", **more)
    return {name: row[name] for name in row if name not in ("from_release", "from_rules", "to_assignor")}


def test_groups_that_keep_their_assignor() -> None:
    """Restarts of the same rules, of rules that use racks, and of static members."""
    static: Row = {name: {"group_instance_id": f"i-{name}"} for name in "ab"}
    in_racks: Row = {name: {"rack_id": f"r{name}"} for name in "abc"}
    racks = {"at": list(range(6)), "racks": [["rc"], ["rc"], ["rb"], ["rb"], ["ra"], ["ra"]]}
    found = upgrades(
        [
            *group("same", "roundrobin", {"a": [0, 2], "b": [1, 3]}),
            *group("static", "sticky", {"a": [0, 1, 2], "b": [3]}, **static),
            *group("racks", "range", {"a": [0, 1], "b": [2, 3], "c": [4, 5]}, partitions=6, **in_racks),
            {"cluster": "c", "group_id": "racks", "kind": REPLICA_RACKS, "topic": "t"} | racks,
        ],
        "3.9",
    )
    # Other members of an eager group pause, too: each restart pauses all four partitions there and back.
    note = "roundrobin assigns the same in 3.9 and 2.8."
    assert found["group", "same"] == [row_of("roundrobin", note, paused_partitions=2 * 2 * 4, **RESTARTED)]
    restart = keyed(
        "step_type=restart bounce=1 leader_changed=True assignor=roundrobin moved=4 "
        "moved_by_rules=0 revoked=2 paused_partitions=8 "
        "description='Restart the member with 3.9.'"
    )
    first = {"step": 1, "member_id": "a", "new_member_id": A2, "leader": "b", "leader_release": "2.8", "rules": "2.8"}
    second = {"step": 2, "member_id": "b", "new_member_id": B2, "leader": A2, "leader_release": "3.9", "rules": "3.9"}
    assert found["step", "same"] == [restart | first, restart | second]
    # Range of 3.9 keeps the partitions in their racks when a member restarts, and range of 2.8 shifts them.
    # 2.8: a [0,1] b [2,3] c [4,5]; without a: b [0,1,2] c [3,4,5]; without b: a [0,1,2] c [3,4,5].
    # 3.9: a [4,5] b [2,3] c [0,1]; without a: b [2,3,4] c [0,1,5]; without b: a [2,4,5] c [0,1,3].
    (row,) = found["group", "racks"]
    assert row["moved_by_old_rules"] == (3 + 3) + (2 + 2) + (3 + 3)
    assert row["moved_by_new_rules"] == (3 + 2) + (2 + 2) + (2 + 2)
    # Restarts of static members move nothing. What the next rebalance changes is a step, but isn't part of the sum.
    (row,) = found["group", "static"]
    names = ("static_members", "restarts", "simulated_restarts", "leader_changes", "moved", "revoked")
    got = {name: row[name] for name in names}
    assert got == dict.fromkeys(names, 0) | keyed("static_members=2 restarts=2 simulated_restarts=2")
    assert row["paused_partitions"] == 3 + 1
    *restarts, last = found["step", "static"]
    assert [(step["member_id"], step["leader"], step["paused_partitions"]) for step in restarts] == [
        ("a", A2, 3),
        ("b", A2, 1),
    ]
    assert last == {
        "step": 3,
        "step_type": "next-rebalance",
        "bounce": 1,
        "leader": A2,
        **keyed(
            "leader_release='3.9' leader_changed=False assignor=sticky rules='3.9' moved=1 "
            "moved_by_rules=0 revoked=1 paused_partitions=4 "
            "description='At the next rebalance, for whatever reason, the leader assigns by its new rules.'"
        ),
    }


def test_rules_that_move_partitions() -> None:
    """A leader of 3.3 takes partitions from members of 2.8.0, which report no generation. With the rules of one
    release, each restart moves four partitions there and back."""
    owned = {f"c{at}": list(range(4 * at, 4 * at + 4)) for at in range(3)}
    members: Row = {name: {"generation_id": -1} for name in owned}
    found = upgrades(group("g", "cooperative-sticky", owned, ("Java", "2.8.0"), 12, **members), "3.3")
    (row,), steps = found["group", "g"], found["step", "g"]
    assert (row["verdict"], row["note"]) == ("ready-with-warnings", "The rules of 2.8.0 would avoid 3 of the moves.")
    assert [step["moved_by_rules"] for step in steps] == [0, 3, 0]
    assert [row[name] for name in ("from_rules", "to_rules", "moved_by_rules")] == ["2.5.1", "3.2", 3]
    assert (row["moved_by_old_rules"], row["moved_by_new_rules"]) == (24, 24)
    assert row["moved"] == sum(step["moved"] for step in steps) > 24


def test_groups_that_switch_to_cooperative() -> None:
    """Each group has one row: a verdict, or why it is rejected. Only groups that restart have steps."""
    claims = {"c0": [0, 1, 2, 4], "c1": [0, 2, 3], "c2": [0, 2]}
    found = upgrades(
        [
            *group("already", "cooperative-sticky", HALVES, ("Java", "4.0")),
            *group("blocked", "range", HALVES, b={"client_id": "aiokafka-1"}),
            *group("connected", "range", HALVES, group_type="connect"),
            *group("empty", "range", leader=None),
            *group("fails", "cooperative-sticky", claims, ("Java", "2.5"), partitions=5),
            *group("older", "cooperative-sticky", HALVES, ("Java", "2.8-3.2")),
            *group("rolling", "roundrobin", {"a": [0, 2], "b": [1, 3]}),
            *group("served", "uniform", HALVES, None, group_type="consumer"),
            *group("stopping", "range", HALVES, b={"client_id": "rdkafka"}),
            *group("unknown", "range", HALVES, None),
        ],
        "3.9",
        "cooperative-sticky",
    )
    assert_verdicts(found)
    # The first member with cooperative-sticky alone changes the vote. The group is eager while another member is.
    (row,), steps = found["group", "rolling"], found["step", "rolling"]
    assert (row["assignor"], row["to_assignor"], row["verdict"]) == ("roundrobin", "cooperative-sticky", "ready")
    assert [row[name] for name in ("restarts", "simulated_restarts", "leader_changes", "moved")] == [4, 4, 4, 16]
    assert (row["moved_by_old_rules"], row["moved_by_new_rules"]) == (16, 16)
    assert (row["revoked"], row["paused_partitions"]) == (8, 28)
    names = ("step", "bounce", "member_id", "new_member_id", "leader", "assignor", "paused_partitions")
    assert [tuple(step[name] for name in names) for step in steps] == [
        (1, 1, "a", A2, "b", "roundrobin", 8),
        (2, 1, "b", B2, A2, "roundrobin", 8),
        (3, 2, "a", A3, B2, "cooperative-sticky", 8),
        (4, 2, "b", B3, A3, "cooperative-sticky", 4),
    ]
    assert [step["description"] for step in steps] == [
        f"Restart the member with 3.9 and partition.assignment.strategy={assignors}."
        for assignors in (*[BOTH] * 2, *[CLASSES["cooperative-sticky"]] * 2)
    ]
    # cooperative-sticky assigns to members without partitions in turn: a [0,2] b [1,3].
    assert_stopped(found, "stopping", "cooperative-sticky", 2)


def test_no_group_becomes_eager_while_it_runs() -> None:
    """All members stop. Then range assigns a [0,1] b [2,3]."""
    found = upgrades(group("g", "cooperative-sticky", {"a": [0, 1, 2], "b": [3]}), "3.9", "range")
    assert_stopped(found, "g", "range", 1)


def assert_stopped(found: Rows, name: str, to_assignor: str, moved: int) -> None:
    """All four partitions of the two members pause, and `moved` of them have another owner afterward."""
    (row,) = found["group", name]
    assert (row["verdict"], row["to_assignor"]) == ("ready-with-warnings", to_assignor)
    columns = ("restarts", "simulated_restarts", "leader_changes", "moved", "paused_partitions")
    assert [row.get(column) for column in columns] == [2, None, None, moved, 4]
    assert row["note"].startswith(f"Stop all members, then start them with {to_assignor} alone")
    assert found["step", name] == [
        keyed(
            "step=1 step_type=stop-all "
            "description='Stop all members. The group must be empty. (Or start the new members with another group id "
            "and its offsets.)' "
            "paused_partitions=4"
        ),
        {
            "step": 2,
            "step_type": "start-all",
            "description": f"Start all members with 3.9 and partition.assignment.strategy={CLASSES[to_assignor]}.",
            "moved": moved,
        },
    ]


def assert_verdicts(found: Rows) -> None:
    """The rows of all groups that don't switch, and of rejected groups."""
    rows = {name: row for (kind, name), (row, *_) in found.items() if kind == "group"}
    fails = rows.pop("fails")  # a partition with two owners: not rejected, because the upgrade removes the fault
    assert (fails["verdict"], fails.get("moved")) == ("ready-with-warnings", None)
    assert fails["note"].startswith("Kafka's CooperativeStickyAssignor throws here: IllegalState")
    assert "(KAFKA-12984, fixed in 2.8.1). The upgrade removes this fault." in fails["note"]
    assert [name for kind, name in found if kind == "group"][-1] == "empty"
    assert {rows.pop(name)["members"] for name in ("rolling", "stopping")} == {2}
    assert rows == {
        "already": row_of(
            "cooperative-sticky",
            "The leader has release 4.0 already.",
            verdict="done",
            from_release="4.0",
            from_rules="3.9",
        ),
        # A cooperative member pauses only what moves.
        "older": row_of(
            "cooperative-sticky",
            "The release of the leader is one of 2.8-3.2; 3.2 is assumed. The rules of 3.9 differ, but move no "
            "partition of this group.",
            from_release="3.2",
            paused_partitions=8,
            **RESTARTED,
        ),
        "blocked": row_of(
            "range",
            "aiokafka has no cooperative-sticky: keep what the group runs with. Members with aiokafka are simulated as "
            "Java clients.",
            verdict="blocked",
            to_assignor="cooperative-sticky",
            client_libraries="Java 1, aiokafka 1",
        ),
        "empty": keyed(
            "verdict=ready assignor=range members=0 "
            "note='The group has no members. The first member to join leads, with its own release.'"
        ),
        "served": unled("uniform", "The broker assigns the group (KIP-848): no member leads.", verdict="done"),
        "unknown": unled(
            "range",
            "The client library of the leader is unknown. Set it with --leader-client 'GROUP=Java@2.8'.",
            verdict="unknown",
        ),
    }
    rejected = {name: row for (kind, name), (row, *_) in found.items() if kind == "rejected"}
    assert {name: row["code"] for name, row in rejected.items()} == {"connected": "out-of-scope"}
    assert {name for kind, name in found if kind == "step"} == {"older", "rolling", "stopping"}


def test_large_groups_have_no_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all restarts are simulated, the costs are unknown, except those of the simulated steps."""
    monkeypatch.setattr(rolling_restart, "MAX_RESTARTS", 1)
    found = upgrades(group("g", "range", HALVES, ("Java", "3.4")), "3.9")
    (row,) = found["group", "g"]
    assert row["note"] == "Not all restarts were simulated."
    assert [row.get(name) for name in ("restarts", "simulated_restarts", "leader_changes", "moved")] == [2, 1, 1, None]
    assert not {"moved_by_old_rules", "moved_by_new_rules", "revoked", "paused_partitions"} & row.keys()
    assert [step["moved"] for step in found["step", "g"]] == [4]


def test_a_member_has_the_id_that_another_one_gets() -> None:
    """Anyone can compute it. The restarted member gets the next free id, and the other group is upgraded."""
    made_up = dict(zip(("app", next_member_id("app"), "zz"), ([0], [1], [2, 3]), strict=True))
    found = upgrades([*group("g", "range", made_up), *group("victim", "range", HALVES)], "3.9")
    new_ids = [step["new_member_id"] for step in found["step", "g"]]
    first = next_member_id(next_member_id("app"))
    assert new_ids == [first, next_member_id(first), next_member_id("zz")]
    assert [found["group", name][0]["simulated_restarts"] for name in ("g", "victim")] == [3, 2]


def test_a_group_that_fails_is_rejected_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an error of Kafka's coordinator, or by any other one; the rows of the other groups are the same."""
    errors = {"odd": KeyError("odd"), "odder": IllegalState("no common protocol")}
    join = GroupMembership.join

    def fail(self: GroupMembership, member_id: str, *others: Any) -> None:
        if member_id in errors:
            raise errors[member_id]
        join(self, member_id, *others)

    monkeypatch.setattr(GroupMembership, "join", fail)
    others = [row for number in range(5) for row in group(f"g{number}", "range", HALVES)]
    failing = [row for name in errors for row in group(f"g2-{name}", "range", {name: [0, 1], "p": [2, 3]})]
    found = upgrades([*others, *failing], "3.9")
    assert found.pop(("rejected", "g2-odd")) == [{"code": "assignor-failed", "detail": "KeyError: 'odd'"}]
    assert found.pop(("rejected", "g2-odder")) == [{"code": "kafka-refuses", "detail": "no common protocol"}]
    assert found == upgrades(others, "3.9")
