"""Regular expressions of KIP-848 subscriptions: as the broker evaluates them, in linear time, and never silently."""

from __future__ import annotations

import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka.group_description import GroupDescription, RegexTime, read_consumer_group
from spark_assign.sources.kafka.groups import ListedGroup, _add_group, describe
from spark_assign.wire.topic_regex import TopicRegexError, topic_matcher
from tests.cases import cases
from tests.kafka import topic_regexes
from tests.recorded_lines import read_rows


def test_the_recorded_expressions_match_the_same_topics() -> None:
    """What RE2/J 1.8 of Kafka 4.4 matched."""
    found = read_rows(topic_regexes.RECORDED)
    assert topic_regexes.differing(found) == []
    assert sum(bool(row["matched"]) for row in found) > 100


@cases("regex", "(a+)+$", "(a|a)*b", "(.*)*x", "(a?){500}a{500}", "(" * 900 + "a" + ")*" * 900, "(|a|b)" * 900 + "x")
def test_no_expression_takes_long(regex: str) -> None:
    """Python's own library backtracks: 50 s for 50 characters of the first one."""
    start = time.process_time()
    try:
        matches = topic_matcher(regex)
    except TopicRegexError:
        return
    for _ in range(30):
        assert not matches("ab" * 124 + "c")
    assert time.process_time() - start < 1


def _group(*regexes: str | None) -> Any:
    assignment = SimpleNamespace(topic_partitions=[])
    about = {"client_id": "c", "client_host": "h", "rack_id": None, "member_epoch": 1, "assignment": assignment}
    members = [
        SimpleNamespace(member_id=f"m{n}", subscribed_topic_names=["x"], subscribed_topic_regex=regex, **about)
        for n, regex in enumerate(regexes)
    ]
    names = {"group_id": "g", "group_state": "Stable", "assignor_name": "uniform"}
    return SimpleNamespace(error_code=0, error_message=None, members=members, **names)


@pytest.mark.parametrize("regex", [r"(?i)\p{Ll}+", r"a(?si:[^\p{Ll}])", r"(?i)\p{^Ll}"])
def test_lower_case_letters_of_an_expression_that_ignores_case(regex: str) -> None:
    r"""RE2/J matches `(?i)\p{Ll}+` to `orders`, not to `ORDERS` as RE2 does."""
    with pytest.raises(TopicRegexError, match="ignores case"):
        topic_matcher(regex)
    assert topic_matcher(r"\p{Ll}+")("orders")
    assert not topic_matcher(r"\p{Ll}+")("ORDERS")


def test_a_group_subscribes_to_what_the_broker_matches() -> None:
    """POSIX classes and Unicode categories, too, which Python's library doesn't know."""
    found = read_consumer_group(_group("[[:alpha:]]+", r"\pN+", None), ["12", "a", "a1", "b"], RegexTime())
    assert isinstance(found, GroupDescription)
    topics = [(*member.topics, *member.matched) for member in found.members]
    assert topics == [("x", "a", "b"), ("x", "12"), ("x",)]


def test_groups_without_expressions_read_no_topics() -> None:
    """A cluster has thousands of such groups, and a hundred thousand topics, which are sorted once."""
    topics: Any = object()
    assert isinstance(read_consumer_group(_group(None), topics, RegexTime()), GroupDescription)
    rows, groups = SnapshotRows("c"), {"g": ListedGroup("g", 1, "consumer", "Stable")}
    connection: Any = SimpleNamespace(send_all=lambda sent, _: [SimpleNamespace(groups=[_group(".+")]) for _ in sent])
    describe(connection, groups, {"b": 1, "c": 1, "a": 1}, rows, lambda _: None)
    assert rows.rows["subscription_lists"][-1]["topics"] == ["a", "b", "c"]


def test_members_share_what_an_expression_matches() -> None:
    """3,000 members of 3,000 topics: as a list for each member, nine million names."""
    members = [f"m{n}" for n in range(3_000)]
    topics, start = [f"t{n:04}" for n in range(3_000)], time.process_time()
    tracemalloc.start()
    found = read_consumer_group(_group(*[".*"] * len(members)), topics, RegexTime())
    assert isinstance(found, GroupDescription)
    rows = SnapshotRows("c")
    _add_group(rows, ListedGroup("g", 1, "consumer", "Stable"), found, None, None)
    lists = [(row["member_ids"], row["topics"]) for row in rows.rows["subscription_lists"]]
    assert lists == [(members, ["x"]), (members, topics)]
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert time.process_time() - start < 2


@cases("regex reason", ("((a{100}){100}){100}", "repetition"), (r"\pL{900}", "too large"), ("a\ud800", "encode"))
def test_a_group_whose_expression_cannot_be_evaluated_is_not_described(regex: str, reason: str) -> None:
    """The error says so; nothing is taken for matched."""
    found = read_consumer_group(_group(None, regex), ["a"], RegexTime())
    assert isinstance(found, TopicRegexError)
    assert "can't be evaluated" in str(found)
    assert reason in str(found)


def test_expressions_are_bounded_without_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is compiled: 12,000 took 16 s."""
    monkeypatch.setattr("spark_assign.sources.kafka.group_description._MAX_REGEX_S", 0.1)
    regexes, start = [f"a{{{n % 1_000}}}.{{500}}(b|c){{400}}x{n}" for n in range(12_000)], time.process_time()
    found = read_consumer_group(_group(*regexes), [], RegexTime())
    assert "the regular expressions of the group take more than 0.1 s with 0 topics" in str(found)
    assert time.process_time() - start < 2


def test_all_expressions_of_a_cluster_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups have some that take long."""
    monkeypatch.setattr("spark_assign.sources.kafka.group_description._MAX_REGEXES_S", 0.5)
    regex_time, topics, start = RegexTime(), ["a" * 248 + chr(97 + n) for n in range(26)], time.process_time()
    group = _group("([a-z]?){1000}" * 28 + "[0-9]")
    found = [str(read_consumer_group(group, topics, regex_time)) for _ in range(1_000)]
    assert "the regular expressions of the group take more than" in found[0]
    assert "expressions of other groups have taken the 0.5 s that a cluster has" in found[-1]
    assert isinstance(read_consumer_group(_group(None), topics, regex_time), GroupDescription)
    assert time.process_time() - start < 5
