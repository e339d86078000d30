"""Recommend changes for the whole fleet, ranked, with their gains, costs, and risks, and without contradictions.

The commands compute one part in detail.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.cli.advice_modes import PARTS, Mode, all_advice
from spark_assign.cli.job import Job, job
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


def _job(mode: Mode, commands: Sequence[Job] = ()) -> Job:
    """Returns the job of a mode; `commands`: those below it."""
    names = [str(each.name) for each in commands]
    options = compose_options(
        *[moved_option("--only", "advise {}", names)] * bool(names),
        input_options(),
        *mode.options,
        parameter_options(mode.params),
        group_filter_options(),
        details("all advice" if names else "all figures"),
        result_options("rows in each list of the summary"),
    )
    name, label, about = ("advise", None, __doc__) if names else (mode.compute.__name__, "advise", mode.compute.__doc__)
    made = job(about, exit_codes(), name=name, label=label, usage=(*mode.usage, mode.arguments), commands=commands)
    return made(options(lambda given: on_fleet("advise", given, __file__, mode.run, loads=mode.loads)))


main = _job(all_advice, [_job(mode) for mode in PARTS])


if __name__ == "__main__":
    main()
