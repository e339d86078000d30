"""Steps of a group, answered by Kafka's own coordinator classes (`java/ClassicGroupSteps.java` and others)."""

from __future__ import annotations

from tests.golden.vectors import Row
from tests.kafka import java_programs


def answered(rows: list[Row], class_path: str, program: str) -> list[Row]:
    """The rows with `expect` filled in by Kafka's class."""
    answers = java_programs.answers(program, rows, class_path)
    return [{**row, "expect": answer} for row, answer in zip(rows, answers, strict=True)]
