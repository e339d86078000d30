"""Partitions over time: states, pauses, who had what, and the clock."""

from __future__ import annotations

from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.member import SimulatedMember
from spark_assign.simulation.kernel.ownership_log import BEING_REVOKED, DOWN, UNOWNED, OwnershipLog, Partition, merged
from tests.cases import tuples


def _member(name: str, instance: str | None = None) -> SimulatedMember:
    return SimulatedMember(name, instance, None, frozenset([0]), ("range",), name)


def _closed(ledger: OwnershipLog, at: int) -> dict[int, Partition]:
    ledger.close(at)
    return {each.code: each for each, _ in ledger.closed}


def test_the_longest_pause_is_the_longest() -> None:
    """Whether it was the first, one in the middle or the last."""
    for pauses in ((50, 30, 10), (10, 50, 30), (10, 30, 50)):
        ledger, owner = OwnershipLog(0, {}, None), _member("a")
        ledger.create([7], 0)
        ledger.assign([7], owner, 0)
        now = 0
        for pause in pauses:
            ledger.pause([7], owner, UNOWNED, now := now + 100)
            ledger.assign([7], owner, now := now + pause)
        partition = _closed(ledger, 1_000)[7]
        assert (partition.longest_pause_ms, partition.paused_ms, partition.pauses) == (50, 90, 3)


def test_a_pause_goes_on_through_all_states_that_are_none() -> None:
    """Revoking, unowned, restoring: one pause, from the first to the last."""
    ledger = OwnershipLog(20, {}, [])
    one, other = _member("a"), _member("b")
    ledger.create([7], 0)
    ledger.assign([7], one, 0)
    assert ledger.pause([7], one, BEING_REVOKED, 100) == 1
    assert ledger.pause([7], one, UNOWNED, 110) == 1
    assert ledger.assign([7], other, 115) == 1
    partition = _closed(ledger, 200)[7]
    assert (partition.longest_pause_ms, partition.paused_ms, partition.pauses) == (35, 35, 1)
    assert list(merged(ledger.intervals or ())) == tuples(
        "7 0 100 consumed a; 7 100 110 revoking a; 7 110 115 unowned None; 7 115 135 restoring b; 7 135 200 consumed b"
    )


def test_what_is_taken_while_it_is_restored() -> None:
    """Before it is ready it has not been consumed; at that moment or after it, it has."""
    found = {}
    for taken in (119, 120, 121):
        ledger = OwnershipLog(20, {}, None)
        one, other = _member("a"), _member("b")
        ledger.create([7], 0)
        ledger.assign([7], one, 0)
        ledger.pause([7], one, UNOWNED, 100)
        ledger.assign([7], other, 100)
        ledger.pause([7], other, DOWN, taken)
        partition = _closed(ledger, 200)[7]
        found[taken] = partition.paused_ms, partition.pauses, partition.longest_pause_ms
    assert found == {119: (100, 1, 100), 120: (100, 2, 80), 121: (99, 2, 79)}


def test_what_a_member_had_last_needs_no_restoring() -> None:
    """A static member is the same under another id; what nobody ever had needs none either; nor what takes 0 ms."""
    ledger = OwnershipLog(20, {8: 5, 9: 0}, None)
    one, same, other = _member("a", "i"), _member("a2", "i"), _member("b", "j")
    ledger.create([7, 8, 9], 0)
    assert ledger.assign([7, 8, 9, 10], one, 0) == 0  # 10 is no partition
    ledger.pause([7, 8, 9], one, UNOWNED, 50)
    assert ledger.assign([7], same, 60) == 0
    assert ledger.assign([8, 9], other, 60) == 2
    assert {code: each.paused_ms for code, each in _closed(ledger, 100).items()} == {7: 10, 8: 15, 9: 10}


