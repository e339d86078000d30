"""Rates of readings: counters that go on, stand still, go back, vanish; logs that shrink."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark_assign.numeric.rates import growth_rates, rates
from tests.cases import cases

NONE = float("nan")


def row(*values: float) -> npt.NDArray[np.float64]:
    """One counter."""
    return np.array([values], dtype=np.float64)


@cases(
    "at count mean stddev",
    ((0, 10), (100, 150), 5, NONE),  # one rate has no spread
    ((0, 10, 20), (0, 100, 300), 15, 7.0710678118654755),  # 10 and 20 a second
    ((0, 10, 40), (0, 100, 100), 2.5, 7.0710678118654755),  # the mean is over time, not over readings
    ((0, 10, 20, 30), (7, 7, 7, 7), 0, 0),
    ((0, 10, 20, 30), (0, NONE, 200, 300), 10, 0),  # a reading that is missing is stepped over
    ((0, 10, 20), (NONE, 50, 100), 5, NONE),
    ((0, 10, 20), (100, 40, 200), NONE, NONE),  # back, whatever came after
    ((0, 10, 20), (100, 150, NONE), NONE, NONE),  # gone at the end
    ((0, 10, 20), (NONE, NONE, 200), NONE, NONE),  # once is no rate
    ((5, 5), (100, 150), NONE, NONE),  # no time has passed
)
def test_rates(at: tuple[float, ...], count: tuple[float, ...], mean: float, stddev: float) -> None:
    """Of one counter each."""
    found = rates(row(*at), row(*count))
    np.testing.assert_allclose(found.mean, [mean])
    np.testing.assert_allclose(found.stddev, [stddev])


def test_each_counter_by_itself() -> None:
    """Each row has its own times."""
    found = rates(np.array([[0.0, 60.0], [0.5, 61.5], [0.0, 60.0]]), np.array([[0.0, 60.0], [0.0, 122.0], [9.0, 8.0]]))
    np.testing.assert_allclose(found.mean, [1.0, 2.0, NONE])
    assert rates(np.empty((0, 3)), np.empty((0, 3))).mean.shape == (0,)


@cases(
    "size expected",
    ((0, 1000, 2000), 100),
    ((5000, 6000, 2000), 100),  # a segment went: the time of that is not counted, what is left grew by 100
    ((5000, 4000, 3000), NONE),
    ((5000, 5000, 5000), 0),
    ((5000, 6000, NONE), NONE),
    ((NONE, NONE, 1), NONE),
)
def test_growth(size: tuple[float, ...], expected: float) -> None:
    """Logs get smaller by deletion and compaction."""
    np.testing.assert_allclose(growth_rates(row(0, 10, 20), row(*size)), [expected])
