"""Pasts replayed: what was recorded is found again, and textbook rebalances by hand."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import EllipsisType, ModuleType
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.history.kernel import build_history, build_timelines, departures, pauses
from spark_assign.history.kernel.departures import CRASHED, GUESS, LEFT, LIKELY, RESTARTED, SURE, Departure
from spark_assign.history.kernel.pauses import CommitPause
from spark_assign.history.kernel.replay import recorded_history, replay, reproduce_recorded
from spark_assign.history.kernel.replay.rebalance_cost import RoundDurations, find_rebalances
from spark_assign.history.kernel.replay.recorded_history import (
    ASSIGNORS,
    CHANGED,
    FIRST,
    FOLLOW_UP,
    RecordedGeneration,
    RecordedHistory,
    RejectedHistory,
    ReplayVariant,
    read_histories,
    read_history,
)
from spark_assign.history.kernel.replay.recorded_history import RESTARTED as SAME
from spark_assign.history.kernel.replay.replay import (
    REBALANCES,
    REJECTED,
    SUMMARY,
    ReplayParams,
    replay_group,
    replay_histories,
)
from spark_assign.history.kernel.replay.replay_steps import MemberIdentities, ReplayStep, replay_steps
from spark_assign.history.kernel.replay.reproduce_recorded import check_reproduced
from spark_assign.history.kernel.timeline import Generation, HistoryThresholds, RecordedMember, Timeline
from spark_assign.history.schemas import REPLAY_ROWS
from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.assignment_request import (
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
)
from spark_assign.simulation.kernel.leader import assign
from spark_assign.simulation.kernel.pause_estimates import PauseCounts
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import solve_requests
from spark_assign.spark.dataframes import to_arrow_schema
from tests.cases import cases, tuples
from tests.unit import history_pasts, recorded_pasts
from tests.unit.history_log import Log, classic_member, generation, join

SCHEMA: pa.Schema = to_arrow_schema(REPLAY_ROWS)
TIMING = TimingConfig(poll_interval_ms=500)
ROUND_MS = 20_000


@pytest.mark.parametrize("partition", [2**31 - 1, 1_000_000, -1])
def test_a_partition_that_no_topic_has_rejects_its_group_only(log: Log, partition: int) -> None:
    """A leader writes any number into an assignment; expanded, it would need more memory than a worker has."""
    for number in (1, 2):
        log.write(number * 60_000, "GroupMetadata", generation(number, [classic_member("a", {"t": [0, partition]})]))
        good = [classic_member("a", {"t": [number]})]
        log.write(number * 60_000, "GroupMetadata", generation(number, good), group="good")
    rejected, read = sorted(read_histories(log.facts(), HistoryThresholds()), key=lambda each: each.group_id != "g")
    assert isinstance(rejected, RejectedHistory)
    assert rejected.code == "too-many-partitions"
    assert isinstance(read, RecordedHistory)


def test_a_group_with_too_many_partitions_in_all(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch is a record of 60 bytes, and would need a kilobyte for each partition of the group."""
    join(log, 1_000, 1, "a", {"a": {"t": list(range(50))}}, t=list(range(50)))
    for epoch in range(2, 9):
        log.write(1_000 * epoch, "ConsumerGroupMetadata", {"epoch": epoch, "metadataHash": 0})
    assert isinstance(next(read_histories(log.facts(), HistoryThresholds())), RecordedHistory)
    monkeypatch.setattr(recorded_history, "_MAX_ASSIGNED", 399)
    rejected = next(read_histories(log.facts(), HistoryThresholds()))
    assert isinstance(rejected, RejectedHistory)
    assert rejected.code == "too-many-partitions"
    monkeypatch.setitem(build_timelines._MAX_TOTALS, "members", 7)
    assert log.table_rows("rejected", "code") == [("too-many-members",)]
    assert log.table_rows("groups", "group_type", "rebalances") == [("consumer", 0)]


@cases(
    "module name value code",
    (build_timelines, "subscribed topics", 0, "too-many-members"),
    (build_timelines, "assigned partitions", 7, "too-many-members"),
    (build_timelines, build_timelines.LONG_IDS, 8_007, "too-many-members"),
    (pauses, "_MAX_TOUCHED", 5, "too-many-partitions"),
    (departures, "_MAX_READ", 1, "too-many-partitions"),
)
def test_a_past_that_takes_too_long(
    log: Log, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: int, code: str
) -> None:
    """Its group has no generations, and isn't replayed. Tables are written in pieces."""
    for number in range(1, 9):
        ids = ["a", "b" * 1_001] if number % 2 else ["a"]
        members = [classic_member(each, {"t": [at]}) for at, each in enumerate(ids)]
        log.write(1_000 * number, "GroupMetadata", generation(number, members))
    for partition in (0, 1):
        log.commits("t", partition, 0, 500)
        log.commits("t", partition, 60_000, 60_500)
    monkeypatch.setattr(build_history, "_MAX_BUFFERED_ROWS", 1)
    assert isinstance(next(read_histories(log.facts(), HistoryThresholds())), RecordedHistory)
    assert len(log.table_rows("subscriptions_over_time", "member_id")) == 5
    if name in build_timelines._MAX_TOTALS:
        monkeypatch.setitem(build_timelines._MAX_TOTALS, name, value)
    else:
        monkeypatch.setattr(module, name, value)
    assert isinstance(next(read_histories(log.facts(), HistoryThresholds())), RejectedHistory)
    assert log.table_rows("rejected", "code") == [(code,)]
    assert log.table_rows("groups", "rebalances", "members") == [(0, 0)]
    assert log.table_rows("subscriptions_over_time", "member_id") == []


