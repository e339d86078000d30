"""Lists which tests name which rule of Kafka: `python -m tests.rules_index` writes docs/rules-index.md.

A rule is a KIP, a KAFKA ticket, or a class of Kafka that decides. A test names it in its code, docstring, or comments;
the READMEs of the recordings name those that were recorded.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rules-index.md"
RULE = re.compile(r"\b(?:KIP|KAFKA)-\d+\b|\b[A-Z]\w+(?:Assignor|Builder|Coordinator|Manager|Movements|Placer|Policy)\b")
IMPORTED = re.compile(r"\borg\.apache\.kafka\.[\w.]*\.([A-Z]\w+)")
HEAD = """# Index of rules

For each rule of Kafka, the tests that name it: a Kafka improvement proposal (KIP), a ticket, or a class that decides.
If no test follows a file, the file names the rule for all of its tests, or for a recording.
`python -m tests.rules_index` writes this page. [Verification](verification.md) explains how the tests compare with
Kafka.
"""


def page() -> str:
    """Returns the text of the page."""
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for path in sorted([*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "tests" / "golden").glob("README*.md")]):
        for rule, function in _named(path.read_text(encoding="utf-8"), path.suffix == ".py"):
            functions = found[rule].setdefault(str(path.relative_to(ROOT / "tests")), [])
            if function and function not in functions:
                functions.append(function)
    kafka = _classes()
    sections = {
        "KIPs": sorted((rule for rule in found if rule.startswith("KIP-")), key=_number),
        "Tickets": sorted((rule for rule in found if rule.startswith("KAFKA-")), key=_number),
        "Classes": sorted(rule for rule in found if rule in kafka),
    }
    lines = [HEAD]
    for title, rules in sections.items():
        lines += [f"## {title}", "| rule | files in `tests/` with their tests |", "| --- | --- |"]
        lines += [f"| {rule if '-' in rule else f'`{rule}`'} | {_cell(found[rule])} |" for rule in rules]
        lines.append("")
    return "\n".join(lines)


def _named(text: str, is_python: bool) -> Iterator[tuple[str, str]]:
    """Yields each rule in a file, and the test in which it is named, or ""."""
    rules = [(number, match[0]) for number, line in enumerate(text.splitlines(), 1) for match in RULE.finditer(line)]
    tests = []
    if rules and is_python:
        tests = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name[:5] == "test_"]
    for number, rule in rules:
        yield rule, next((test.name for test in tests if test.lineno <= number <= (test.end_lineno or 0)), "")


def _classes() -> set[str]:
    """Returns the classes of Kafka that the release map and the recording programs name."""
    boundaries = json.loads((ROOT / "tests/kafka/releases/map.json").read_text(encoding="utf-8")).values()
    programs = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.java"))
    named = {each["class"] for artifact in boundaries for each in artifact["boundaries"]}
    return named.union(*map(IMPORTED.findall, programs))


def _number(rule: str) -> int:
    return int(rule.partition("-")[2])


def _cell(files: dict[str, list[str]]) -> str:
    """Returns the files, each with its tests in parentheses."""
    return "; ".join(f"`{file}`" + (f" (`{'`, `'.join(tests)}`)" if tests else "") for file, tests in files.items())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
