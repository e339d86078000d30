"""Whether a group may be upgraded while it runs: verdicts, sentences, and what each library can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.migration.kernel.upgrade_verdict import (
    COOPERATIVE_SWITCHES,
    DONE,
    GO,
    IMPOSSIBLE,
    STAY,
    STOP_ALL,
    SWITCH_BY_LIBRARY,
    TWO_RESTARTS,
    WARN,
    UpgradeCandidate,
    explain_unknown,
    judge,
)

JAVA = UpgradeCandidate("sticky", "Java", "2.8", "Java 3", "3.9", None)


@pytest.mark.parametrize(
    ("releases", "release"),
    [("2.8", "2.8"), ("2.8-3.3", "3.3"), ("<=2.7", "2.7"), ("3.4+", None), ("<2.4", None), (None, None), ("9.9", None)],
)
def test_the_newest_release_that_it_may_be(releases: str | None, release: str | None) -> None:
    """As a plan has it; where there is no newest one nothing is guessed."""
    assert replace(JAVA, releases=releases).release == release


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (replace(JAVA, assignor=None), "What it runs with is not known"),
        (replace(JAVA, assignor="stream"), "It runs with stream"),
        (replace(JAVA, library=None), "Who leads it is not known; say so"),
        (replace(JAVA, releases="3.4+"), "Its leader's release is not known (Java 3.4+); say so"),
        (replace(JAVA, library="librdkafka"), "Its leader runs librdkafka, whose releases are not those of Java's"),
    ],
)
def test_unknown_facts_are_reported(case: UpgradeCandidate, says: str) -> None:
    """And what to say."""
    assert str(explain_unknown(case)).startswith(says)
    assert explain_unknown(JAVA) is None


def test_other_libraries_get_instructions_to_switch() -> None:
    """By the table, where somebody asks for cooperative-sticky."""
    text = str(explain_unknown(replace(JAVA, library="librdkafka", assignor="range", to_assignor="cooperative-sticky")))
    assert "To cooperative-sticky: stop all. A consumer does not start with a list that mixes." in text


def test_every_library_is_in_the_table_and_they_agree() -> None:
    """What `groups.kernel.client_libraries` says of lists that mix is what the table has."""
    assert set(SWITCH_BY_LIBRARY) == set(LIBRARIES)
    for each in COOPERATIVE_SWITCHES:
        library = LIBRARIES[each.library]
        has = "cooperative-sticky" in library.assignors
        assert each.safe_method == (TWO_RESTARTS if library.mixes else STOP_ALL if has else IMPOSSIBLE)
        assert each.source
        assert each.reason.endswith(".")


def test_verdicts() -> None:
    """By what moves because of the rules, the way, and the release."""
    assert judge(JAVA, 0, True) == (GO, "The rules of 3.9 differ, and move nothing here.")
    verdict, note = judge(JAVA, 4, True)
    assert (verdict, note) == (WARN, "4 of the moves would not be, had the rules stayed those of 2.8.")
    assert judge(replace(JAVA, assignor="roundrobin"), 0, True)[0] == GO
    assert judge(replace(JAVA, releases="4.0"), None, False)[0] == DONE
    assert judge(replace(JAVA, clients="Java 2, librdkafka 1"), 0, True)[0] == WARN
    assert judge(JAVA, None, False)[1] == "Not all restarts were played."
    assert judge(replace(JAVA, releases="2.8-3.3"), 0, True)[1].startswith(
        "Its release is one of 2.8-3.3: taken as 3.3."
    )


def test_switching_on_the_way() -> None:
    """Two restarts with Java; stopped where somebody refuses a list that mixes; not at all where it is not there."""
    cooperative = replace(JAVA, to_assignor="cooperative-sticky")
    assert cooperative.assignor_lists == (("sticky", "cooperative-sticky"), ("cooperative-sticky",))
    assert cooperative.is_rolling
    assert judge(cooperative, 0, True)[0] == GO
    mixed = replace(cooperative, assignor="range", clients="Java 2, librdkafka 1")
    assert not mixed.is_rolling
    assert judge(mixed, None, False)[0] == WARN
    assert judge(replace(cooperative, clients="Java 1, aiokafka 1"), None, False)[0] == STAY
    assert not replace(cooperative, releases="3.9").is_done
    back = replace(JAVA, assignor="cooperative-sticky", to_assignor="range")
    assert not back.is_rolling
