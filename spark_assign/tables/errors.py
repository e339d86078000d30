"""The errors a caller can act on.

What is wrong with one group is no exception: it is a row of `Plan.rejected`. These are for what no plan
can be made from at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SparkAssignError(Exception):
    """Base of every error that spark_assign raises on purpose."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input table, and how to mend it."""

    table: str
    column: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.problem}. {self.remedy}"


class FleetError(SparkAssignError):
    """The tables of a fleet cannot be planned from. Lists every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        noun = "fault" if len(self.faults) == 1 else "faults"
        lines = "\n".join(f"  - {fault}" for fault in self.faults)
        super().__init__(f"{len(self.faults)} {noun} in the fleet's tables:\n{lines}")


class UnknownAssignorError(SparkAssignError):
    """No assignor is registered under the name that the caller asked for."""


class SourceError(SparkAssignError):
    """A table, a file or a cluster could not be read; the message says which and what to do."""


class ConfigError(SparkAssignError):
    """A job's settings are wrong; the message names the key and what was expected."""


def missing_extra(need: str, extra: str) -> ConfigError:
    """Returns the error for a package that isn't installed.

    Args:
        need: what needs which package, for example "a report needs jinja2".
        extra: the extra of spark_assign that has the package.
    """
    remedy = f"run ./spark-submit.sh --set-up spark,{extra} in a clone, or pip install '.[{extra}]' elsewhere"
    return ConfigError(f"{need}, which isn't installed: {remedy}")


def reason(error: BaseException) -> str:
    """What went wrong, in a line: an error's first one, or of one from inside Spark the cause at the end."""
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if "Traceback (most recent call last):" in text:  # of a Python worker
        _, _, frames = text.partition("Traceback (most recent call last):\n")
        return next((line for line in frames.splitlines() if line and not line[0].isspace()), lines[0])
    if causes := [line for line in lines if line.startswith("Caused by: ")]:
        return causes[-1].removeprefix("Caused by: ")
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:  # Java's own, let through
        return lines[1].removeprefix(": ")
    return lines[0]