def test_static_members_that_leave_together() -> None:
    """Each is a step of its own, with all that remain; the steps of a variant are never in memory together."""
    ids = [f"m{number}" for number in range(800)]
    members = {each: RecordedMember(each) for each in ids}
    topics = dict.fromkeys(ids, frozenset([0]))
    first = RecordedGeneration(1, 0, "range", members, topics, {0: 1}, {}, FIRST)
    left = {each: Departure(each, 2, LEFT, LIKELY) for each in ids}
    second = RecordedGeneration(2, 1_000, "range", {}, {}, {}, {}, CHANGED, departures=left)
    history = RecordedHistory("c", "g", False, Topics.of(["t"]), [first, second])
    tracemalloc.start()
    sizes = [len(step.members) for step in _replay_steps(history, static=True)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sizes == [800, 800, *range(799, -1, -1)]
    assert peak < 4 << 20


def test_a_variant_that_assigns_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rejected; the recorded variant remains. The cache, batches, and facts have limits that change nothing."""
    timeline = _story({}, ["ab", "abc", "ab", "abcd"])
    expected = _tables(timeline)
    monkeypatch.setattr(replay, "_MAX_CACHED", 0)
    monkeypatch.setattr(replay, "_MAX_ROWS", 3)
    monkeypatch.setattr(replay, "_MAX_BATCH_PARTITIONS", 0)
    monkeypatch.setattr(reproduce_recorded, "_MAX_FACTS", 0)
    assert _tables(timeline) == expected
    monkeypatch.setattr(replay, "_MAX_REPLAYED", 5)
    tables = _tables(timeline)
    assert [row["recorded"] for row in tables[SUMMARY]] == [True]
    assert {row["code"] for row in tables[REJECTED]} == {"too-many-partitions"}


def test_facts_of_many_members_of_the_broker() -> None:
    """What each of them owned is looked up, and topics that all subscribe to are stored once."""
    topics = tuple(f"t{number}" for number in range(2_000))
    members = tuple(
        RecordedMember(f"m{number:04}", topics=topics, assignment={("partition", "t0"): (number, number + 3_000)})
        for number in range(3_000)
    )
    generations = tuple(Generation(n, n, None, "Stable", None, None, members, 0, n) for n in (1, 2))
    start = time.process_time()
    history = read_history("c", "g", Timeline("consumer", None, generations, (), {}, 1, 2, 2), (), {})
    request = reproduce_recorded._RecordedRequest(0, 1, history, reproduce_recorded._MemberFormats())
    assert sum(fact["kind"] == reproduce_recorded.OWNED_SLICE for fact in request.facts()) == 6_000
    assert time.process_time() - start < 1


# --- what was recorded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", recorded_pasts.ASSIGNORS)
def test_recorded_generations_are_found_again(rng: random.Random, assignor: str) -> None:
    """The assignor in use, run again with what the members reported, assigns every partition as recorded."""
    histories = [read_history("c", "g", recorded_pasts.random_story(rng, assignor), (), {}) for _ in range(4)]
    found = check_reproduced(histories)
    assert sum(len(each) for each in found) == sum(len(history.generations) for history in histories)
    assert [reason for each in found for reason in each.values() if reason] == []


@pytest.mark.parametrize("assignor", recorded_pasts.ASSIGNORS)
def test_a_chain_of_the_assignor_in_use_is_what_was_recorded(rng: random.Random, assignor: str) -> None:
    """Replayed from its own assignments alone, generation by generation, the past is what it was."""
    compared = 0
    for _ in range(8):
        history = read_history("c", "g", recorded_pasts.random_story(rng, assignor), (), {})
        if history.static or any(
            _withholds(now) and then.generation_kind != FOLLOW_UP for now, then in pairwise(history.generations)
        ):
            continue  # Members that restarted in place, or somebody came between two rounds of one rebalance.
        if _withholds(history.generations[-1]):
            continue
        compared += len(history.generations)
        pairs = zip(history.generations, [*history.generations[1:], None], strict=True)
        ends = [now for now, then in pairs if then is None or then.generation_kind != FOLLOW_UP]
        assert _chain(history, assignor) == [dict(each.owners) for each in ends]
    assert compared


def _withholds(then: RecordedGeneration) -> bool:
    return sum(then.partitions.values()) > len(then.owners)


def _chain(history: RecordedHistory, assignor: str) -> list[dict[int, str]]:
    steps = _replay_steps(history, static=False)
    owners_log: list[Mapping[int, str]] = []
    durations = RoundDurations([None] * len(history.generations), TIMING)
    _requests(replay_group(history, ReplayVariant(assignor, False), steps, durations, owners_log))
    return [dict(each) for each in owners_log]


def _requests(running: Generator[Any, Any, Any]) -> list[Any]:
    """Runs a replay, and returns its requests."""
    requests, request = [], next(running, None)
    while request is not None:
        requests.append(request)
        try:
            request = running.send(solve_requests([request])[0])
        except StopIteration:
            request = None
    return requests


@cases("assignor num_requests", ("range", 2), ("roundrobin", 2), ("server-range", 2), ("sticky", 6))
def test_an_assignor_that_ignores_ownership_runs_once_per_number_of_members(assignor: str, num_requests: int) -> None:
    """If all members have the same subscription: six assignments to two or three members."""
    history = read_history("c", "g", _story({}, ["ab", "abc", "bc", "bcd", "cd", "cde"]), (), {})
    steps = _replay_steps(history, static=False)
    owners_log: list[Mapping[int, str]] = []
    durations = RoundDurations([None] * len(history.generations), TIMING)
    running = replay_group(history, ReplayVariant(assignor, False), steps, durations, owners_log)
    assert len(_requests(running)) == num_requests
    if assignor == "range":
        halves = [[members[each * len(members) // 4] for each in range(4)] for members in ("ab", "bc", "cd")]
        assert [[owners[each] for each in range(4)] for owners in owners_log[::2]] == halves


def test_what_differs_is_reported() -> None:
    """A generation that the assignor would have shared out otherwise counts as not replayed, with a word why."""
    timeline = _story({"a": "ab", "b": "ab"}, ["ab", "a"])
    second = timeline.generations[1]
    (member,) = second.members
    twisted = [timeline.generations[0], Generation(2, second.at_ms, None, "Stable", "sticky", None, (member,), 0, 1)]
    rows = _replayed(Timeline(**{**vars(timeline), "generations": tuple(twisted)}))
    (row,) = (each for each in rows if each["recorded"])
    assert (row["rebalances"], row["num_replayed"], row["note"]) == (1, 1, "assignors on record: range, sticky")
    unknown = [Generation(**{**vars(each), "assignor": "mine"}) for each in timeline.generations]
    rows = _replayed(Timeline(**{**vars(timeline), "generations": tuple(unknown)}))
    (row,) = (each for each in rows if each["recorded"])
    assert (row["rebalances"], row["num_replayed"]) == (1, 0)
    assert row["note"].endswith("first generation 2: the assignor mine is unknown")


@pytest.mark.parametrize("assignor", [each for each in ASSIGNORS if "sticky" not in each])
@pytest.mark.parametrize("topics_of_b", ["x", "xy"])
def test_nobody_owns_partitions_of_a_topic_that_was_created_again(assignor: str, topics_of_b: str) -> None:
    """Its second life has fewer partitions; all are assigned, whether or not members have the same subscription.

    Not so with Kafka's sticky assignors: they keep partitions that don't exist, or fail, if members report them.
    """
    generations = []
    for number, count in ((1, 6), (2, 2), (3, 2)):
        a = history_pasts.member("a", topics=("x", "y"), assignment={("partition", "x"): tuple(range(count - 1))})
        b = history_pasts.member("b", topics=tuple(topics_of_b), assignment={("partition", "x"): (count - 1,)})
        a.assignment["partition", "y"] = (0, 1)
        generations.append(Generation(number, number * 1000, None, "Stable", "range", "a", (a, b), 0, number))
    history = read_history("c", "g", Timeline("classic", "consumer", tuple(generations), (), {}, 1000, 3000, 3), (), {})
    for owners in _chain(history, assignor)[1:]:
        assert set(owners) == {code(history.topics.names.index(topic), each) for topic in "xy" for each in (0, 1)}


def test_an_assignor_that_fails_ends_its_replay_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on; the error is that of the assignor, with the membership."""

    def fail_sticky(requests: Sequence[Any]) -> list[Any]:
        answers = solve_requests(requests)
        failed = AssignmentResponse([], "it throws")
        pairs = zip(requests, answers, strict=True)
        return [failed if each.assignor == "sticky" and len(each.members) == 3 else answer for each, answer in pairs]

    monkeypatch.setattr(replay, "solve_requests", fail_sticky)
    tables = _tables(_story({}, ["ab", "abc", "ab"]))
    found = {(row["assignor"], row["static"]) for row in tables[SUMMARY]}
    assert found == {(assignor, static) for assignor in ASSIGNORS for static in (False, True) if assignor != "sticky"}
    assert [(row["code"], row["detail"]) for row in tables[REJECTED]] == tuples(
        "kafka-fails 'sticky: it throws (dynamic members)'; kafka-fails 'sticky: it throws (static members)'"
    )


def test_groups_that_cannot_be_replayed() -> None:
    """By their type, their assignor, or because nothing happened."""
    member, of_kafka = classic_member("a", {"t": [0]}), "GroupMetadata"
    logs = {name: Log() for name in ("streams", "connect", "once", "empty", "unread", "good")}
    logs["streams"].write(1_000, of_kafka, generation(1, [member], protocol="stream"))
    logs["streams"].write(2_000, of_kafka, generation(2, [member], protocol="stream"))
    for number in (1, 2):
        logs["connect"].write(1_000 * number, of_kafka, generation(number, [member], protocolType="connect"))
        unread = {**member, "subscription": b""}
        logs["unread"].write(1_000 * number, of_kafka, generation(number, [unread]))
        logs["good"].write(1_000 * number, of_kafka, generation(number, [member], protocolType=""))
    logs["once"].write(1_000, of_kafka, generation(1, [member]))
    logs["empty"].commits("t", 0, 1_000, 2_000)
    found = {name: next(read_histories(log.facts(), HistoryThresholds())) for name, log in logs.items()}
    assert isinstance(found.pop("good"), RecordedHistory)
    assert found == {
        name: RejectedHistory("c", "g", code, detail)
        for name, (code, detail) in {
            "streams": (
                "out-of-scope",
                "Its members are of a Kafka Streams application, which requires its own assignor",
            ),
            "connect": ("out-of-scope", "Its members aren't consumers. Their protocol type is connect"),
            "once": ("no-rebalances", "Fewer than two generations are on record, so there is nothing to replay"),
            "empty": ("no-rebalances", "The group has commits, but no member on record"),
            "unread": (
                "unreadable-subscription",
                "member_id=a, generation=1: 2 bytes expected at byte 0, 0 left. "
                "The subscription of the member is unknown",
            ),
        }.items()
    }


def test_a_group_that_stays_empty_is_one_generation() -> None:
    """A tombstone, or a record that was written again, changes nothing."""
    history = read_history("c", "g", _story({}, ["ab", "", "", "ab"]), (), {})
    assert [each.generation_id for each in history.generations] == [1, 2, 4]


def test_rules_are_those_of_the_leader() -> None:
    """Its library and release, by the bytes that it wrote; today's Java clients if nobody has an assignment."""
    timeline = _story({}, ["ab", "a"], "range")
    written = {
        "range": (b"\0\3", None),
        "range@3.3": (b"\0\1", b"\xff\xff\xff\xff"),  # Java 2.4 to 3.3
        "range@librdkafka": (b"\0\3", b"\0\0\0\0"),  # 2.2 and later
    }
    for rules, (version, user_data) in written.items():

        def rewritten(one: RecordedMember, version: bytes = version, user_data: bytes | None = user_data) -> Any:
            assert one.subscription is not None
            assert one.assignment_bytes is not None
            if user_data is None:
                return one
            names = one.subscription[2:].partition(b"\xff\xff\xff\xff")[0]
            owned = b"\0\0\0\0" + (b"\xff\xff\xff\xff\xff\xff" if version == b"\0\3" else b"")
            return one._replace(
                subscription=version + names + user_data + owned,
                assignment_bytes=(version if user_data[0] else b"\0\0") + one.assignment_bytes[2:-4] + user_data,
            )

        generations = tuple(replace(e, members=tuple(rewritten(o) for o in e.members)) for e in timeline.generations)
        history = read_history("c", "g", replace(timeline, generations=generations), (), {})
        assert check_reproduced([history]) == [{0: None, 1: None}]
        assert _rules(history) == [rules, rules]
    for written_bytes in (None, b"", b"\0"):
        silent = tuple(
            replace(each, members=tuple(one._replace(assignment_bytes=written_bytes) for one in each.members))
            for each in generations
        )
        history = read_history("c", "g", replace(timeline, generations=silent), (), {})
        assert check_reproduced([history]) == [{0: None, 1: None}]
        assert _rules(history) == ["range", "range"]


def _rules(history: RecordedHistory) -> list[str]:
    """The assignor of each generation, with the library or release that sets its rules."""
    formats = reproduce_recorded._MemberFormats()
    generations = range(len(history.generations))
    return [reproduce_recorded._RecordedRequest(0, at, history, formats).rules for at in generations]


def test_what_is_not_on_record_cannot_be_reproduced() -> None:
    """Subscriptions that are missing or that can't be read, each with its rules; empty generations don't count."""
    timeline = _story({}, ["ab", "", "ab", "ab"], "range")
    first, empty, missing, damaged = timeline.generations
    lost = (missing.members[0], missing.members[1]._replace(subscription=None))
    broken = (damaged.members[0], damaged.members[1]._replace(subscription=b"\0"))
    generations = (first, empty, replace(missing, members=lost), replace(damaged, members=broken))
    history = read_history("c", "g", replace(timeline, generations=generations), (), {})
    (found,) = check_reproduced([history])
    assert [_rules(history)[at] for at in found] == ["range"] * 3
    assert found.pop(0) is None
    assert found.pop(2) == "subscriptions are not on record"
    assert str(found.pop(3)).startswith("the subscription of b: ")
    assert found == {}
    assert check_reproduced([]) == []


def test_of_two_claims_the_sticky_assignor_follows_the_later_generation() -> None:
    """`a` was away in generation 2, and still claims what it had in generation 1; `b` has got it since. The generation
    is in the user data: Java's eager members don't say it elsewhere."""
    topics = Topics.of(["orders"])

    def joined(member_id: str, claims: list[int], since: int) -> JoinedMember:
        return JoinedMember(member_id, None, None, string_hash(member_id), frozenset([0]), claims, -1, since)

    request = AssignmentRequest("sticky", [joined("a", [0, 1], 1), joined("b", [0, 1, 2, 3], 2)], topics, {0: 4})
    for kept, reproduced in (([[2, 3], [0, 1]], True), ([[0, 1], [2, 3]], False)):
        recorded = recorded_pasts.generation(request, AssignmentResponse(kept), 3, 3_000, 3)
        alone = AssignmentRequest("sticky", [joined("b", [2, 3], 1)], topics, {0: 4})
        before = recorded_pasts.generation(alone, AssignmentResponse([[0, 1, 2, 3]]), 2, 2_000, 2)
        timeline = Timeline("classic", "consumer", (before, recorded), (), {}, 2_000, 3_000, 2)
        ((_, result),) = list(check_reproduced([read_history("c", "g", timeline, (), {})])[0].items())[1:]
        assert result == (None if reproduced else "sticky assigns 4 partitions to other members, first orders-0")


# --- the broker's assignors -------------------------------------------------------------------------------------


def _epochs(*targets: Mapping[str, list[int]], assignor: str | None = None, numbers: Iterable[int] = ()) -> Timeline:
    """A consumer group (KIP-848) with one topic, by the targets of its members in each epoch."""
    generations = []
    for number, target in zip(numbers or range(1, len(targets) + 1), targets, strict=True):
        members = tuple(
            RecordedMember(each, topics=("orders",), assignment={("partition", "orders"): tuple(owned)})
            for each, owned in target.items()
        )
        state = "Stable" if members else "Empty"
        generations.append(Generation(number, 1_000 * number, None, state, assignor, None, members, 0, number))
    last = generations[-1].at_ms
    ids = {"orders": "B" * 10 + "t" * 11 + "A"}
    return Timeline("consumer", None, tuple(generations), (), {}, 0, last, len(generations), topic_ids=ids)


ALL = [0, 1, 2, 3]
UNKNOWN = "the epoch before is not on record"
DIFFERS = "{} assigns 4 partitions to other members, first orders-0"


@cases(
    "timeline rules expected",
    # A member that joins gets the end of what the other one had; what a member leaves is shared out.
    (_epochs({"a": ALL}, {"a": [0, 1], "b": [2, 3]}, {"b": ALL}), "uniform", [UNKNOWN, None, None]),
    (_epochs({"a": ALL}, {"a": [2, 3], "b": [0, 1]}), "uniform", [UNKNOWN, DIFFERS.format("uniform")]),
    # The broker's range, by its name in Kafka: it ignores who had what.
    (_epochs({"b": ALL}, {"a": [0, 1], "b": [2, 3]}, assignor="range"), "server-range", [UNKNOWN, None]),
    (
        *(_epochs({"b": ALL}, {"a": [2, 3], "b": [0, 1]}, assignor="range"), "server-range"),
        [UNKNOWN, DIFFERS.format("server-range")],
    ),
    # An old target that remains for a while is not this epoch's, unless nothing else has changed.
    (_epochs({"a": ALL}, {"a": ALL, "b": []}, {"a": [0, 1], "b": [2, 3]}), "uniform", [UNKNOWN, ..., None]),
    (_epochs({"a": ALL}, {"a": ALL}), "uniform", [UNKNOWN, None]),
    (_epochs({"a": ALL}, {}, {"b": ALL}), "uniform", [UNKNOWN, ..., None]),
    (_epochs({"a": ALL}, {"a": [0, 1], "b": [2, 3]}, numbers=(1, 3)), "uniform", [UNKNOWN, UNKNOWN]),
    (_epochs({"a": ALL}, {"b": ALL}, assignor="own"), "own", ["the assignor own is unknown"] * 2),
)
def test_targets_of_the_broker_are_reproduced(
    timeline: Timeline, rules: str, expected: list[str | EllipsisType | None]
) -> None:
    """From the targets of the epoch before; epochs without a target of their own (`...`) are left out."""
    history = read_history("c", "g", timeline, (), {})
    found = check_reproduced([history])
    assert set(_rules(history)) == {rules}
    assert found == [{at: each for at, each in enumerate(expected) if not isinstance(each, EllipsisType)}]


# --- steps ------------------------------------------------------------------------------------------------------

Step = tuple[int, str, dict[str, str], dict[str, int], dict[str, int | None]]
"""Generation, kind, identities of the members, waits for sessions, and times away."""


def _replay_steps(history: RecordedHistory, *, static: bool) -> Iterator[ReplayStep]:
    return replay_steps(history, MemberIdentities(history.generations, 45_000), static=static)


def _steps(history: RecordedHistory, *, static: bool) -> list[Step]:
    return [
        (
            *(step.source_generation, step.generation_kind, step.identities),
            *(dict(step.session_wait_ms), dict(step.downtime_ms)),
        )
        for step in _replay_steps(history, static=static)
    ]


AB, B, BC = {"a": "a", "b": "b"}, {"b": "b"}, {"b": "b", "c": "c"}


@cases(
    "at_ms departure dynamic static",
    # A static member that is back as c in time is the same; nobody notices.
    (
        *(20_000, Departure("a", 2, RESTARTED, LIKELY, "c")),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {}, {}), (2, CHANGED, {"b": "b", "c": "a"}, {}, {})],
        [(0, FIRST, AB, {}, {}), (1, SAME, AB, {}, {"a": 20_000}), (2, SAME, AB, {}, {})],
    ),
    (
        *(45_000, Departure("a", 2, RESTARTED, LIKELY, "c")),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {}, {}), (2, CHANGED, {"b": "b", "c": "a"}, {}, {})],
        [(0, FIRST, AB, {}, {}), (1, SAME, AB, {}, {"a": 45_000}), (2, SAME, AB, {}, {})],
    ),
    # Back too late: its session times out before, and then it joins.
    (
        *(45_001, Departure("a", 2, RESTARTED, LIKELY, "c")),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {}, {}), (2, CHANGED, {"b": "b", "c": "a"}, {}, {})],
        [
            *((0, FIRST, AB, {}, {}), (1, SAME, AB, {}, {}), (1, CHANGED, B, {"a": 45_000}, {})),
            (2, CHANGED, {"a": "a", "b": "b"}, {}, {}),
        ],
    ),
    # Whether it is back is a guess: c is another member.
    (
        *(20_000, Departure("a", 2, RESTARTED, GUESS, "c")),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {}, {}), (2, CHANGED, BC, {}, {})],
        [
            *((0, FIRST, AB, {}, {}), (1, SAME, AB, {}, {}), (2, CHANGED, AB | BC, {}, {})),
            (1, CHANGED, BC, {"a": 45_000}, {}),
        ],
    ),
    # A static member that left for good is waited for, too; a crash was recorded after that wait.
    (
        *(20_000, Departure("a", 2, LEFT, LIKELY)),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {}, {}), (2, CHANGED, BC, {}, {})],
        [
            *((0, FIRST, AB, {}, {}), (1, SAME, AB, {}, {}), (2, CHANGED, AB | BC, {}, {})),
            (1, CHANGED, BC, {"a": 45_000}, {}),
        ],
    ),
    (
        *(20_000, Departure("a", 2, CRASHED, LIKELY)),
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {"a": 45_000}, {}), (2, CHANGED, BC, {}, {})],
        [(0, FIRST, AB, {}, {}), (1, CHANGED, B, {"a": 45_000}, {}), (2, CHANGED, BC, {}, {})],
    ),
)
def test_steps_of_dynamic_and_of_static_members(
    at_ms: int, departure: Departure, dynamic: list[Step], static: list[Step]
) -> None:
    """a departs, and then c joins. Static members keep their first ids."""
    history = read_history("c", "g", _story({}, ["ab", "b", "bc"], at_ms=at_ms), [departure], {})
    assert _steps(history, static=False) == dynamic
    assert _steps(history, static=True) == static
    every = [step for static in (False, True) for step in _replay_steps(history, static=static)]
    for step in every:
        assert step.partitions == {0: 4}
        assert {each.topics for each in step.members.values()} == {frozenset([0])}
        assert {each.hash for each in step.members.values()} == {string_hash(each) for each in step.members}
    instances = [{each.instance for each in step.members.values()} for step in every]
    assert instances[:3] == [{None}] * 3
    assert instances[3] == {"a", "b"}


