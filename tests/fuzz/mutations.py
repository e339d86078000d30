"""Changes bytes as a hostile sender would: parts turned, cut, repeated, and joined, and numbers and texts put in."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

_NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 32_767, -32_768, 65_535, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40)
_NUMBERS += ((1 << 63) - 1, -(1 << 63))
NUMBERS = [
    struct.pack(f">{layout}", number)
    for layout, bits in (("b", 8), ("h", 16), ("i", 32), ("q", 64))
    for number in _NUMBERS
    if -(1 << bits - 1) <= number < 1 << bits - 1
]
NUMBERS += [b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80" * 10]
"""Bounds of Kafka's types, and varints that are too long."""
TEXTS = [
    each.encode()
    for each in (
        *("", "\0", "\n", "\r", "\t", " ", "\x1b[2J", "\u202e", "\u061c", "\ufeff", "\u2028", "\u0085", "\x1c", "\xb2"),
        *("'", '"', "\\", "`", "$(touch p)", "; touch p #", "---", "<script>", "{{", "%s", "{}", "[]", "=", "#", ","),
        *("-", "/", "..", "*", "?", "[", "null", "true", "NaN", "Infinity", "1e400", "-1", "1.5", "0x10", "1_000"),
        *("9" * 30, "9" * 5_000, str(1 << 31), str(1 << 63), "\u0663", "\u4e94", "\U0001f600", "a" * 3_000, "\\ud800"),
        *("1979-05-27", "12:00", "e\u0301", "\\u0000", "\n\n", '""', "''", "[[[[", "}}}}", "\r\n", "Topic:"),
    )
]
TEXTS += [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x80", b"[" * 2_000, b'{"a":' * 2_000, b"(" * 2_000]


def mutated(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Returns data with one to four changes.

    Args:
        chance: draws the changes.
        data: valid data.
        others: more valid data, of which parts are put in.
    """
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        at = chance.randrange(len(changed) + 1)
        size = chance.choice((0, 1, 1, 2, 4, 8, 8, 40))
        match chance.randrange(8):
            case 0:
                changed[at : at + 1] = chance.randbytes(1)
            case 1:
                del changed[at : at + max(1, size)]
            case 2:
                changed[at : at + chance.choice((0, size))] = chance.choice(TEXTS)
            case 3:
                number = chance.choice(NUMBERS)
                changed[at : at + chance.choice((0, len(number)))] = number
            case 4:
                changed[at:at] = changed[at : at + 8 * size] * chance.choice((1, 2, 50))
            case 5:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                changed[at : at + chance.choice((0, size))] = other[start : start + chance.choice((1, 8, 64, 500))]
            case 6:
                del changed[at:]
            case 7 if changed:
                at = min(at, len(changed) - 1)
                changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed[: 1 << 20])
