"""Writes the numbers, strings, and lengths that `reader.py` reads."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sized

from spark_assign.wire.reader import WireError

_MAX_STRING_BYTES = 0x7FFF


class Writer:
    """Collects bytes. Each method appends one value, or raises WireError if Kafka can't write the value."""

    def __init__(self) -> None:
        self.data = bytearray()

    def int8(self, value: int) -> None:
        """Appends an INT8."""
        self._packed(">b", value)

    def int16(self, value: int) -> None:
        """Appends an INT16."""
        self._packed(">h", value)

    def int32(self, value: int) -> None:
        """Appends an INT32."""
        self._packed(">i", value)

    def int64(self, value: int) -> None:
        """Appends an INT64."""
        self._packed(">q", value)

    def uint16(self, value: int) -> None:
        """Appends a UINT16."""
        self._packed(">H", value)

    def uvarint(self, value: int) -> None:
        """Appends an UNSIGNED_VARINT. The value must not be negative."""
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def uuid(self, value: str) -> None:
        """Appends a UUID from its text in Kafka's base64 form."""
        try:
            decoded = base64.urlsafe_b64decode(f"{value}==")
        except (binascii.Error, ValueError) as error:
            raise WireError(f"{value!r} is no uuid: {error}") from None
        if len(decoded) != 16:
            raise WireError(f"{value!r} is no uuid: 16 bytes expected, {len(decoded)} given")
        self.data += decoded

    def string(self, value: str | None) -> None:
        """Appends a NULLABLE_STRING."""
        encoded = None if value is None else _encoded(value)
        self.int16(-1 if encoded is None else len(encoded))
        self.data += encoded or b""

    def binary(self, value: bytes | None) -> None:
        """Appends NULLABLE_BYTES."""
        self.int32(-1 if value is None else len(value))
        self.data += value or b""

    def compact_string(self, value: str | None) -> None:
        """Appends a COMPACT_NULLABLE_STRING."""
        encoded = None if value is None else _encoded(value)
        self.compact_length(encoded)
        self.data += encoded or b""

    def compact_binary(self, value: bytes | None) -> None:
        """Appends COMPACT_NULLABLE_BYTES."""
        self.compact_length(value)
        self.data += value or b""

    def compact_length(self, value: Sized | None) -> None:
        """Appends the length of `value` as flexible versions encode it: plus one, 0 for null."""
        self.uvarint(0 if value is None else len(value) + 1)

    def _packed(self, layout: str, value: int) -> None:
        try:
            self.data += struct.pack(layout, value)
        except struct.error as error:
            raise WireError(f"{value!r}: {error}") from None


def _encoded(value: str) -> bytes:
    """Returns the UTF-8 bytes of a string, in which Java's replacement `?` stands for unpaired surrogates."""
    encoded = value.encode("utf-8", errors="replace")
    if len(encoded) > _MAX_STRING_BYTES:
        raise WireError(f"a text of {len(encoded)} bytes: Kafka has at most {_MAX_STRING_BYTES}")
    return encoded