def test_rebalances_of_a_past_with_their_follow_ups() -> None:
    """A cooperative rebalance of two generations is one; what a crashed member owned had waited for its session."""
    timeline = _story({}, ["ab", "abc", "abc", "bc", "bc"], "cooperative-sticky")
    history = read_history("c", "g", timeline, [Departure("a", 4, CRASHED, LIKELY)], {})
    found = [(each.start, each.end, each.protocol, each.waited_ms, each.counts) for each in find_rebalances(history, 0)]
    # c gets one partition of b in the second round; a then has two; the last generation changes nothing.
    assert found == [
        (1, 3, "cooperative", 0, PauseCounts(3, 4, 4, kept=3, back=0, later=0, blocked=1)),
        (3, 4, "cooperative", 2 * 45_000, PauseCounts(members=2, partitions=4, living=2, kept=2, back=0, later=0)),
        (4, 5, "cooperative", 0, PauseCounts(members=2, partitions=4, living=4, kept=4, back=0, later=0)),
    ]


@cases(
    "assignors expected",
    (("range", "range", "sticky"), "range"),
    (("sticky", "range"), "range"),
    (("range", "sticky"), "sticky"),
    (("range", "sticky", "sticky", "range", None), "range"),
    ((None,), ""),
)
def test_the_assignor_of_a_past_is_that_of_most_generations(assignors: tuple[str | None, ...], expected: str) -> None:
    """Of several, the last one."""
    timeline = _story({}, ["ab"] * len(assignors))
    generations = (replace(each, assignor=a) for each, a in zip(timeline.generations, assignors, strict=True))
    assert read_history("c", "g", replace(timeline, generations=tuple(generations)), (), {}).assignor == expected


