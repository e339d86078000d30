"""Reading Kafka's client protocols: numbers, strings, arrays, as `org.apache.kafka.common.protocol.types` does."""

from __future__ import annotations

import base64
import codecs
import struct

MOST_TAGGED_FIELDS, MOST_ELEMENTS = 10_000, 1_000_000
"""Kafka 4.4 refuses more of them in one place, whatever follows."""


_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{layout}").unpack for layout in "bhiq")


class WireError(ValueError):
    """The bytes are not what they should be; Kafka's own classes refuse them too."""


class Reader:
    """Walks through bytes; every method takes the next value or raises WireError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)

    @property
    def size(self) -> int:
        """All bytes there are."""
        return self._end

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return self._end - self._at

    def take(self, size: int) -> bytes:
        """That many bytes."""
        start, end = self._at, self._at + size
        if size < 0 or end > self._end:
            raise WireError(f"{size} bytes expected at byte {start}, {self.left} left")
        self._at = end
        return self._data[start:end]

    def int8(self) -> int:
        """INT8."""
        return int(_INT8(self.take(1))[0])

    def int16(self) -> int:
        """INT16."""
        return int(_INT16(self.take(2))[0])

    def int32(self) -> int:
        """INT32."""
        return int(_INT32(self.take(4))[0])

    def int64(self) -> int:
        """INT64."""
        return int(_INT64(self.take(8))[0])

    def uint16(self) -> int:
        """UINT16."""
        return int.from_bytes(self.take(2))

    def uvarint(self) -> int:
        """UNSIGNED_VARINT, up to five bytes; the fifth has room for more than 32 bits, which Java takes for a sign."""
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
        """UUID, as Kafka writes it as text."""
        return base64.urlsafe_b64encode(self.take(16))[:22].decode()

    def array_length(self, smallest_element: int) -> int:
        """An array's length, refused before anything is allocated where that many cannot follow."""
        length = self.int32()
        if not 0 <= length * smallest_element <= self.left:
            raise WireError(f"{length} elements announced at byte {self._at - 4}")
        return length

    def nullable_array_length(self, smallest_element: int) -> int:
        """The length of an array that may be null, which counts as empty."""
        if self.left >= 4 and struct.unpack_from(">i", self._data, self._at)[0] < 0:
            self._at += 4
            return 0
        return self.array_length(smallest_element)

    def int32s(self) -> tuple[int, ...]:
        """An array of INT32."""
        return tuple(self.int32s_of(self.array_length(4)))

    def int32s_of(self, length: int) -> list[int]:
        """So many INT32."""
        return list(struct.unpack(f">{length}i", self.take(4 * length)))

    def string(self) -> str:
        """STRING; what is no UTF-8 is replaced, as Java does."""
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        """NULLABLE_STRING."""
        length = self.int16()
        return None if length < 0 else self.text(length)

    def text(self, size: int) -> str:
        """So many bytes of text."""
        return as_text(self.take(size))

    def binary(self) -> bytes:
        """BYTES."""
        return self.take(self.int32())

    def nullable_bytes(self) -> bytes | None:
        """NULLABLE_BYTES."""
        length = self.int32()
        return None if length < 0 else self.take(length)

    # What flexible versions have instead (KIP-482): each length is one more, so that 0 is null.

    def compact_length(self) -> int:
        """A length; -1 is null."""
        length = self.uvarint() - 1
        return length if length >= -1 else _signed(length)

    def compact_string(self) -> str:
        """COMPACT_STRING."""
        return self.text(self._text_length())

    def compact_nullable_string(self) -> str | None:
        """COMPACT_NULLABLE_STRING."""
        length = self._text_length()
        return None if length < 0 else self.text(length)

    def compact_binary(self) -> bytes:
        """COMPACT_BYTES."""
        return self.take(self.compact_length())

    def _text_length(self) -> int:
        length = self.compact_length()
        if length > _LONGEST_TEXT:
            raise WireError(f"a text of {length} bytes announced before byte {self._at}: Kafka has none")
        return length


def as_text(data: bytes) -> str:
    """UTF-8, with what is none replaced as Java does."""
    return data.decode("utf-8", errors=_AS_JAVA)


_LONGEST_TEXT = 0x7FFF


def _signed(number: int) -> int:
    """An int of Java's: the lower 32 bits."""
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """One character for what cannot be read; Java takes the three bytes of a surrogate for one, Python for three."""
    assert isinstance(error, UnicodeDecodeError)
    data, end = error.object, error.end
    if data[error.start] == 0xED and b"\xa0" <= data[error.start + 1 : error.start + 2] <= b"\xbf":
        end = error.start + 2
        end += end < len(data) and data[end] & 0xC0 == 0x80
    return "\N{REPLACEMENT CHARACTER}", end


_AS_JAVA = "spark_assign.as_java"
codecs.register_error(_AS_JAVA, _replaced)
