"""Implements `java.util.Random`, from which Kafka's replica placers draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_assign.numeric.arrays import IntArray

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1
_INT_MAX = 2**31 - 1


class JavaRandom:
    """A generator, in the state of `new Random(seed)`."""

    def __init__(self, seed: int) -> None:
        self._state = seed ^ _MULTIPLIER  # only the lower 48 bits count

    def next_int(self, bound: int) -> int:
        """Returns a number from 0 to bound - 1 (`nextInt(bound)`)."""
        while True:
            self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
            drawn = self._state >> 17
            if bound & (bound - 1) == 0:
                return (bound * drawn) >> 31
            kept = drawn % bound
            # Java redraws if this sum exceeds the range of an int: the last, incomplete round of numbers.
            if drawn - kept + bound - 1 <= _INT_MAX:
                return kept

    def shuffle(self, items: list[Any]) -> None:
        """Shuffles items in place (`Collections.shuffle(items, random)`)."""
        for size in range(len(items), 1, -1):
            index = self.next_int(size)
            items[size - 1], items[index] = items[index], items[size - 1]


def draw_pairs(seeds: IntArray, bounds: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the first two `nextInt` of a new generator for each seed, both with the same bound (1 or more)."""
    states = seeds.astype(np.uint64) ^ np.uint64(_MULTIPLIER)
    return _draw(states, bounds), _draw(states, bounds)


def _draw(states: NDArray[np.uint64], bounds: IntArray) -> IntArray:
    """Returns `nextInt` of each generator; updates the states in place."""
    result = np.zeros(len(states), np.int64)
    waiting = np.arange(len(states))
    while len(waiting):
        bound = bounds[waiting]
        # The product wraps at 64 bits, which doesn't affect the lower 48.
        moved = (states[waiting] * np.uint64(_MULTIPLIER) + np.uint64(_INCREMENT)) & np.uint64(_MASK)
        states[waiting] = moved
        drawn = (moved >> np.uint64(17)).astype(np.int64)
        kept = drawn % bound
        power_of_two = (bound & (bound - 1)) == 0
        result[waiting] = np.where(power_of_two, (bound * drawn) >> 31, kept)
        waiting = waiting[drawn - kept + bound - 1 > _INT_MAX]  # never so for a power of two
    return result
