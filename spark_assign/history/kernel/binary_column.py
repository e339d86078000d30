"""Numbers and bytes out of a column of bytes, at places that differ from row to row; no Python per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import ranges_by_length

_WIDTHS = {">i1": 1, ">u1": 1, ">i2": 2, ">i4": 4, ">i8": 8}


class BinaryColumn:
    """The bytes of a column. Places are counted from the begin of the first row's; what is null has no bytes.

    Attributes:
        begin, end: of each row, where its bytes are.
    """

    def __init__(self, column: pa.Array | pa.ChunkedArray) -> None:
        array = one_array(column).cast(pa.large_binary())
        _, offsets, data = array.buffers()
        if offsets is None:
            places = np.zeros(len(array) + 1, np.int64)
        else:
            places = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        self.begin: IntArray = places[:-1]
        self.end: IntArray = places[1:]
        if data is None or len(data) < 8:
            data = (b"" if data is None else data.to_pybytes()).ljust(8, b"\0")
        self._data = np.frombuffer(data, np.uint8)

    def number(self, kind: str, at: IntArray) -> IntArray:
        """The numbers that begin at these places; of places outside of the column any.

        Args:
            kind: as numpy has it, big endian, such as `>i8`.
        """
        room = len(self._data) - _WIDTHS[kind] + 1
        anywhere: np.ndarray[Any, Any] = np.ndarray((room,), kind, self._data, strides=(1,))
        return anywhere[np.clip(at, 0, room - 1)].astype(np.int64)

    def parts(self, begin: IntArray, length: IntArray) -> pa.LargeBinaryArray:
        """A part of each row, as a column of its own."""
        ends = np.cumsum(length)
        data = self._data[np.repeat(begin, length) + ranges_by_length(length)] if len(length) else np.empty(0, np.uint8)
        places = np.concatenate([np.zeros(1, np.int64), ends])
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(length), [None, pa.py_buffer(places), pa.py_buffer(data)]
        )

    def ids(self, at: IntArray) -> pa.FixedSizeBinaryArray:
        """The 16 bytes from each of these places."""
        wide: np.ndarray[Any, Any] = np.ndarray((max(len(self._data) - 15, 0),), "V16", self._data, strides=(1,))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(at), [None, pa.py_buffer(wide[at].tobytes())])


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def lists_of(kind: pa.ListType, begins: IntArray, parts: Sequence[IntArray | pa.Array]) -> pa.ListArray:
    """Lists of structs: where each begins, and the columns of these."""
    fields = list(kind.value_type)
    columns = [pa.array(part).cast(field.type) for part, field in zip(parts, fields, strict=True)]
    ends = pa.array(np.append(begins, len(columns[0])).astype(np.int32))
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(columns, fields=fields), type=kind)


def codes_of(column: pa.Array | pa.ChunkedArray) -> tuple[IntArray, pa.Array]:
    """Of each row the number of its value among those that are there, and these, sorted; null is one, the first."""
    encoded = one_array(column).dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary, null_placement="at_start")
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy(zero_copy_only=False)] = np.arange(len(order))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order)