def test_only_the_owner_stops() -> None:
    """What somebody has taken from it in the meantime, or what is gone, is passed over."""
    ledger = OwnershipLog(0, {}, [])
    one, other = _member("a"), _member("b")
    ledger.create([7, 8], 0)
    ledger.assign([7, 8], one, 0)
    ledger.assign([8], other, 10)
    assert ledger.pause([7, 8, 9], one, DOWN, 20) == 1
    ledger.close(30)
    found = list(merged(ledger.intervals or ()))
    assert found == tuples("7 0 20 consumed a; 7 20 30 down a; 8 0 10 consumed a; 8 10 30 consumed b")


def test_a_partition_that_is_deleted() -> None:
    """Its time and its pause end; one of the same number may come after it."""
    ledger = OwnershipLog(0, {}, [])
    owner = _member("a")
    ledger.create([7], 10)
    ledger.delete([7], 40)
    ledger.create([7, 6], 60)
    ledger.assign([7, 6], owner, 60)
    ledger.delete([6], 90)
    ledger.close(100)
    found = [(each.code, each.exists_from, end, each.paused_ms, each.pauses) for each, end in ledger.closed]
    assert found == tuples("6 60 90 0 0; 7 10 40 30 1; 7 60 100 0 0")
    got = list(merged(ledger.intervals or ()))
    assert got == tuples("6 60 90 consumed a; 7 10 40 unowned None; 7 60 100 consumed a")


def test_when_nothing_changes_any_more() -> None:
    """After the last change, and after the last partition has been restored."""
    ledger = OwnershipLog(20, {}, None)
    one, other = _member("a"), _member("b")
    assert ledger.stable_at_ms() == 0
    ledger.create([7, 8], 0)
    ledger.assign([7, 8], one, 5)
    assert ledger.stable_at_ms() == 5
    ledger.assign([7], other, 30)
    assert ledger.stable_at_ms() == 50
    ledger.pause([8], one, DOWN, 60)
    assert ledger.stable_at_ms() == 60
    ledger.assign([7], one, 70)
    ledger.pause([7], one, UNOWNED, 75)  # nobody restores it any more
    assert ledger.stable_at_ms() == 75


def test_intervals_that_touch_are_one() -> None:
    """If partition, state and owner are the same, whatever order they come in."""
    intervals = tuples(
        "1 20 30 consumed a; 1 0 10 consumed a; 1 10 20 consumed a; 1 30 40 consumed b; "
        "1 40 50 down b; 1 60 70 down b; 2 70 80 down b"
    )
    found = list(merged(intervals))
    assert found == tuples("1 0 30 consumed a; 1 30 40 consumed b; 1 40 50 down b; 1 60 70 down b; 2 70 80 down b")
    assert list(merged([])) == []


def test_the_clock_goes_by_time_and_then_by_the_order_of_calls() -> None:
    """Up to a moment and including it."""
    clock, heard = EventQueue(), []
    for time, what in ((20, "d"), (10, "b"), (0, "a"), (10, "c"), (30, "e")):
        clock.schedule(time, lambda what=what: heard.append((clock.now, what)))
    assert clock.now == 0
    while clock.run_next(20):
        pass
    assert heard == [(0, "a"), (10, "b"), (10, "c"), (20, "d")]
    assert clock.now == 20
    assert clock.run_next(29) is False
    assert clock.run_next(30) is True
    assert clock.run_next(None) is False
    clock.schedule(40, heard.append, (40, "f"))
    assert clock.run_next(None) is True
    assert heard[-2:] == [(30, "e"), (40, "f")]


def test_moments_of_a_member() -> None:
    """Heartbeats are one interval apart from where they began; polls hang on the id; what is now is not next."""
    member = _member("a")
    member.heartbeats_from_ms, member.hash = 1_000, 97
    assert [member.next_heartbeat(now, 3_000) for now in (1_000, 3_999, 4_000, 4_001)] == [4_000, 4_000, 7_000, 7_000]
    assert [member.last_heartbeat(now, 3_000) for now in (1_000, 3_999, 4_000, 4_001)] == [1_000, 1_000, 4_000, 4_000]
    assert [member.next_poll(now, 50) for now in (0, 46, 47, 48)] == [47, 47, 47, 97]
    assert member.next_poll(48, 0) == 48