def test_a_consumer_that_is_there_every_other_time() -> None:
    """The assignor of generations without members is found once: for each, it took hours."""
    a = history_pasts.member("a")
    generations = [history_pasts.generation(at, 6_000 * at, [(a, [0])] if at % 2 else []) for at in range(1, 9_000)]
    history = read_history("c", "g", history_pasts.past(*generations), (), {})
    start = time.process_time()
    assert len(list(find_rebalances(history, 0))) == len(generations) - 1
    assert time.process_time() - start < 2


# --- textbook ---------------------------------------------------------------------------------------------------


def _story(
    clients: Mapping[str, str],
    there: Iterable[str],
    assignor: str = "range",
    partitions: int = 4,
    at_ms: int = ROUND_MS,
) -> Timeline:
    """A group of one topic. `there`: of each generation its members, a letter each."""
    topics, generations, owned = Topics.of(["orders"]), list[Generation](), dict[str, list[int]]()
    for number, ids in enumerate(there, 1):
        if not ids:
            generations.append(recorded_pasts.empty(number, number * at_ms))
            owned = {}
            continue
        members = [
            JoinedMember(e, None, None, string_hash(e), frozenset([0]), owned.get(e, []), _since(e, owned, number))
            for e in ids
        ]
        request = AssignmentRequest(assignor, members, topics, {0: partitions})
        response = assign([request])[0]
        generations.append(recorded_pasts.generation(request, response, number, number * at_ms, number))
        owned = dict(zip(ids, response.assigned, strict=True))
    last = generations[-1].at_ms
    return Timeline("classic", "consumer", tuple(generations), (), {}, at_ms, last, len(generations))


