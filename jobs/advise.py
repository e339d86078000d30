"""Recommend changes for the whole fleet, ranked, with their gains, costs, and risks, and without contradictions.

The commands size, membership, zones, and unused compute one part of it in detail.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark_assign.cli.advice_modes import ALL, PARTS, Mode
from spark_assign.cli.job import Job, Options, job
from spark_assign.cli.job_tables import on_fleet
from spark_assign.cli.options import (
    compose_options,
    details,
    exit_codes,
    input_options,
    moved_option,
    parameter_options,
    result_options,
)
from spark_assign.cli.owners import group_filter_options


def _job(mode: Mode, about: str | None, commands: Sequence[Job] = ()) -> Job:
    """Returns the job of a mode; `commands`: those below it."""
    label, _, name = mode.command.rpartition(" ")

    def run(options: Options) -> int:
        return on_fleet("advise", options, __file__, mode.run, loads=mode.loads)

    names = [str(each.name) for each in commands]
    options = compose_options(
        *[moved_option("--only", "advise {}", names)] * bool(names),
        input_options(),
        *mode.options,
        parameter_options(mode.params),
        group_filter_options(),
        details("all figures" if label else "all advice"),
        result_options("rows in each list of the summary"),
    )
    usage = (*mode.usage, mode.arguments)
    return job(about, exit_codes(), name=name, label=label or None, usage=usage, commands=commands)(options(run))


main = _job(ALL, __doc__, [_job(mode, mode.about) for mode in PARTS])


if __name__ == "__main__":
    sys.exit(main())
