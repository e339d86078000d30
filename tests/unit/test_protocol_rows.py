"""Many groups side by side without Spark, and what came of them as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from spark_assign.simulation.kernel import simulate_groups, simulated_group
from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse
from spark_assign.simulation.kernel.classic_group_member import IllegalState
from spark_assign.simulation.kernel.leader import ASSIGNORS
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, PARTITIONS, RESULTS, TRACE, simulate_facts
from spark_assign.simulation.simulate_groups import RESULT_ROWS
from spark_assign.tables import simulation as schemas
from tests.cases import cases, keyed, tuples
from tests.unit import protocol_facts as facts

Row = dict[str, Any]

TIMES = TimingConfig(revoke_ms=500, restore_ms=2_000)
JOIN = facts.event(10_000, "member-starts", "c3")
_VARIANT = [StructField("variant", StringType(), nullable=False)]
_TABLES = {TRACE: schemas.TRACE, PARTITIONS: schemas.PARTITIONS, OWNERSHIP: schemas.OWNERSHIP}
SCHEMAS = {RESULTS: to_arrow_schema(RESULT_ROWS)} | {
    name: to_arrow_schema(StructType([*t.fields[:2], *_VARIANT, *t.fields[2:]])) for name, t in _TABLES.items()
}


def _tables(
    write: str = RESULTS, *, variants: tuple[str, ...] = ("eager",), until: int | None = None, **groups: list[Row]
) -> list[list[Row]]:
    made = simulate_facts(facts.table(**groups), variants, TIMES, until, write, SCHEMAS[write])
    return [each.to_pylist() for each in made]


def _rows(write: str = RESULTS, **options: Any) -> list[Row]:
    return [row for table in _tables(write, **options) for row in table]


def _only(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# --- rows ---------------------------------------------------------------------------------------------------------


def test_a_round() -> None:
    """The textbook's join under the eager variant: all give up, t-1 and t-2 move."""
    [row] = _rows(g=facts.pair(JOIN))
    assert (row["cluster"], row["group_id"], row["variant"], row["code"]) == ("k", "g", "eager", None)
    assert row["rebalances"] == [
        keyed(
            "generation_id=2 cause='member c3 joined' start_ms=10_000 joined_ms=13_000 end_ms=13_000 "
            "duration_ms=3_000 members=3 leader=c1 assignor=range revoked=3 lost=0 assigned=3 moved=2"
        )
    ]


def test_what_it_costs() -> None:
    """t-0 stays with c1 and pauses 1 s; t-1 and t-2 pause 1 s and 2 s more to be restored; the first is named."""
    [row] = _rows(g=facts.pair(JOIN))
    assert row["availability"] == {
        "start_ms": 0,
        "end_ms": 18_000,  # ready at 15 s, and one heartbeat more
        "partitions": 3,
        "partition_ms": 54_000,
        "paused_partition_ms": 7_000,
        "unowned_at_end": 0,
        "longest_pause_ms": 3_000,
        "longest_pause_topic": "t",
        "longest_pause_partition": 1,
        "rebalances": 1,
        "members_restarted": 0,
    }


def test_the_longest_pause_need_not_be_the_last() -> None:
    """Of a partition and among partitions: c1 is down for long, then for a moment, and c2 in between."""
    restart = {"group_instance_id": None}
    group = facts.pair(
        facts.event(10_000, "member-restarts", "c1", down_ms=20_000, **restart),
        facts.event(60_000, "member-restarts", "c2", down_ms=9_000, **restart),
        facts.event(90_000, "member-restarts", "c1", down_ms=1_000, **restart),
    )
    [row] = _rows(variants=("static",), g=group)
    costs = row["availability"]
    assert (costs["longest_pause_ms"], costs["longest_pause_partition"]) == (21_000, 0)  # 1 s to give up, 20 s down
    assert costs["paused_partition_ms"] == 2 * (21_000 + 2_000) + 9_500
    assert (costs["members_restarted"], costs["rebalances"]) == (3, 0)
    partitions = _rows(PARTITIONS, variants=("static",), g=group)
    found = _only(partitions, "partition", "paused_partition_ms", "pauses", "longest_pause_ms")
    assert found == tuples("0 23_000 2 21_000; 1 23_000 2 21_000; 2 9_500 1 9_500")


