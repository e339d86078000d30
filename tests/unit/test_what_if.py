"""Text forms of what-if changes, and what a rebalance is expected to pause."""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

import pytest

from spark_assign.comparison.what_if import AS_IS, members_joined, members_left, parse_what_if, partitions_added
from spark_assign.simulation.kernel.pause_estimates import PauseCounts, cooperative_seconds, eager_seconds
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.tables.errors import ConfigError
from tests.unit.protocol_plays import COOPERATIVE, STICKY, at, owners, pauses, play, stage


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("as-is", "as-is"),
        ("leave:payments-*:1", "leave:payments-*:1"),
        ("leave:a:b=c:2", "leave:a:b=c:2"),
        ("one less=leave:*:1", "one less"),
        ("host down=leave-members:consumer-10.2.*", "host down"),
        ("join:search-*:2", "join:search-*:2"),
        ("partitions:orders*:x1.5", "partitions:orders*:x1.5"),
        ("partitions:orders*:64", "partitions:orders*:64"),
    ],
)
def test_a_change_in_words(text: str, name: str) -> None:
    """A change is called by its words unless it is given a name."""
    assert parse_what_if(text).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Use one of as-is, leave:GROUPS:COUNT"),
        ("shrink:a:1", "Use one of"),
        ("leave:payments-*", "Use one of"),
        ("leave:payments-*:", "'' isn't a valid count"),
        ("leave:payments-*:one", "'one' isn't a valid count. Use a whole number from 1 to 100,000."),
        ("join:*:1000000", "'1000000' isn't a valid count"),
        ("partitions:t:xtwo", "xtwo isn't a valid factor. Use a positive number, for example x2 or x1.5."),
        ("partitions:t:x0", "x0 isn't a valid factor"),
        ("partitions:t:xnan", "xnan isn't a valid factor"),
        ("=leave:a:1", "the name before = is empty"),
        ("as-is:now", "Use one of"),
    ],
)
def test_what_is_no_change(text: str, message: str) -> None:
    """The words, and what was expected."""
    with pytest.raises(ConfigError) as raised:
        parse_what_if(text)
    assert message in str(raised.value)
    assert f"What-if {text}: " in str(raised.value)


def test_names_of_changes() -> None:
    """A constructor names its change as the words do."""
    assert AS_IS.name == "as-is"
    assert members_left(group_id="a", count=1).name == "leave:a:1"
    assert members_left(member_id="host-*").name == "leave-members:host-*"
    assert members_joined(count=2).name == "join:*:2"
    assert partitions_added(topic="t", factor=2).name == "partitions:t:x2"
    assert partitions_added(topic="t", count=64, name="grown").name == "grown"


def test_the_example_of_the_pauses() -> None:
    """As the module's page has it."""
    counts = PauseCounts(members=3, partitions=3, living=3, kept=2, back=0, later=0)
    timing = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500)
    assert eager_seconds(counts, timing) == pytest.approx(0.375)
    assert cooperative_seconds(counts, timing) == pytest.approx(3.375)


@pytest.mark.parametrize("restore_ms", [0, 2_000])
@pytest.mark.parametrize("event", ["member-starts", "member-leaves"])
@pytest.mark.parametrize(("strategies", "formula"), [(STICKY, eager_seconds), (COOPERATIVE, cooperative_seconds)])
def test_pauses_are_what_the_simulation_has_on_average(strategies, formula, event: str, restore_ms: int) -> None:
    """Groups that differ in their members' ids, and so in their polls, with the event at any moment of a heartbeat."""
    timing = TimingConfig(poll_interval_ms=500, restore_ms=restore_ms)
    expected = simulated = 0.0
    for number in range(60):
        names = [str(uuid5(NAMESPACE_OID, f"{number} {each}")) for each in range(4)]
        owned = {name: list(range(6 * each, 6 * each + 6)) for each, name in enumerate(names)}
        if event == "member-leaves":
            counts = {"members": 3, "living": 18, "kept": 18}
            happens = at(9_000 + 50 * number, event, names[0])
        else:
            counts = {"members": 5, "living": 24, "kept": 20}
            happens = at(9_000 + 50 * number, event, f"joiner-{number}")
        played = play(stage(owned, strategies, timing=timing), happens)
        assert len({*owners(played).values()}) == counts["members"]
        simulated += sum(pauses(played).values()) / 1000
        expected += formula(PauseCounts(partitions=24, back=0, later=0, **counts), timing)
    assert expected == pytest.approx(simulated, rel=0.1)
