"""CRC-32C (Castagnoli) of many stretches of bytes at once, in NumPy: what record batches of Kafka are held against.

A checksum goes through bytes one after the other, but is linear: the stretches are cut into blocks of one size, all
blocks are walked through side by side, and those of a stretch are put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

_BLOCK = 64
_AT_ONCE = 1 << 23
"""Bytes in one go."""
_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF

Checksums = npt.NDArray[np.uint32]


def crc32c(data: npt.NDArray[np.uint8], begins: Sequence[int], ends: Sequence[int]) -> Checksums:
    """The checksum of data[begin:end] for each pair; every stretch has four bytes or more."""
    first, last = np.asarray(begins, np.int64), np.asarray(ends, np.int64)
    found = np.zeros(len(first), np.uint32)
    at = 0
    upto = np.cumsum(last - first)
    while at < len(first):
        before = upto[at - 1] if at else 0
        until = max(at + 1, int(np.searchsorted(upto, before + _AT_ONCE)))
        found[at:until] = _some(data, first[at:until], last[at:until])
        at = until
    return found


def _some(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Checksums:
    """Zeros in front change nothing as long as the checksum is zero, so blocks are filled up there; that it begins with
    ones instead is the same as its first four bytes turned over."""
    sizes = ends - begins
    blocks = -(-sizes // _BLOCK)
    until = np.cumsum(blocks)
    padded = np.zeros(int(until[-1]) * _BLOCK, np.uint8)
    to = until * _BLOCK - sizes
    source = np.arange(int(sizes.sum())) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    padded[source + np.repeat(to - begins, sizes)] = data[source]
    padded[(to[:, None] + np.arange(4)).ravel()] ^= 0xFF
    table = _table()
    of_block = np.zeros(len(padded) // _BLOCK, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(-1, _BLOCK).T):
        of_block = table[(of_block ^ column) & 0xFF] ^ (of_block >> 8)
    return _together(of_block, until - blocks, blocks) ^ np.uint32(_ONES)


def _together(of_block: Checksums, first: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64]) -> Checksums:
    """One block after the other, of all stretches that have so many."""
    found = of_block[first]
    on = _on()
    order = np.argsort(-blocks, kind="stable")
    most_first = blocks[order]
    for number in range(1, int(most_first[0])):
        longer = order[: int(np.searchsorted(-most_first, -number, side="left"))]
        had = found[longer]
        moved = on[0][had & 0xFF] ^ on[1][(had >> 8) & 0xFF] ^ on[2][(had >> 16) & 0xFF] ^ on[3][had >> 24]
        found[longer] = moved ^ of_block[first[longer] + number]
    return found


@cache
def _table() -> Checksums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(_POLYNOMIAL) ^ (table >> 1), table >> 1)
    return table


@cache
def _on() -> Checksums:
    """For each byte of a checksum what it is after a block of zeros."""
    table = _table()
    each = np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]
    for _ in range(_BLOCK):
        each = table[each & 0xFF] ^ (each >> 8)
    return each