def test_a_group_that_nothing_happens_to() -> None:
    """No pause, so that no partition is named; it ends a heartbeat after it began."""
    [row] = _rows(g=facts.pair())
    costs = row["availability"]
    assert row["rebalances"] == []
    expected = (0, None, None)
    assert (costs["longest_pause_ms"], costs["longest_pause_topic"], costs["longest_pause_partition"]) == expected
    assert (costs["end_ms"], costs["partition_ms"], costs["rebalances"]) == (3_000, 9_000, 0)
    [nothing] = _rows(g=[facts.member("a", [])])
    assert nothing["availability"]["partitions"] == nothing["availability"]["longest_pause_ms"] == 0
    assert nothing["availability"]["longest_pause_topic"] is None


def test_a_pause_of_a_moment_is_one() -> None:
    """A millisecond is named; a partition that comes later exists from then on."""
    times = facts.group(revoke_ms=0, restore_ms=1)
    created = facts.event(5_000, "partitions-added", topic="t", partitions=4)
    [row] = _rows(g=facts.pair(times, JOIN))
    costs = row["availability"]
    assert [costs[f"longest_pause_{each}"] for each in ("ms", "topic", "partition")] == [1, "t", 1]
    [row] = _rows(g=facts.pair(created), until=20_000)
    assert row["availability"]["partition_ms"] == 3 * 20_000 + 15_000
    assert row["availability"]["paused_partition_ms"] == 15_000
    assert row["availability"]["longest_pause_partition"] == 3


def test_a_trace() -> None:
    """A row per message, counted from 0."""
    rows = _rows(TRACE, g=facts.pair(JOIN))
    assert [row["seq"] for row in rows] == list(range(29))
    first, _, third = rows[:3]
    assert first == keyed(
        "cluster=k group_id=g variant=eager seq=0 at_ms=10_000 generation_id=1 actor=event "
        "message=member-starts receiver=c3 detail='member_id=c3'"
    )
    found = _only([third, rows[-1]], "generation_id", "actor", "message", "receiver", "detail")
    assert found == tuples("1 c3 JoinGroup coordinator 'without a member ID'; 2 c3 assigned None t-2")


def test_partitions_and_owners() -> None:
    """A row per partition, a row per change of its state."""
    rows = _rows(PARTITIONS, g=facts.pair(JOIN))
    found = _only(rows, "topic", "partition", "exists_ms", "paused_partition_ms", "pauses", "longest_pause_ms")
    assert found == tuples("t 0 18_000 1_000 1 1_000; t 1 18_000 3_000 1 3_000; t 2 18_000 3_000 1 3_000")
    rows = _rows(OWNERSHIP, g=facts.pair(JOIN))
    assert _only(rows, "topic", "partition", "start_ms", "end_ms", "state", "member_id")[7:] == tuples(
        "t 2 0 12_000 consumed c2; t 2 12_000 12_500 revoking c2; "
        "t 2 12_500 13_000 unowned None; t 2 13_000 15_000 restoring c3; "
        "t 2 15_000 18_000 consumed c3"
    )


