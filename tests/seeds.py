"""One seed for a whole test run; every test derives its own seed from it.

`SPARK_ASSIGN_SEED=<seed>` repeats a run. Without it a fresh seed is drawn and put into the environment, so that every
process of the run (workers, child processes) uses the same one.
"""

from __future__ import annotations

import hashlib
import os
import random

VARIABLE = "SPARK_ASSIGN_SEED"


def run_seed() -> int:
    """Returns the seed of this run, at most 2**32 - 1 (the range of PYTHONHASHSEED)."""
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = str(random.SystemRandom().randrange(2**32))
    return int(os.environ[VARIABLE])


def seed_for(name: str) -> int:
    """Returns the seed that a test, or a fixture that tests share, derives from the run's seed by its name."""
    return int.from_bytes(hashlib.sha256(f"{run_seed()} {name}".encode()).digest()[:4])


def repeat() -> str:
    """Returns the setting that repeats this run, to print with a failure."""
    return f"{VARIABLE}={run_seed()}"