def _since(member: str, owned: Mapping[str, list[int]], number: int) -> int:
    return number - 1 if member in owned else -1


def _tables(
    timeline: Timeline,
    departures: Iterable[Departure] = (),
    measured: Mapping[int | None, CommitPause] | None = None,
    timing: TimingConfig = TIMING,
) -> dict[str, list[dict[str, Any]]]:
    history = read_history("c", "g", timeline, departures, measured or {})
    tables = replay_histories([history], ReplayParams(timing=timing), SCHEMA)
    rows = [row for table in tables for row in table.to_pylist()]
    return {kind: [row for row in rows if row["kind"] == kind] for kind in (SUMMARY, REBALANCES, REJECTED)}


def _replayed(timeline: Timeline, departures: Iterable[Departure] = (), **measured: Any) -> list[dict[str, Any]]:
    return _tables(timeline, departures, **measured)[SUMMARY]


def _of(rows: Iterable[dict[str, Any]], assignor: str, *, static: bool) -> dict[str, Any]:
    (row,) = (each for each in rows if (each["assignor"], each["static"]) == (assignor, static))
    return row


def _restart(before: str, after: str, generation: int) -> Departure:
    return Departure(before, generation, RESTARTED, LIKELY, after)


def test_a_rolling_restart_is_spared_by_static_members() -> None:
    """a restarts, then b: four rebalances; static members are back before anybody notices, and their two wait."""
    rows = _replayed(_story({}, ["ab", "b", "bc", "c", "cd"]), [_restart("a", "c", 2), _restart("b", "d", 4)])
    dynamic, static = (_of(rows, "range", static=each) for each in (False, True))
    assert dynamic["recorded"]
    assert (dynamic["rebalances"], dynamic["num_replayed"]) == (4, 4)
    assert (static["rebalances"], static["moved"]) == (0, 0)
    assert static["paused_partition_ms"] == 2 * 2 * ROUND_MS
    assert static["saved_ms"] == dynamic["paused_partition_ms"] - static["paused_partition_ms"]
    assert _of(rows, "sticky", static=False)["rebalances"] == 4
    assert _of(rows, "uniform", static=False)["rebalances"] == 4


