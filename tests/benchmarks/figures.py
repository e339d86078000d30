"""The figures of one run: a JSON file that is written after each benchmark, and the tables of docs/benchmarks.md."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from tests.benchmarks.bench import Result, Unmeasured
from tests.benchmarks.processes import ROOT

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
            rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
            for result in self.benchmarks[name]["results"]:
                if result.get("on_page", True):
                    rows.setdefault(_row_key(result), []).append(result)
            for label, row in zip(chain([f"`{name}`"], repeat("")), rows.values(), strict=False):
                lines.append("| " + " | ".join((label, *_cells(row))) + " |")
        return "\n".join(lines).replace("|  |", "| |") + "\n"


def _row_key(row: dict[str, Any]) -> tuple[str, ...]:
    """Figures with the same key share a line."""
    return row.get("fleet", ""), row.get("unit", row["measure"]), row.get("goal") or ""


def _cells(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """Returns measure, fleet, figure, goal with its verdict, and detail."""
    first = rows[0]
    if "figure" not in first:
        return "", "", first["verdict"], "", _plain(first["detail"])
    figures, unit = [row["figure"] for row in rows], first["unit"]
    if len(rows) <= _MOST_LISTED:
        measure, figure = _joined([row["measure"] for row in rows]), ", ".join(map(_short, figures))
    else:
        ordered = sorted(rows, key=lambda row: float(row["figure"]))
        lowest, median, highest = ordered[0], ordered[len(rows) // 2], ordered[-1]
        measure = f"{len(rows)} measures, from {lowest['measure']} to {highest['measure']}"
        figure = f"{_short(lowest['figure'])} to {_short(highest['figure'])}, median {_short(median['figure'])}"
    goal = (first["goal"] or "").replace("<=", "≤").replace(">=", "≥")
    missed = [row["measure"] for row in rows if row["verdict"] == "missed"]
    if goal:
        some = f" by {len(missed)} of {len(rows)}" if len(rows) > 1 else ""
        goal += f": missed{some}" if missed else ": met"
    detail = first["detail"] if len(rows) == 1 else ""
    return _plain(measure), _plain(first["fleet"]), f"{figure} {unit}", goal, _plain(detail)


def _joined(measures: list[str]) -> str:
    """Returns the measures, with the words at their end that they share only once."""
    words = [measure.split() for measure in measures]
    shared = 0
    while len(words) > 1 and shared < min(map(len, words)) - 1 and len({each[-1 - shared] for each in words}) == 1:
        shared += 1
    heads = [" ".join(each[: len(each) - shared]) for each in words]
    return " ".join((", ".join(head.rstrip(",") for head in heads), *words[0][len(words[0]) - shared :]))


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
