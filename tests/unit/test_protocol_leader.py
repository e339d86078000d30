"""The leader's assignments: textbook cases, random groups beside loops, groups recorded from Kafka, and the seam."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from spark_assign.java.hash_map import string_hash, string_hashes
from spark_assign.simulation.kernel.assignment_request import (
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
)
from spark_assign.simulation.kernel.leader import ASSIGNORS, assign, read_requests
from spark_assign.tables.errors import ConfigError
from tests.golden import leader_rows, vectors
from tests.kafka import random_groups
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Group
from tests.recorded_lines import read_rows
from tests.seeds import seed_for
from tests.sizes import drawn

ALL = ("range", "roundrobin", "sticky", "cooperative-sticky")


def _rows(strategy: str, small: int) -> list[vectors.Row]:
    """Returns random groups, some of them with every oddity."""
    return list(random_groups.groups(strategy, seed_for(f"leader {strategy}"), small=small, mid_size=1))


def _sets(rows: list[vectors.Row], asks: list[AssignmentRequest], answers: list[AssignmentResponse]) -> vectors.Sets:
    return leader_rows.sets_of(rows, asks, answers)


def _ask(assignor: str, owned: dict[str, list[int]], partitions: dict[str, int]) -> AssignmentRequest:
    """A group whose members all subscribe to all topics."""
    topics = Topics.of(partitions)
    subscribed = frozenset(range(len(topics.names)))
    hashes = string_hashes(list(owned)).tolist()
    members = [
        JoinedMember(name, None, None, hash_code, subscribed, codes, generation_id=1 if codes else -1)
        for (name, codes), hash_code in zip(owned.items(), hashes, strict=True)
    ]
    return AssignmentRequest(assignor, members, topics, {at: partitions[name] for at, name in enumerate(topics.names)})


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_textbook_range_and_round_robin(assignor: str) -> None:
    """C0 and C1, two topics of three partitions each (the Javadoc of both classes)."""
    answer = assign([_ask(assignor, {"C1": [], "C0": []}, {"t0": 3, "t1": 3})])[0]
    expected = {
        "range": [[code(0, 2), code(1, 2)], [code(0, 0), code(0, 1), code(1, 0), code(1, 1)]],
        "roundrobin": [[code(0, 1), code(1, 0), code(1, 2)], [code(0, 0), code(0, 2), code(1, 1)]],
    }
    assert answer == AssignmentResponse(expected[assignor])


def test_a_consumer_joins_two() -> None:
    """Sticky gives the partition that moves at once; cooperative-sticky gives it to nobody until it is given up."""
    before = {"a": [0, 1], "b": [2], "c": []}
    assert assign([_ask("sticky", before, {"t": 3})]) == [AssignmentResponse([[0], [2], [1]])]
    assert assign([_ask("cooperative-sticky", before, {"t": 3})]) == [AssignmentResponse([[0], [2], []])]
    assert assign([_ask("cooperative-sticky", before | {"a": [0]}, {"t": 3})]) == [AssignmentResponse([[0], [2], [1]])]


def test_what_is_owned_of_topics_that_are_gone() -> None:
    """Claims of topics without metadata are overlooked, those of partitions that do not exist are not: Kafka throws."""
    ask = _ask("cooperative-sticky", {"a": [code(0, 0), code(1, 7)], "b": [code(0, 1)]}, {"t0": 2, "t1": 0})
    assert assign([ask]) == [AssignmentResponse([[code(0, 0)], [code(0, 1)]])]
    ask.partitions = {0: 2, 1: 1}
    refused = assign([ask])[0]
    assert refused.assigned == [[], []]
    assert refused.error is not None
    assert refused.error.startswith("IllegalStateException")


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_random_groups_as_the_loops_do(strategy: str) -> None:
    """Racks, static members and differing subscriptions among them."""
    rows = _rows(strategy, drawn(40, 80))
    asks = [leader_rows.ask_of(row, strategy) for row in rows]
    loop = {"range": range_assignor, "roundrobin": roundrobin_assignor}[strategy].assign
    expected = {row["case"]: {m: set(got) for m, got in loop(Group.from_row(row)).items() if got} for row in rows}
    assert vectors.differences(expected, _sets(rows, asks, assign(asks))) == []


@cache
def _recorded() -> list[vectors.Row]:
    """Returns every 25th random case of each assignor, recorded from Kafka's classes: assignments and exceptions."""
    rows = []
    for strategy in ALL:
        rows += read_rows(vectors.FOLDER / f"client-fuzz-{strategy}.jsonl.gz")[::25]
    assert Counter(row["strategy"] for row in rows) == dict.fromkeys(ALL, 60)
    return rows