def test_variants_that_the_clients_refuse() -> None:
    """The libraries are those of the last generation with members; the recorded variant is never refused."""
    timeline = _story({}, ["ab", "abc", "ab"])
    assert {(row["client_libraries"], row["refusal"]) for row in _replayed(timeline)} == {("Java 2", None)}
    found = timeline.generations
    generations = [replace(e, members=tuple(m._replace(client_id="kafkajs") for m in e.members)) for e in found]
    rows = _replayed(replace(timeline, generations=generations))
    assert _of(rows, "range", static=False)["refusal"] is None
    assert _of(rows, "sticky", static=False)["refusal"] == "kafkajs has no sticky"
    assert _of(rows, "uniform", static=False)["refusal"] == "kafkajs can't use the consumer protocol (KIP-848)"
    assert _of(rows, "range", static=True)["refusal"] == "kafkajs can't be static members (tulios/kafkajs#884)"


def test_who_is_back_too_late_is_missed() -> None:
    """The session is over after 45 s, its member back after 60: static members rebalance when it is over, and again."""
    tables = _tables(_story({}, ["ab", "b", "bc"], at_ms=60_000), [_restart("a", "c", 2)])
    row = _of(tables[SUMMARY], "range", static=True)
    eager = 2 * 45_000 + _eager_ms(members=1, living=2, partitions=4) + _eager_ms(members=2, living=4, partitions=4)
    assert (row["rebalances"], row["paused_partition_ms"]) == (2, eager)
    assert [each["occurs"] for each in tables[REBALANCES] if each["assignor"] == "range"] == [True] * 4


