"""Prints the license and the age of each dependency that is installed with spark_assign, as CSV, the oldest first.

    python conf/release/dependencies.py PYLOCK >dependencies.csv

Licenses are those of the packages' metadata, which nobody has verified. The age is the time since the installed version
was uploaded to the package index, by the upload times in the file PYLOCK (PEP 751). A package without a license, or
with one that a user of spark_assign might not accept, ends it with exit code 1.
"""

from __future__ import annotations

import csv
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

NOT_ACCEPTED = re.compile(r"\b(A?GPL|SSPL|BUSL|Commons[ -]Clause|GNU (Affero )?General Public)|\b[A-Z]+-NC\b", re.I)
"""Licenses that restrict the use of what is built with them. LGPL and MPL don't."""
HEADER = ("name", "version", "license", "uploaded", "age_days")
PROJECT = "spark-assign"


def find_license(package: Message) -> str:
    """Returns the license of a package by its metadata; empty if it names none.

    It is the SPDX expression, else the classifiers, else the first line of the field `License`.
    """
    if expression := package.get("License-Expression"):
        return str(expression)
    classifiers = [line for line in package.get_all("Classifier", ()) if line.startswith("License :: ")]
    named = sorted(line.rpartition(" :: ")[2] for line in classifiers)
    return " AND ".join(named) or str(package.get("License", "")).strip().partition("\n")[0]


def find_uploads(locked: Mapping[str, Any]) -> dict[str, datetime]:
    """Returns the time of the first upload of each package of a PEP 751 lock file that has upload times."""
    uploads = {}
    for package in locked["packages"]:
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        times = [file["upload-time"] for file in files if "upload-time" in file]
        if times:
            uploads[package["name"]] = min(times)
    return uploads


def dependencies(
    packages: Iterable[Message], uploads: Mapping[str, datetime], now: datetime
) -> Iterator[tuple[str, ...]]:
    """Yields a row of HEADER for each package, the oldest first, those without an upload time last."""
    by_name = {re.sub(r"[-_.]+", "-", package["Name"]).lower(): package for package in packages}
    by_name.pop(PROJECT, None)
    for name, package in sorted(by_name.items(), key=lambda item: (uploads.get(item[0], now), item[0])):
        uploaded = uploads.get(name)
        times = (f"{uploaded:%Y-%m-%d}", str((now - uploaded).days)) if uploaded else ("", "")
        yield (name, package["Version"], find_license(package), *times)


def main(locked: str) -> int:
    """Prints the table. Returns 1 if a license is missing or not accepted."""
    uploads = find_uploads(tomllib.loads(Path(locked).read_text(encoding="utf-8")))
    packages: list[Any] = [distribution.metadata for distribution in metadata.distributions()]
    rows = list(dependencies(packages, uploads, datetime.now(UTC)))
    csv.writer(sys.stdout, lineterminator="\n").writerows([HEADER, *rows])
    wrong = [row for row in rows if not row[2] or NOT_ACCEPTED.search(row[2])]
    for name, version, named, *_ in wrong:
        print(f"dependencies.py: {name} {version}: license {named or 'unknown'}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
