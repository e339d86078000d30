"""How many numbers two arithmetic progressions share."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray


def count_common_terms(
    first: IntArray, step: IntArray, count: IntArray, other_first: IntArray, other_step: IntArray, other_count: IntArray
) -> IntArray:
    """Numbers that are in both of two progressions, pair by pair.

    The numbers in both form a progression themselves, whose step is the least common multiple of the two steps; its
    first number at or after both beginnings follows from the Chinese remainder theorem.
    """
    divisor = np.gcd(step, other_step)
    gap = other_first - first
    reduced = step // divisor
    modulus = other_step // divisor
    # first + k * step = other_first modulo other_step, so k = gap / divisor * reduced^-1 modulo `modulus`.
    k = (gap // divisor) % modulus * _inverse(reduced, modulus) % modulus
    period = step * modulus
    meeting = first + k * step
    begin = np.maximum(first, other_first)
    meeting += np.maximum(0, -(-(begin - meeting) // period)) * period
    end = np.minimum(first + step * (count - 1), other_first + other_step * (other_count - 1))
    number = np.where(meeting <= end, (end - meeting) // period + 1, 0)
    return np.where(gap % divisor == 0, number, 0)  # an empty progression ends before it begins


def _inverse(value: IntArray, modulus: IntArray) -> IntArray:
    """The inverse of `value` modulo `modulus` (coprime), by Euclid's algorithm on whole columns."""
    a, b = value % modulus, modulus.copy()
    x, y = np.ones_like(value), np.zeros_like(value)
    while (a > 1).any():
        going = a > 1
        safe = np.where(going, a, 1)
        q = b // safe
        a, b = np.where(going, b - q * a, a), np.where(going, a, b)
        x, y = np.where(going, y - q * x, x), np.where(going, x, y)
    return x % modulus
