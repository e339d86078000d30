"""Runs other jobs as steps of a job, of which a later call repeats only those that failed, or that read their results.

Each step writes its outcome (`cli.job`) to a file of its name. It is valid if the step succeeded, and started after
the steps that it needs had ended. Hence a killed job can be called again, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from spark_assign.cli.job import WRONG_INPUT
from spark_assign.cli.process import STOPS
from spark_assign.report.formatting import record_listed
from spark_assign.stores.locations import one_folder
from spark_assign.tables.errors import SparkAssignError
from spark_assign.tables.stored_plan import has_only_connect

StepOutcome = Mapping[str, Any]
"""Content of an outcome file."""
_MAX_BYTES = 64 << 20


class FailedStepError(Exception):
    """Raised for a required step that failed although its input isn't wrong."""


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        job: the job that it runs.
        words: arguments of the job.
        needs: names of the steps with a result that it reads.
        required: whether its failure ends the job.
        name: name, if it isn't that of the job.
        skipped: why the step has nothing to do, and doesn't run; empty if it runs.
    """

    job: str
    words: Sequence[str]
    needs: Sequence[str] = ()
    required: bool = False
    name: str = ""
    skipped: str = ""

    @property
    def key(self) -> str:
        """Returns the name of the step."""
        return self.name or self.job


def failed(outcome: StepOutcome) -> bool:
    """Checks whether a step has failed. Exit code 1 reports findings, and isn't a failure."""
    return outcome["exit_code"] not in (0, 1)


def has_result(outcomes: Mapping[str, StepOutcome], step: str) -> bool:
    """Checks whether a step has run and hasn't failed."""
    return step in outcomes and not failed(outcomes[step]) and not outcomes[step].get("skipped")


def why_skipped(plan: StepOutcome) -> str:
    """Returns why steps about groups have nothing to do after the step plan; empty if it has planned groups."""
    return "only Connect clusters were planned" if has_only_connect(plan.get("rows") or {}) else ""


def without_result(outcomes: Mapping[str, StepOutcome]) -> list[str]:
    """Returns a sentence for each step that failed or was skipped."""
    return [
        f"The step {name} {problem(outcome)}" if failed(outcome) else f"The step {name} was skipped: {why}."
        for name, outcome in outcomes.items()
        if (why := outcome.get("skipped")) or failed(outcome)
    ]


def problem(outcome: StepOutcome) -> str:
    """Returns how a step failed: `ended with exit code 3: not read: shop-eu.`"""
    message = (outcome["error"] or {"message": ""})["message"].rstrip(".")
    return f"ended with exit code {outcome['exit_code']}{f': {message}' if message else ''}."


def run_steps(
    batches: Iterable[Sequence[Step]],
    folder: Path,
    parallel: int,
    run: Callable[[Step, Sequence[str]], int],
    outcomes: dict[str, StepOutcome],
) -> None:
    """Runs steps unless they have a valid outcome.

    Args:
        batches: the steps in order; those of one batch run at the same time.
        folder: folder of the outcome files.
        parallel: maximum number of steps at the same time.
        run: runs a step's job, with further arguments, and returns its exit code.
        outcomes: gets the outcome of each step, by name.

    Raises:
        SparkAssignError: the input of a required step is wrong.
        FailedStepError: a required step failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with record_listed(), _thread_pool(parallel) as pool:  # what the steps list isn't printed
        for steps in batches:
            outcome = partial(_outcome, folder, outcomes, run)
            ended = pool.map(outcome, steps) if len(steps) > 1 else map(outcome, steps)
            outcomes |= {step.key: each for step, each in zip(steps, list(ended), strict=True)}
            for step in steps:
                if step.required and failed(outcomes[step.key]):
                    kind = SparkAssignError if outcomes[step.key]["exit_code"] == WRONG_INPUT else FailedStepError
                    raise kind(f"{step.key} {problem(outcomes[step.key])} The previous page is unchanged.")


@contextmanager
def _thread_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Returns a thread pool, which doesn't wait for its threads after a signal (`cli.process.leave`)."""
    pool, waits = ThreadPoolExecutor(threads), False
    try:
        yield pool
        waits = True
    except Exception:
        waits = True
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=not waits)


def _outcome(
    folder: Path, earlier: Mapping[str, StepOutcome], run: Callable[[Step, Sequence[str]], int], step: Step
) -> StepOutcome:
    """Returns the stored outcome of a step if it is valid; otherwise runs the step."""
    if step.skipped:
        print(f"{step.key} is skipped: {step.skipped}", flush=True)
        return {"exit_code": 0, "started_at": "", "finished_at": "", "error": None, "skipped": step.skipped}
    file = folder / f"{one_folder(step.key, safe=' ')}.json"
    needed = max((earlier[name]["finished_at"] for name in step.needs if name in earlier), default="")
    stored = _read(file)
    if stored and not failed(stored) and needed <= stored["started_at"]:
        print(f"{step.key} has already ended with exit code {stored['exit_code']}", flush=True)
        return stored
    print(f"{step.job} {' '.join(step.words)}", flush=True)
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise SparkAssignError(f"{file} can't be replaced: {error.strerror}. Remove it.") from error
    started = datetime.now(UTC).isoformat()
    exit_code = run(step, ["--outcome", str(file)])
    if exit_code in STOPS:  # the signal was for all steps
        raise STOPS[exit_code][0]
    return _read(file) or {"exit_code": exit_code, "started_at": started, "finished_at": "", "error": None}


def _read(file: Path) -> StepOutcome | None:
    """Returns the content of an outcome file; None if it isn't complete."""
    with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
        if not file.is_file() or file.stat().st_size > _MAX_BYTES:  # a pipe would be read forever
            return None
        outcome: StepOutcome = json.loads(file.read_text(encoding="utf-8"))
        times = [datetime.fromisoformat(outcome[name]) for name in ("started_at", "finished_at")]
        message, code = (outcome["error"] or {"message": ""})["message"], outcome["exit_code"]
        is_complete = isinstance(message, str) and isinstance(code, int) and all(each.tzinfo for each in times)
        return outcome if is_complete else None
    return None