def _eager_ms(members: int, living: int, partitions: int) -> int:
    last_poll = 500 * members / (members + 1)
    return round(living * (last_poll - 250) + (partitions - living) * (1_500 + last_poll))


def test_who_leaves_for_good_is_waited_for_if_static() -> None:
    """A dynamic member says that it leaves. Of a crashed one the session is waited for in either case."""
    timeline = _story({}, ["ab", "b"])
    for went, dynamically in ((LEFT, 0), (CRASHED, 2 * 45_000)):
        rows = _replayed(timeline, [Departure("a", 2, went, LIKELY)])
        round_ms = _eager_ms(members=1, living=2, partitions=4)
        assert _of(rows, "range", static=False)["paused_partition_ms"] == dynamically + round_ms
        assert _of(rows, "range", static=True)["paused_partition_ms"] == 2 * 45_000 + round_ms


def test_a_session_timeout_that_is_not_on_record_is_the_one_in_the_settings() -> None:
    """Of members of a consumer group, for example: static members that leave or crash are waited for that long."""
    timeline = _story({}, ["ab", "b"])
    unknown = replace(
        timeline,
        generations=tuple(
            replace(each, members=tuple(one._replace(session_timeout_ms=None) for one in each.members))
            for each in timeline.generations
        ),
    )
    timing = replace(TIMING, session_timeout_ms=30_000)
    round_ms = _eager_ms(members=1, living=2, partitions=4)
    for went, dynamically in ((LEFT, 0), (CRASHED, 2 * 30_000)):
        rows = _replayed(unknown, [Departure("a", 2, went, LIKELY)], timing=timing)
        assert _of(rows, "range", static=False)["paused_partition_ms"] == dynamically + round_ms
        assert _of(rows, "range", static=True)["paused_partition_ms"] == 2 * 30_000 + round_ms
        on_record = _replayed(timeline, [Departure("a", 2, went, LIKELY)], timing=timing)
        assert _of(on_record, "range", static=True)["paused_partition_ms"] == 2 * 45_000 + round_ms


def test_cooperative_members_stop_what_moves() -> None:
    """A third member comes: of four partitions one moves, in two rounds; eager ones stop all four. The member that
    gives it up also stops the one that it keeps; the new owner learns of it with its next heartbeat."""
    rows = _tables(_story({}, ["ab", "abc"]), measured={1: CommitPause(2, 0, 8_000, 4, 4 * 8_000, 8_000, 1)})[SUMMARY]
    assert {each["assignor"]: each["paused_partition_ms"] for each in rows if not each["static"]} == {
        "range": 32_000,
        "roundrobin": 32_000,
        "sticky": 32_000,
        "cooperative-sticky": 2 * 8_000 + 3_000,
        "uniform": 2 * 8_000 + 2_500,
        "server-range": 2 * 8_000 + 2_500,
    }
    row = _of(rows, "cooperative-sticky", static=False)
    assert (row["protocol"], row["rebalances"], row["moved"], row["saved_ms"]) == ("cooperative", 2, 1, 13_000)


def test_a_deployment_with_members_that_block_in_callbacks() -> None:
    """Three members with four partitions each restart one after the other; each rebalance paused all twelve for 4 s.

    Departures leave four partitions without an owner. When a member comes, two members give up two partitions each, and
    stop the other eight. The night of docs/daily.md, in which only static members would have saved much.
    """
    timeline = _story({}, ["abc", "bc", "bcd", "cd", "cde", "de", "def"], partitions=12, at_ms=10_000)
    measured: dict[int | None, CommitPause] = {
        index: CommitPause(index + 1, 0, 4_000, 12, 12 * 4_000, 4_000, index) for index in range(1, 7)
    }
    departures = [_restart(before, after, 2 * nth) for nth, (before, after) in enumerate(("ad", "be", "cf"), 1)]
    rows = _replayed(timeline, departures, measured=measured)
    paused = {(row["assignor"], row["static"]): row["paused_partition_ms"] for row in rows}
    assert paused["range", False] == paused["sticky", False] == 6 * 12 * 4_000
    assert paused["cooperative-sticky", False] == 3 * (4 * 4_000 + 12 * 4_000 + 4 * 3_000)
    assert paused["uniform", False] == 3 * (4 * (4_000 + 2_500) + 12 * 4_000 + 4 * 2_500)
    assert paused["range", True] == paused["cooperative-sticky", True] == 3 * 4 * 10_000


