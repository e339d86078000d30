"""Whose bytes they are: recorded groups of eight libraries in 19 releases, on a Kafka 4.4 broker."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_assign.assignors.release_rules import LIKELY, SURE, UNKNOWN, assignor_of_leader
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.groups.kernel.leader_rules import (
    AssignmentFormat,
    Leader,
    MemberBytes,
    SubscriptionFormat,
    find_leader,
)
from spark_assign.wire import consumer_protocol
from spark_assign.wire.reader import WireError
from tests.cases import cases

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fingerprints.json").read_text())


def by_name_alone(library: str, assignor: str) -> bool:
    """Whether its bytes are like those of another library."""
    return library in ("kafka-python", "aiokafka") and assignor != COOPERATIVE


def seen(member_id: str, client_id: str, subscription: str, assignment: str) -> MemberBytes:
    """A member as the coordinator shows it."""
    subscription_format = consumer_protocol.subscription_as_sent(bytes.fromhex(subscription))
    given = consumer_protocol.assignment(bytes.fromhex(assignment))
    subscribed = SubscriptionFormat(
        subscription_format.version, subscription_format.user_data, subscription_format.cut_short
    )
    return MemberBytes(member_id, client_id, subscribed, AssignmentFormat(given.version, given.user_data))


def holds(releases: str | None, release: str) -> bool:
    """Whether a release is one of these."""
    if releases is None:
        return True
    number = tuple(map(int, release.split(".")[:2]))

    def bound(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    if releases.startswith("<"):
        return number < bound(releases[1:])
    if releases.endswith("+"):
        return number >= bound(releases[:-1])
    first, _, last = releases.partition("-")
    return bound(first) <= number <= bound(last)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["group"])
def test_the_leader_of_a_recorded_group(row: dict[str, Any]) -> None:
    """With default client ids the library is known; nothing that is said is wrong, whatever the client ids are."""
    members = [seen(*each) for each in row["members"]]
    named = find_leader(row["group"], row["assignor"], members)
    assert named.library == row["library"]
    assert named.confidence == (LIKELY if by_name_alone(row["library"], row["assignor"]) else SURE)
    assert holds(named.releases, row["release"])
    other = find_leader(row["group"], row["assignor"], [replace(each, client_id="billing") for each in members])
    if row["assignor"] == "RoundRobinAssigner":
        assert other == named
    elif by_name_alone(row["library"], row["assignor"]):
        assert other == Leader("aiokafka or kafka-python", None, UNKNOWN)
    else:
        assert other == replace(named, confidence=LIKELY)


def test_what_is_recorded() -> None:
    """Every line of Java's clients that the bytes can tell, librdkafka on both sides of its change."""
    assert Counter(row["library"] for row in RECORDED) == {
        "Java": 18,
        "librdkafka": 10,
        "franz-go": 3,
        "Sarama": 3,
        "kafka-python": 3,
        "aiokafka": 2,
        "kafka-go": 1,
        "kafkajs": 1,
    }
    assert {
        find_leader(row["group"], row["assignor"], [seen(*each) for each in row["members"]]).releases
        for row in RECORDED
        if row["library"] in ("Java", "librdkafka")
    } == {"2.4-2.7", "2.4-3.3", "2.8-3.3", "3.4+", "<2.2", "2.2+"}


def test_a_group_of_several_libraries() -> None:
    """The leader wrote all assignments, and is one of the members: the others' subscriptions do not matter."""
    by_group = {row["group"]: row for row in RECORDED}
    names = ("java-3.9.1-cooperative-sticky", "librdkafka-2.6.2-cooperative-sticky")
    java, rdkafka = ([seen(*each) for each in by_group[name]["members"]] for name in names)
    for leader, other, library in ((java, rdkafka, "Java"), (rdkafka, java, "librdkafka")):
        mixed = [leader[0], replace(other[0], assigned=leader[-1].assigned)]
        assert find_leader("g", "cooperative-sticky", mixed).library == library


