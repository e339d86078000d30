"""Runs the parts: two lanes for those that compute, one beside them for those that wait, then each that runs alone.

What the parts need (environments) is made in the background meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.runner.parts import RUNNING_VARIABLE, Lane, Part, SetUp
from tests.runner.processes import Processes
from tests.runner.results import Test
from tests.runner.tools import NETWORK, lack
from tests.runner.verdicts import Verdict, judge

WORKERS = {Lane.COMPUTING: 3, Lane.WAITING: 1, Lane.ALONE: 1}
"""Parts side by side in each lane. Three that compute fill two cores, because each also waits for its processes; one
that waits for brokers leaves them alone."""

OFFLINE = "the package index cannot be reached"
"""What a set-up (conf/requirements/install.py) says without a network."""


class SetUpError(Exception):
    """An environment could not be made; `log` has the output of the attempt."""

    def __init__(self, reason: str, log: Path) -> None:
        super().__init__(reason)
        self.log = log


def run(
    parts: Iterable[Part], processes: Processes, results: Path, report: Callable[[Verdict], None], *, in_ci: bool
) -> None:
    """Runs the parts and reports each verdict as soon as it exists, from this thread.

    A part that can't be run gets a verdict too. If this thread is interrupted, everything that runs is ended.
    """
    wanted = list(parts)
    set_up_pool = ThreadPoolExecutor(1, "set-up")
    pools = {lane: ThreadPoolExecutor(workers, lane.value) for lane, workers in WORKERS.items()}
    try:
        set_ups = dict.fromkeys(part.set_up for part in wanted if part.set_up)
        made = {each: set_up_pool.submit(_make, each, processes, results) for each in set_ups}
        for lanes in ((Lane.COMPUTING, Lane.WAITING), (Lane.ALONE,)):
            running = {
                pools[part.lane].submit(_run_part, part, made, processes, results, in_ci): part
                for part in wanted
                if part.lane in lanes
            }
            for future in as_completed(running):
                report(_verdict(running[future], future, in_ci))
    except BaseException:
        processes.stop()
        raise
    finally:
        for pool in (set_up_pool, *pools.values()):
            pool.shutdown(wait=False, cancel_futures=True)


def _make(set_up: SetUp, processes: Processes, results: Path) -> None:
    log = results / f"{set_up.name}.set-up.log"
    ended = processes.run(set_up.command, set_up.environment, log, set_up.seconds)
    if ended.code != 0:
        how = f"not over after {ended.seconds:.0f} s" if ended.code is None else f"exit {ended.code}"
        raise SetUpError(f"set-up: {how}", log)


def _run_part(part: Part, made: dict[SetUp, Future[None]], processes: Processes, results: Path, in_ci: bool) -> Verdict:
    if part.set_up:
        # Environments are made one after the other, each with a bound; twice that, as ending them takes a moment.
        made[part.set_up].result(timeout=2 * sum(each.seconds for each in made))
    log, junit, running = (results / f"{part.name}.{suffix}" for suffix in ("log", "xml", "running"))
    command = (*part.command, "--junitxml", str(junit)) if part.places else part.command
    hanging: list[str] = []
    ended = processes.run(
        command,
        {**part.environment, RUNNING_VARIABLE: str(running)},
        log,
        part.seconds,
        lambda: hanging.extend(running.read_text(encoding="utf-8").splitlines() if running.exists() else ()),
    )
    return judge(part, ended, junit, log, in_ci=in_ci, hanging=hanging)


def _verdict(part: Part, future: Future[Verdict], in_ci: bool) -> Verdict:
    match future.exception():
        case None:
            return future.result()
        case SetUpError() as failed if not in_ci and OFFLINE in failed.log.read_text(
            encoding="utf-8", errors="replace"
        ):
            left_out = Test(part.name, "", "skipped", message=lack(NETWORK, str(failed)))
            return Verdict(part, tests=(left_out,), log=failed.log)
        case SetUpError() as failed:
            return Verdict(part, reasons=(str(failed),), log=failed.log)
        case failed:
            return Verdict(part, reasons=(f"could not be run: {type(failed).__name__}: {failed}",))