@cases(
    "partitions round_ms eager consumer", (1, 8_000, 4 * 8_000, 8_000 + 2_500), (4, 2_000, 4 * 2_000, 2 * 2_000 + 2_500)
)
def test_the_record_of_a_cooperative_group_shows_whether_members_block(
    partitions: int, round_ms: int, eager: int, consumer: int
) -> None:
    """One partition moves, and 8 partition-seconds are lost: by it alone, or by all four."""
    timeline = _story({}, ["ab", "abc", "abc"], "cooperative-sticky")
    rows = _replayed(timeline, measured={1: CommitPause(2, 0, 8_000, partitions, 8_000, round_ms, 1)})
    paused = {(row["assignor"], row["static"]): row["paused_partition_ms"] for row in rows}
    assert paused["cooperative-sticky", False] == 8_000
    assert paused["range", False] == eager
    assert paused["uniform", False] == consumer
    assert paused["cooperative-sticky", True] == (8_000 if partitions == 1 else 4_000)


def test_a_second_round_is_the_recorded_ways_own() -> None:
    """Two generations of cooperative members are one rebalance to all others."""
    rows = _replayed(_story({}, ["ab", "abc", "abc"], "cooperative-sticky"))
    was = _of(rows, "cooperative-sticky", static=False)
    assert (was["recorded"], was["rebalances"], was["num_replayed"], was["moved"]) == (True, 2, 2, 1)
    assert _of(rows, "cooperative-sticky", static=True)["rebalances"] == 2
    assert _of(rows, "cooperative-sticky", static=True)["paused_partition_ms"] == was["paused_partition_ms"]
    assert {each["rebalances"] for each in rows if each["protocol"] != "cooperative"} == {1}


def test_nobody_was_there() -> None:
    """All leave and come again: no way has to share out anything while nobody is there."""
    rows = _replayed(_story({}, ["ab", "", "ab"]), [Departure(each, 2, LEFT, LIKELY) for each in "ab"])
    assert _of(rows, "range", static=False)["rebalances"] == 2
    assert _of(rows, "uniform", static=False)["moved"] == 0


def test_groups_beside_each_other_change_nothing(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group has the rows that it has alone, in any order and in batches of any size; a rejected group has one."""
    histories: list[RecordedHistory | RejectedHistory] = [
        read_history("c", f"g{at}", recorded_pasts.random_story(rng, each), (), {})
        for at, each in enumerate(recorded_pasts.ASSIGNORS)
    ]
    params = ReplayParams(timing=TIMING)

    def sorted_rows(selected: Iterable[RecordedHistory | RejectedHistory]) -> list[dict[str, Any]]:
        return sorted((row for t in replay_histories(selected, params, SCHEMA) for row in t.to_pylist()), key=str)

    together = sorted_rows([*reversed(histories), RejectedHistory("c", "x", "out-of-scope", "no")])
    found = [row for row in together if row["group_id"] != "x"]
    assert found == sorted((row for each in histories for row in sorted_rows([each])), key=str)
    assert [row for row in together if row["kind"] == REJECTED] == [
        dict.fromkeys(SCHEMA.names)
        | {"kind": REJECTED, "cluster": "c", "group_id": "x"}
        | {"code": "out-of-scope", "detail": "no"}
    ]
    monkeypatch.setattr(replay, "GROUP_BATCH_SIZE", 3)
    tables = list(replay_histories(iter(histories), params, SCHEMA))
    of_table = [{row["group_id"] for row in table.to_pylist()} for table in tables if len(table)]
    expected = [
        {row["group_id"] for row in together if row["kind"] == kind and row["group_id"] in batch}
        for batch in (["g0", "g1", "g2"], ["g3"])
        for kind in (SUMMARY, REBALANCES)
    ]
    assert of_table == [each for each in expected if each]  # a group with one generation has no rebalances
    in_batches = sorted((row for table in tables for row in table.to_pylist()), key=str)
    assert in_batches == [row for row in together if row["group_id"] != "x"]


def test_who_is_back_under_its_own_id_is_not_missed_later() -> None:
    """Nobody can tell that a and a are one; its session is not over when it is there again."""
    rows = _replayed(_story({}, ["ab", "b", "ab", "abc"]), [Departure("a", 2, LEFT, LIKELY)])
    assert _of(rows, "range", static=True)["rebalances"] == 1


def test_a_static_member_that_is_back_in_place_is_two_rebalances_without() -> None:
    """Another generation of the same number is none on record; dynamic members would have left and joined."""
    timeline = _story({}, ["ab", "bc"])
    first, second = timeline.generations
    named = [each._replace(group_instance_id=instance) for each, instance in zip(first.members, "xy", strict=True)]
    back = [each._replace(group_instance_id=instance) for each, instance in zip(second.members, "yx", strict=True)]
    given = (("c", ("orders", 0, 1)), ("b", ("orders", 2, 3)))
    kept = {each: {("partition", topic): tuple(selected)} for each, (topic, *selected) in given}
    back = [each._replace(assignment=kept[each.member_id]) for each in back]
    restarted = replace(
        timeline,
        generations=(replace(first, members=tuple(named)), replace(second, generation_id=1, members=tuple(back))),
    )
    rows = _replayed(restarted, [Departure("a", 1, RESTARTED, SURE, "c")])
    was = _of(rows, "range", static=True)
    assert (was["recorded"], was["rebalances"], was["moved"]) == (True, 0, 0)
    assert _of(rows, "range", static=False)["rebalances"] == 2
    assert _of(rows, "sticky", static=True)["rebalances"] == 0
