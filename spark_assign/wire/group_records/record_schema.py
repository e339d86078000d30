"""Declares record types: fields with their versions, structs, and lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, get_args

Plain = Literal["int8", "int16", "int32", "int64", "uint16", "string", "bytes", "uuid"]
_PLAIN: dict[str, Plain] = {kind: kind for kind in get_args(Plain)}

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
    newest: int
    flexible: int

    def is_flexible(self, version: int) -> bool:
        """Checks whether values of a version are flexible."""
        return version >= self.flexible


def fields(*declared: str | Field) -> tuple[Field, ...]:
    """Returns the declared fields in order. A text declares fields that all versions have: `name type, …`, with `type?`
    for a nullable field and `type[]` for a list.
    """
    by_part = ([each] if isinstance(each, Field) else map(_field, each.split(",")) for each in declared)
    return tuple(chain.from_iterable(by_part))


def _field(text: str) -> Field:
    """Returns the field that `name type` declares."""
    name, kind = text.split()
    plain = _PLAIN[kind.removesuffix("?").removesuffix("[]")]
    return Field(name, Many(plain) if "[]" in kind else plain, nullable=kind.endswith("?"))


def struct(*declared: str | Field) -> Struct:
    """Returns a struct that Kafka declares by name. See `fields`."""
    return Struct(fields(*declared))


def inner(*declared: str | Field) -> Struct:
    """Returns a struct that Kafka declares inline. See `fields`."""
    return Struct(fields(*declared), strict=True)


def record(
    type: int, name: str, key: tuple[Field, ...], *value: str | Field, newest: int = 0, flexible: int = 0
) -> Record:
    """Returns a record type. `value` declares the fields of its value, see `fields`."""
    return Record(type, name, key, fields(*value), newest, flexible)


def many(name: str, of: Plain | Struct, **options: Any) -> Field:
    """Returns a list field."""
    return Field(name, Many(of), **options)


GROUP, MEMBER = fields("groupId string"), fields("groupId string, memberId string")
"""The keys of most types."""
