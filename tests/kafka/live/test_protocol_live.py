"""Predicted = actual in time: members of real groups join, leave, crash and restart; how many generations follow, by
which protocol, led by whom, who is told to give up what and who has what in the end, against the simulation."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_assign.java import hash_map as java_hash
from tests.kafka import protocol_forecast, protocol_story
from tests.kafka.protocol_cases import CASES, Case
from tests.kafka.protocol_forecast import Forecast
from tests.kafka.protocol_story import Story, client_ids

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


play = protocol_story.play
_of_cases = partial(protocol_forecast.of_cases, CASES)


@pytest.fixture(scope="module")
def forecasts(spark: SparkSession, story: Story) -> dict[str, Forecast]:
    """The same, simulated."""
    return protocol_forecast.forecasts(spark, story)


# --- what Kafka's protocol says by itself -----------------------------------------------------------------------


def test_generations(story: Story) -> None:
    """One a rebalance; a cooperative group needs another one if somebody had to give up something in the first."""
    made = _of_cases(lambda case: len(story.generations(case.group)))
    assert made == _of_cases(lambda case: case.rebalances)
    # Every member is told the number that the coordinator's log has.
    for case in CASES:
        known = story.generation_before(case.group) + len(story.generations(case.group))
        assert story.generation_after(case.group) == dict.fromkeys(story.owners_after(case.group), known)


def test_eager_members_give_up_everything_and_cooperative_ones_what_moves(story: Story) -> None:
    """Nobody loses anything; who stays in an eager group revokes all it owns in every rebalance."""
    assert [row for row in story.listener_rows if row["event"] == "lost"] == []
    for case in CASES:
        before, after, calls = (each(case.group) for each in (story.owners_before, story.owners_after, story.calls))
        for client in set(before) - {case.subject.client_id}:
            listener_rows = calls.get(client, [])
            if case.eager:
                assert [event for event, _ in listener_rows] == ["revoked", "assigned"] * case.rebalances
                assert listener_rows[:1] == [("revoked", before[client])][: case.rebalances]
            elif case.rebalances < 3:
                moved = before[client] - after[client]
                assert [each for each in listener_rows if each[0] == "revoked"] == (
                    [("revoked", moved)] if moved else []
                )


def test_nobody_owns_what_another_owns(story: Story) -> None:
    """By the clock of the listeners' calls: a partition is given up, or its owner killed, before another has it."""
    for case in CASES:
        have = {each: client for client, owned in story.owners_before(case.group).items() for each in owned}
        if case.killed:
            have = {each: client for each, client in have.items() if client != case.subject.client_id}
        for client, event, partitions in story.in_order(case.group):
            for each in partitions:
                if event == "assigned":
                    assert each not in have, (case.group, client, each)
                    have[each] = client
                else:
                    assert have.pop(each) == client, (case.group, client, each)
        assert have == {each: client for client, owned in story.owners_after(case.group).items() for each in owned}


def test_a_static_member_comes_back(story: Story) -> None:
    """It is told all that it had, under a new member id and in the old generation; nobody else is told anything."""
    for case in (case for case in CASES if case.unnoticed):
        client = case.subject.client_id
        owned = story.owners_before(case.group)[client]
        revoked = [("revoked", owned)] if case.closes else []
        assert story.calls(case.group) == {client: [*revoked, ("assigned", owned)]}
        assert story.owners_after(case.group)[client] == owned
        old, new = (client_ids(tables, case.group) for tables in (story.before, story.after))
        assert set(old) - set(new) == {member for member, name in old.items() if name == client}


def test_who_closes_revokes_first(story: Story) -> None:
    """The callback, then the request LeaveGroup; static members do not send it."""
    for case in (case for case in CASES if case.closes):
        first = story.rows(case.group, case.subject.client_id)[0]
        left = [at for at, text in story.log_of(case.group) if "explicit `LeaveGroup` request" in text]
        assert first["event"] == "revoked"
        assert len(left) == (0 if case.static else 1)
        assert [at for at in left if at < first["at_ms"]] == []


