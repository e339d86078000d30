"""Whether a group should go over to the broker's protocol: every verdict, and every reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.assignors.group_facts import GROUP, MEMBER, OWNED_SLICE, REPLICA_RACKS, SUBSCRIPTION
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.migration.kernel import migrate
from spark_assign.migration.kernel.migrate import (
    FORBIDDEN,
    describe_first_restart,
    describe_other_restarts,
    describe_prepare,
    describe_rollback,
    plan_migrations,
    plan_steps,
)
from spark_assign.migration.kernel.migration_metrics import MigrationMetrics, MigrationPassParams, measure_migration
from spark_assign.migration.kernel.migration_verdict import MigrationCandidate, Policy, judge_migration
from spark_assign.migration.migrate import _check_release
from spark_assign.tables.comparison import MIGRATION_ROWS
from spark_assign.tables.errors import ConfigError
from tests.cases import cases, keyed, tuples
from tests.plan_rows import facts_table

SCHEMA = to_arrow_schema(MIGRATION_ROWS)

FINE = MigrationCandidate(
    assignor="sticky",
    server_assignor="uniform",
    client_libraries="Java 3",
    members=3,
    static_members=0,
    partitions=40,
    moved=4,
    max_over_mean_before=1.0,
    max_over_mean_after=1.05,
    cross_rack_before=None,
    cross_rack_after=None,
    copartitioned_topics=2,
)


def test_a_group_against_which_nothing_speaks() -> None:
    """What is the same counts as nothing; what the clients need is said."""
    verdict, codes, reasons = judge_migration(FINE)
    assert (verdict, codes) == ("ready", ())
    assert reasons == "No issues found. Requires Java 4.0 or later."


@cases(
    "changes code words",
    ({"client_libraries": "kafkajs 3"}, "client-lacks-protocol", "kafkajs can't use the consumer protocol."),
    (
        {"client_libraries": "Java 2, Sarama 1?"},
        "client-lacks-protocol",
        "Sarama can't use the consumer protocol. The library is a guess",
    ),
    (
        {"client_libraries": "aiokafka or kafka-python 3"},
        "client-lacks-protocol",
        "aiokafka or kafka-python can't use the consumer protocol.",
    ),
    ({"broker_release": "4.0.1"}, "KAFKA-19862", "Upgrade the brokers to 4.0.2, 4.1.2, or 4.2 first."),
    ({"broker_release": "4.1.1"}, "KAFKA-19862", "all groups of that partition have no coordinator"),
    ({"assignor": "nearest-first"}, "custom-assignor", "The broker doesn't have the assignor nearest-first"),
    (
        {"cross_rack_before": 0, "cross_rack_after": 3},
        "racks-lost",
        "uniform ignores racks: 3 of 40 partitions are read across racks instead of 0.",
    ),
)
def test_reasons_to_stay(changes: dict[str, object], code: str, words: str) -> None:
    """Each alone."""
    verdict, codes, reasons = judge_migration(replace(FINE, **changes))
    assert (verdict, codes) == ("blocked", (code,))
    assert words in reasons
    assert "Requires" not in reasons


@cases(
    "changes code words",
    ({"policy": Policy.DOWNGRADE}, "offline", "policy=downgrade, stop all members"),
    ({"max_size": 2}, "offline", "The group has 3 members, and group.consumer.max.size is 2."),
    ({"client_libraries": "Java 2, unknown 1"}, "client-unknown", "The client ids don't show the library"),
    ({"client_libraries": "Java or Sarama 3"}, "client-unknown", "The client ids don't show the library"),
    ({"client_libraries": ""}, "client-unknown", "The client ids don't show the library"),
    ({"client_libraries": "librdkafka 3?"}, "client-guessed", "The library librdkafka is a guess"),
    ({"assignor": None}, "assignor-unknown", "The current assignor is unknown."),
    ({"assignor": "range"}, "co-partitioning", "the same partitions of 2 topics"),
    ({"server_assignor": "server-range", "static_members": 2}, "random-order", "orders members by id"),
    (
        {"cross_rack_before": 0, "cross_rack_after": 2},
        "racks",
        "2 of 40 partitions are read across racks instead of 0.",
    ),
    ({"max_over_mean_after": 1.06}, "balance", "Max over mean becomes 1.06 instead of 1.00."),
    ({"moved": 5}, "moves", "12 % of the partitions move because the assignor changes."),
    (
        {"policy": Policy.UPGRADE},
        "no-online-rollback",
        "policy=upgrade, the broker doesn't convert a running group back.",
    ),
)
def test_reasons_for_a_warning(changes: dict[str, object], code: str, words: str) -> None:
    """Each alone; one step less and there is none."""
    verdict, codes, reasons = judge_migration(replace(FINE, **changes))
    assert (verdict, codes) == ("ready-with-warnings", (code,))
    assert words in reasons


@cases(
    "changes",
    {"assignor": "range", "copartitioned_topics": 0},
    {"assignor": "range", "server_assignor": "server-range", "static_members": 3},
    {"server_assignor": "server-range", "members": 1},
    {"max_size": 3},
    {"cross_rack_before": 3, "cross_rack_after": 1},
    {"max_over_mean_before": None, "max_over_mean_after": None},
    {"partitions": 0, "moved": 0},
)
def test_what_is_no_reason(changes: dict[str, object]) -> None:
    """Co-partitioning that there is not, static members in their order, racks that get better."""
    verdict, *_ = judge_migration(replace(FINE, **changes))
    assert verdict == "ready"


def test_policies_as_the_brokers_have_them() -> None:
    """`ConsumerGroupMigrationPolicy`: name, upgrade, downgrade."""
    found = [(str(each), each.up, each.down) for each in Policy]
    assert found == tuples("bidirectional True True; upgrade True False; downgrade False True; disabled False False")
    _, codes, _ = judge_migration(replace(FINE, policy=Policy.DISABLED))
    assert codes == ("offline", "no-online-rollback")


STREAMS = replace(FINE, assignor="stream", moved=30, copartitioned_topics=9)
LOST = ("warmups", "standbys", "KAFKA-20999")


@cases(
    "release static_members verdict codes",
    (None, 0, "blocked", ("kafka-streams", *LOST)),
    ("4.1.2", 0, "blocked", ("no-streams-protocol", *LOST, "state-ignored")),
    ("4.2", 0, "ready-with-warnings", (*LOST, "state-ignored")),
    ("4.2.0", 0, "blocked", ("KAFKA-20254", *LOST, "state-ignored")),
    ("4.2.0", 1, "blocked", ("KAFKA-20254", "static-members", *LOST, "state-ignored")),
    ("4.2.1", 0, "ready-with-warnings", (*LOST, "state-ignored")),
    ("4.3.1", 1, "blocked", ("static-members", *LOST, "state-ignored")),
    ("4.4", 0, "ready-with-warnings", LOST),
    ("4.4.0", 1, "ready-with-warnings", ("static-clients", *LOST)),
    (None, 1, "blocked", ("kafka-streams", "static-clients", *LOST)),
)
def test_kafka_streams_moves_to_its_own_protocol(
    release: str | None, static_members: int, verdict: str, codes: tuple[str, ...]
) -> None:
    """Defects by release of the brokers, and what is lost; what the consumer protocol needs doesn't matter."""
    found = judge_migration(replace(STREAMS, broker_release=release, static_members=static_members))
    assert found[:2] == (verdict, codes)
    assert "Requires" not in found[2]
    assert "at most 2 unless group.streams.max.standby.replicas of the brokers is changed" in found[2]


