"""Reads integers and byte ranges from a binary Arrow column at a different offset in each row, vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.arrays import IntArray, ranges_by_length

_WIDTHS = {">i1": 1, ">u1": 1, ">i2": 2, ">i4": 4, ">i8": 8}


class BinaryColumn:
    """The bytes of a binary column. Offsets count from the first byte of the first row; a null has no bytes.

    Attributes:
        start: offset of each row's first byte, shape (num_rows,).
        end: offset after each row's last byte, shape (num_rows,).
    """

    def __init__(self, column: pa.Array | pa.ChunkedArray) -> None:
        array = combine_chunks(column).cast(pa.large_binary())
        _, offsets, data = array.buffers()
        if offsets is None:
            bounds = np.zeros(len(array) + 1, np.int64)
        else:
            bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        self.start: IntArray = bounds[:-1]
        self.end: IntArray = bounds[1:]
        if data is None or len(data) < 8:
            data = (b"" if data is None else data.to_pybytes()).ljust(8, b"\0")
        self._data = np.frombuffer(data, np.uint8)

    def read_integers(self, dtype: str, offsets: IntArray) -> IntArray:
        """Returns the integers that start at `offsets`. An offset outside of the column yields an arbitrary value.

        Args:
            dtype: NumPy type string of a big-endian integer, such as `>i8`.
            offsets: offset of each integer's first byte.
        """
        num_offsets = len(self._data) - _WIDTHS[dtype] + 1
        overlapping: np.ndarray[Any, Any] = np.ndarray((num_offsets,), dtype, self._data, strides=(1,))
        return overlapping[np.clip(offsets, 0, num_offsets - 1)].astype(np.int64)

    def slice_bytes(self, start: IntArray, length: IntArray) -> pa.LargeBinaryArray:
        """Returns one byte range per row as a binary column."""
        ends = np.cumsum(length)
        data = self._data[np.repeat(start, length) + ranges_by_length(length)] if len(length) else np.empty(0, np.uint8)
        bounds = np.concatenate([np.zeros(1, np.int64), ends])
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(length), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        )

    def read_uuids(self, offsets: IntArray) -> pa.FixedSizeBinaryArray:
        """Returns the 16 bytes from each offset."""
        wide: np.ndarray[Any, Any] = np.ndarray((max(len(self._data) - 15, 0),), "V16", self._data, strides=(1,))
        values = pa.py_buffer(wide[offsets].tobytes())
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(offsets), [None, values])


def combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column as one contiguous array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def build_lists(list_type: pa.ListType, starts: IntArray, columns: Sequence[IntArray | pa.Array]) -> pa.ListArray:
    """Returns lists of structs.

    Args:
        list_type: the type of the result.
        starts: index of each list's first struct.
        columns: the fields of all structs, one column per field.
    """
    fields = list(list_type.value_type)
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, fields, strict=True)]
    bounds = pa.array(np.append(starts, len(arrays[0])).astype(np.int32))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(arrays, fields=fields), type=list_type)


def dictionary_indexes(column: pa.Array | pa.ChunkedArray) -> tuple[IntArray, pa.Array]:
    """Returns the index of each row's value among the distinct values, and these values sorted, null first."""
    encoded = combine_chunks(column).dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary, null_placement="at_start")
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy(zero_copy_only=False)] = np.arange(len(order))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(order)
