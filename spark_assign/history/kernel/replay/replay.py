"""Replays every recorded rebalance of a task's groups with other assignors and protocols, static or dynamic members.

All tables are one table of tagged rows (`history.schemas.REPLAY_ROWS`), whose `kind` is the name of the table
(`tables.history.REPLAY_TABLES`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_assign.groups.kernel.client_settings import find_refusals
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.history.kernel.facts import merge_buckets
from spark_assign.history.kernel.replay.rebalance_cost import GenerationCost, baseline_costs, measure_rounds
from spark_assign.history.kernel.replay.recorded_history import (
    ASSIGNORS,
    RESTARTED,
    RecordedHistory,
    RejectedHistory,
    ReplayVariant,
    read_histories,
)
from spark_assign.history.kernel.replay.replay_group import ReplayError, replay_group
from spark_assign.history.kernel.replay.replay_steps import replay_steps
from spark_assign.history.kernel.replay.reproduce_recorded import check_reproduced, client_libraries
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import solve_requests

SUMMARY, REBALANCES, REJECTED = ("replay_summary", "replay_rebalances", "replay_rejected")

GROUP_BATCH_SIZE = 50
"""Number of groups that are replayed together. It bounds the memory of a worker."""


@dataclass(frozen=True)
class ReplayParams:
    """The frozen arguments of a replay.

    Attributes:
        assignors: names of assignors.
        static: whether all members are static: True, False, or both.
        timing: the timing configuration of groups, for what is not on record.
        thresholds: the thresholds of the history.
    """

    assignors: tuple[str, ...] = ASSIGNORS
    static: tuple[bool, ...] = (False, True)
    timing: TimingConfig = field(default_factory=TimingConfig)
    thresholds: HistoryThresholds = field(default_factory=HistoryThresholds)


def replay_buckets(rows: pa.Table, params: ReplayParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of the groups of a task.

    Args:
        rows: BUCKETS (`history.kernel.facts`); all rows of each bucket that occurs.
        params: the arguments of the replay.
        schema: the schema of the result, REPLAY_ROWS.
    """
    for facts in merge_buckets(rows, params.thresholds.commit_gap_ms):
        yield from replay_histories(read_histories(facts, params.thresholds), params, schema)


