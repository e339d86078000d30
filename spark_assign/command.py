"""What the jobs share as commands: how they end, what they log, and words of their command lines.

Jobs are run as plain files and as a package of the wheel; what they share stands here, where both find it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence

from spark_assign.errors import ConfigError, SparkAssignError, reason

WRONG_INPUT, FAILURE = 2, 3
"""Exit codes. 0 and 1 are a job's own: it is done, and what `--fail-on` names was not found or was."""


def run_job(
    job: str,
    run: Callable[[], int],
    *,
    verbose: bool,
    wrong: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
) -> int:
    """Run a job; what goes wrong becomes a line on standard error and an exit code.

    Args:
        job: its name, with which its lines begin.
        run: the job; gives its exit code.
        verbose: whether a traceback follows the line.
        wrong: errors that say what is wrong with what the job was given; every other one is a failure.
        progress: whether the package tells in lines what it has done; what takes long is shown in any case.

    Returns:
        the exit code of the job, else 2 for wrong input and 3 for a failure.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("spark_assign.progress").setLevel(logging.INFO)
    if progress:
        logging.getLogger("spark_assign").setLevel(logging.INFO)
    log = logging.getLogger(f"spark_assign.{job}")
    try:
        return run()
    except tuple(wrong) as error:
        log.error("%s: %s", job, error, exc_info=verbose)
        return WRONG_INPUT
    except Exception as error:
        kind, why = type(error).__name__, reason(error)
        log.error("%s failed: %s: %s (more with --verbose)", job, kind, why, exc_info=verbose)
        return FAILURE


def pairs(flag: str, given: Sequence[str] | None) -> dict[str, str] | None:
    """NAME=VALUE words of a flag as a dict, null where the flag is not given.

    Raises:
        ConfigError: a word has no `=`.
    """
    for word in given or []:
        if "=" not in word:
            raise ConfigError(f"{flag} {word}: expected NAME=VALUE")
    return None if given is None else {word.partition("=")[0]: word.partition("=")[2] for word in given}
