"""Text that must not show: its `repr` shows nothing, and `hidden` takes it out of any other text."""

from __future__ import annotations

from collections.abc import Iterable


class Secret(str):
    """Text that `repr` (and with it every printed dict, dataclass or traceback of locals) does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


def hidden(text: str, secrets: Iterable[object]) -> str:
    """The text with every Secret among `secrets`, also of tuples among them, replaced by [hidden]; longest first."""
    found = {str.__str__(each) for each in _flat(secrets) if isinstance(each, Secret)}
    for secret in sorted(found - {""}, key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    return text


def _flat(values: Iterable[object]) -> Iterable[object]:
    for value in values:
        yield from value if isinstance(value, tuple) else (value,)
