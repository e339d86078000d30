"""The plan job in a process of its own: first onto a disk that is full, if there is one, then until it is killed.

python job_in_trouble.py FLEET OUTPUT [FULL_DISK]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jobs import plan
from spark_assign.spark.engine import ENGINE
from tests.conftest import CLASSIC, SETTINGS, session

RUN = ("--run-id", "r", "--assignor", "range")


def main(fleet: str, output: str, full_disk: str | None = None) -> None:
    """Print, after a full disk, the exit code and the files that were left there."""
    if os.environ.get(ENGINE) != "embedded":
        session(SETTINGS | CLASSIC | {"spark.driver.memory": "1g"}).sparkContext.setLogLevel("OFF")
    if full_disk is not None:
        code = plan.main(["--fleet", fleet, "--output", full_disk, *RUN, "--output-tables", "assignments"])
        left = [str(path.relative_to(full_disk)) for path in Path(full_disk).rglob("*") if path.is_file()]
        print("full disk:", code, *left, flush=True)
    plan.main(["--fleet", fleet, "--output", output, *RUN])


if __name__ == "__main__":
    main(*sys.argv[1:])
