"""docs/mutants.md, written from what is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from tests.mutation.known import EQUIVALENT, LEFT, Known, Register

FILE = Path(__file__).parents[2] / "docs" / "mutants.md"

HEAD = """\
# Mutants: what the tests would notice

A mutant is the code with one small fault: `<` where `<=` stands, a number that is one more, an argument that is
missing, a call that is left out. It is killed if a test fails. Of the kernels, in which Kafka's rules stand, at least
90 % are to be killed of those that change anything.

```sh
tests/mutants --sample 300 --seed 1                     # a random sample of all kernels
tests/mutants --sample 100 --seed 1 simulation/kernel    # of a folder or a file
tests/mutants --all numeric/round_robin_offset.py                     # every mutant; of all kernels that is a night
```

By hand or at night, not in CI; it needs the extra `mutants` of `pyproject.toml` in `.venv`. The tests are
those of `tests/unit` and `tests/golden` that need no Spark, and none can start it. First it is measured which test
executes which line; a mutant then meets the tests of its line only, the cheapest first, and the first failure is the
last test. A test that takes 4 times its time and 5 seconds more is stopped and has failed.

The faults are [mutmut](https://mutmut.readthedocs.io)'s, and three more: a call left out, a condition turned round,
`min` for `max`. Its own run leaves out constants, defaults and properties, where many of Kafka's numbers stand; Cosmic
Ray starts a new process for each mutant and runs all tests in it. So each mutant here is a fork of a pytest session
that is collected already.

The code around the kernels (Spark drivers, wire formats, stores, sources, commands, jobs) has a list of faults put in
by hand, `tests/mutation/faults.toml`: the changed text, what a user would see, and the tests that must fail.
`tests/faults` puts one fault after the other into a copy of the project and runs its tests, which takes about
twenty minutes of processor time; the exit code is 1 if a fault survives. A test may leave the default run only if the
tests that stay still catch every fault.

What survives of the mutants stands below with the reason, from `tests/mutation/known.toml`; `tests/mutants --page`
writes this page.
"""


def rendered(register: Register) -> str:
    """The page."""
    return "\n".join([HEAD, *_measured(register), *_left(register), *_equivalent(register)])


def _measured(register: Register) -> Iterator[str]:
    yield "## Measured\n"
    yield "Of some 27,000 mutants. Not reached: no test without Spark executes the line; Spark tests are not counted.\n"
    yield "| | of | killed | 95 % interval | survived | not reached | equivalent |"
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
    yield "## Left alive\n"
    left = [each for each in register.known if each.kind == LEFT]
    if not left:
        yield "None that is known.\n"
    else:
        yield "Each is a fault that no test notices; they count against the share.\n"
        yield from _by_file(left)


def _equivalent(register: Register) -> Iterator[str]:
    yield "## Equivalent\n"
    yield "Nothing that can be seen changes, so they are not counted. Wherever they are made:\n"
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
