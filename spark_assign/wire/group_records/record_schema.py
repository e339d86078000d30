"""The words in which records are declared: fields with their versions, structs, lists of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Plain = Literal["int8", "int16", "int32", "int64", "uint16", "string", "bytes", "uuid"]

_EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "uuid": "A" * 22}


@dataclass(frozen=True)
class Struct:
    """Fields in the order of the wire.

    `strict` ones refuse versions newer than the newest known: Kafka's do where they are declared in the midst of a
    message, those declared by a name of their own do not.
    """

    fields: tuple[Field, ...]
    strict: bool = False


@dataclass(frozen=True)
class Many:
    """A list."""

    of: Plain | Struct


Kind = Plain | Struct | Many


@dataclass(frozen=True)
class Field:
    """A field. It is there `since` a version, `until` one if that is given.

    `tag`: it is written behind the others, after its number, where it differs from its default (KIP-482).
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
        """What it is where it is not there: of lists and structs a new one each time.

        As in Kafka null only where it says so: a list is empty, a struct has the defaults of its fields.
        """
        if self.otherwise is not ...:
            return self.otherwise
        if isinstance(self.kind, Many):
            return []
        if isinstance(self.kind, Struct):
            return {field.name: field.default for field in self.kind.fields}
        return _EMPTY.get(self.kind, 0)

    def there(self, version: int) -> bool:
        """Whether this version has it."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True)
class Record:
    """One type of record: its key, which has one version, and its value in all of its, `flexible` since one of them."""

    type: int
    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    newest: int = 0
    flexible: int = 0

    def is_flexible(self, version: int) -> bool:
        """Whether values of this version are."""
        return version >= self.flexible


def struct(*fields: Field) -> Struct:
    """A struct that Kafka declares by a name of its own."""
    return Struct(fields)


def inner(*fields: Field) -> Struct:
    """A struct that Kafka declares where it is used."""
    return Struct(fields, strict=True)


def text(name: str, **more: Any) -> Field:
    """A string."""
    return Field(name, "string", **more)


def texts(name: str) -> Field:
    """A list of strings."""
    return Field(name, Many("string"))


def int32(name: str, **more: Any) -> Field:
    """A number of 32 bits."""
    return Field(name, "int32", **more)


def int64(name: str, **more: Any) -> Field:
    """A number of 64 bits."""
    return Field(name, "int64", **more)


def many(name: str, of: Plain | Struct, **more: Any) -> Field:
    """A list."""
    return Field(name, Many(of), **more)


GROUP = (text("groupId"),)
MEMBER = (text("groupId"), text("memberId"))
"""The keys of most types."""
