"""Kafka's own assignors, asked live: `java/Assignors.java` run with kafka-clients on its class path."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from spark_assign.kernels.sticky.balance import ENDLESS
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import maven

PROGRAM = Path(__file__).parent / "java" / "Assignors.java"


def that_end(rows: Iterable[Row], assignor: str) -> list[Row]:
    """Rows for which Kafka's sticky classes come to an end; of the others it can only be waited for."""
    asked = list(rows)
    refused = sticky_kernel.planned(asked, assignor).refused
    return [row for row in asked if refused.get(row["case"]) != ENDLESS]


def answered(
    rows: Iterable[Row], class_path: str, program: Path = PROGRAM, *, seconds: float | None = None
) -> list[Row]:
    """The rows with `expect` filled in by Kafka (or None, with `error` and `error_message`).

    `class_path` needs kafka-clients and jackson-databind; for `ServerAssignors.java` the group coordinator, too.
    Raises RuntimeError with Java's own words if the program fails or does not answer every row, TimeoutExpired if it
    takes longer than `seconds`.
    """
    asked = list(rows)
    # Python's JSON escapes all that is not ASCII, so ids reach Java whatever the locale is.
    questions = "".join(f"{json.dumps(row)}\n" for row in asked)
    with tempfile.TemporaryFile() as standard_input:
        standard_input.write(questions.encode())
        standard_input.seek(0)
        done = subprocess.run(
            ["java", *maven.SHORT_LIVED, "-cp", class_path, str(program)],
            stdin=standard_input,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    if done.returncode != 0 or len(answers) != len(asked):
        said = done.stderr.decode(errors="replace")[-2000:]
        raise RuntimeError(f"{program.name} answered {len(answers)} of {len(asked)} groups:\n{said}")
    return [row | answer for row, answer in zip(asked, answers, strict=True)]
