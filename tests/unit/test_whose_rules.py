"""By whose rules a group is planned, from what its metrics say."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.assignors import release_rules
from spark_assign.assignors.group_facts import GROUP, MEMBER, SUBSCRIPTION
from spark_assign.groups.kernel.plan_groups import PlanParams
from tests.cases import cases
from tests.plan_rows import facts_table, plan_rows


@cases(
    "assignor leader kind words",
    ("sticky", "Java 3.4+ (sure)", "sure", "Java 3.4+ (sure)"),
    ("range@3.3", "Java 2.4-3.3 (likely)", "likely", "Java 2.4-3.3 (likely), as 3.3"),
    ("range@3.3", "Java 3.3 (given)", release_rules.GIVEN, "Java 3.3 (given)"),
    ("roundrobin", "Java 2.4-3.3 (guess)", "guess", "Java 2.4-3.3 (guess)"),
    ("sticky", "Java 2.8-3.3 (likely)", release_rules.OTHER, "today's Java, but led by Java 2.8-3.3 (likely)"),
    ("sticky@3.3", "Java 3.4+ (sure)", release_rules.OTHER, "Java 3.3, but led by Java 3.4+ (sure)"),
    ("sticky", "kafka-python (likely)", release_rules.OTHER, "today's Java, but led by kafka-python (likely)"),
    ("range@3.4", "Sarama (sure)", "sure", "Sarama (sure), as Java 3.4"),
    ("range", "Sarama (sure)", release_rules.OTHER, "today's Java, but led by Sarama (sure)"),
    (
        *("range@3.4", "aiokafka (likely), with static members", release_rules.OTHER),
        "Java 3.4, but led by aiokafka (likely), with static members",
    ),
    ("roundrobin", "aiokafka (likely)", "likely", "aiokafka (likely)"),
    ("sticky@franz-go", "franz-go (sure)", "sure", "franz-go (sure), as 1.22"),
    ("sticky@franz-go", "franz-go 1.22.2 (given)", release_rules.GIVEN, "franz-go 1.22.2 (given)"),
    (
        "sticky@franz-go",
        "franz-go 1.20 (given)",
        release_rules.OTHER,
        "franz-go 1.22, but led by franz-go 1.20 (given)",
    ),
    ("range@franz-go", "franz-go 1.20 (given)", release_rules.GIVEN, "franz-go 1.20 (given)"),
    ("sticky@franz-go-1.20", "franz-go 1.21.3 (given)", release_rules.GIVEN, "franz-go 1.21.3 (given), as 1.20"),
    ("sticky@franz-go-1.21", "franz-go 1.21.7 (given)", release_rules.GIVEN, "franz-go 1.21.7 (given), as 1.21"),
    ("range@franz-go", "franz-go 1.21.3 (given)", release_rules.GIVEN, "franz-go 1.21.3 (given)"),
    ("range@franz-go-1.21", "franz-go 1.21.7 (given)", release_rules.GIVEN, "franz-go 1.21.7 (given), as 1.21"),
    (
        *("sticky@franz-go-1.21", "franz-go 1.21.7 (given), with racks", release_rules.GIVEN),
        "franz-go 1.21.7 (given), with racks, as 1.21",
    ),
    (
        *(
            "sticky@franz-go-1.21",
            "franz-go 1.21.7 (given), with racks, but not of leaders",
            release_rules.OTHER,
        ),
        "franz-go 1.21, but led by franz-go 1.21.7 (given), with racks, but not of leaders",
    ),
    (
        *("range@franz-go-1.21", "franz-go 1.21.7 (given), with racks", release_rules.GIVEN),
        "franz-go 1.21.7 (given), with racks, as 1.21",
    ),
    (
        *("range@franz-go", "franz-go 1.21.3 (given), with racks", release_rules.OTHER),
        "franz-go 1.22, but led by franz-go 1.21.3 (given), with racks",
    ),
    ("roundrobin", "franz-go 1.21.7 (given), with racks", release_rules.GIVEN, "franz-go 1.21.7 (given), with racks"),
    ("sticky", "franz-go (sure)", release_rules.OTHER, "today's Java, but led by franz-go (sure)"),
    ("range@librdkafka", "librdkafka 2.2+ (sure)", "likely", "librdkafka 2.2+ (sure), as 2.6.1"),
    (
        "cooperative-sticky@librdkafka",
        "librdkafka <2.2 (sure)",
        "likely",
        "librdkafka <2.2 (sure), as 2.6.1 (before, different subscriptions can count as balanced, or the leader "
        "never finishes, confluentinc/librdkafka#4783; before 2.2, racks are ignored)",
    ),
    ("range@librdkafka", "librdkafka (guess)", "guess", "librdkafka (guess), as 2.6.1 (before 2.2, racks are ignored)"),
    ("cooperative-sticky@librdkafka", "librdkafka 2.6.1 (given)", release_rules.GIVEN, "librdkafka 2.6.1 (given)"),
    ("range@librdkafka", "librdkafka 2.12+ (given)", release_rules.GIVEN, "librdkafka 2.12+ (given)"),
    ("range@librdkafka", "librdkafka 2.16.1 (given)", release_rules.GIVEN, "librdkafka 2.16.1 (given)"),
    ("range@librdkafka", "librdkafka 2.17.0 (given)", "likely", "librdkafka 2.17.0 (given), as 2.16"),
    ("sticky@franz-go", "franz-go 1.23.0 (given)", "likely", "franz-go 1.23.0 (given), as 1.22"),
    ("roundrobin", "kafka-python (likely)", release_rules.OTHER, "today's Java, but led by kafka-python (likely)"),
    ("sticky@3.3", None, "unknown", "Java 3.3, leader not known"),
    ("server-range", None, release_rules.BROKER, "the broker"),
    ("rack-uniform", None, release_rules.OWN, "no client"),
    ("house", "Java 3.4+ (sure)", release_rules.OWN, "no client"),
)
def test_one_group(assignor: str, leader: str | None, kind: str, words: str) -> None:
    """Its leader's, if the rules are those that this leader is planned by; else it is said whose they are."""
    found = release_rules.find_rule_source(assignor, leader)
    assert (found.kind, found.text) == (kind, words)
    not_recorded = (", as 2.6.1", "librdkafka 2.17.0", "franz-go 1.23.0")
    assert found.differs == (kind == release_rules.OTHER or any(each in words for each in not_recorded))