@pytest.mark.parametrize("release", ["4", "4.x", "4.2.1.0", "", "latest"])
def test_a_release_is_two_or_three_numbers(release: str) -> None:
    """Anything else is a message."""
    with pytest.raises(ConfigError, match="broker release"):
        _check_release(release)


def test_a_reason_to_stay_comes_before_warnings_which_are_reported_all_the_same() -> None:
    """Nothing is left out."""
    changed = replace(FINE, client_libraries="kafkajs 2, unknown 1", assignor="range", moved=30)
    verdict, codes, _ = judge_migration(changed)
    assert verdict == "blocked"
    assert codes == ("client-lacks-protocol", "client-unknown", "co-partitioning", "moves")


def test_what_the_broker_converts_while_a_group_runs() -> None:
    """`validateOnlineUpgrade`, and user data in assignments (`fromClassicGroup`); an unknown assignor is believed."""
    assert all(replace(FINE, assignor=assignor).online for assignor in (*CLIENT_ASSIGNORS, None))
    for refused in ({"assignor": "stream"}, {"assignor": "mine"}, {"policy": Policy.DISABLED}, {"max_size": 2}):
        assert not replace(FINE, **refused).online, refused


def test_libraries_that_speak_the_protocol() -> None:
    """And from which release on."""
    assert {name: each.consumer_protocol for name, each in LIBRARIES.items() if each.consumer_protocol} == {
        "Java": "4.0 or later",
        "librdkafka": "2.12 or later (confluent-kafka 2.12, confluent-kafka-javascript 1.6)",
        "franz-go": "1.22 or later, with kgo.ServerSideBalancer",
    }


