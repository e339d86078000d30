"""Counts the terms that two arithmetic progressions have in common."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray


def count_common_terms(
    first: IntArray, step: IntArray, count: IntArray, other_first: IntArray, other_step: IntArray, other_count: IntArray
) -> IntArray:
    """Returns the number of common terms of each pair of progressions.

    The common terms are a progression, too. Its step is the least common multiple of both steps; its first term at or
    after both starts follows from the Chinese remainder theorem.
    """
    divisor = np.gcd(step, other_step)
    gap = other_first - first
    reduced = step // divisor
    modulus = other_step // divisor
    # first + k * step = other_first modulo other_step, so k = gap / divisor * reduced^-1 modulo `modulus`.
    k = (gap // divisor) % modulus * _inverse(reduced, modulus) % modulus
    period = step * modulus
    common = first + k * step
    start = np.maximum(first, other_first)
    common += np.maximum(0, -(-(start - common) // period)) * period
    last = np.minimum(first + step * (count - 1), other_first + other_step * (other_count - 1))
    num_common = np.where(common <= last, (last - common) // period + 1, 0)
    return np.where(gap % divisor == 0, num_common, 0)  # the last term of an empty progression precedes its first


def _inverse(value: IntArray, modulus: IntArray) -> IntArray:
    """Returns the inverse of each value modulo its modulus, which is coprime to it (Euclid's algorithm)."""
    a, b = value % modulus, modulus.copy()
    x, y = np.ones_like(value), np.zeros_like(value)
    while (a > 1).any():
        unfinished = a > 1
        safe = np.where(unfinished, a, 1)
        q = b // safe
        a, b = np.where(unfinished, b - q * a, a), np.where(unfinished, a, b)
        x, y = np.where(unfinished, y - q * x, x), np.where(unfinished, x, y)
    return x % modulus
