"""Weighted-sticky and the algorithms of Landau et al. on their streams, in small (`benchmarks/weighted.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.autoscaling import ALGORITHMS, CAPACITY, r_score, stream
from benchmarks.fewest import fewest_members, fullest_first
from benchmarks.weighted import SPARE, Ran, _must_move, _ours, _run


def test_their_algorithms_by_hand() -> None:
    """Two consumers with 60 40 and 50 20; the second's 50 has grown to 70."""
    speed, now = np.array([60.0, 40, 70, 20]), np.array([0, 0, 1, 1])
    # Consumer 0 has more, is opened first, and is full; 1 keeps its own.
    assert ALGORITHMS["MWF"](speed, now).tolist() == [0, 0, 1, 1]
    # 70 opens its own consumer, 60 its own, 40 fits with 60, 20 with 70: the emptiest that takes it.
    assert ALGORITHMS["WFD"](speed, now).tolist() == [0, 0, 1, 1]
    # The second one is too large now: it waits, while 20 goes to consumer 0, and opens a third consumer in the end.
    grown = np.array([60.0, 50, 70, 20])
    assert ALGORITHMS["MWF"](grown, now).tolist() == [0, 2, 1, 0]
    assert r_score(grown, now, np.array([0, 2, 1, 0])) == pytest.approx(0.7)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_their_algorithms_hold_the_capacity(name: str) -> None:
    """Everything is with somebody, and nobody has too much."""
    now = np.full(200, -1)
    for speed in stream(15, None, 3):
        now = ALGORITHMS[name](speed, now)
        load, number = np.bincount(now, speed), np.bincount(now)
        assert (now >= 0).all()
        assert not ((load > CAPACITY) & (number > 1)).any()


@pytest.mark.parametrize("delta", [5, 25])
def test_never_more_load_than_mwf_at_equal_excess(delta: int) -> None:
    """With no more consumers than modified worst fit, less load moves; with the fewest, less than by best fit."""
    ran = {}
    for name, assign in {"MWF": ALGORITHMS["MWF"], "BFD": ALGORITHMS["BFD"], **{s: _ours(s) for s in SPARE}}.items():
        ran[name] = Ran()
        _run(assign, stream(delta, None, 12), ran[name])
    undisputed, fewest = ran[SPARE[-1]], ran[SPARE[0]]
    assert np.mean(undisputed.consumers) <= np.mean(ran["MWF"].consumers)
    assert np.mean(undisputed.moved) < np.mean(ran["MWF"].moved)
    assert (np.array(fewest.consumers) <= np.array(ran["BFD"].consumers)).all()
    assert np.mean(fewest.moved) < np.mean(ran["BFD"].moved)


def test_no_more_load_than_mwf_from_the_same_state() -> None:
    """With the consumers that modified worst fit ends with, measurement by measurement, from where it started."""
    now = np.full(200, -1)
    better = 0
    for speed in stream(10, None, 12):
        at, some = ALGORITHMS["MWF"](speed, now), speed > 0
        if (now >= 0).all():
            consumers = len(np.unique(at[some]))
            spare = consumers / (fullest_first(speed[some], CAPACITY).max() + 1) - 1
            ours = fewest_members(speed[some], now[some], CAPACITY, spare)
            assert len(np.unique(ours)) <= consumers
            assert r_score(speed[some], now[some], ours) <= r_score(speed, now, at)
            better += 1
        now = at
    assert better


def test_the_lower_bound() -> None:
    """70 and 60 of one consumer: the least that has to leave it is 60; what holds its capacity stays."""
    assert _must_move(np.array([70.0, 60, 90]), np.array([0, 0, 1])) == 0.6