def test_librdkafka_leads_others() -> None:
    """As seen on a broker: it writes null for members of Java, which subscribe with null, and nothing for its own.

    franz-go writes null for everybody.
    """
    own = MemberBytes("c1-1", "c1", SubscriptionFormat(3, b""), AssignmentFormat(0, b""))
    java = MemberBytes("c0-1", "c0", SubscriptionFormat(3, None), AssignmentFormat(0, None))
    assert find_leader("g", "range", [own, java]) == Leader("librdkafka", "2.2+", LIKELY)
    others = [replace(own, assigned=AssignmentFormat(0, None)), java]
    assert find_leader("g", "range", others) == Leader("franz-go", None, LIKELY)


def test_what_does_not_fit() -> None:
    """Bytes that nobody known writes, and no assignment at all."""
    one = seen(*RECORDED[0]["members"][0])
    nobody = Leader(None, None, UNKNOWN)
    assert find_leader("g", "range", []) == nobody
    assert find_leader("g", "range", [replace(one, assigned=None)]) == nobody
    assert find_leader("g", "range", [replace(one, assigned=AssignmentFormat(2, None))]) == nobody
    java = next(row for row in RECORDED if row["group"] == "java-4.4.0-range")
    strange = [replace(seen(*each), subscribed=SubscriptionFormat(0, b"")) for each in java["members"]]
    assert find_leader("g", "range", strange) == nobody


def test_a_subscription_that_is_cut_short() -> None:
    """kafka-go's is read, though Kafka's class refuses it; others that end too early are refused as there."""
    (row,) = [row for row in RECORDED if row["library"] == "kafka-go"]
    data = bytes.fromhex(row["members"][0][2])
    with pytest.raises(WireError):
        consumer_protocol.subscription(data)
    read = consumer_protocol.subscription_as_sent(data)
    assert (read.topics, read.owned, read.cut_short) == (("probe",), (), True)
    for damaged in (data[:-1], b"\x00\x03" + data[2:], data + b"\x00"):
        with pytest.raises(WireError):
            consumer_protocol.subscription_as_sent(damaged)


@cases(
    "assignor library releases expected",
    ("sticky", "Java", "2.4-3.3", "sticky@3.3"),
    ("cooperative-sticky", "Java", "2.4-2.7", "cooperative-sticky@2.7"),
    ("sticky", "Java", "2.8", "sticky@2.8"),
    ("sticky", "Java", "3.9", "sticky"),
    ("sticky", "Java", "3.4+", "sticky"),
    ("range", "Java", "2.4-3.3", "range@3.3"),
    ("range", "Java", "3.5", "range"),
    ("roundrobin", "Java", "2.4-3.3", "roundrobin"),
    ("sticky", "Java", "<2.4", "sticky@2.4"),
    ("sticky", "Java", "0.11", "sticky"),
    ("sticky", "franz-go", None, "sticky@franz-go"),
    ("range", "franz-go", "1.18", "range@franz-go"),
    ("roundrobin", "franz-go", None, "roundrobin"),
    ("range", "librdkafka", "<2.2", "range@librdkafka"),
    ("cooperative-sticky", "librdkafka", "2.2+", "cooperative-sticky@librdkafka"),
    ("sticky", "librdkafka", None, "sticky"),
    ("sticky", "Sarama", None, "sticky"),
    ("sticky", "kafka-python", None, "sticky"),
    ("range", "kafka-python", None, "range@3.4"),
    ("range", "aiokafka", None, "range@3.4"),
    ("range", "Sarama", None, "range@3.4"),
    ("range", "kafka-go", None, "range"),
    ("roundrobin", "aiokafka", None, "roundrobin"),
    ("sticky", None, None, "sticky"),
    (None, "Java", "2.8", None),
)
def test_by_whose_rules(assignor: str | None, library: str | None, releases: str | None, expected: str | None) -> None:
    """The newest release that the leader may have; as of today where that answers alike."""
    assert assignor_of_leader(assignor, library, releases) == expected