# --- steps --------------------------------------------------------------------------------------------------------

FIGURES = {"moved": 5, "moved_on_rollback": 7, "owned": 40}
COST = {"moved": 2, "revoked": 1, "paused_partitions": 4}


def whats(case: MigrationCandidate, number: int) -> list[tuple[str, int, int | None, int | None]]:
    """Of each step what it is, restarts, how many were played, and what they move."""
    found = list(plan_steps(case, FIGURES, [COST] * number))
    assert [step["step"] for step in found] == list(range(1, len(found) + 1))
    return [(step["step_type"], step["restarts"], step["simulated_restarts"], step.get("moved")) for step in found]


def test_steps_online() -> None:
    """One, two, and more members; members whose restarts were not played."""
    four = replace(FINE, members=4)
    assert whats(four, 4) == tuples(
        "prepare 0 None None; first-member 1 1 2; other-members 2 2 4; last-member 1 1 2; rollback 4 None 7"
    )
    assert [what for what, *_ in whats(replace(FINE, members=2), 2)][1:3] == ["first-member", "last-member"]
    assert [what for what, *_ in whats(replace(FINE, members=1), 1)] == ["prepare", "first-member", "rollback"]
    assert whats(four, 2)[2:4] == [("other-members", 2, 1, 2), ("last-member", 1, 0, None)]


def test_static_members_have_a_step_more() -> None:
    """What the broker's assignor changes at the next occasion."""
    assert whats(replace(FINE, static_members=3), 3)[-2:] == [("next-rebalance", 0, None, 5), ("rollback", 3, None, 7)]


def test_steps_of_a_group_that_stops_first() -> None:
    """Everything is revoked once."""
    offline = replace(FINE, policy=Policy.DISABLED)
    found = whats(offline, 0)
    assert found == tuples("prepare 0 None None; stop-all 3 None None; start-all 0 None 5; rollback 3 None 7")
    assert next(step for step in plan_steps(offline, FIGURES, []) if step["step_type"] == "stop-all")["revoked"] == 40


def test_steps_of_kafka_streams() -> None:
    """To its own protocol, with a full stop; the settings are those of instances and of the group."""
    steps = list(plan_steps(STREAMS, FIGURES, []))
    assert [step["step_type"] for step in steps] == ["prepare", "stop-all", "start-all", "rollback"]
    assert (steps[1]["restarts"], steps[1]["revoked"], steps[2].get("moved")) == (3, 40, None)
    assert "group.protocol=streams" in steps[0]["description"]
    assert "group.protocol=classic" in steps[3]["description"]


def test_the_words_name_settings_and_assignors() -> None:
    """What a person has to write into which file."""
    ranged = describe_prepare(replace(FINE, server_assignor="server-range"))
    assert "group.protocol=consumer and group.remote.assignor=range, and remove partition.assignment" in ranged
    assert all(name in describe_prepare(FINE) for name in FORBIDDEN)
    assert "sticky assigns its partitions to the other members" in describe_first_restart(FINE)
    assert "A static member keeps its partitions." in describe_first_restart(replace(FINE, static_members=1))
    assert "revoke all their partitions" in describe_other_restarts(FINE)
    assert "revoke the partitions that move" in describe_other_restarts(replace(FINE, assignor="cooperative-sticky"))
    assert "doesn't convert a running group back" in describe_rollback(replace(FINE, policy=Policy.UPGRADE))
    assert "and sticky assigns all partitions again" in describe_rollback(FINE)


# --- all groups of some facts -------------------------------------------------------------------------------------


