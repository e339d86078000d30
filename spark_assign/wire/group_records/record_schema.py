"""Declares record types: fields with their versions, structs, and lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

Plain = Literal["int8", "int16", "int32", "int64", "uint16", "string", "bytes", "uuid"]

_EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "uuid": "A" * 22}


@dataclass(frozen=True)
class Struct:
    """Fields in the order of the bytes.

    `strict` structs reject versions newer than the newest known one. In Kafka, structs that a message declares inline
    do this, and structs with a name in `commonStructs` don't.
    """

    fields: tuple[Field, ...]
    strict: bool = False


@dataclass(frozen=True)
class Many:
    """A list of elements."""

    of: Plain | Struct


Kind = Plain | Struct | Many


@dataclass(frozen=True)
class Field:
    """A field that exists from version `since` to version `until`, if set.

    A field with a `tag` is written after the other fields, with its tag, if it differs from its default (KIP-482).
    """

    name: str
    kind: Kind
    since: int = 0
    until: int | None = None
    nullable: bool = False
    tag: int | None = None
    otherwise: Any = ...

    @property
    def default(self) -> Any:
        """Returns the value of the field in versions without it. Lists and structs are new objects each time.

        As in Kafka, it is null only if declared so: a list is empty, and a struct has the defaults of its fields.
        """
        if self.otherwise is not ...:
            return self.otherwise
        if isinstance(self.kind, Many):
            return []
        if isinstance(self.kind, Struct):
            return {field.name: field.default for field in self.kind.fields}
        return _EMPTY.get(self.kind, 0)

    def there(self, version: int) -> bool:
        """Checks whether a version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True)
class Record:
    """A record type: its key, which has one version, and its value, whose versions are flexible from `flexible` on."""

    type: int
    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    newest: int = 0
    flexible: int = 0

    def is_flexible(self, version: int) -> bool:
        """Checks whether values of a version are flexible."""
        return version >= self.flexible


def struct(*fields: Field) -> Struct:
    """Returns a struct that Kafka declares by name."""
    return Struct(fields)


def inner(*fields: Field) -> Struct:
    """Returns a struct that Kafka declares inline."""
    return Struct(fields, strict=True)


text = partial(Field, kind="string")
"""Returns a string field."""
int32 = partial(Field, kind="int32")
"""Returns an int32 field."""
int64 = partial(Field, kind="int64")
"""Returns an int64 field."""


def texts(name: str) -> Field:
    """Returns a field with a list of strings."""
    return Field(name, Many("string"))


def many(name: str, of: Plain | Struct, **options: Any) -> Field:
    """Returns a list field."""
    return Field(name, Many(of), **options)


GROUP = (text("groupId"),)
MEMBER = (text("groupId"), text("memberId"))
"""The keys of most types."""