def test_who_crashes_is_missed_when_its_session_times_out(story: Story) -> None:
    """So is a dynamic member that comes back: nobody knows who it was."""
    for case in (case for case in CASES if case.killed):
        assert sum("has failed, removing it" in text for _, text in story.log_of(case.group)) == case.missed


def test_who_leads(story: Story) -> None:
    """The same member as long as it is there, static ones under their new ids as well; then the first of those who
    stay, in the order of Java's HashMap."""
    reelected = 0
    for case in (case for case in CASES if story.generations(case.group)):
        [*_, before] = story.leaders(case.group, story.first_log)
        [*_, after] = story.leaders(case.group, story.log)
        old, new = (client_ids(tables, case.group) for tables in (story.before, story.after))
        there = [each for each in story.joined(case.group) if each in old and each in new]
        if before in there:
            assert after == before
        elif case.static and old[before] in new.values():
            assert new[after] == old[before]
        else:
            assert after == java_hash.texts_in_table_order(there)[0]
            reelected += 1
    assert reelected >= 1


def test_the_vote(story: Story) -> None:
    """A strategy that all members support, with the most votes; its name is in the description of the group."""
    voted = {
        "t-votes-tie": "range",
        "t-votes-common": "cooperative-sticky",
        "t-votes-leave": "cooperative-sticky",
        "t-votes-restart": "cooperative-sticky",
    }
    assert story.assignors == _of_cases(lambda case: voted.get(case.group, case.members[0].assignor))
    assert {group: story.assignors_before[group] for group in voted} == {
        "t-votes-tie": "range",
        "t-votes-common": "range",
        "t-votes-leave": "range",
        "t-votes-restart": "range",
    }


# --- predicted = actual -----------------------------------------------------------------------------------------


def test_as_many_rebalances(story: Story, forecasts: dict[str, Forecast]) -> None:
    """The same generations, a row each, of the protocol that the group's description shows in the end."""
    actual = _of_cases(lambda case: story.generations(case.group))
    assert _of_cases(lambda case: [row["generation_id"] for row in forecasts[case.group].rounds]) == actual
    assert _of_cases(lambda case: forecasts[case.group].availability["rebalances"]) == _of_cases(
        lambda case: len(actual[case.group])
    )
    predicted = {case.group: forecasts[case.group].rounds[-1]["assignor"] for case in CASES if actual[case.group]}
    assert predicted == {group: story.assignors[group] for group in predicted}


def test_listener_calls_are_as_predicted(story: Story, forecasts: dict[str, Forecast]) -> None:
    """Every member's calls with every partition, in their order; and who has what in the end."""
    assert _of_cases(lambda case: forecasts[case.group].calls) == _of_cases(lambda case: story.calls(case.group))
    assert _of_cases(lambda case: forecasts[case.group].owners_after) == _of_cases(
        lambda case: story.owners_after(case.group)
    )


def test_rounds_count_the_same(story: Story, forecasts: dict[str, Forecast]) -> None:
    """How many partitions were revoked and assigned in all rounds, and how many members each had."""

    def listener_rows(case: Case, event: str) -> int:
        rows = [] if case.unnoticed else story.rows(case.group)
        return sum(len(row["partitions"]) for row in rows if row["event"] == event)

    def predicted(case: Case, column: str) -> int:
        return sum(row[column] for row in forecasts[case.group].rounds)

    for column in ("revoked", "assigned"):
        assert _of_cases(lambda case, column=column: predicted(case, column)) == _of_cases(
            lambda case, column=column: listener_rows(case, column)
        )
    assert _of_cases(lambda case: [row["members"] for row in forecasts[case.group].rounds]) == _of_cases(
        lambda case: story.sizes(case.group)
    )