def facts(*more: dict[str, object]) -> pa.Table:
    """A classic group of two Java consumers, of which one owns all, and more."""
    key = {"cluster": "c", "group_id": "g"}
    rows: list[dict[str, object]] = [
        *({"kind": MEMBER, "member_id": m, "client_id": "consumer-g-1"} for m in "ab"),
        *({"kind": SUBSCRIPTION, "member_id": m, "topic": "t", "partitions": 4} for m in "ab"),
        {"kind": OWNED_SLICE, "member_id": "a", "topic": "t", "partitions": 4, "first": 0, "step": 1, "count": 4},
        {"kind": GROUP, "assignor": "sticky", "group_type": "classic"},
    ]
    return facts_table([*(key | row for row in rows), *more])


def migrations(table: pa.Table, params: MigrationPassParams | None = None) -> dict[tuple[str, str], dict[str, object]]:
    """Rows of groups and refusals, by kind and group."""
    rows = pa.concat_tables(list(plan_migrations(table, params or MigrationPassParams(), SCHEMA))).to_pylist()
    return {(row["kind"], row["group_id"]): row for row in rows if row["kind"] != "step"}


def test_figures_of_a_group() -> None:
    """What moves because the assignor changes, on the way, and back; before and after."""
    row = migrations(facts())["group", "g"]
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "group",
        "cluster": "c",
        "group_id": "g",
        "verdict": "ready-with-warnings",
        "online": True,
        "assignor": "sticky",
        "server_assignor": "uniform",
        "client_libraries": "Java 2",
        "members": 2,
        "static_members": 0,
        "partitions": 4,
        "moved": 2,
        "moved_during_migration": 10,
        "paused_during_migration": 12,
        "moved_on_rollback": 0,
        "max_over_mean_before": 2.0,
        "max_over_mean_after": 1.0,
        "paused_partition_seconds": 3.0,  # two partitions wait half a heartbeat interval
        "codes": "moves",
        "reasons": "50 % of the partitions move because the assignor changes. Requires Java 4.0 or later.",
        "rollback": describe_rollback(FINE),
    }
    offline = migrations(facts(), MigrationPassParams(policy=Policy.DISABLED))["group", "g"]
    assert (offline["online"], offline["moved_during_migration"], offline["moved"]) == (False, None, 2)


def in_racks(name: str, owned: dict[str, list[int]], **more: object) -> list[dict[str, object]]:
    """A group with range, each of whose members reads in its rack; t has a replica of 0 and 1 in rb, of 2 and 3 in
    ra. `more` has columns of subscriptions."""
    key = {"cluster": "c", "group_id": name}
    rows: list[dict[str, object]] = [
        {"kind": GROUP, "assignor": "range", "group_type": "classic"},
        {"kind": REPLICA_RACKS, "topic": "t", "at": [0, 1, 2, 3], "racks": [["rb"], ["rb"], ["ra"], ["ra"]]},
    ]
    for member_id, (first, *_) in owned.items():
        topic = {"member_id": member_id, "topic": "t", "partitions": 4}
        rows.append({"kind": MEMBER, "member_id": member_id, "client_id": "consumer-1", "rack_id": f"r{member_id}"})
        rows += [topic | more | {"kind": SUBSCRIPTION}]
        rows += [topic | {"kind": OWNED_SLICE, "first": first, "step": 1, "count": 2}]
    return [key | row for row in rows]


def test_groups_in_racks() -> None:
    """uniform ignores racks: when a member rejoins, the other one keeps its first partitions, so a has [0,1] in the end
    and reads all of them across racks. range and rack-uniform give it [2,3]. Without racks, nothing is known."""
    near, far = in_racks("near", {"a": [2, 3], "b": [0, 1]}), in_racks("far", {"a": [0, 1], "b": [2, 3]})
    params = MigrationPassParams(racks_known=True, hypothetical_assignors=("uniform", "rack-uniform"))
    table = facts(*near, *far, *in_racks("rejected", {"a": [2, 3], "b": [0, 1]}, topic_id="no id"))
    found = migrations(table, params)
    names = (
        *("cross_rack_before", "cross_rack_after", "hypothetical_assignor", "cross_rack_hypothetical"),
        *(
            *("moved", "moved_during_migration", "paused_during_migration", "moved_on_rollback"),
            "paused_partition_seconds",
        ),
    )
    assert {group: tuple(row[name] for name in names) for (kind, group), row in found.items() if kind == "group"} == {
        "far": (4, 4, "rack-uniform", 0, 0, 8, 12, 4, 0.0),
        "g": (None, None, None, None, 2, 10, 12, 0, 3.0),
        "near": (0, 4, "rack-uniform", 0, 0, 8, 12, 4, 0.0),
    }
    assert (found["group", "near"]["codes"], found["group", "far"]["codes"]) == (
        "racks-lost, client-unknown",
        "client-unknown",
    )
    assert found["rejected", "rejected"]["code"] == "bad-topic-id"
    unknown = migrations(table, replace(params, racks_known=False))["group", "near"]
    assert [unknown[name] for name in names[:4]] == [None] * 4