@pytest.mark.parametrize("leader", [("Java", "2.8-3.3", "likely"), ("franz-go", None, "sure"), ("kafkajs", None, None)])
def test_leaders_there_and_back(leader: tuple[str, str | None, str | None]) -> None:
    """What a plan says of a leader is read back as it was."""
    assert release_rules.read_leader(release_rules.format_leader(*leader)) == leader
    assert release_rules.format_leader(None, None, "unknown") is None
    words = release_rules.format_leader("Sarama", None, "sure", static=True)
    assert words == "Sarama (sure), with static members"
    assert release_rules.read_leader(words) == ("Sarama", None, "sure")
    assert release_rules.format_leader("Java", "3.4+", "sure", static=True) == "Java 3.4+ (sure)"
    for known, suffix in ((True, ", with racks"), (False, ", with racks, but not of leaders")):
        words = release_rules.format_leader("franz-go", "1.21.7", "given", racks=True, leader_racks=known)
        assert words == f"franz-go 1.21.7 (given){suffix}"
        assert release_rules.read_leader(words) == ("franz-go", "1.21.7", "given")


def test_leaders_of_a_plan() -> None:
    """Sarama orders static members otherwise than Kafka's assignors do, which a plan says if there are any."""
    rows: list[dict[str, Any]] = []
    for name, library, instance in (("a", "Sarama", "i"), ("b", "Sarama", None), ("c", "Java", "i"), ("d", None, "i")):
        key = {"cluster": "c", "group_id": name}
        leader = {"leader_library": library, "leader_version": None, "leader_confidence": library and "sure"}
        rows.append(key | leader | {"kind": GROUP, "assignor": "range"})
        rows.append(key | {"kind": MEMBER, "member_id": "m", "group_instance_id": instance})
        rows.append(key | {"kind": SUBSCRIPTION, "member_id": "m", "topic": "t", "partitions": 1})
    assert {
        row["group_id"]: row["leader_client"]
        for row in plan_rows(facts_table(rows), PlanParams((("*", "range"),), ("range",)))
        if row["kind"] == "metrics"
    } == {"a": "Sarama (sure), with static members", "b": "Sarama (sure)", "c": "Java (sure)", "d": None}


def test_a_fleet() -> None:
    """Counts in one line; a name helps where it is a guess or nothing is known."""
    rows = [("range", "Java 3.4+ (sure)", 1_200), ("sticky", "Java 3.4+ (guess)", 1), ("sticky", None, 2)]
    assert release_rules.format_rule_sources(release_rules.count_rules([*rows, ("uniform", None, 3)])) == (
        "By the rules of their leader, sure: 1,200 groups; their leader, a guess: 1 group (--leader-client names it); "
        "Java clients, leader not known: 2 groups (--leader-client names it); the broker: 3 groups"
    )
    assert release_rules.format_rule_sources(release_rules.count_rules([])) == ""