@pytest.mark.parametrize("variant", ["static", "cooperative"])
def test_who_is_back_has_its_partitions_under_its_new_id(variant: str) -> None:
    """A static member at once; a dynamic one is another member, and restores them."""
    events = [facts.event(10_000, "member-crashes", "c2"), facts.event(20_000, "member-starts", "c2")]
    rows = _rows(OWNERSHIP, variants=(variant,), g=facts.pair(*events))
    found = [tuple(row[name] for name in ("start_ms", "state", "member_id")) for row in rows if row["partition"] == 2]
    assert {row["first_member_id"] for row in rows if row["partition"] == 2} == {"c2"}
    back = 20_000 if variant == "static" else 54_000  # when the session of what is left of it is over
    restored = [] if variant == "static" else [(back, "restoring", "c2~2")]
    ready = back + 2_000 * len(restored)
    assert found == [(0, "consumed", "c2"), (10_000, "down", "c2"), *restored, (ready, "consumed", "c2~2")]


def test_the_first_id_of_a_member_that_is_called_like_another_one_after_a_restart() -> None:
    """Both restart; the second has the first ID `c1~2`."""
    start = [facts.member("c1", ["t"], generation=1), facts.member("c1~2", ["t"], generation=1), facts.topic("t", 2)]
    start += [facts.owned("c1", "t", 0), facts.owned("c1~2", "t", 1)]
    events = [facts.event(at, "member-restarts", name) for at, name in ((1_000, "c1"), (60_000, "c1~2"))]
    found = {(row["first_member_id"], row["member_id"]) for row in _rows(OWNERSHIP, g=[*start, *events])}
    assert found == {("c1", "c1"), ("c1", "c1~3"), ("c1~2", "c1~2"), ("c1~2", "c1~2~2"), (None, None)}


@pytest.mark.parametrize(("until", "rounds"), [(9_999, 0), (12_999, 0), (13_000, 1), (60_000, 1)])
def test_a_play_that_is_broken_off(until: int, rounds: int) -> None:
    """What happens at that moment still counts; partitions exist until then."""
    [row] = _rows(g=facts.pair(JOIN), until=until)
    assert (len(row["rebalances"]), row["availability"]["end_ms"]) == (rounds, until)
    assert row["availability"]["partition_ms"] == 3 * until


# --- when a play ends ---------------------------------------------------------------------------------------------


@cases(
    "events end",
    ([facts.event(50_000, "metadata-refresh")], 53_000),  # the last event
    ([JOIN], 18_000),  # the last partition that is restored
    ([facts.event(10_000, "member-starts", "c3"), facts.event(15_500, "metadata-refresh")], 18_500),
)
def test_a_play_ends_a_heartbeat_after_the_last_thing(events: list[Row], end: int) -> None:
    """Whatever comes last: an event, a round, a partition that is ready."""
    assert _rows(g=facts.pair(*events))[0]["availability"]["end_ms"] == end


def test_a_round_may_come_last() -> None:
    """All are gone, and nothing is restored; the group is empty after its last round."""
    [row] = _rows(g=facts.pair(*[facts.event(10_000, "member-leaves", each) for each in ("c1", "c2")]))
    assert row["rebalances"][-1]["members"] == 0
    assert row["rebalances"][-1]["assignor"] is None
    assert row["availability"]["end_ms"] == row["rebalances"][-1]["end_ms"] + 3_000


# --- many groups --------------------------------------------------------------------------------------------------


def test_groups_and_protocols_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once or all: the same rows of each; every group with every variant."""
    groups = {f"g{number}": facts.pair(*[JOIN][: number % 2]) for number in range(5)}
    everything = _rows(variants=("eager", "cooperative"), **groups)
    found = sorted(_only(everything, "group_id", "variant"))
    assert found == [(name, variant) for name in groups for variant in ("cooperative", "eager")]
    counts = {(row["group_id"], row["variant"]): len(row["rebalances"]) for row in everything}
    assert counts["g1", "eager"] == 1
    assert counts["g1", "cooperative"] == 2
    assert counts["g2", "eager"] == 0
    monkeypatch.setattr(simulate_groups, "MAX_RUNNING", 2)
    in_pairs = _rows(variants=("eager", "cooperative"), **groups)
    key = ("group_id", "variant")
    assert sorted(in_pairs, key=lambda r: _only([r], *key)) == sorted(everything, key=lambda row: _only([row], *key))


def test_so_many_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one is over, the next one begins; all their leaders assign in one call."""
    monkeypatch.setattr(simulate_groups, "MAX_RUNNING", 3)
    requests: list[int] = []
    kafkas = ASSIGNORS["range"]
    monkeypatch.setitem(ASSIGNORS, "range", lambda asks: requests.append(len(asks)) or kafkas(asks))
    _rows(**{f"g{number}": facts.pair(JOIN) for number in range(7)})
    assert requests == [3, 3, 1]


