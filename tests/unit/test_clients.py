"""Which library a client id tells of, and which way to another assignor is safe for it."""

from __future__ import annotations

import pytest

from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    LIBRARIES,
    Client,
    count_clients,
    detect_library,
    format_known_clients,
    read_clients,
)
from spark_assign.groups.kernel.client_settings import NOT_THERE, ROLLING, SERVER, STOP_ALL, plan_switch
from tests.cases import cases

UUID = "0e621b46-9289-4bb2-b7a7-d7dc7636cd19"


@cases(
    "client_id library surely",
    ("rdkafka", "librdkafka", True),
    ("orders-rdkafka-3", "librdkafka", False),
    ("consumer-orders-1", "Java", True),
    ("consumer-orders-eu-west-1a", "Java", True),
    ("consumer-other-1", None, False),
    ("consumer-orders", None, False),
    ("connector-consumer-sink-0", "Java", True),
    ("app-0e62-StreamThread-1-consumer", "Java", True),
    ("sarama", "Sarama", True),
    ("my-sarama-app", "Sarama", False),
    ("kafka-python-2.0.2", "kafka-python", True),
    ("aiokafka-0.12.0", "aiokafka", True),
    ("kafkajs", "kafkajs", True),
    ("kgo", "franz-go", True),
    ("worker@host (github.com/segmentio/kafka-go)", "kafka-go", True),
    ("orders", None, False),
    ("bikgoods", None, False),
)
def test_client_ids(client_id: str, library: str | None, surely: bool) -> None:
    """A default name is strong evidence, a name that holds a library's is a guess, and others say nothing."""
    assert detect_library("orders", client_id, f"{client_id}-{UUID}") == Client(library, surely)
    assert detect_library("orders", None, f"{client_id}-{UUID}") == Client(library, surely), (
        "a member's id begins with it"
    )


def test_groups_with_odd_names() -> None:
    """A group called as a library, or with characters that a pattern reads as its own."""
    assert detect_library("rdkafka", "rdkafka", "x").library == "librdkafka"
    assert detect_library("a.b(c", "consumer-a.b(c-7", "x") == Client("Java", True)
    assert detect_library("", "consumer--1", "x").library is None


def test_assignors_that_only_one_library_has() -> None:
    """They say more than a client id."""
    assert detect_library("g", "orders", "x", "RoundRobinAssigner") == Client("kafkajs", True)
    assert detect_library("g", "orders", "x", "stream") == Client("Java", True)


def test_counting() -> None:
    """The most first, unknown ones last, guesses marked; and read back."""
    words = count_clients([Client(None), Client("Java", True), Client("librdkafka"), Client("librdkafka", True)])
    assert words == "librdkafka 2?, Java 1, unknown 1"
    assert read_clients(words) == {"librdkafka": 2, "Java": 1, "unknown": 1}
    assert read_clients("kafka-python 3") == {"kafka-python": 3}
    assert read_clients(None) == {}


