"""Rows of several tables in one table: the input of a pass over whole groups, and its result.

A row of the input has a list of structs per table, of which all but one are empty (`spark.dataframes.gather_tables`).
A row of the result is tagged: `kind` says which columns it uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MAX_LONG = 2**63 - 1

GroupRows = Mapping[str, Sequence[dict[str, Any]]]
"""The rows of each input table of a group, sorted by key."""


@dataclass(frozen=True)
class InputTable:
    """The columns of an input table that a pass needs. An iteration yields their names.

    Attributes:
        key: columns that sort the rows of a group.
        values: the other columns.
        duplicate: rejection code of a row with the key of another row of its group; empty if that has no separate code.
    """

    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    duplicate: str = ""

    def __iter__(self) -> Iterator[str]:
        return iter(self.key + self.values)


def split_tables(
    batch: pa.Table, key: Sequence[str], tables: Mapping[str, InputTable]
) -> Iterator[tuple[tuple[Any, ...], GroupRows]]:
    """Yields the key of each group and the rows of its tables, sorted; missing columns are null.

    Args:
        batch: the rows of complete groups.
        key: columns that identify a group.
        tables: the input tables.
    """
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: {name: [] for name in tables})
    for name in tables.keys() & set(batch.column_names):
        lists, empty = batch[name].combine_chunks(), dict.fromkeys(tables[name])
        keys = batch.select(key).take(pc.list_parent_indices(lists))
        for *group, row in zip(*(column.to_pylist() for column in (*keys.columns, lists.flatten())), strict=True):
            groups[tuple(group)][name].append(empty | row)
    for group_key in sorted(groups, key=_nulls_last):
        for name, listed in groups[group_key].items():
            listed.sort(key=lambda row: _nulls_last(row[column] for column in tables[name].key))
        yield group_key, groups[group_key]


def find_key_faults(rows: GroupRows, tables: Mapping[str, InputTable]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the rejection code, the table, and the key of each row that has a null in it, or that of the row before.

    Tables without a code for repeated keys may have null keys, too.

    Example: two rows of group g for member m1: `("duplicate-member", "members", {"member_id": "m1"})`.
    """
    for name, table in tables.items():
        keys = [{column: row[column] for column in table.key} for row in rows[name]] if table.duplicate else []
        for before, key in zip([None, *keys], keys, strict=False):
            if None in key.values():
                yield "null-key", name, key
            if key == before:
                yield table.duplicate, name, key


def _nulls_last(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    return [(value is None, value) for value in values]


def table_rows(batch: pa.Table, name: str, table: InputTable) -> pa.Table:
    """Returns the rows of one input table of a batch; missing columns are null."""
    rows = batch[name].combine_chunks().flatten() if name in batch.column_names else pa.nulls(0)
    found = pa.Table.from_struct_array(rows) if pa.types.is_struct(rows.type) else pa.table({})
    return pa.table({name: found[name] if name in found.column_names else pa.nulls(len(rows)) for name in table})


def rows_of_tables(
    rows: Mapping[str, Iterable[Mapping[str, Any]]], key: Sequence[str], tables: Mapping[str, InputTable]
) -> pa.Table:
    """Returns rows of input tables, by table, as `split_tables` reads them."""
    return pa.Table.from_pylist(
        [
            {**dict.fromkeys(tables, ()), **{column: row[column] for column in key}}
            | {name: [{column: row.get(column) for column in tables[name]}]}
            for name, listed in rows.items()
            for row in listed
        ]
    )


def row_schema(*texts: str) -> pa.Schema:
    """Returns a schema of tagged rows, with the column `kind` first.

    Args:
        texts: lists of columns, `name type, …`, with the type names of Arrow.

    Examples:
        >>> row_schema("topic string, lag int64").names
        ['kind', 'topic', 'lag']
    """
    pairs = (column.split() for text in ("kind string", *texts) for column in text.split(","))
    return pa.schema([(name, pa.type_for_alias(alias)) for name, alias in pairs])


def tagged(kind: str, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, schema: pa.Schema) -> pa.Table:
    """Returns rows of one kind with all columns of the schema; missing columns are null."""
    values = {**columns, "kind": pa.repeat(pa.scalar(kind, pa.string()), rows)}
    return pa.table([_cast(values.get(field.name), field, rows) for field in schema], schema=schema)


def tagged_rows(kind: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Returns tagged rows from dictionaries; missing values are null, and sums are bounded (`table_of_rows`)."""
    return table_of_rows([{**row, "kind": kind} for row in rows], schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Returns rows from dictionaries; missing values are null. A sum beyond a long ends at the largest long, because
    strangers choose its addends, as for `spark.dataframes.bounded_sum`."""
    used = {name for row in rows for name in row}
    columns = {each.name: [row.get(each.name) for row in rows] for each in schema if each.name in used}
    arrays = [
        _column(columns[each.name], each.type) if each.name in used else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except OverflowError:
        bounded = (min(max(each, -_MAX_LONG), _MAX_LONG) if isinstance(each, int) else each for each in values)
        return pa.array(list(bounded), kind)


def tagged_table(kind: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns tagged rows from a table with a subset of the columns."""
    return tagged(kind, {name: table[name] for name in table.column_names}, len(table), schema)


def _cast(values: pa.Array | pa.ChunkedArray | None, field: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type) if values is None else values.cast(field.type)