def test_topics_with_the_same_partitions_and_subscribers() -> None:
    """Of three topics, two have as many partitions. range assigns the same ones of both to a member."""
    rows = in_racks("pair", {"a": [2, 3], "b": [0, 1]})
    more = [
        {
            "cluster": "c",
            "group_id": "pair",
            "kind": SUBSCRIPTION,
            "member_id": name,
            "topic": topic,
            "partitions": count,
        }
        for name in "ab"
        for topic, count in (("u", 4), ("v", 2))
    ]
    row = migrations(facts(*rows, *more))["group", "pair"]
    assert "co-partitioning" in str(row["codes"])
    assert "the same partitions of 2 topics" in str(row["reasons"])


def test_steps_of_all_groups() -> None:
    """Each group has its own, in order; a group that is rejected has none."""
    table = facts(*in_racks("far", {"a": [0, 1], "b": [2, 3]}), *in_racks("no", {"a": [0], "b": [2]}, topic_id="no id"))
    rows = pa.concat_tables(list(plan_migrations(table, MigrationPassParams(), SCHEMA))).to_pylist()
    names = ("group_id", "step", "step_type", "restarts", "simulated_restarts", "moved", "revoked", "paused_partitions")
    assert [tuple(row[name] for name in names) for row in rows if row["kind"] == "step"] == [
        ("far", 1, "prepare", 0, None, None, None, None),
        ("far", 2, "first-member", 1, 1, 4, 2, 8),
        ("far", 3, "last-member", 1, 1, 4, 2, 4),
        ("far", 4, "rollback", 2, None, 4, None, None),
        ("g", 1, "prepare", 0, None, None, None, None),
        # All four partitions of the restarted member move to the other one, and two move back.
        ("g", 2, "first-member", 1, 1, 6, 2, 8),
        ("g", 3, "last-member", 1, 1, 4, 2, 4),
        ("g", 4, "rollback", 2, None, 0, None, None),
    ]


