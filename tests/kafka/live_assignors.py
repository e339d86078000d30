"""Kafka's own assignors, asked live: `java/Assignors.java` run with kafka-clients on its class path."""

from __future__ import annotations

from collections.abc import Iterable

from spark_assign.assignors.sticky.sticky_groups import DOES_NOT_CONVERGE
from tests.golden import sticky_kernel
from tests.golden.sticky_kernel import Answer
from tests.golden.vectors import Row
from tests.kafka import java_programs

PROGRAM = "Assignors"


def that_end(rows: Iterable[Row], profile: str) -> tuple[list[Row], Answer]:
    """Rows for which Kafka's sticky classes come to an end, and what the kernels answer to them."""
    requests = list(rows)
    answer = sticky_kernel.planned(requests, profile)
    endless = {case for case, error in answer.refused.items() if error == DOES_NOT_CONVERGE}
    for case in endless:
        answer.refused.pop(case)
        answer.sets.pop(case, None)
    return [row for row in requests if row["case"] not in endless], answer


def answered(rows: Iterable[Row], class_path: str, program: str = PROGRAM) -> list[Row]:
    """The rows with `expect` filled in by Kafka (or None, with `error` and `error_message`).

    `class_path` needs kafka-clients and jackson-databind; for `ServerAssignors` the group coordinator, too.
    """
    requests = list(rows)
    answers = java_programs.answers(program, requests, class_path)
    return [row | answer for row, answer in zip(requests, answers, strict=True)]