def test_tables_are_no_longer_than_they_need_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is full as soon as it has so many rows; what is left is the last one; nothing gives no table."""
    monkeypatch.setattr(simulate_groups, "ROWS_PER_TABLE", 3)
    groups = {f"g{number}": facts.pair() for number in range(4)}
    assert [len(each) for each in _tables(**groups)] == [3, 1]
    assert [len(each) for each in _tables(PARTITIONS, **groups)] == [3, 3, 3, 3]
    monkeypatch.setattr(simulate_groups, "ROWS_PER_TABLE", 4)
    assert [len(each) for each in _tables(**groups)] == [4]
    assert [len(each) for each in _tables(PARTITIONS, **groups)] == [6, 6]
    assert _tables() == []
    assert _tables(TRACE, **groups) == []


# --- groups that cannot be played ---------------------------------------------------------------------------------


def test_sums_that_overflow_reject_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the groups that are simulated with it."""
    monkeypatch.setattr(simulate_groups, "MAX_LONG", 100_000)
    late = facts.event(90_000, "metadata-refresh")
    rows = {row["group_id"]: row["code"] for row in _rows(variants=("configured",), a=facts.pair(), z=facts.pair(late))}
    assert rows == {"a": None, "z": "bad-event"}


def test_a_group_that_cannot_be_played_sinks_nobody() -> None:
    """Each says what is wrong, where rows of plays are; elsewhere it has none."""
    twice = facts.owned("c2", "t", 0)
    apart = [
        facts.member("c1", ["t"], assignors=["range"]),
        facts.member("c2", ["t"], assignors=["roundrobin"]),
        facts.owned("c1", "t", 0),
        facts.topic("t", 1),
    ]
    # Who owns a partition that there is not takes the place of one that there is, which nobody has room for.
    gone = [facts.owned("c1", "t", 0, step=7, count=2), facts.owned("c2", "t", 1), facts.topic("t", 3)]
    gone += [
        facts.member("c3", ["t"], generation=1),
        facts.owned("c3", "t", 2),
        facts.event(9_000, "member-leaves", "c3"),
    ]
    groups = {
        "fine": facts.pair(JOIN),
        "twice": facts.pair(twice),
        "event": facts.pair(facts.event(1, "member-leaves", "x")),
        "later": facts.pair(JOIN, facts.event(60_000, "member-starts", "c3")),
        "strange": facts.pair(facts.group(["uniform", "tiered"])),
        "of-one": facts.pair(facts.member("c4", ["t"], assignors=["range", "uniform"])),
        "apart": apart,
        "static": facts.pair(*(facts.member(each, ["t"], group_instance_id="i") for each in ("c4", "c5"))),
        "event-assignor": facts.pair(facts.event(1, "rolling-restart", assignors=["uniform"])),
        "kafka": [facts.group(["cooperative-sticky"]), *facts.pair()[:2], *gone],
    }
    rows = {row["group_id"]: row for row in _rows(variants=("configured",), **groups)}
    assert set(rows) == set(groups)
    assert {name: row["code"] for name, row in rows.items()} == {
        **keyed("fine=None twice=owned-twice event=bad-event later=bad-event strange=unknown-assignor"),
        "of-one": "unknown-assignor",
        "apart": "kafka-refuses",
        "static": "duplicate-instance",
        "event-assignor": "unknown-assignor",
        "kafka": "kafka-fails",
    }
    assert all(row["rebalances"] is None and row["availability"] is None for row in rows.values() if row["code"])
    known = "range, roundrobin, sticky, cooperative-sticky"
    assert rows["strange"]["detail"] == f"assignor 'tiered' can't be simulated. Assignors: {known}"
    assert rows["of-one"]["detail"] == f"assignor 'uniform' can't be simulated. Assignors: {known}"
    assert rows["kafka"]["detail"].startswith("cooperative-sticky: ")
    assert rows["event"]["detail"].endswith("the group has no such member. Use the member's first ID")
    for write in (TRACE, PARTITIONS, OWNERSHIP):
        assert {row["group_id"] for row in _rows(write, variants=("configured",), **groups)} == {"fine"}


