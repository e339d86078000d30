"""Writes docs/mutants.md from `known.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from mutation.known import EQUIVALENT, LEFT, Known, Register

FILE = Path(__file__).parents[1] / "docs" / "mutants.md"

HEAD = """\
# Mutation testing: surviving mutants

A mutant is the code with one small fault: `<` instead of `<=`, a number increased by one, an argument or a call left
out. A mutant is killed if a test fails. The kernels contain Kafka's rules. Of their mutants that change the behavior,
the tests must kill at least 90 %.

```sh
mutation/mutants --sample 300 --seed 1                     # a random sample of all kernels
mutation/mutants --sample 100 --seed 1 simulation/kernel   # a sample of a folder or a file
mutation/mutants --all numeric/arrays.py                    # every mutant of a file; all kernels take a night
```

Run it by hand or at night, not in CI. It needs the extra `mutants` of `pyproject.toml` in `.venv`. It uses the tests
in `tests/unit` and `tests/golden` that don't need Spark. First, it measures which test executes which line. A mutant is
then checked only by the tests of its line, the fastest first, until one fails. A test counts as failed if it runs five
seconds longer than four times its normal time.

The faults come from [mutmut](https://mutmut.readthedocs.io), and three more: a call left out, a condition negated,
and `min` instead of `max`. mutmut's own runner skips constants, defaults, and properties, which hold many of Kafka's
numbers. Cosmic Ray starts a new process for each mutant and runs all tests in it. Therefore, each mutant runs here in a
fork of a pytest session that has already collected the tests.

## Faults outside the kernels
For the code around the kernels (Spark drivers, wire formats, stores, sources, commands, jobs),
`mutation/faults.toml` lists faults: the changed text, what a user would see, and the tests that must fail.
`mutation/faults` inserts one fault after the other into a copy of the project and runs its tests. This takes about
twenty minutes of processor time. The exit code is 1 if a fault survives. A test may leave the default run only if the
remaining tests still detect every fault.

`mutation/known.toml` lists the surviving mutants with the reason for each. `mutation/mutants --page` generates this
page from it.
"""


def rendered(register: Register) -> str:
    """Returns the text of the page."""
    return "\n".join([HEAD, *_measured(register), *_left(register), *_equivalent(register)])


def _measured(register: Register) -> Iterator[str]:
    yield "## Measured\n"
    yield "The kernels have about 58,000 mutants. Not reached: only Spark tests, or none, execute the line.\n"
    yield "| | command | killed | 95 % interval | survived | not reached | equivalent |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for each in register.measured:
        of = each.figures
        low, high = of.interval()
        yield (
            f"| {each.what} | `{each.command}` | {of.killed} of {of.counted}, {_percent(of.share)}"
            f" | {_percent(low)} to {_percent(high)} | {of.survived} | {of.not_reached} | {of.equivalent} |"
        )
    yield ""


def _left(register: Register) -> Iterator[str]:
    yield "## Surviving mutants\n"
    left = [each for each in register.known if each.kind == LEFT]
    if not left:
        yield "None is known.\n"
    else:
        yield "No test detects these faults. They count as not killed.\n"
        yield from _by_file(left)


def _equivalent(register: Register) -> Iterator[str]:
    yield "## Equivalent mutants\n"
    yield "These mutants don't change the behavior, so they aren't counted. Anywhere in the code:\n"
    yield from (f"- {rule.name}: {rule.why}" for rule in register.rules)
    yield ""
    yield from _by_file(each for each in register.known if each.kind == EQUIVALENT)


def _by_file(known: Iterable[Known]) -> Iterator[str]:
    of_file: dict[str, list[Known]] = {}
    for each in known:
        of_file.setdefault(each.key[0], []).append(each)
    for file, those in sorted(of_file.items()):
        yield f"`{file}`\n"
        yield "```diff"
        for each in sorted(those, key=lambda one: one.key):
            yield from (f"# {line}" for line in wrap(each.why, 110))
            yield f"@@ {each.key[1]} @@"
            yield from (f"- {line}" for line in each.key[2].split("\n"))
            yield from (f"+ {line}".rstrip() for line in each.key[3].split("\n"))
        yield "```\n"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
