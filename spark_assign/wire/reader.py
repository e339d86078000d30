"""Reads the primitive types of Kafka's protocols, as `org.apache.kafka.common.protocol.types` does."""

from __future__ import annotations

import base64
import codecs
import struct

MAX_TAGGED_FIELDS, MAX_ELEMENTS = 10_000, 1_000_000
"""Kafka 4.4 rejects larger counts at one position, whatever follows."""


_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{layout}").unpack for layout in "bhiq")


class WireError(ValueError):
    """Raised for malformed bytes. Kafka's own classes reject them too."""


class Reader:
    """Reads values in sequence. Each method returns the next value or raises WireError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)

    @property
    def size(self) -> int:
        """Returns the total number of bytes."""
        return self._end

    @property
    def left(self) -> int:
        """Returns the number of bytes that haven't been read."""
        return self._end - self._at

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        start, end = self._at, self._at + size
        if size < 0 or end > self._end:
            raise WireError(f"{size} bytes expected at byte {start}, {self.left} left")
        self._at = end
        return self._data[start:end]

    def int8(self) -> int:
        """Reads an INT8."""
        return int(_INT8(self.take(1))[0])

    def int16(self) -> int:
        """Reads an INT16."""
        return int(_INT16(self.take(2))[0])

    def int32(self) -> int:
        """Reads an INT32."""
        return int(_INT32(self.take(4))[0])

    def int64(self) -> int:
        """Reads an INT64."""
        return int(_INT64(self.take(8))[0])

    def uint16(self) -> int:
        """Reads a UINT16."""
        return int.from_bytes(self.take(2))

    def version(self) -> int:
        """Reads the version of a client's data. Raises WireError if it is negative; newer ones than known are read."""
        version = self.int16()
        if version < 0:
            raise WireError(f"version {version}: expected 0 or more")
        return version

    def uvarint(self) -> int:
        """Reads an UNSIGNED_VARINT of up to five bytes. The fifth can hold more than 32 bits, which Java interprets
        as a sign.
        """
        value = self.take(1)[0]
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value if shift < 28 else _signed(value)
        raise WireError(f"a number of more than five bytes ends at byte {self._at}")

    def uuid(self) -> str:
        """Reads a UUID and returns it as Kafka's base64 text."""
        return base64.urlsafe_b64encode(self.take(16))[:22].decode()

    def array_length(self, smallest_element: int) -> int:
        """Reads the length of an array. Rejects lengths that the remaining bytes can't hold, before any allocation."""
        length = self.int32()
        if not 0 <= length * smallest_element <= self.left:
            raise WireError(f"{length} elements announced at byte {self._at - 4}")
        return length

    def nullable_array_length(self, smallest_element: int) -> int:
        """Reads the length of a nullable array. Returns 0 for null."""
        if self.left >= 4 and struct.unpack_from(">i", self._data, self._at)[0] < 0:
            self._at += 4
            return 0
        return self.array_length(smallest_element)

    def int32s(self) -> tuple[int, ...]:
        """Reads an array of INT32."""
        return tuple(self.int32s_of(self.array_length(4)))

    def int32s_of(self, length: int) -> list[int]:
        """Reads `length` INT32 values."""
        return list(struct.unpack(f">{length}i", self.take(4 * length)))

    def string(self) -> str:
        """Reads a STRING. Invalid UTF-8 is replaced as in Java."""
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        """Reads a NULLABLE_STRING."""
        length = self.int16()
        return None if length < 0 else self.text(length)

    def text(self, size: int) -> str:
        """Reads `size` bytes of text."""
        return as_text(self.take(size))

    def binary(self) -> bytes:
        """Reads BYTES."""
        return self.take(self.int32())

    def nullable_bytes(self) -> bytes | None:
        """Reads NULLABLE_BYTES."""
        length = self.int32()
        return None if length < 0 else self.take(length)

    # Types of flexible versions (KIP-482): a length is stored plus one, so that 0 means null.

    def compact_length(self) -> int:
        """Reads a length of a flexible version. Returns -1 for null."""
        length = self.uvarint() - 1
        return length if length >= -1 else _signed(length)

    def compact_string(self) -> str:
        """Reads a COMPACT_STRING."""
        return self.text(self._text_length())

    def compact_nullable_string(self) -> str | None:
        """Reads a COMPACT_NULLABLE_STRING."""
        length = self._text_length()
        return None if length < 0 else self.text(length)

    def compact_binary(self) -> bytes:
        """Reads COMPACT_BYTES."""
        return self.take(self.compact_length())

    def _text_length(self) -> int:
        """Reads the compact length of a string. Raises WireError if it exceeds the maximum of a Kafka string."""
        length = self.compact_length()
        if length > _MAX_STRING_BYTES:
            raise WireError(f"a text of {length} bytes announced before byte {self._at}: Kafka has none")
        return length


def as_text(data: bytes) -> str:
    """Decodes UTF-8. Invalid bytes are replaced as in Java."""
    return data.decode("utf-8", errors=_AS_JAVA)


_MAX_STRING_BYTES = 0x7FFF


def _signed(value: int) -> int:
    """Wraps a number to a signed 32-bit integer, as Java's `int` does."""
    return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Returns one replacement character for an undecodable sequence, and the position after it.

    Java replaces the three bytes of an encoded surrogate by one character, Python by three.
    """
    assert isinstance(error, UnicodeDecodeError)
    data, end = error.object, error.end
    if data[error.start] == 0xED and b"\xa0" <= data[error.start + 1 : error.start + 2] <= b"\xbf":
        end = error.start + 2
        end += end < len(data) and data[end] & 0xC0 == 0x80
    return "\N{REPLACEMENT CHARACTER}", end


_AS_JAVA = "spark_assign.as_java"
codecs.register_error(_AS_JAVA, _replaced)