def replay_histories(
    histories: Iterable[RecordedHistory | RejectedHistory], params: ReplayParams, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the rows of groups."""
    iterator = iter(histories)
    while batch := list(islice(iterator, GROUP_BATCH_SIZE)):
        groups = [_GroupReplay(history, params) for history in batch if isinstance(history, RecordedHistory)]
        rejected = [asdict(history) for history in batch if isinstance(history, RejectedHistory)]
        _run_in_lockstep([run for group in groups for run in group.runs.values()])
        reproduced = check_reproduced([group.history for group in groups])
        for group, results in zip(groups, reproduced, strict=True):
            group.reproduced = results
        yield tagged_rows(SUMMARY, [row for group in groups for row in group.summary_rows()], schema)
        yield tagged_rows(REBALANCES, [row for group in groups for row in group.rebalance_rows()], schema)
        errors = (row for group in groups for row in group.error_rows())
        yield tagged_rows(REJECTED, [*rejected, *errors], schema)


# --- runs ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ReplayRun:
    """A running replay of one group in one variant.

    Attributes:
        generator: the replay.
        request: its pending assignment request; None if it has ended.
        costs: its result; None before its end.
        error: why it failed; None if it didn't.
    """

    generator: Generator[Any, Any, list[GenerationCost]]
    request: Any = None
    costs: list[GenerationCost] | None = None
    error: str | None = None

    def resume(self, response: Any) -> None:
        """Resumes the replay with a response and runs it to its next request."""
        try:
            self.request = self.generator.send(response)
        except StopIteration as end:
            self.request, self.costs = None, end.value
        except ReplayError as error:
            self.request, self.error = None, str(error)


def _run_in_lockstep(runs: Sequence[_ReplayRun]) -> None:
    """Runs replays side by side: the pending requests of all of them are solved together."""
    for run in runs:
        run.resume(None)
    while running := [run for run in runs if run.request is not None]:
        for run, response in zip(running, solve_requests([run.request for run in running]), strict=True):
            run.resume(response)


class _GroupReplay:
    """One group: its history, its replays, and its rows.

    Attributes:
        current: the variant that was in use most.
        baseline: the costs as recorded.
        reproduced: why the assignor in use doesn't reproduce a generation, by its index; None if it does.
        runs: the replays of all other variants.
    """

    def __init__(self, history: RecordedHistory, params: ReplayParams) -> None:
        self.history = history
        self._group_key = {"cluster": history.cluster, "group_id": history.group_id}
        durations = measure_rounds(history, params.timing)
        self.current = ReplayVariant(history.assignor, history.static)
        self.baseline = baseline_costs(history, durations)
        self.reproduced: Mapping[int, str | None] = {}
        steps = {
            static: replay_steps(history, static=static, session_ms=params.timing.session_timeout_ms)
            for static in params.static
        }
        self.runs = {
            variant: _ReplayRun(replay_group(history, variant, steps[static], durations))
            for assignor in params.assignors
            for static in params.static
            if (variant := ReplayVariant(assignor, static)) != self.current
        }

    def _costs_by_variant(self) -> Iterator[tuple[ReplayVariant, list[GenerationCost]]]:
        yield self.current, self.baseline
        for variant, run in self.runs.items():
            if run.costs is not None:
                yield variant, run.costs

    def summary_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of the group per variant."""
        baseline_ms, clients = _sum_paused_ms(self.baseline), client_libraries(self.history)
        for variant, costs in self._costs_by_variant():
            is_baseline = variant is self.current
            paused_partition_ms = _sum_paused_ms(costs)
            yield self._group_key | {
                "assignor": variant.assignor,
                "protocol": variant.protocol,
                "static": variant.static,
                "recorded": is_baseline,
                "rebalances": sum(cost.rebalances for cost in costs),
                "num_replayed": self._count_rebalances() - (len(self._find_differences()) if is_baseline else 0),
                "moved": sum(cost.moved for cost in costs),
                "paused_partition_ms": paused_partition_ms,
                "saved_ms": None if is_baseline else baseline_ms - paused_partition_ms,
                "note": self._format_note(is_baseline=is_baseline),
                "client_libraries": clients,
                "refusal": None if is_baseline else find_refusals(clients, variant.assignor, is_static=variant.static),
            }

    def _count_rebalances(self) -> int:
        return sum(cost.rebalances for cost in self.baseline)

    def _find_differences(self) -> list[tuple[int, str]]:
        """Returns index and reason of each generation that is not reproduced."""
        return [(index, reason) for index, reason in sorted(self.reproduced.items()) if index and reason is not None]

    def _format_note(self, *, is_baseline: bool) -> str:
        """Returns what a reader should know about the row: what is not on record, and what isn't reproduced."""
        generations = self.history.generations
        missing = sum(generation.missing for generation in generations)
        notes = [f"{missing} generations in between are not on record"] if missing else []
        if is_baseline:
            differences = self._find_differences()
            if differences:
                index, reason = differences[0]
                first = f"generation {generations[index].generation_id}"
                count = f"{len(differences)} of {self._count_rebalances()} rebalances"
                notes.append(f"its assignor doesn't reproduce {count}, first {first}: {reason}")
            assignors = {generation.assignor for generation in generations if generation.assignor}
            if len(assignors) > 1:
                notes.append(f"assignors on record: {', '.join(sorted(assignors))}")
        return "; ".join(notes)

    def rebalance_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per rebalance and variant."""
        generations = self.history.generations
        for variant, costs in self._costs_by_variant():
            constants = self._group_key | {"assignor": variant.assignor, "static": variant.static}
            for generation, cost in zip(generations[1:], costs[1:], strict=True):
                if generation.generation_kind != RESTARTED or cost.rebalances or cost.paused_partition_ms:
                    yield constants | {
                        "generation_id": generation.generation_id,
                        "time": generation.at_ms * 1000,
                        "occurs": cost.rebalances > 0,
                        "moved": cost.moved,
                        "revoked": cost.revoked,
                        "paused_partition_ms": round(cost.paused_partition_ms),
                    }

    def error_rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row per variant in which the assignor throws."""
        for variant, run in self.runs.items():
            if run.error is not None:
                membership = "static" if variant.static else "dynamic"
                yield self._group_key | {"code": "kafka-fails", "detail": f"{run.error} ({membership} members)"}


def _sum_paused_ms(costs: Iterable[GenerationCost]) -> int:
    return sum(round(cost.paused_partition_ms) for cost in costs)
