"""Fields of parameters, each declared once: `AdviceParams`, `Settings`, `HistoryThresholds`, and so on.

A field of such a dataclass has its type and default, its bounds (`Param`), and its meaning under `Attributes:`. The
check of values (`find_fault`) follows from it, and so do the option of a command, its help, and its setting
(`spark_assign.cli.options.parameter_options`).

    headroom: Annotated[float, Param(least=0)] = 0.2       --headroom N       share of a member's load … (default: 0.2)
    restart_time_ms: Annotated[int, Param(least=1)] = 30_000   --restart-time TIME   a duration, such as 30s
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True)
class Param:
    """What a field accepts besides its type.

    Attributes:
        least, most, above, below: bounds, the latter two exclusive; of a sequence, of each of its elements.
        choices: names that the field accepts.
        flag: name of the option, if it isn't that of the field without the unit `_ms`.
        metavar: placeholder of the value in the help of the option, if the type doesn't say enough.
        kind: type of the option (click's), if it isn't that of the field.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Sequence[str] = ()
    flag: str = ""
    metavar: str = ""
    kind: Any = None

    def accepts(self, value: Any) -> bool:
        """Checks whether a number, or each number of a sequence, is finite and within the bounds."""
        numbers = value if isinstance(value, list | tuple) else [value]
        return all(
            not isinstance(each, int | float)
            or (
                (isinstance(each, int) or math.isfinite(each))
                and (self.least is None or each >= self.least)
                and (self.above is None or each > self.above)
                and (self.most is None or each <= self.most)
                and (self.below is None or each < self.below)
            )
            for each in numbers
        )

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds as the arguments of click's ranges."""
        low, high = self.least if self.above is None else self.above, self.most if self.below is None else self.below
        given = {"min": low, "max": high, "min_open": self.above is not None, "max_open": self.below is not None}
        return {} if low is None and high is None else given

    def __str__(self) -> str:
        named = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return (
            " and ".join(f"{word} {number:,.15g}" for word, number in named.items() if number is not None) or "a number"
        )


def largest(name: str, *, is_whole: bool) -> int:
    """Returns the largest absolute value of a number that a user gives, so that no sum of some overflows.

    It is 2^53, or a billion for a whole number that isn't bytes: one more than such a number is an int. Neither
    infinity nor "not a number" is a value.
    """
    return 1_000_000_000 if is_whole and "BYTES" not in name.upper() else 1 << 53


@dataclass(frozen=True)
class ParameterField:
    """A field of parameters.

    Attributes:
        name: name of the field.
        type: type of its values; of a sequence, of the elements.
        is_sequence: whether a value is a sequence, which an option separates by commas.
        is_repeatable: whether a value is a tuple, of which each element is an option.
        default: the default; None if there is none.
        about: meaning of the field, as a sentence without its first capital letter and without its period.
        param: what it accepts.
    """

    name: str
    type: type
    is_sequence: bool
    is_repeatable: bool
    default: Any
    about: str
    param: Param

    @property
    def flag(self) -> str:
        """The name of its option, and of its setting."""
        return self.param.flag or self.name.removesuffix(f"_{self.unit}")

    @property
    def unit(self) -> str:
        """The unit of a duration: `ms`, or `s`; empty for other values."""
        end = self.name.rpartition("_")[2]
        return end if end in ("ms", "s") else ""

    @property
    def expected(self) -> str:
        """What is expected: `at least 1 ms`."""
        unit = f"of {self.unit}" if self.unit and not self.param.bounds else self.unit
        return f"{self.param} {unit}".rstrip()


@cache
def parameter_fields(parameters: type) -> Sequence[ParameterField]:
    """Returns the fields of a dataclass of parameters that have a `Param`, in order."""
    found: list[ParameterField] = []
    hints = get_type_hints(parameters, include_extras=True)
    about: dict[str, str] = {}
    for base in reversed(parameters.__mro__):
        about |= _attributes(base.__doc__ or "")
    for each in fields(parameters):
        hint, *params = (*get_args(hints[each.name]), None)
        param = next((one for one in params if isinstance(one, Param)), None)
        if param is None:
            continue
        kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
        is_repeatable = Ellipsis in kinds
        default = None if each.default is MISSING else each.default
        is_sequence = kinds != [hint] and type(None) not in get_args(hint) and not is_repeatable
        text = about.get(each.name, "")
        found.append(ParameterField(each.name, kinds[0], is_sequence, is_repeatable, default, text, param))
    return tuple(found)


def find_fault(parameters: Any) -> str | None:
    """Returns what is wrong with the value of a field, such as `headroom is -1; expected at least 0`; None if nothing
    is."""
    of: type = type(parameters)
    for each in parameter_fields(of):
        value = getattr(parameters, each.name)
        if value is not None and not each.param.accepts(value):
            return f"{each.name} is {list(value) if each.is_sequence else value}; expected {each.expected}"
    return None


def _attributes(doc: str) -> dict[str, str]:
    """Returns the texts under `Attributes:` of a docstring, by attribute."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(doc).partition("Attributes:\n")[2].splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            break
        start = re.match(r"([a-z_]+): ", text) if indent == 4 else None
        if start:
            name, text = start[1], text[start.end() :]
        found[name] = f"{found.get(name, '')} {text}".replace("`", "").strip()
    return {name: text.removesuffix(".") for name, text in found.items()}
