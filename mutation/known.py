"""Mutants that are known to survive, each with why: `known.toml`, which a run reads and the page shows."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutation.figures import Figures

FILE = Path(__file__).with_name("known.toml")
EQUIVALENT, LEFT = "equivalent", "left"
Key = tuple[str, str, str, str, int]
"""File, function, the lines as they are, the lines as changed, and which of those that read the same."""


@dataclass(frozen=True)
class Known:
    """Why a mutant survives.

    Attributes:
        key: what names it.
        kind: `equivalent` (nothing that can be seen changes; not counted) or `left` (counted as survived).
        why: the reason.
    """

    key: Key
    kind: str
    why: str


@dataclass(frozen=True)
class Rule:
    """A change that is equivalent wherever it is made: what it matches is `lines as they are => lines as changed`."""

    name: str
    change: re.Pattern[str]
    why: str


@dataclass(frozen=True)
class Measured:
    """What a run counted, and of what."""

    what: str
    command: str
    figures: Figures


@dataclass(frozen=True)
class Register:
    """All that is known."""

    known: tuple[Known, ...] = ()
    rules: tuple[Rule, ...] = ()
    measured: tuple[Measured, ...] = ()

    def about(self, key: Key) -> tuple[str, str] | None:
        """Kind and reason, or None for a mutant of which nothing is known."""
        for each in self.known:
            if each.key == key:
                return each.kind, each.why
        change = f"{key[2]} => {key[3]}"
        return next(((EQUIVALENT, rule.why) for rule in self.rules if rule.change.fullmatch(change)), None)


def read(file: Path = FILE) -> Register:
    """The register; a reason that is missing or empty is an error."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    rules = tuple(
        Rule(one["name"], re.compile(one["change"], re.DOTALL), one["why"]) for one in content.get("rule", ())
    )
    known = tuple(
        Known((one["file"], one["function"], one["was"], one["becomes"], one.get("nth", 0)), one["kind"], one["why"])
        for one in content.get("known", ())
    )
    for one in known:
        if one.kind not in (EQUIVALENT, LEFT) or not one.why.strip():
            raise ValueError(f"{FILE.name}: expected a kind ({EQUIVALENT}, {LEFT}) and why: {one}")
    if len({one.key for one in known}) < len(known):
        raise ValueError(f"{FILE.name}: a mutant stands there twice")
    measured = tuple(
        Measured(each["what"], each["command"], Figures(*(each[name] for name in Figures.__dataclass_fields__)))
        for each in content.get("measured", ())
    )
    return Register(known, rules, measured)
