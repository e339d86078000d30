"""Whether a group may be upgraded while it runs: verdicts, sentences, and what each library can do."""

from __future__ import annotations

from dataclasses import replace

from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.groups.kernel.client_settings import NOT_THERE, ROLLING, STOP_ALL
from spark_assign.migration.kernel.migration_verdict import BLOCKED, DONE, READY, READY_WITH_WARNINGS
from spark_assign.migration.kernel.upgrade_verdict import UpgradeCandidate, explain_unknown, judge_upgrade
from tests.cases import cases

JAVA = UpgradeCandidate("sticky", "Java", "2.8", "Java 3", "3.9", None)


@cases(
    "releases release",
    ("2.8", "2.8"),
    ("2.8-3.3", "3.3"),
    ("<=2.7", "2.7"),
    ("3.4+", None),
    ("<2.4", None),
    (None, None),
    ("9.9", None),
)
def test_the_newest_release_that_it_may_be(releases: str | None, release: str | None) -> None:
    """As a plan has it; where there is no newest one nothing is guessed."""
    assert replace(JAVA, releases=releases).release == release


@cases(
    "case says",
    (replace(JAVA, assignor=None), "The current assignor is unknown. Only range, "),
    (replace(JAVA, assignor="stream"), "The current assignor is stream. Only range, "),
    (replace(JAVA, library=None), "The client library of the leader is unknown. Set it with --leader-client "),
    (replace(JAVA, releases="3.4+"), "The release of the leader is unknown (Java 3.4+). Set it with --leader-client "),
    (
        replace(JAVA, library="librdkafka"),
        "The leader uses librdkafka, whose releases differ from Kafka's Java clients.",
    ),
)
def test_unknown_facts_are_reported(case: UpgradeCandidate, says: str) -> None:
    """And what to say."""
    assert str(explain_unknown(case)).startswith(says)
    assert explain_unknown(JAVA) is None


def test_other_libraries_get_instructions_to_switch() -> None:
    """By the table, where somebody asks for cooperative-sticky."""
    text = str(explain_unknown(replace(JAVA, library="librdkafka", assignor="range", to_assignor="cooperative-sticky")))
    assert "To switch to cooperative-sticky: stop all. A consumer doesn't start with a mixed list." in text


def test_every_library_is_in_the_table_and_they_agree() -> None:
    """What `groups.kernel.client_libraries` says of lists that mix is what the table has."""
    for name, library in LIBRARIES.items():
        reason = library.switching
        method = ROLLING if library.mixes else STOP_ALL if ("cooperative-sticky" in library.assignors) else NOT_THERE
        case = replace(JAVA, library=name, assignor="range", to_assignor="cooperative-sticky")
        assert name == "Java" or f"To switch to cooperative-sticky: {method}. {reason}" in str(explain_unknown(case))
        assert reason.endswith(".")


def test_verdicts() -> None:
    """By what moves because of the rules, the way, and the release."""
    assert judge_upgrade(JAVA, 0, True) == (READY, "The rules of 3.9 differ, but move no partition of this group.")
    verdict, note = judge_upgrade(JAVA, 4, True)
    assert (verdict, note) == (READY_WITH_WARNINGS, "The rules of 2.8 would avoid 4 of the moves.")
    assert judge_upgrade(replace(JAVA, assignor="roundrobin"), 0, True)[0] == READY
    assert judge_upgrade(replace(JAVA, releases="4.0"), None, False)[0] == DONE
    assert judge_upgrade(replace(JAVA, client_libraries="Java 2, librdkafka 1"), 0, True)[0] == READY_WITH_WARNINGS
    assert judge_upgrade(JAVA, None, False)[1] == "Not all restarts were simulated."
    assert judge_upgrade(replace(JAVA, releases="2.8-3.3"), 0, True)[1].startswith(
        "The release of the leader is one of 2.8-3.3; 3.3 is assumed."
    )


def test_switching_on_the_way() -> None:
    """Two restarts with Java; stopped where somebody refuses a list that mixes; not at all where it is not there."""
    cooperative = replace(JAVA, to_assignor="cooperative-sticky")
    assert cooperative.assignor_lists == (("sticky", "cooperative-sticky"), ("cooperative-sticky",))
    assert cooperative.is_rolling
    assert judge_upgrade(cooperative, 0, True)[0] == READY
    mixed = replace(cooperative, assignor="range", client_libraries="Java 2, librdkafka 1")
    assert not mixed.is_rolling
    assert judge_upgrade(mixed, None, False)[0] == READY_WITH_WARNINGS
    assert judge_upgrade(replace(cooperative, client_libraries="Java 1, aiokafka 1"), None, False)[0] == BLOCKED
    assert not replace(cooperative, releases="3.9").is_done
    assert not replace(JAVA, assignor="cooperative-sticky", to_assignor="range").is_rolling


@cases(
    "releases to_release has_racks ends",
    ("4.3", "4.4", True, True),
    ("3.4", "4.4", True, False),
    ("4.3", "4.4", False, False),
    ("3.5", "4.3", True, False),
)
def test_broker_bounces_end_with_4_4(releases: str, to_release: str, has_racks: bool, ends: bool) -> None:
    """In rack-aware groups: the leader rejoins twice up to 4.3 (KAFKA-20778)."""
    _, note = judge_upgrade(replace(JAVA, releases=releases, to_release=to_release, has_racks=has_racks), None, True)
    assert ("A restart of a broker no longer causes two rebalances (KAFKA-20778)." in note) == ends
