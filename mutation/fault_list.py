"""Reads `faults.toml`: faults put by hand into the code outside the kernels, each with the tests that must fail."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutation.session import KERNELS, ROOT
from tests import selection

FILE = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    """One fault and the tests that must fail with it.

    Attributes:
        name: a short name, unique in the list.
        file: the changed file, relative to the root.
        old: the text that is replaced; it occurs once in the file.
        new: the text that replaces it.
        seen: what a user of the changed code would see.
        tests: files or node ids of pytest; at least one test of them must fail.
    """

    name: str
    file: str
    old: str
    new: str
    seen: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        """Returns the changed source of the file. Raises ValueError unless `old` occurs exactly once."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{FILE.name}, {self.name}: `old` occurs {count} times in {self.file}, expected once")
        return source.replace(self.old, self.new)

    @property
    def needs_spark(self) -> bool:
        """Whether one of its tests needs Spark itself; the session of the others is of the embedded engine."""
        classic = selection.listed()["classic"]
        return any(selection.reason_of(test, classic) for test in self.tests)


def read(file: Path = FILE) -> tuple[Fault, ...]:
    """Returns the faults of the list, in its order.

    Raises:
        ValueError: a field is missing or empty, a name occurs twice, or the file of a fault is a kernel.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["fault"]
    fields = set(Fault.__dataclass_fields__)
    for entry in entries:
        if set(entry) != fields or not all(entry[field] for field in fields - {"new"}):
            raise ValueError(f"{file.name}: expected {', '.join(sorted(fields))}, found {entry}")
    faults = tuple(Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)
    names = [fault.name for fault in faults]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{file.name}: the same name twice: {', '.join(sorted(twice))}")
    if kernels := [fault.name for fault in faults if set(KERNELS) & set((ROOT / fault.file).parents)]:
        raise ValueError(f"{file.name}: mutation/mutants changes the kernels, this list the rest: {', '.join(kernels)}")
    return faults
