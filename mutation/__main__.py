"""Mutation testing of the kernels: what one small fault in their code would make fail, and what it would not.

    mutation/mutants --sample 300 --seed 1                      a random sample of all kernels
    mutation/mutants --sample 100 --seed 1 simulation/kernel    of one folder or file
    mutation/mutants --all numeric/arrays.py                    every mutant
    mutation/mutants --page                                     write docs/mutants.md anew from what is known

Survivors are shown as they come. What is known of a survivor stands in mutation/known.toml: equivalent ones are
not counted. Verdicts are kept in build/mutants until a file of the package or of the tests changes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutation import figures, known, page
from mutation.session import KERNELS, PACKAGE, ROOT

if TYPE_CHECKING:
    from mutation.source import Mutant

KEPT = ROOT / "build" / "mutants"


def main(arguments: Sequence[str]) -> int:
    """0 if the share killed is as wished, 1 if not."""
    options = _parser().parse_args(arguments)
    if options.page:
        page.FILE.write_text(page.rendered(known.read()), encoding="utf-8")
        return 0
    if not options.all and not options.sample:
        print("either --sample N or --all", file=sys.stderr)
        return 2
    # Only here: the page and what is known need no mutmut.
    from mutation.judge import KILLED, Verdict, judge
    from mutation.reach import fingerprint, measured

    reach = measured(KEPT)
    everything = _all_under(options.paths)
    drawn = _drawn(everything, None if options.all else options.sample, options.seed)
    register = known.read()
    equivalent = [each for each in drawn if (register.about(each.key) or ("",))[0] == known.EQUIVALENT]
    set_aside = {each.key for each in equivalent}
    rest = [each for each in drawn if each.key not in set_aside]
    print(f"{len(drawn)} of {len(everything)} mutants, {len(equivalent)} known as equivalent", flush=True)

    kept = KEPT / f"verdicts-{fingerprint()}.jsonl"
    before = {key: Verdict(*verdict) for key, verdict in _kept(kept)}
    verdicts: dict[Mutant, Verdict] = {}
    begun = time.monotonic()

    def tell(mutant: Mutant, verdict: Verdict) -> None:
        verdicts[mutant] = verdict
        if verdict is not before.get(mutant.key):
            with kept.open("a") as lines:
                lines.write(json.dumps([mutant.key, list(vars(verdict).values())]) + "\n")
        if verdict.status != KILLED:
            text = f", {verdict.left_out} tests beyond the budget not run" if verdict.left_out else ""
            text += f", {verdict.by}" if verdict.by else ""
            text = f"[{verdict.status}{text}] {mutant}\n"
            print(text, flush=True)
            if options.survivors:
                with options.survivors.open("a") as lines:
                    lines.write(text)
        if len(verdicts) % 50 == 0:
            print(f"-- {len(verdicts)} of {len(rest)} after {time.monotonic() - begun:.0f} s", flush=True)

    judge(rest, reach, options.budget, before, tell)

    statuses = [(each, verdicts[each].status) for each in rest] + [(each, known.EQUIVALENT) for each in equivalent]
    _summary(statuses, register)
    return int(figures.of(status for _, status in statuses).share < options.at_least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "mutation/mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "paths",
        nargs="*",
        default=[str(folder.relative_to(PACKAGE)) for folder in KERNELS],
        help="folders or files below spark_assign",
    )
    parser.add_argument("--sample", type=int, help="so many, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same from the same code")
    parser.add_argument("--all", action="store_true", help="every mutant: a night")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds of tests per mutant, cheapest first")
    parser.add_argument("--at-least", type=float, default=0.9, help="the share killed below which the exit code is 1")
    parser.add_argument("--survivors", type=Path, help="a file to which survivors are written as they come")
    parser.add_argument("--page", action="store_true", help="write docs/mutants.md and end")
    return parser


def _all_under(paths: Sequence[str]) -> list[Mutant]:
    from mutation.source import mutants_of

    files: list[Path] = []
    for path in paths:
        place = PACKAGE / path.removeprefix("spark_assign/")
        files += [place] if place.is_file() else sorted(place.rglob("*.py"))
        if not files:
            raise SystemExit(f"no Python file: {place}")
    return [mutant for file in dict.fromkeys(files) for mutant in mutants_of(file)]


def _drawn(mutants: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """As many that compile, in random order: a run that is broken off has drawn at random, too."""
    order = random.Random(seed).sample(mutants, len(mutants))
    drawn = []
    for mutant in order:
        if len(drawn) == size:
            break
        if mutant.is_one:
            drawn.append(mutant)
    return drawn


def _kept(file: Path) -> Iterator[tuple[known.Key, list[Any]]]:
    """Keys and verdicts; of a key the last counts."""
    for line in file.read_text().splitlines() if file.exists() else ():
        key, verdict = json.loads(line)
        yield tuple(key), verdict


def _summary(statuses: list[tuple[Mutant, str]], register: known.Register) -> None:
    print("by folder or file:")
    of_part: dict[str, list[str]] = {}
    for mutant, status in statuses:
        of_part.setdefault(_part(mutant.file), []).append(status)
    for part, those in sorted(of_part.items()):
        print(f"  {part:24} {figures.of(those)}")
    print(f"  {'all':24} {figures.of(status for _, status in statuses)}")
    left = Counter(
        "known" if register.about(mutant.key) else "new"
        for mutant, status in statuses
        if status in ("survived", "not reached")
    )
    print(f"  of the survivors {left['known']} are in known.toml, {left['new']} are not")


def _part(file: str) -> str:
    """Returns the folder of a file, below the package."""
    return str(Path(file).relative_to("spark_assign").parent)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
