"""Indexes names and integer keys: sorted distinct values, and the position of each value among them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.java.hash_map import java_key
from spark_assign.numeric.arrays import IntArray


class NameIndex:
    """The distinct names of one or more columns, in the order of `String.compareTo`.

    Attributes:
        names: the distinct names, sorted.
        columns: for each input column, the index of each of its names in `names`; -1 for null.
    """

    def __init__(self, *columns: pa.ChunkedArray | pa.Array) -> None:
        """Indexes the names of the columns."""
        chunks = [chunk for column in columns for chunk in getattr(column, "chunks", [column])]
        encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        # Python compares code points, which is the same order if all names are ASCII.
        is_ascii = "".join(distinct).isascii()
        order = sorted(range(len(distinct)), key=distinct.__getitem__ if is_ascii else lambda i: java_key(distinct[i]))
        rank = np.full(len(distinct) + 1, -1, np.int64)
        rank[order] = np.arange(len(distinct))
        self.names = encoded.dictionary.take(pa.array(order, pa.int64()))
        indexes = rank[encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]
        lengths = [len(column) for column in columns]
        self.columns: list[IntArray] = np.split(indexes, np.cumsum(lengths)[:-1])

    def __len__(self) -> int:
        return len(self.names)


def take_names(names: pa.Array, indexes: IntArray) -> pa.Array:
    """Returns the names at the indexes; null for a negative index."""
    return names.take(pa.array(indexes, pa.int64(), mask=indexes < 0))


def byte_ranks(texts: pa.Array) -> IntArray:
    """Returns the rank of each text among the distinct ones by UTF-8 bytes, as C and Go compare; null comes last."""
    return np.asarray(pc.rank(texts.cast(pa.string()), tiebreaker="dense"), np.int64)


class KeyIndex:
    """Distinct keys in ascending order, and the position of a key among them.

    Attributes:
        keys: the distinct keys, ascending.
    """

    def __init__(self, keys: IntArray) -> None:
        """Indexes the keys."""
        self._positions: IntArray | None = None
        size = int(keys.max(initial=-1)) + 1
        if keys.min(initial=0) < 0 or size > len(keys):
            self.keys = np.unique(keys)
            return
        # A dense range of keys, as with the topics of one large group, is looked up and not searched.
        exists = np.zeros(size, bool)
        exists[keys] = True
        self.keys = np.flatnonzero(exists)
        self._positions = np.where(exists, np.cumsum(exists) - 1, -1)

    def __len__(self) -> int:
        return len(self.keys)

    def lookup(self, keys: IntArray) -> IntArray:
        """Returns the position of each key; -1 if the index doesn't contain it."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        if self._positions is not None:
            in_range = (keys >= 0) & (keys < len(self._positions))
            if in_range.all():
                return self._positions[keys]
            return np.where(in_range, self._positions[np.where(in_range, keys, 0)], -1)
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[position] == keys, position, -1)


def to_int_array(column: pa.ChunkedArray | pa.Array, missing: int) -> IntArray:
    """Converts a column of integers to NumPy; null becomes `missing`."""
    return np.asarray(column.fill_null(missing).to_numpy(), dtype=np.int64)


def index_rows(rows: pa.Table, key: list[str]) -> tuple[IntArray, IntArray]:
    """Indexes the distinct keys of rows; null is a value like any other.

    Returns:
        for each row, the index of its key; for each key, the index of a row that has it.
    """
    key_index, num_keys = np.zeros(len(rows), np.int64), 1
    for name in key:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        combined = key_index * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy().astype(np.int64)
        distinct, key_index = np.unique(combined, return_inverse=True)
        num_keys = len(distinct)
    example = np.empty(num_keys if len(rows) else 0, np.int64)
    example[key_index] = np.arange(len(rows))
    return key_index, example
