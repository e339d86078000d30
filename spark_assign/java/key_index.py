"""Names to numbers and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.java.hash_map import java_key
from spark_assign.numeric.array_types import IntArray


class Names:
    """Distinct texts, in the order of `String.compareTo`, and the number of each; null is -1."""

    def __init__(self, *columns: pa.ChunkedArray | pa.Array) -> None:
        chunks = [chunk for column in columns for chunk in getattr(column, "chunks", [column])]
        coded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
        texts = coded.dictionary.to_pylist()
        # Python compares code points; where all are ASCII that is the same.
        ascii_only = "".join(texts).isascii()
        order = sorted(range(len(texts)), key=texts.__getitem__ if ascii_only else lambda at: java_key(texts[at]))
        rank = np.full(len(texts) + 1, -1, np.int64)
        rank[order] = np.arange(len(texts))
        self.texts = coded.dictionary.take(pa.array(order, pa.int64()))
        codes = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        numbers = rank[codes]
        lengths = [len(column) for column in columns]
        self.columns: list[IntArray] = np.split(numbers, np.cumsum(lengths)[:-1])
        """Of each column that was given, the number of each of its texts."""

    def __len__(self) -> int:
        return len(self.texts)


def named(texts: pa.Array, numbers: IntArray) -> pa.Array:
    """The texts of these numbers; null where a number is negative."""
    return texts.take(pa.array(numbers, pa.int64(), mask=numbers < 0))


def byte_ranks(texts: pa.Array) -> IntArray:
    """Of each text its place among the distinct ones as C and Go compare them: by bytes of UTF-8; of null the last."""
    return np.asarray(pc.rank(texts.cast(pa.string()), tiebreaker="dense"), np.int64)


class Places:
    """Distinct keys, ascending, and where a key stands among them."""

    def __init__(self, keys: IntArray) -> None:
        self._at: IntArray | None = None
        size = int(keys.max(initial=-1)) + 1
        if keys.min(initial=0) < 0 or size > len(keys):
            self.keys = np.unique(keys)
            return
        # Fewer numbers than keys, as with the topics of one large group: looked up, not searched.
        there = np.zeros(size, bool)
        there[keys] = True
        self.keys = np.flatnonzero(there)
        self._at = np.where(there, np.cumsum(there) - 1, -1)

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, keys: IntArray) -> IntArray:
        """Of each key its place; -1 where it is not there."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        if self._at is not None:
            inside = (keys >= 0) & (keys < len(self._at))
            return self._at[keys] if inside.all() else np.where(inside, self._at[np.where(inside, keys, 0)], -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


def numbers(column: pa.ChunkedArray | pa.Array, missing: int) -> IntArray:
    """A column of whole numbers; null becomes `missing`."""
    return np.asarray(column.fill_null(missing).to_numpy(), dtype=np.int64)


def number_rows(rows: pa.Table, key: list[str]) -> tuple[IntArray, IntArray]:
    """Number the distinct keys of rows; null is a value as any other.

    Returns:
        for each row the number of its key; for each number a row that has it.
    """
    number, keys = np.zeros(len(rows), np.int64), 1
    for name in key:
        coded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        both = number * max(len(coded.dictionary), 1) + coded.indices.to_numpy().astype(np.int64)
        distinct, number = np.unique(both, return_inverse=True)
        keys = len(distinct)
    example = np.empty(keys if len(rows) else 0, np.int64)
    example[number] = np.arange(len(rows))
    return number, example