@cases(
    "now to clients kind",
    ("range", COOPERATIVE, "Java 3", ROLLING),
    ("range", COOPERATIVE, "Java 3, franz-go 1?", ROLLING),
    ("range", COOPERATIVE, "librdkafka 3", STOP_ALL),
    ("range", COOPERATIVE, "Java 3, librdkafka 1", STOP_ALL),
    ("range", COOPERATIVE, "Java 3, unknown 1", STOP_ALL),
    ("range", COOPERATIVE, "unknown 3", STOP_ALL),
    ("range", COOPERATIVE, None, STOP_ALL),
    ("range", COOPERATIVE, "Sarama 1", ROLLING),
    ("range", COOPERATIVE, "aiokafka or kafka-python 2", STOP_ALL),
    ("range", COOPERATIVE, "Java or librdkafka 2", STOP_ALL),
    ("range", COOPERATIVE, "Java or Sarama 2", STOP_ALL),
    ("range", "roundrobin", "aiokafka or kafka-python 2", ROLLING),
    ("range", "uniform", "kafka-python 1", NOT_THERE),
    ("range", "uniform", "aiokafka or kafka-python 2", NOT_THERE),
    ("range", COOPERATIVE, "kafka-python 1", STOP_ALL),
    ("range", COOPERATIVE, "aiokafka 2", NOT_THERE),
    ("range", "sticky", "librdkafka 2", NOT_THERE),
    ("RoundRobinAssigner", "range", "kafkajs 2", NOT_THERE),
    ("range", "roundrobin", "librdkafka 2", ROLLING),
    ("range", "sticky", "unknown 2", ROLLING),
    (COOPERATIVE, "range", "Java 3", STOP_ALL),
    (None, COOPERATIVE, "Java 3", STOP_ALL),
    ("uniform", COOPERATIVE, "Java 3", SERVER),
    ("stream", COOPERATIVE, "Java 3", NOT_THERE),
    ("server-range", "range", "unknown 3", SERVER),
    ("range", "uniform", "Java 3", SERVER),
    (None, "server-range", None, SERVER),
    ("stream", "uniform", "Java 3", NOT_THERE),
    ("uniform", "rack-uniform", "Java 3", NOT_THERE),
    ("range", "rack-server-range", "Java 3", NOT_THERE),
)
def test_ways(now: str | None, to: str, clients: str | None, kind: str) -> None:
    """Rolling where every member is known to allow it; else all stop, which is safe for everybody."""
    assert plan_switch(now, to, clients).kind == kind


def test_nothing_to_switch() -> None:
    """A group that runs with the assignor already adds nothing behind it."""
    switch = plan_switch(COOPERATIVE, COOPERATIVE, "Java 3")
    assert switch.text.startswith(f"The group runs with {COOPERATIVE} already: nothing is to be done, unless members")
    assert switch.assignors == ((COOPERATIVE,),)


@pytest.mark.parametrize(
    ("clients", "end"),
    [
        ("librdkafka 3", "That needs librdkafka 2.6.1 or later."),
        (
            "aiokafka or kafka-python 2",
            "That needs kafka-python 3.0 or later. aiokafka has no cooperative-sticky: find out the library first.",
        ),
    ],
)
def test_what_a_switch_to_cooperative_needs(clients: str, end: str) -> None:
    """The release, and the library if it is one of several."""
    assert plan_switch("range", COOPERATIVE, clients).text.endswith(f" in one list. {end}")


@pytest.mark.parametrize("name", [name for name, each in LIBRARIES.items() if not each.mixes])
def test_no_library_that_refuses_is_advised_to_mix(name: str) -> None:
    """Whoever else is in the group."""
    for clients in (f"{name} 1", f"Java 9, {name} 1?", f"{name} 1, unknown 4"):
        for eager in ("range", "roundrobin", "sticky"):
            assert plan_switch(eager, COOPERATIVE, clients).kind in (STOP_ALL, NOT_THERE)


@pytest.mark.parametrize(("to", "name"), [("uniform", "uniform"), ("server-range", "range")])
def test_the_broker_has_its_own_names(to: str, name: str) -> None:
    """The setting has the broker's name of the assignor."""
    text = plan_switch("range", to, "Java 3").text
    assert f"group.protocol=consumer and group.remote.assignor={name} in every member" in text


def test_unknown_clients_get_both_instructions() -> None:
    """What is safe for all, and for whom the other way is."""
    words = plan_switch("range", COOPERATIVE, "unknown 3").text
    assert words.startswith("Stop all members, then start them with cooperative-sticky alone: that is safe for every")
    assert "work with Java, franz-go, and Sarama only; librdkafka (Python, Go, .NET, Node) doesn't start" in words


def test_what_is_known_of_clients() -> None:
    """And how surely."""
    assert format_known_clients("Java 3") == "The clients, by their client IDs: Java 3."
    assert format_known_clients("librdkafka 3?, unknown 1").endswith("; ? is a guess from part of the name.")
    assert format_known_clients("unknown 7") == "The client IDs don't show which library the members use."
    assert format_known_clients(None) == "The clients are unknown."
