"""The figures of one run: a JSON file that is written after each benchmark, and the tables of docs/benchmarks.md."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from benchmarks.bench import Result, Unmeasured
from benchmarks.processes import ROOT

START, END = "<!-- figures -->", "<!-- end of figures -->"
_MEASURED = ("spark_assign", "jobs", "tests", "conf")
_MOST_LISTED, _LONGEST_CELL = 8, 200
_FINISHED = ("met", "missed", "")


@dataclass
class Figures:
    """The results of each benchmark.

    Attributes:
        conditions: commit, machine, engine, and repeats, which are equal for all benchmarks of a file.
        benchmarks: date, seconds, and results of each benchmark, by name.
    """

    conditions: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def resume(cls, path: Path, conditions: dict[str, Any]) -> Figures:
        """Returns the figures of a file, to which others can be added.

        Raises:
            ValueError: the figures are of another commit or of other conditions.
        """
        stored = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name in conditions if stored["conditions"].get(name) != conditions[name]]
        if differing:
            raise ValueError(f"{path} is of another {differing[0]}: {stored['conditions'].get(differing[0])}")
        return cls(conditions, stored["benchmarks"])

    def lacks(self, name: str) -> bool:
        """Checks whether a benchmark wasn't measured, or only in part."""
        results = self.benchmarks.get(name, {}).get("results", ())
        return not results or any(result["verdict"] not in _FINISHED for result in results)

    def add(self, name: str, seconds: float, results: Sequence[Result | Unmeasured]) -> None:
        """Adds a benchmark, or replaces it."""
        rows = [asdict(result) | {"verdict": result.verdict} for result in results]
        date = datetime.date.today().isoformat()
        self.benchmarks[name] = {"date": date, "seconds": round(seconds, 1), "results": rows}

    def write(self, path: Path) -> None:
        """Writes the file, so that a reader sees the old or the new one."""
        written = path.with_suffix(".tmp")
        written.write_text(json.dumps(vars(self), indent=1) + "\n", encoding="utf-8")
        written.replace(path)

    def write_page(self, page: Path, names: Sequence[str]) -> None:
        """Replaces the text between the markers of a page. `names` gives the order of the benchmarks.

        Raises:
            ValueError: the page doesn't have the markers.
        """
        before, start, rest = page.read_text(encoding="utf-8").partition(START)
        _, end, after = rest.partition(END)
        if not end:
            raise ValueError(f"{page} doesn't have {START} and {END}")
        page.write_text(f"{before}{start}\n{self.tables(names)}{end}{after}", encoding="utf-8")

    def tables(self, names: Sequence[str]) -> str:
        """Returns the conditions and the table of all figures in Markdown."""
        measured = [name for name in names if name in self.benchmarks]
        verdicts = [row["verdict"] for name in measured for row in self.benchmarks[name]["results"]]
        dates = sorted({self.benchmarks[name]["date"] for name in measured})
        minutes = sum(self.benchmarks[name]["seconds"] for name in measured) / 60
        about = self.conditions
        rounds = "once" if about["repeats"] == 1 else f"medians of {about['repeats']} rounds"
        lines = [
            f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, commit {about['commit']}, {about['cores']} cores, "
            f"{about['memory_gib']} GiB of memory, {about['engine']}, {rounds}, {minutes:.0f} minutes: "
            f"{verdicts.count('met')} goals met, {verdicts.count('missed')} missed.",
            "",
            "| benchmark | measure | fleet | figure | goal | detail |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for name in measured:
            results = [row for row in self.benchmarks[name]["results"] if row.get("on_page", True)]
            for label, cells in zip(chain([f"`{name}`"], repeat("")), _rows(results), strict=False):
                lines.append(" ".join(f"| {' | '.join((label, *cells))} |".split()))
        return "\n".join(lines) + "\n"


def _rows(results: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yields the cells of a line for the figures with the same unit and goal, if they are the same measures of each
    fleet, or else a line for each fleet."""
    by_goal = _grouped(results, lambda row: (row.get("unit", row["measure"]), row.get("goal")))
    for rows in by_goal:
        fleets = _grouped(rows, lambda row: row.get("fleet"))
        is_product = all([row["measure"] for row in fleet] == [row["measure"] for row in fleets[0]] for fleet in fleets)
        yield from map(_cells, [fleets] if is_product else [[fleet] for fleet in fleets])


def _grouped(rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> list[list[dict[str, Any]]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _cells(fleets: list[list[dict[str, Any]]]) -> tuple[str, ...]:
    """Returns measure, fleet, figure, goal with its verdict, and detail. Figures of a fleet are separated by commas."""
    rows, first = [*chain(*fleets)], fleets[0][0]
    if "figure" not in first:
        return "", "", first["verdict"], "", _plain(first["detail"])
    if len(rows) <= _MOST_LISTED:
        measure = _joined([row["measure"] for row in fleets[0]])
        figure = "; ".join(", ".join(_short(row["figure"]) for row in fleet) for fleet in fleets)
    else:
        ordered = sorted(rows, key=lambda row: float(row["figure"]))
        measure = f"{len(rows)} figures, from {ordered[0]['measure']} to {ordered[-1]['measure']}"
        lowest, median, highest = (_short(ordered[at]["figure"]) for at in (0, len(rows) // 2, -1))
        figure = f"{lowest} to {highest}, median {median}"
    goal = (first["goal"] or "").replace("<=", "≤").replace(">=", "≥")
    missed = sum(row["verdict"] == "missed" for row in rows)
    if goal:
        some = f" by {missed} of {len(rows)}" if len(rows) > 1 else ""
        goal += f": missed{some}" if missed else ": met"
    fleet = "; ".join(fleet[0]["fleet"] for fleet in fleets)
    return _plain(measure), _plain(fleet), f"{figure} {first['unit']}", goal, _plain(first["detail"] * (len(rows) == 1))


def _joined(measures: list[str]) -> str:
    """Returns the different measures, with the words at their end that they share only once."""
    words = [measure.split() for measure in dict.fromkeys(measures)]
    shared = 0
    while len(words) > 1 and shared < min(map(len, words)) - 1 and len({each[-1 - shared] for each in words}) == 1:
        shared += 1
    heads = [" ".join(each[: len(each) - shared]) for each in words]
    separator = "; " if any("," in head.rstrip(",") for head in heads) else ", "
    return " ".join((separator.join(head.rstrip(",") for head in heads), *words[0][len(words[0]) - shared :]))


def _short(figure: float) -> str:
    digits = 0 if abs(figure) >= 100 or figure == round(figure) else 1 if abs(figure) >= 10 else 2
    return f"{figure:,.{digits}f}"


def _plain(text: str) -> str:
    """Returns the text as a cell of a table, shortened."""
    text = " ".join(text.replace("|", ",").split())
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL].rpartition(" ")[0] + " …"


def find_conditions(engine: str, repeats: int, *, quick: bool) -> dict[str, Any]:
    """Returns the conditions of a run: the commit, the cores and the memory of the machine, the engine, and repeats."""
    commit = _git("rev-parse", "--short=8", "HEAD").strip()
    changed = " with changes" if _git("status", "--porcelain", "--untracked-files=no", "--", *_MEASURED).strip() else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return {
        "commit": commit + changed,
        "cores": cores,
        "memory_gib": round(memory),
        "engine": engine,
        "repeats": repeats,
        "quick": quick,
    }


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
