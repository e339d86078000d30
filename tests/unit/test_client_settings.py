"""The settings that advice prints: each library's own names, and the restarts that its members survive."""

from __future__ import annotations

from typing import Any

import javaproperties
import pytest

from spark_assign.comparison.kernel.recommend import AssignorMetrics, judge_assignors
from spark_assign.groups.kernel import client_settings
from spark_assign.groups.kernel.client_libraries import LIBRARIES, Client, detect_libraries, leader_client
from tests.cases import cases

KAFKA = "org.apache.kafka.clients.consumer"
MIXED = ("range", "cooperative-sticky")


def settings(now: str | None, to: str, clients: str | None, **more: Any) -> list[str]:
    """The lines to paste for another assignor."""
    return client_settings.member_settings(
        client_settings.MemberChange("g", clients, client_settings.plan_switch(now, to, clients), **more)
    )


@cases(
    "clients now to lines",
    (
        "Java 3",
        *MIXED,
        [
            f"# {client_settings.FIRST_RESTART}",
            f"partition.assignment.strategy={KAFKA}.RangeAssignor,{KAFKA}.CooperativeStickyAssignor",
            f"# {client_settings.SECOND_RESTART}",
            f"partition.assignment.strategy={KAFKA}.CooperativeStickyAssignor",
        ],
    ),
    ("librdkafka 3", *MIXED, [f"# {client_settings.STOPPED}", "partition.assignment.strategy=cooperative-sticky"]),
    ("librdkafka 3", "range", "sticky", []),
    (
        "franz-go 3",
        *MIXED,
        [
            f"// {client_settings.FIRST_RESTART}",
            "kgo.Balancers(kgo.RangeBalancer(),kgo.CooperativeStickyBalancer())",
            f"// {client_settings.SECOND_RESTART}",
            "kgo.Balancers(kgo.CooperativeStickyBalancer())",
        ],
    ),
    (
        "kafka-python 3",
        "sticky",
        "cooperative-sticky",
        [
            f"# {client_settings.STOPPED}",
            "from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor",
            "partition_assignment_strategy=[CooperativeStickyAssignor]",
        ],
    ),
    (
        "kafka-go 1",
        "range",
        "roundrobin",
        [
            f"// {client_settings.FIRST_RESTART}",
            "GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{},kafka.RoundRobinGroupBalancer{}},",
            f"// {client_settings.SECOND_RESTART}",
            "GroupBalancers: []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}},",
        ],
    ),
    # Of an unknown library: Java's names, and librdkafka's as a comment.
    (
        "unknown 3",
        *MIXED,
        [
            f"# {client_settings.STOPPED}",
            "# Java:",
            f"partition.assignment.strategy={KAFKA}.CooperativeStickyAssignor",
            "# librdkafka: partition.assignment.strategy=cooperative-sticky",
        ],
    ),
    (
        "librdkafka 2",
        "range",
        "uniform",
        [
            f"# {client_settings.FIRST_RESTART}",
            f"# remove {', '.join(client_settings.FORBIDDEN)}: a client doesn't start with them",
            "group.protocol=consumer",
            "group.remote.assignor=uniform",
        ],
    ),
    ("Java 2", "uniform", "server-range", [f"# {client_settings.FIRST_RESTART}", "group.remote.assignor=range"]),
    ("kafka-python 2", "range", "uniform", []),
    ("aiokafka or kafka-python 2", "range", "uniform", []),
)
def test_lines_of_a_switch(clients: str, now: str, to: str, lines: list[str]) -> None:
    """In the syntax of the library; none of what it refuses."""
    assert settings(now, to, clients) == lines


def test_membership_and_session() -> None:
    """Lines of all changes are in the same steps; a long session of librdkafka needs another setting."""
    assert client_settings.member_settings(
        client_settings.MemberChange("g h", "librdkafka 2", None, is_static=True, session_ms=600_000)
    ) == [
        f"# {client_settings.FIRST_RESTART}",
        "# g-h-0, g-h-1, …: a fixed id for each member",
        *("group.instance.id=g-h-0", "session.timeout.ms=600000", "max.poll.interval.ms=600000"),
    ]
    lines = settings("range", "roundrobin", "Java 2", is_static=False)
    assert [line for line in lines if "instance" in line] == ["# remove group.instance.id=…"] * 2
    server = client_settings.MemberChange("g", "Java 2", session_ms=50_000, is_server_side=True)
    assert client_settings.member_settings(server)[0] == "# No member restarts:"
    assert "consumer.session.timeout.ms=50000" in client_settings.member_settings(server)[1]


def test_the_way_back() -> None:
    """From cooperative-sticky all stop."""
    assert "stop all members first" in client_settings.undo_lines(settings(*MIXED, "Java 2"))[0]
    assert client_settings.undo_lines([f"// {client_settings.FIRST_RESTART}", "x"])[0].startswith(
        "// Restore the previous values"
    )


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=lambda each: each.name)
def test_every_assignor_has_a_setting(library: Any) -> None:
    """And properties are one."""
    for assignor in library.assignors:
        lines = client_settings.assignor_lines(library, (assignor,))
        assert client_settings.find_refusal(library.name, (assignor,)) is None
        if library.name in ("Java", "librdkafka"):
            found = javaproperties.loads("\n".join(lines))
            assert found == {"partition.assignment.strategy": library.assignors[assignor]}


def test_what_clients_refuse_is_not_recommended() -> None:
    """Another assignor is, and the reason says who refuses."""
    assert client_settings.find_refusals("librdkafka 2, Java 1", "sticky") == "librdkafka has no sticky"
    assert client_settings.find_refusals("kafkajs 2", "RoundRobinAssigner", is_static=True) == (
        "kafkajs can't be static members (tulios/kafkajs#884)"
    )
    metrics = {"members": 2, "partitions": 4, "stable": True}
    compared = [
        AssignorMetrics("range", max_over_mean=2.0, **metrics),
        AssignorMetrics("sticky", max_over_mean=1.0, refusal="librdkafka has no sticky", **metrics),
        AssignorMetrics("roundrobin", max_over_mean=1.1, **metrics),
    ]
    verdicts = judge_assignors(compared, "range")
    assert [recommended for recommended, _ in verdicts] == [False, False, True]
    assert verdicts[1][1] == "sticky: librdkafka has no sticky"


def test_members_have_the_library_of_their_leader() -> None:
    """Where their client ids show nothing."""
    both = leader_client("aiokafka or kafka-python", "unknown")
    assert both == Client("aiokafka or kafka-python", True)
    assert leader_client("Java", "guess") == Client("Java", False)
    assert leader_client("Jawa", "sure") == leader_client(None, None) == Client(None)
    found = detect_libraries("g", [("billing", "billing-1"), ("sarama", "sarama-1")], "range", both)
    assert found == [both, Client("Sarama", True)]
