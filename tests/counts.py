"""Lists the tests of each file, so that none is lost unseen: `python -m tests.counts [PART…]` renews tests/counts.toml.

The runner compares the list with what each part of the default run reports. Tests are collected and not executed; a
part whose environment isn't there (airflow) keeps its numbers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.runner.__main__ import environment
from tests.runner.parts import COUNTS, DEFAULT, ROOT, Part, parts

FILE = Path(__file__).with_suffix(".toml")


def collected(part: Part) -> dict[str, int]:
    """Returns the number of tests of each file of a part."""
    words = [word for word in part.command if word != "-q"]
    if "-n" in words:  # workers would only collect the same again
        del words[words.index("-n") : words.index("--dist") + 2]
    variables = environment(os.environ) | part.environment
    done = subprocess.run(
        [*words, "--collect-only", "-q"], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{part.name} could not be collected:\n{done.stdout}{done.stderr}")
    return dict(Counter(re.findall(r"^(tests/\S+?\.py)::", done.stdout, re.MULTILINE)))


def text(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the text of the file: parts, and in them files, in the order of their names."""
    lines = ["# The number of tests of each file in the default run. Written by `python -m tests.counts`."]
    for part, files in sorted(counts.items()):
        lines += ["", f"[{part}]", *(f'"{file}" = {count}' for file, count in sorted(files.items()))]
    return "\n".join(lines) + "\n"


def main(names: Sequence[str]) -> None:
    """Renews the numbers of some parts, or of all."""
    counts = dict(COUNTS)
    for name, part in parts(full=False).items():
        if name in (names or DEFAULT) and part.places:
            if Path(part.command[0]).exists():
                counts[name] = collected(part)
            else:
                print(f"{name}: its environment isn't there; its numbers are kept", file=sys.stderr)
    FILE.write_text(text(counts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
