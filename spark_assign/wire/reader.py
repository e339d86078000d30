"""Reading Kafka's client protocols: numbers, strings, arrays, as `org.apache.kafka.common.protocol.types` does."""

from __future__ import annotations

import struct


class WireError(ValueError):
    """The bytes are not what they should be; Kafka's own classes refuse them too."""


class Reader:
    """Walks through bytes; every method takes the next value or raises WireError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """That many bytes."""
        if not 0 <= size <= self.left:
            raise WireError(f"{size} bytes expected at byte {self._at}, {self.left} left")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        """INT16."""
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        """INT32."""
        return int(struct.unpack(">i", self.take(4))[0])

    def int64(self) -> int:
        """INT64."""
        return int(struct.unpack(">q", self.take(8))[0])

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
        length = self.array_length(4)
        return struct.unpack(f">{length}i", self.take(4 * length))

    def string(self) -> str:
        """STRING; what is no UTF-8 is replaced, as Java does."""
        return self.take(self.int16()).decode("utf-8", errors="replace")

    def nullable_string(self) -> str | None:
        """NULLABLE_STRING."""
        length = self.int16()
        return None if length < 0 else self.take(length).decode("utf-8", errors="replace")

    def nullable_bytes(self) -> bytes | None:
        """NULLABLE_BYTES."""
        length = self.int32()
        return None if length < 0 else self.take(length)