@pytest.mark.parametrize("size", [1, 7, 50, 240])
def test_recorded_groups_as_kafka_does(size: int) -> None:
    """Assignors side by side, in random order and in batches of any size: no answer depends on the asks beside it."""
    rows = random.Random(size).sample(_recorded(), len(_recorded()))
    asks = [leader_rows.ask_of(row, row["strategy"]) for row in rows]
    answers = leader_rows.answered(asks, size)
    assert vectors.differences(vectors.expected_sets(rows), _sets(rows, asks, answers)) == []
    refused = {row["case"]: answer.error for row, answer in zip(rows, answers, strict=True) if answer.error}
    assert vectors.other_errors(rows, refused) == []
    assert refused


@pytest.mark.parametrize("assignor", ALL)
def test_little_to_assign(assignor: str) -> None:
    """No asks, no members, no topics, no metadata; alone and beside others."""
    some = _ask(assignor, {"a": [], "b": []}, {"t": 2})
    nobody = _ask(assignor, {}, {"t": 2})
    nothing = _ask(assignor, {"a": []}, {})
    unknown = _ask(assignor, {"a": [0]}, {"t": 0})
    assert assign([]) == []
    answers = [
        AssignmentResponse([]),
        AssignmentResponse([[]]),
        AssignmentResponse([[]]),
        AssignmentResponse([[0], [1]]),
    ]
    assert assign([nobody, nothing, unknown, some]) == answers
    assert assign([some, unknown, nothing, nobody]) == answers[::-1]
    assert [assign([each])[0] for each in (nobody, nothing, unknown, some)] == answers


@pytest.fixture
def _mine() -> Iterator[None]:
    ASSIGNORS["mine"] = lambda asks: [AssignmentResponse([[n] for n in range(len(ask.members))]) for ask in asks]
    yield
    del ASSIGNORS["mine"]


@pytest.mark.usefixtures("_mine")
def test_another_assignor_by_name() -> None:
    """It is called with all of its asks at once; an unknown name says which names there are."""
    theirs, mine = (_ask(name, {"a": [], "b": []}, {"t": 2}) for name in ("roundrobin", "mine"))
    assert assign([mine, theirs, mine]) == [AssignmentResponse([[0], [1]])] * 3
    subscribed: list[int] = []
    ASSIGNORS["mine"] = lambda asks: (
        subscribed.extend(len(ask.members) for ask in asks) or [AssignmentResponse([[], []]) for _ in asks]
    )
    assert assign([_ask("mine", {}, {"t": 2}), mine]) == [AssignmentResponse([]), AssignmentResponse([[], []])]
    assert subscribed == [2]  # nobody is asked for a group without members
    with pytest.raises(ConfigError, match=r"'stiky'.*cooperative-sticky, mine, range"):
        assign([_ask("stiky", {"a": []}, {"t": 2})])


def test_a_member_that_tells_nothing() -> None:
    """It owns nothing, in no generation."""
    member = JoinedMember("m", None, None, 0, frozenset())
    assert (list(member.owned), member.generation_id, member.user_data_generation_id) == ([], -1, None)


def test_topics_stand_in_javas_order() -> None:
    """By UTF-16 code unit; their hashes beside them."""
    topics = Topics.of(["b", "\ue000", "\U0001f600", "a"], {"b": [frozenset({"r"})]})
    assert topics.names == ("a", "b", "\U0001f600", "\ue000")
    assert np.array_equal(topics.hashes, string_hashes(topics.names))
    assert topics.racks == {1: [frozenset({"r"})]}


def test_generations_that_members_report() -> None:
    """-1 is none, in the subscription and in the user data; a leader without need of them reads none."""
    members = [
        JoinedMember(name, None, None, string_hash(name), frozenset([0]), [], *generations)
        for name, generations in {"a": (-1, None), "b": (3, 5), "c": (4, -7), "d": (-2, None)}.items()
    ]
    request = AssignmentRequest("cooperative-sticky", members, Topics.of(["t"]), {0: 1})
    columns = read_requests([request], reads_owned=True).members
    assert columns.generation.tolist() == [-1, 3, 4, -1]
    assert columns.has_user_data.tolist() == [False, True, True, False]
    assert columns.user_data_generation.tolist() == [-1, 5, -1, -1]
    unread = read_requests([request], reads_owned=False).members
    assert (unread.generation.tolist(), unread.user_data_generation.tolist()) == ([-1] * 4, [-1] * 4)
    assert not unread.has_user_data.any()
