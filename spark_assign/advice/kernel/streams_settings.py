"""Measures what other settings of classic Streams applications change, by planning each application with them.

    num.standby.replicas      the instance with the most state fails or is removed, with and without standbys
    acceptable.recovery.lag   if it is too high, an instance without state joins; if it is too low, the next rebalance

Each plan starts from the application with the setting once every task is at its final owner (`settle`), except for the
next rebalance, which starts from what members report. Then the application is followed up to the first probing
rebalance: tasks that move later do so with their state, and an application can have hundreds of such rebalances.

A task stops while an instance restores the acceptable lag, so that Kafka recommends a lag that takes "well under a
minute" (`StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG`). The proposed lag takes `_RECOVERY_SECONDS` at most.

A result row has the columns of `STREAMS_ROWS` and one of two kinds:

    streams    a setting and a value of it: the figures of its plan, or code and detail if nothing can be measured.
               One row of a setting is the current one.
    rejected   code, detail: an application that can't be planned
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import floor, log10
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pyarrow as pa

from spark_assign.advice.kernel.advice_items import Adviser, Code
from spark_assign.assignors.streams.classic_application import (
    HIGH_AVAILABILITY,
    ClassicApplication,
    ClassicMember,
    member_key,
    read_clients,
)
from spark_assign.assignors.streams.streams_partition_assignor import describe_failure
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.groups.kernel.tagged_rows import row_schema, table_of_rows
from spark_assign.streams.kernel.changelogs import Changelogs
from spark_assign.streams.kernel.classic_group_input import ClassicGroupInput, find_classic_fault
from spark_assign.streams.kernel.classic_rounds import MAX_ROUNDS, ClassicRounds, settle
from spark_assign.streams.kernel.streams_group_input import StreamsFacts, read_streams_facts

STANDBYS, RECOVERY_LAG = "num.standby.replicas", "acceptable.recovery.lag"
STREAMS_ROW, REJECTED_ROW = "streams", "rejected"
STREAMS_ROWS = row_schema(
    "cluster string, group_id string, adviser string, setting string, value int64, is_current bool, instances int64",
    "stateful_tasks int64, moved_without_state int64, unassigned_standby int64, pending_moves int64",
    "restored_bytes int64, stopped_task_seconds double, standby_bytes int64, standby_bytes_per_day double",
    "restore_seconds double",
    "code string, detail string",
)
"""Schema of the result. `instances`: number of processes. `restore_seconds`: longest time in which a task restores the
acceptable lag. `standby_bytes_per_day`: bytes that standbys read from brokers per day, once their state is restored;
null if the rates of changelogs are unknown. The other figures are those of a plan (`tables.streams.METRICS`)."""

_RECOVERY_SECONDS = 10.0
"""Longest time in which a task restores the proposed lag, well under a minute."""
_UNKNOWN_SIZES = "The sizes or end offsets of its changelogs are unknown. Add them to changelogs (job snapshot)"
_UNSTABLE = f"More than {MAX_ROUNDS} rebalances follow, so the plan has no end"

_Figures = dict[str, Any]
_Sizes = Mapping[TaskId, float]


def measure_streams_settings(fact_table: pa.Table, schema: pa.Schema, bytes_per_second: float) -> Iterator[pa.Table]:
    """Yields the rows of all classic applications of the facts; other groups have none.

    Args:
        fact_table: facts of complete groups (`streams.kernel.streams_group_input`).
        schema: columns of the result, those of `STREAMS_ROWS`.
        bytes_per_second: what an instance restores from changelogs per second.
    """
    for facts in read_streams_facts(fact_table):
        if facts.is_classic:
            key = {"cluster": facts.cluster, "group_id": facts.group_id, "adviser": str(Adviser.STREAMS)}
            yield table_of_rows([key | row for row in _measure(facts, bytes_per_second)], schema)


def _measure(facts: StreamsFacts, bytes_per_second: float) -> list[dict[str, Any]]:
    """Returns the rows of an application, without its key."""
    fault = find_classic_fault(facts)
    if fault is None and not ClassicGroupInput(facts, None).application.members:
        fault = "no-members", "The application has no members, so there is nothing to advise"
    if fault is None:
        try:
            settings = _Settings(ClassicGroupInput(facts, None).changelogs, bytes_per_second)
            return [{"kind": STREAMS_ROW, **row} for row in (*settings.standbys(), *settings.recovery_lags())]
        except Exception as error:  # one application must not affect other groups
            fault = describe_failure(error)
    return [{"kind": REJECTED_ROW, "code": fault[0], "detail": fault[1]}]


class _Settings:
    """The settings of one application, and the plans that measure them.

    Args:
        changelogs: the application, and its changelogs.
        bytes_per_second: what an instance restores per second.
    """

    def __init__(self, changelogs: Changelogs, bytes_per_second: float) -> None:
        self._application, self._rate = changelogs.application, bytes_per_second
        self._sizes, self._growth = changelogs.sizes, changelogs.growth or {}
        self._instances = len({member.process_id for member in self._application.members})

    def standbys(self) -> Iterator[_Figures]:
        """Yields a row for the current number of standbys, and one for the number to compare it with."""
        configured, highest = self._application.config.num_standby_replicas, self._instances - 1
        sizes, stateful = self._sizes, self._application.stateful
        if configured and (configured > highest or not stateful):
            possible = highest if stateful else 0
            unassigned = (configured - possible) * len(stateful)
            yield self._row(STANDBYS, configured, unassigned_standby=unassigned)
            yield self._row(STANDBYS, possible, unassigned_standby=0, is_current=False)
        elif not stateful:
            yield self._unmeasured(STANDBYS, configured, Code.NOTHING, "No task has state, so standbys have no use")
        elif not highest:
            detail = "The application has one instance, so no other one can have standbys"
            yield self._unmeasured(STANDBYS, configured, Code.NOT_POSSIBLE, detail)
        elif sizes is None or self._application.end_offsets is None:
            yield self._unmeasured(STANDBYS, configured, Code.NOT_KNOWN, _UNKNOWN_SIZES)
        else:
            plans = {value: self._lose_instance(value, sizes) for value in (configured, 0 if configured else 1)}
            if None in plans.values():
                yield self._unmeasured(STANDBYS, configured, Code.NOT_KNOWN, _UNSTABLE)
                return
            for value, figures in plans.items():
                yield self._row(STANDBYS, value, is_current=value == configured, **figures or {})

    def recovery_lags(self) -> Iterator[_Figures]:
        """Yields a row for the current acceptable lag, and one for the lag to compare it with, if any."""
        application, sizes, ends = self._application, self._sizes, self._application.end_offset_sums
        lag = application.config.acceptable_recovery_lag
        if application.assignor != HIGH_AVAILABILITY or not application.stateful:
            return
        if sizes is None or application.end_offsets is None:
            yield self._unmeasured(RECOVERY_LAG, lag, Code.NOT_KNOWN, _UNKNOWN_SIZES)
            return
        rates = {task: self._rate * ends[task] / size for task, size in sizes.items() if size > 0 and ends[task] > 0}
        limit = _round_down(_RECOVERY_SECONDS * min(rates.values(), default=0.0))
        seconds = {
            value: max((min(value, ends[task]) / rate for task, rate in rates.items()), default=0.0)
            for value in (lag, limit)
        }
        if seconds[lag] > seconds[limit]:
            plans = {value: self._add_instance(value, sizes) for value in (lag, limit)}
        elif 0 < lag < limit and self._has_lag_between(lag, limit):
            plans = {value: self._rebalance(value, sizes) for value in (lag, limit)}
        else:
            takes = f"An instance restores this lag of a task in {seconds[lag]:,.1f} s"
            detail = f"{takes}, and none reports a slightly higher lag"
            yield self._unmeasured(RECOVERY_LAG, lag, Code.NOTHING, detail)
            return
        if None in plans.values():
            yield self._unmeasured(RECOVERY_LAG, lag, Code.NOT_KNOWN, _UNSTABLE)
            return
        for value, figures in plans.items():
            columns = {"restore_seconds": seconds[value], **(figures or {})}
            yield self._row(RECOVERY_LAG, value, is_current=value == lag, **columns)

    # --- plans --------------------------------------------------------------------------------------------------------

    def _lose_instance(self, standby_replicas: int, sizes: _Sizes) -> _Figures | None:
        """Returns the figures of the loss of the instance with the most state; None if the plan isn't stable."""
        settled = self._settle(num_standby_replicas=standby_replicas)
        if settled is None:
            return None
        clients = read_clients(settled)
        state = {
            client.process_id: sum(sizes[task] for task in sorted(client.previous_active & sizes.keys()))
            for client in clients
        }
        lost = max(sorted(state), key=state.__getitem__)
        standbys = [task for client in clients for task in sorted(client.previous_standby)]
        members = [member for member in settled.members if member.process_id != lost]
        leader = min(members, key=member_key).process_id if settled.leader_process == lost else settled.leader_process
        figures = self._follow(replace(settled, members=members, leader_process=leader), sizes)
        is_known = self._growth.keys() >= settled.stateful
        writes = 86_400 * sum(self._growth[task].bytes_per_second for task in standbys) if is_known else None
        return figures | {
            "standby_bytes": round(sum(sizes[task] for task in standbys)),
            "standby_bytes_per_day": writes,
        }

    def _add_instance(self, lag: int, sizes: _Sizes) -> _Figures | None:
        """Returns the figures of an instance that joins without state; None if the plan isn't stable."""
        settled = self._settle(acceptable_recovery_lag=lag)
        if settled is None:
            return None
        name, like = "new instance", settled.members[0]
        joined = ClassicMember(name, str(uuid5(NAMESPACE_OID, name)), like.rack, like.tags)
        return self._follow(replace(settled, members=[*settled.members, joined]), sizes)

    def _rebalance(self, lag: int, sizes: _Sizes) -> _Figures:
        """Returns the figures of the next rebalance."""
        config = replace(self._application.config, acceptable_recovery_lag=lag)
        return self._follow(replace(self._application, config=config), sizes)

    def _settle(self, **config: Any) -> ClassicApplication | None:
        return settle(replace(self._application, config=replace(self._application.config, **config)))

    def _follow(self, application: ClassicApplication, sizes: _Sizes) -> _Figures:
        """Returns the figures of a rebalance and of those that follow before the first probing rebalance."""
        rounds = ClassicRounds(application, sizes, self._rate, self._growth)
        first, *_ = rounds.run(until_probing=True)
        trace = first.assignment.trace
        return {
            "moved_without_state": first.stopped,
            "pending_moves": 0 if trace is None else trace.movements,
            "restored_bytes": round(sum(restore.restored for restore in rounds.state.restores)),
            "stopped_task_seconds": rounds.state.stopped_seconds,
        }

    def _has_lag_between(self, low: int, high: int) -> bool:
        """Checks whether a process has state of a task with more than the low lag, but not more than the high one."""
        return any(low < lag <= high for client in read_clients(self._application) for lag in client.lags.values())

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, setting: str, value: int, *, is_current: bool = True, **columns: Any) -> _Figures:
        about = {"instances": self._instances, "stateful_tasks": len(self._application.stateful)}
        return {"setting": setting, "value": value, "is_current": is_current, **about, **columns}

    def _unmeasured(self, setting: str, value: int, code: Code, detail: str) -> _Figures:
        return self._row(setting, value, code=str(code), detail=f"{setting}={value}: {detail}")


def _round_down(value: float) -> int:
    """Returns a number with its first digit and zeros, at most the value."""
    unit = 10 ** max(0, floor(log10(value))) if value >= 1 else 1
    return int(value // unit) * unit
