"""Two lanes take the parts one after the other; what they need is made in the background meanwhile.

A Spark test waits for planning and compiling more than for cores, so that two lanes side by side fill two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.runner.parts import Part, SetUp
from tests.runner.processes import Processes
from tests.runner.verdicts import Verdict, judge

LANES = 2


class SetUpError(Exception):
    """An environment could not be made; `log` says why."""

    def __init__(self, why: str, log: Path) -> None:
        super().__init__(why)
        self.log = log


def run(
    parts: Iterable[Part],
    processes: Processes,
    results: Path,
    tell: Callable[[Verdict], None],
    *,
    in_ci: bool,
    lanes: int = LANES,
) -> None:
    """Run the parts and `tell` each verdict as soon as it is there, from this thread.

    Whatever goes wrong in a lane is a verdict too. If this thread is interrupted, all that runs is ended.
    """
    wanted = list(parts)
    with ThreadPoolExecutor(1, "set-up") as maker, ThreadPoolExecutor(lanes, "lane") as pool:
        try:
            set_ups = dict.fromkeys(part.set_up for part in wanted if part.set_up)
            making = {each: maker.submit(_make, each, processes, results) for each in set_ups}
            taken = {pool.submit(_take, part, making, processes, results, in_ci): part for part in wanted}
            for future in as_completed(taken):
                tell(_verdict(taken[future], future))
        except BaseException:
            processes.stop()
            maker.shutdown(wait=False, cancel_futures=True)
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _make(set_up: SetUp, processes: Processes, results: Path) -> None:
    log = results / f"{set_up.name}.set-up.log"
    ended = processes.run(set_up.command, set_up.environment, log, set_up.seconds)
    if ended.code != 0:
        how = f"not over after {ended.seconds:.0f} s" if ended.code is None else f"exit {ended.code}"
        raise SetUpError(f"set-up: {how}", log)


def _take(part: Part, making: dict[SetUp, Future[None]], processes: Processes, results: Path, in_ci: bool) -> Verdict:
    if part.set_up:
        # One after the other, each with a bound: so is the wait for the last. Twice, as ending them takes a moment.
        making[part.set_up].result(timeout=2 * sum(each.seconds for each in making))
    log, junit = results / f"{part.name}.log", results / f"{part.name}.xml"
    command = (*part.command, "--junitxml", str(junit)) if part.places else part.command
    ended = processes.run(command, part.environment, log, part.seconds)
    return judge(part, ended, junit, log, in_ci=in_ci)


def _verdict(part: Part, future: Future[Verdict]) -> Verdict:
    match future.exception():
        case None:
            return future.result()
        case SetUpError() as failed:
            return Verdict(part.name, reasons=(str(failed),), log=failed.log)
        case failed:
            return Verdict(part.name, reasons=(f"could not be run: {type(failed).__name__}: {failed}",))
