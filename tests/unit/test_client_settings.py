"""The settings that advice prints: each library's own names, and the restarts that its members survive."""

from __future__ import annotations

from typing import Any

import javaproperties
import pytest

from spark_assign.comparison.kernel.compare import AssignorMetrics, judge_assignors
from spark_assign.groups.kernel.client_libraries import LIBRARIES, Client, detect_libraries, leader_client
from spark_assign.groups.kernel.client_settings import (
    FIRST_RESTART,
    FORBIDDEN,
    SECOND_RESTART,
    STOPPED,
    MemberChange,
    assignor_lines,
    find_refusal,
    find_refusals,
    member_settings,
    plan_switch,
    undo_lines,
)

KAFKA = "org.apache.kafka.clients.consumer"
MIXED = ("range", "cooperative-sticky")


def settings(now: str | None, to: str, clients: str | None, **more: Any) -> list[str]:
    """The lines to paste for another assignor."""
    return member_settings(MemberChange("g", clients, plan_switch(now, to, clients), **more))


@pytest.mark.parametrize(
    ("clients", "now", "to", "lines"),
    [
        (
            "Java 3",
            *MIXED,
            [
                f"# {FIRST_RESTART}",
                f"partition.assignment.strategy={KAFKA}.RangeAssignor,{KAFKA}.CooperativeStickyAssignor",
                f"# {SECOND_RESTART}",
                f"partition.assignment.strategy={KAFKA}.CooperativeStickyAssignor",
            ],
        ),
        ("librdkafka 3", *MIXED, [f"# {STOPPED}", "partition.assignment.strategy=cooperative-sticky"]),
        ("librdkafka 3", "range", "sticky", []),
        (
            "franz-go 3",
            *MIXED,
            [
                f"// {FIRST_RESTART}",
                "kgo.Balancers(kgo.RangeBalancer(),kgo.CooperativeStickyBalancer())",
                f"// {SECOND_RESTART}",
                "kgo.Balancers(kgo.CooperativeStickyBalancer())",
            ],
        ),
        (
            "kafka-python 3",
            "sticky",
            "cooperative-sticky",
            [
                f"# {STOPPED}",
                "from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor",
                "partition_assignment_strategy=[CooperativeStickyAssignor]",
            ],
        ),
        (
            "kafka-go 1",
            "range",
            "roundrobin",
            [
                f"// {FIRST_RESTART}",
                "GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{},kafka.RoundRobinGroupBalancer{}},",
                f"// {SECOND_RESTART}",
                "GroupBalancers: []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}},",
            ],
        ),
        # Of an unknown library: Java's names, and librdkafka's as a comment.
        (
            "unknown 3",
            *MIXED,
            [
                f"# {STOPPED}",
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
                f"# {FIRST_RESTART}",
                f"# remove {', '.join(FORBIDDEN)}: a client doesn't start with them",
                "group.protocol=consumer",
                "group.remote.assignor=uniform",
            ],
        ),
        ("Java 2", "uniform", "server-range", [f"# {FIRST_RESTART}", "group.remote.assignor=range"]),
        ("kafka-python 2", "range", "uniform", []),
        ("aiokafka or kafka-python 2", "range", "uniform", []),
    ],
)
def test_lines_of_a_switch(clients: str, now: str, to: str, lines: list[str]) -> None:
    """In the syntax of the library; none of what it refuses."""
    assert settings(now, to, clients) == lines


def test_membership_and_session() -> None:
    """Lines of all changes are in the same steps; a long session of librdkafka needs another setting."""
    change = MemberChange("g h", "librdkafka 2", None, is_static=True, session_ms=600_000)
    assert member_settings(change) == [
        f"# {FIRST_RESTART}",
        "# g-h-0, g-h-1, …: a fixed id for each member",
        "group.instance.id=g-h-0",
        "session.timeout.ms=600000",
        "max.poll.interval.ms=600000",
    ]
    lines = settings("range", "roundrobin", "Java 2", is_static=False)
    assert [line for line in lines if "instance" in line] == ["# remove group.instance.id=…"] * 2
    server = MemberChange("g", "Java 2", session_ms=50_000, is_server_side=True)
    assert member_settings(server)[0] == "# No member restarts:"
    assert "consumer.session.timeout.ms=50000" in member_settings(server)[1]


def test_the_way_back() -> None:
    """From cooperative-sticky all stop."""
    assert "stop all members first" in undo_lines(settings(*MIXED, "Java 2"))[0]
    assert undo_lines([f"// {FIRST_RESTART}", "x"])[0].startswith("// Restore the previous values")


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=lambda each: each.name)
def test_every_assignor_has_a_setting(library: Any) -> None:
    """And properties are one."""
    for assignor in library.assignors:
        lines = assignor_lines(library, (assignor,))
        assert find_refusal(library.name, (assignor,)) is None
        if library.name in ("Java", "librdkafka"):
            assert javaproperties.loads("\n".join(lines)) == {
                "partition.assignment.strategy": library.assignors[assignor]
            }


def test_what_clients_refuse_is_not_recommended() -> None:
    """Another assignor is, and the reason says who refuses."""
    assert find_refusals("librdkafka 2, Java 1", "sticky") == "librdkafka has no sticky"
    assert find_refusals("kafkajs 2", "RoundRobinAssigner", is_static=True) == (
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
    assert leader_client("Java or x, y", "sure") == Client(None), "a row of another writer"
    found = detect_libraries("g", [("billing", "billing-1"), ("sarama", "sarama-1")], "range", both)
    assert found == [both, Client("Sarama", True)]
