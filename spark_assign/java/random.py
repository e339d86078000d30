"""`java.util.Random`: the generator that Kafka's placers draw from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_assign.numeric.array_types import IntArray

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1
_INT_MAX = 2**31 - 1


class JavaRandom:
    """One generator, as `new Random(seed)` begins."""

    def __init__(self, seed: int) -> None:
        self._state = seed ^ _MULTIPLIER  # whose lower 48 bits count

    def next_int(self, bound: int) -> int:
        """`nextInt(bound)`: a number from 0 to bound - 1."""
        while True:
            self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
            drawn = self._state >> 17
            if bound & (bound - 1) == 0:
                return (bound * drawn) >> 31
            kept = drawn % bound
            # Java redraws where this sum leaves the range of an int: the last, incomplete round of numbers.
            if drawn - kept + bound - 1 <= _INT_MAX:
                return kept

    def shuffle(self, items: list[Any]) -> None:
        """`Collections.shuffle(items, random)`, in place."""
        for size in range(len(items), 1, -1):
            other = self.next_int(size)
            items[size - 1], items[other] = items[other], items[size - 1]


def draw_pairs(seeds: IntArray, bounds: IntArray) -> tuple[IntArray, IntArray]:
    """Of each seed the first two `nextInt` of a new generator, both with the same bound (1 or more)."""
    states = seeds.astype(np.uint64) ^ np.uint64(_MULTIPLIER)
    return _draw(states, bounds), _draw(states, bounds)


def _draw(states: NDArray[np.uint64], bounds: IntArray) -> IntArray:
    """`nextInt` of every generator; their states move on in place."""
    result = np.zeros(len(states), np.int64)
    waiting = np.arange(len(states))
    while len(waiting):
        bound = bounds[waiting]
        # Beyond 64 bits the product wraps, which leaves the lower 48 right.
        moved = (states[waiting] * np.uint64(_MULTIPLIER) + np.uint64(_INCREMENT)) & np.uint64(_MASK)
        states[waiting] = moved
        drawn = (moved >> np.uint64(17)).astype(np.int64)
        kept = drawn % bound
        power_of_two = (bound & (bound - 1)) == 0
        result[waiting] = np.where(power_of_two, (bound * drawn) >> 31, kept)
        waiting = waiting[drawn - kept + bound - 1 > _INT_MAX]  # never so for a power of two
    return result
