"""Writing what `reader.py` reads: numbers, strings and lengths of Kafka's protocols."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sized

from spark_assign.wire.reader import WireError

_LONGEST_TEXT = 0x7FFF


class Writer:
    """Collects bytes; every method appends one value, or raises WireError if Kafka could not write it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def int8(self, value: int) -> None:
        """INT8."""
        self._packed(">b", value)

    def int16(self, value: int) -> None:
        """INT16."""
        self._packed(">h", value)

    def int32(self, value: int) -> None:
        """INT32."""
        self._packed(">i", value)

    def int64(self, value: int) -> None:
        """INT64."""
        self._packed(">q", value)

    def uint16(self, value: int) -> None:
        """UINT16."""
        self._packed(">H", value)

    def uvarint(self, value: int) -> None:
        """UNSIGNED_VARINT of 0 and more."""
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def uuid(self, value: str) -> None:
        """UUID, given as Kafka writes it as text."""
        try:
            decoded = base64.urlsafe_b64decode(f"{value}==")
        except (binascii.Error, ValueError) as reason:
            raise WireError(f"{value!r} is no uuid: {reason}") from None
        if len(decoded) != 16:
            raise WireError(f"{value!r} is no uuid: 16 bytes expected, {len(decoded)} given")
        self.data += decoded

    def string(self, value: str | None) -> None:
        """NULLABLE_STRING."""
        encoded = None if value is None else _encoded(value)
        self.int16(-1 if encoded is None else len(encoded))
        self.data += encoded or b""

    def binary(self, value: bytes | None) -> None:
        """NULLABLE_BYTES."""
        self.int32(-1 if value is None else len(value))
        self.data += value or b""

    def compact_string(self, value: str | None) -> None:
        """COMPACT_NULLABLE_STRING."""
        encoded = None if value is None else _encoded(value)
        self.compact_length(encoded)
        self.data += encoded or b""

    def compact_binary(self, value: bytes | None) -> None:
        """COMPACT_NULLABLE_BYTES."""
        self.compact_length(value)
        self.data += value or b""

    def compact_length(self, value: Sized | None) -> None:
        """How long something is, in a flexible version."""
        self.uvarint(0 if value is None else len(value) + 1)

    def _packed(self, layout: str, value: int) -> None:
        try:
            self.data += struct.pack(layout, value)
        except struct.error as reason:
            raise WireError(f"{value!r}: {reason}") from None


def _encoded(value: str) -> bytes:
    encoded = value.encode("utf-8", errors="replace")
    if len(encoded) > _LONGEST_TEXT:
        raise WireError(f"a text of {len(encoded)} bytes: Kafka has at most {_LONGEST_TEXT}")
    return encoded