def test_a_group_that_fails_is_rejected_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other groups are planned as without it."""

    def fail(specs: GroupSpecs, *others: Any) -> MigrationMetrics:
        if "far" in specs.group_id.to_pylist():
            raise IndexError("7 of 6")
        return measure_migration(specs, *others)

    monkeypatch.setattr(migrate, "measure_migration", fail)
    found = migrations(facts(*in_racks("far", {"a": [0, 1], "b": [2, 3]}), *in_racks("near", {"a": [0], "b": [2]})))
    row = found.pop(("rejected", "far"))
    assert (row["code"], row["detail"]) == ("assignor-failed", "IndexError: 7 of 6")
    assert found == migrations(facts(*in_racks("near", {"a": [0], "b": [2]})))


def test_no_group_is_left_out() -> None:
    """Groups of other protocols by name; those without members; those that are there; those that cannot be planned."""
    more = [
        {"cluster": "c", "group_id": name, "kind": GROUP, "assignor": "range", "group_type": kind}
        for name, kind in keyed("k=connect s=share st=streams x=new e=classic ec=consumer there=consumer").items()
    ]
    member = {"cluster": "c", "kind": MEMBER, "member_id": "m"}
    more += [member | {"group_id": name} for name in ("k", "there", "twice", "twice")]
    more += [member | {"group_id": "no-id"}]
    asks = {"kind": SUBSCRIPTION, "member_id": "m", "topic": "u", "partitions": 1, "topic_id": "no id"}
    more += [{"cluster": "c", "group_id": "no-id"} | asks]
    found = migrations(facts(*more))
    refused = {group: row["code"] for (kind, group), row in found.items() if kind == "rejected"}
    out = dict.fromkeys(("k", "s", "st", "x"), "out-of-scope")
    assert refused == out | {"twice": "duplicate-member", "no-id": "bad-topic-id"}
    assert str(found["rejected", "k"]["detail"]).endswith("which KIP-848 doesn't change. Nothing to migrate")
    assert "KIP-932" in str(found["rejected", "s"]["detail"])
    assert "KIP-1071" in str(found["rejected", "st"]["detail"])
    assert "protocol new" in str(found["rejected", "x"]["detail"])
    verdicts = {group: row["verdict"] for (kind, group), row in found.items() if kind == "group"}
    assert verdicts == {"g": "ready-with-warnings", "e": "ready", "ec": "done", "there": "done"}
    assert found["group", "there"]["assignor"] == "server-range"
    zeros = ("members", "static_members", "partitions", "moved", "moved_during_migration", "paused_during_migration")
    assert [[found["group", name][zero] for zero in zeros] for name in ("e", "ec")] == [[0] * 6, [0] * 3 + [None] * 3]
    assert [found["group", name]["online"] for name in ("e", "ec")] == [True, None]


def test_the_bytes_of_the_leader_tell_what_client_ids_do_not() -> None:
    """kafka-python and aiokafka write the same bytes, and neither has the protocol: the group is blocked."""
    group = {"cluster": "c", "group_id": "h"}
    leader = {"leader_library": "aiokafka or kafka-python", "leader_confidence": "unknown"}
    rows: list[dict[str, object]] = [
        group | {"kind": MEMBER, "member_id": "z", "client_id": "billing"},
        group | {"kind": SUBSCRIPTION, "member_id": "z", "topic": "t", "partitions": 4},
        group | {"kind": GROUP, "assignor": "range", "group_type": "classic"} | leader,
    ]
    row = migrations(facts(*rows))["group", "h"]
    assert (row["verdict"], row["codes"]) == ("blocked", "client-lacks-protocol")
    assert row["client_libraries"] == "aiokafka or kafka-python 1"
    stated = migrations(facts(*rows), MigrationPassParams(library={"h*": "Java"}))["group", "h"]
    assert (stated["verdict"], stated["client_libraries"]) == ("ready", "Java 1")


def test_members_that_client_ids_do_not_tell_of() -> None:
    """Unknown, unless somebody says what they run on; who is known stays known."""
    more = {"cluster": "c", "group_id": "g", "kind": MEMBER, "member_id": "z", "client_id": "billing"}
    assert migrations(facts(more))["group", "g"]["client_libraries"] == "Java 2, unknown 1"
    by_glob = MigrationPassParams(library={"x": "Java", "*": "librdkafka"})
    assert migrations(facts(more), by_glob)["group", "g"]["client_libraries"] == "Java 2, librdkafka 1"


def test_the_order_of_rows_does_not_matter() -> None:
    """The same answer of the same facts."""
    table = facts({"cluster": "c", "group_id": "e", "kind": GROUP, "group_type": "classic"})
    assert migrations(table.take(pa.array(np.random.default_rng(1).permutation(len(table))))) == migrations(table)


@pytest.mark.parametrize("release", ["4.0.2", "4.0", "4.1.2", "4.1", "4.2.0", "4.4", None])
def test_brokers_that_load_groups_while_they_are_compacted(release: str | None) -> None:
    """The jars of these releases have the fix of KAFKA-19862; a release without a patch is its latest patch."""
    assert judge_migration(replace(FINE, broker_release=release))[0] == "ready"


def test_the_rollback_names_its_fault() -> None:
    """KAFKA-21117 is open."""
    assert "KAFKA-21117" in describe_rollback(FINE)
    assert "KAFKA-21117" not in describe_rollback(replace(FINE, policy=Policy.UPGRADE))


def test_prepare_is_in_the_syntax_of_each_library() -> None:
    """franz-go has options; unknown clients get the properties of Java."""
    text = describe_prepare(replace(FINE, client_libraries="franz-go 2, librdkafka 1"))
    assert "kgo.ServerSideBalancer() and kgo.Balancers(kgo.StickyBalancer()), or group.protocol=consumer and" in text
    assert text.endswith("heartbeat.interval.ms. A client doesn't start with them.")
    assert describe_prepare(replace(FINE, client_libraries="franz-go 2")) == (
        "In the settings of every member, set kgo.ServerSideBalancer() and kgo.Balancers(kgo.StickyBalancer())."
    )
    assert describe_prepare(replace(FINE, client_libraries="aiokafka or kafka-python 2, Sarama 1")) == (
        "aiokafka or kafka-python and Sarama can't use the consumer protocol: move the members to another library "
        "first."
    )
    assert "group.remote.assignor=uniform" in describe_prepare(replace(FINE, client_libraries="unknown 2"))