def test_a_fault_of_our_own_costs_only_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an assignor that solves many requests at once, and elsewhere."""
    by_range = ASSIGNORS["range"]

    def broken(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
        if any(len(each.members) == 3 for each in requests):
            raise ZeroDivisionError("ours")
        return by_range(requests)

    monkeypatch.setitem(ASSIGNORS, "range", broken)
    groups = {"a": facts.pair(JOIN), "b": facts.pair(facts.event(1, "member-leaves", "c2")), "c": facts.pair(JOIN)}
    ours = ("assignor-failed", "ZeroDivisionError: ours")
    rows = _only(_rows(**groups), "group_id", "code", "detail")
    assert sorted(rows) == [("a", *ours), ("b", None, None), ("c", *ours)]

    def refuses(self: object, until: int | None) -> object:
        raise IllegalState("as Kafka says")
        yield

    def breaks(self: object, until: int | None) -> object:
        raise ZeroDivisionError("ours")
        yield

    monkeypatch.setattr(simulate_groups.GroupSimulation, "run", breaks)
    assert _only(_rows(g=facts.pair(JOIN)), "code", "detail") == [ours]
    monkeypatch.setattr(simulate_groups.GroupSimulation, "run", refuses)
    [row] = _rows(g=facts.pair(JOIN))
    assert (row["code"], row["detail"]) == ("kafka-refuses", "as Kafka says")


def test_a_claim_to_partitions_that_do_not_exist() -> None:
    """The coordinator of KIP-848 ignores it, also if members have different topics; later, the partition is free."""
    events = [
        facts.event(1_000, "member-restarts", "b"),
        facts.event(1_000, "subscription-changes", "b", topics=["w"]),
        facts.event(1_000, "topic-deleted", topic="u"),
        facts.event(1_000, "partitions-added", topic="w", partitions=102),
        facts.event(1_000, "topic-created", topic="gone", partitions=102),
    ]
    start = [facts.member("a", ["u", "w", "gone"], generation=1), facts.member("b", ["u"], generation=1)]
    start += [facts.topic("u", 4), facts.topic("w", 2), facts.owned("b", "u", 0)]
    start += [facts.owned("a", "w", 100), facts.owned("a", "gone", 100)]
    groups = {f"g{number}": [*start, event] for number, event in enumerate(events)}
    for row in _rows(variants=("consumer",), **groups):
        assert (row["code"], row["availability"]["unowned_at_end"]) == (None, 0)


def test_a_group_that_does_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving up takes longer than the others wait: a round follows the other, until it is enough."""
    monkeypatch.setattr(simulated_group, "MOST_ROUNDS", 20)
    [row] = _rows(g=facts.pair(facts.group(rebalance_timeout_ms=10_000, revoke_ms=20_000), JOIN))
    assert row["code"] == "does-not-converge"
    assert row["detail"].startswith("the group is still rebalancing 20 rounds after the last event; does giving up")
    # The rounds are counted from the last event; a group that has had many is not endless for it.
    [many] = _rows(g=facts.pair(*[facts.event(100_000 * number, "member-restarts", "c1") for number in range(1, 31)]))
    assert many["code"] is None
    assert len(many["rebalances"]) == 60
