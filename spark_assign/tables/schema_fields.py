"""Builds the fields of schemas."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as T

_TYPES: dict[str, T.DataType] = {
    "string": T.StringType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "binary": T.BinaryType(),
    "timestamp": T.TimestampType(),
    "array<int>": T.ArrayType(T.IntegerType()),
    "array<long>": T.ArrayType(T.LongType()),
    "array<string>": T.ArrayType(T.StringType()),
}


ONLY_IF_GIVEN = {"only_if_given": True}
"""Metadata of a nullable column that is not added to a table without it."""


def columns(*texts: str) -> list[T.StructField]:
    """Returns the fields of lists of columns: `name type, …`, with `type?` for a nullable column, and `type??` for one
    that is `ONLY_IF_GIVEN`, too.

    Examples:
        >>> [(field.name, field.nullable) for field in columns("topic string, lag long?")]
        [('topic', False), ('lag', True)]
        >>> [field.metadata for field in columns("lag long?, rate double??")]
        [{}, {'only_if_given': True}]
    """
    pairs = (column.split() for text in texts for column in text.split(","))
    return [
        T.StructField(name, _TYPES[kind.rstrip("?")], "?" in kind, ONLY_IF_GIVEN if "??" in kind else None)
        for name, kind in pairs
    ]


def schema(*texts: str) -> T.StructType:
    """Returns the schema with these columns (see `columns`)."""
    return T.StructType(columns(*texts))


_NAMES = {"assignor", "assignors", "cluster", "connector", "id", "ids", "subtopology", "topic", "topics"}


MAX_NAME_BYTES = 32_767
"""Maximum size of a name: most versions of Kafka's requests and records write its size in two bytes. Others, such as
the rack of a member of KIP-848, can be longer; what has one is not stored in a snapshot."""

MAX_ID_BYTES = 1_000
"""Maximum size of what the members of a group choose: its ID, their IDs, clients, hosts, racks, and topics. A plan has
them once for each topic or partition. A group with a longer one is `undescribed` in a snapshot."""

MAX_TOPIC_BYTES = 255
"""Maximum size of the topic of an owned partition: that of Kafka's releases before 0.10, since which it is 249. A
snapshot has it once for each slice."""

MAX_RACK_BYTES = 255
"""Maximum size of the rack of a broker. Engines copy it for each replica of the broker."""


def is_too_long(text: str | None, most: int = MAX_NAME_BYTES) -> bool:
    """Checks whether a text has more bytes than a name can have, in linear time."""
    return text is not None and 4 * len(text) > most and len(text.encode("utf-8", "replace")) > most


def within_bytes(text: str, most: int = MAX_ID_BYTES) -> str:
    """Returns the start of a text, with `…` if it has more than `most` bytes.

    Examples:
        >>> within_bytes("\u20ac" * 3, 9), within_bytes("\u20ac" * 4, 9)
        ('\u20ac\u20ac\u20ac', '\u20ac\u20ac…')
    """
    if not is_too_long(text, most):
        return text
    return text.encode("utf-8", "replace")[: most - len("…".encode())].decode("utf-8", "ignore") + "…"


def is_name(column: str) -> bool:
    """Checks whether a text column has names: of Kafka, which writes at most 32,767 bytes of them, or of a cluster.

    Examples:
        >>> [is_name(each) for each in ("assignor", "member_ids", "source_topics", "error", "topic_regex")]
        [True, True, True, False, False]
    """
    return column.rpartition("_")[2] in _NAMES


def nullable(**fields: T.DataType) -> list[T.StructField]:
    """Returns nullable fields, by name."""
    return [T.StructField(name, kind, nullable=True) for name, kind in fields.items()]


def tagged_schema(tables: Mapping[str, T.StructType], **columns: T.DataType) -> T.StructType:
    """Returns the schema of the tagged rows of these tables: `kind`, and the columns of any table; all nullable.

    Args:
        tables: The public tables, which are projections of the tagged rows.
        columns: Columns that are in no table, or that have another type in the tagged rows.
    """
    types = {"kind": T.StringType()} | {field.name: field.dataType for table in tables.values() for field in table}
    return T.StructType([T.StructField(name, type_) for name, type_ in (types | columns).items()])
