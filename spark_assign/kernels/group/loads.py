"""What goes through the partitions of groups: messages in and out a second, lag, bytes.

A partition's load is the rate at which messages are written to it. All sums are added up in the order of topics and
partitions, so that they are the same, to the last bit, whatever else is in a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_assign.kernels.arrays import Flags, Floats, Ints
from spark_assign.kernels.group.facts import GROUP, LOAD, OWN_LOAD, RATES
from spark_assign.kernels.group.names import Places
from spark_assign.kernels.group.names import numbers as numbers_of
from spark_assign.kernels.runs import Runs
from spark_assign.kernels.segments import expand_runs

if TYPE_CHECKING:
    from spark_assign.kernels.group.sheet import Sheet, Topics
    from spark_assign.kernels.group.told import Told

BEHIND_S = 10
"""A member that is more than so many seconds of its own reading behind does not wait for messages: it reads as fast as
it can."""

LOAD_FIGURES = {
    **dict.fromkeys(("load", "max_load_per_member", "load_max_over_mean"), pa.float64()),
    "load_unknown": pa.int64(),
    "drain_seconds": pa.float64(),
}
"""Columns of `load_figures`."""

REMEDIES = {
    "bad-load": "Rates and lags are numbers from 0, or null where they are not known",
    "duplicate-load": "Keep one row per partition, and one more per group that reads it",
}


@dataclass(frozen=True)
class Loads:
    """What is known of each partition of each topic of a `Sheet`; `NaN` where that is nothing.

    Attributes:
        begin: of each topic the place of its first partition in the columns below.
        in_rate, in_rate_stddev: messages a second that are written; the standard deviation of that.
        out_rate, lag: messages a second that the group reads; messages that it is behind.
        bytes: bytes a second that are written.
        faults: of groups with rows that cannot be believed code and detail.
        known: of each group whether the rate of any partition that it subscribes to is known.
    """

    begin: Ints
    in_rate: Floats
    in_rate_stddev: Floats
    out_rate: Floats
    lag: Floats
    bytes: Floats
    faults: Mapping[int, tuple[str, str]]
    known: Flags

    def of(self, topic: Ints, partition: Ints) -> Ints:
        """Where partitions stand in the columns."""
        return self.begin[topic] + partition


def read_loads(told: Told, of_told: Ints, topics: Topics) -> Loads:
    """The facts of kinds LOAD and OWN_LOAD, of which the latter, a group's own, come first where they say something."""
    sizes = np.maximum(topics.partitions, 0)
    begin = np.cumsum(sizes) - sizes
    columns = {name: np.full(int(sizes.sum()), np.nan) for name in RATES}
    faults: dict[int, tuple[str, str]] = {}
    for kind in (LOAD, OWN_LOAD):
        rows, topic = _rows(told, kind, of_told, topics)
        lengths = numbers_of(told.column("at", rows).value_lengths(), 0)
        topic = np.repeat(topic, lengths)
        partition = np.asarray(told.column("at", rows).flatten().to_numpy(zero_copy_only=False), np.int64)
        values = {
            name: np.asarray(told.column(list_of, rows).flatten().to_numpy(zero_copy_only=False), np.float64)
            for name, list_of in RATES.items()
        }
        for group, code, row in _faults(topic, partition, values, told, topics):
            faults.setdefault(group, (code, f"{row}. {REMEDIES[code]}"))
        inside = (partition >= 0) & (partition < sizes[topic])
        at = begin[topic[inside]] + partition[inside]
        for name, of_each in values.items():
            known = ~np.isnan(of_each[inside])
            columns[name][at[known]] = of_each[inside][known]
    some = np.zeros(len(of_told), bool)
    told_of = np.repeat(topics.asked, sizes) & ~np.isnan(columns["in_rate"])
    some[np.repeat(topics.group, sizes)[told_of]] = True
    return Loads(begin=begin, **columns, faults=faults, known=some)


def _rows(told: Told, kind: int, of_told: Ints, topics: Topics) -> tuple[Ints, Ints]:
    """Rows of that kind which tell of topics of the sheet, and the topic of each."""
    number = np.full(told.number, -1, np.int64)
    number[of_told] = np.arange(len(of_told))
    size = max(len(told.topics), 1)
    rows = told.rows[kind]
    rows = rows[(number[told.group[rows]] >= 0) & (told.topic[rows] >= 0)]
    topic = Places(topics.group * size + topics.name).of(number[told.group[rows]] * size + told.topic[rows])
    return rows[topic >= 0], topic[topic >= 0]


def _faults(
    topic: Ints, partition: Ints, values: Mapping[str, Floats], told: Told, topics: Topics
) -> Iterator[tuple[int, str, str]]:
    """Group, code and row of what cannot be believed, the first of each group by topic and partition."""
    order = np.lexsort((partition, topic))
    same = np.append(False, (np.diff(topic[order]) == 0) & (np.diff(partition[order]) == 0))[: len(order)]
    wrong = {name: (each < 0) | np.isinf(each) for name, each in values.items()} | {"partition": partition < 0}
    any_wrong = np.logical_or.reduce(list(wrong.values()))
    for at in order[any_wrong[order]].tolist():
        name = next(name for name, flags in wrong.items() if flags[at])
        value = partition[at] if name == "partition" else values[name][at]
        yield int(topics.group[topic[at]]), "bad-load", f"{_row(at, topic, partition, told, topics)}, {name}={value}"
    for at in order[same].tolist():
        yield int(topics.group[topic[at]]), "duplicate-load", _row(at, topic, partition, told, topics)


def _row(at: int, topic: Ints, partition: Ints, told: Told, topics: Topics) -> str:
    name = told.topics[int(topics.name[topic[at]])].as_py()
    return f"loads: topic={name}, partition={partition[at]}"


def rates_of_runs(loads: Loads, topics: Topics, topic: Ints, first: Ints, step: Ints, count: Ints) -> pa.Array:
    """Of each run a list of its partitions' in_rates; null where one is not known, or is no partition of the topic."""
    row, partition = expand_runs(first, step, count)
    there = partition < topics.partitions[topic[row]]
    rate = np.full(len(row), np.nan)
    rate[there] = loads.in_rate[loads.of(topic[row[there]], partition[there])]
    ends = np.append(0, np.cumsum(count))
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(rate, mask=np.isnan(rate)))


@dataclass(frozen=True)
class Carried:
    """What the members of a sheet's groups carry of some runs, each its own."""

    sheet: Sheet
    runs: Runs

    @cached_property
    def _each(self) -> tuple[Ints, Ints]:
        """Member, and place in the columns of `Loads`, of each partition, in an order that nothing else changes."""
        rows = self.runs.rows()
        rows = rows.where(rows.first < self.sheet.topics.partitions[rows.topic])
        order = np.lexsort((rows.first, rows.topic, rows.member))
        return rows.member[order], self.sheet.loads.of(rows.topic[order], rows.first[order])

    def sums(self, values: Floats) -> Floats:
        """Of each member its values added up, those that are not known left out."""
        member, at = self._each
        return np.bincount(member, np.nan_to_num(values[at]), len(self.sheet.members)).astype(np.float64)

    def known(self, values: Floats) -> Ints:
        """Of each member the number of its partitions with a known value."""
        member, at = self._each
        return np.bincount(member[~np.isnan(values[at])], minlength=len(self.sheet.members))

    def partitions(self) -> Ints:
        """Of each member the number of its partitions."""
        return np.bincount(self._each[0], minlength=len(self.sheet.members))


def by_group(sheet: Sheet, of_member: Floats | Ints) -> Floats:
    """Of each group what its members have, added up."""
    return np.bincount(sheet.members.group, of_member, sheet.number).astype(np.float64)


def largest(sheet: Sheet, of_member: Floats) -> Floats:
    """Of each group the most that a member has; `NaN` is nothing, and where all are, `NaN` is the answer."""
    most = np.full(sheet.number, np.nan)
    np.fmax.at(most, sheet.members.group, of_member)
    return most


def given_number(sheet: Sheet, name: str) -> Floats:
    """Of each group a number that `groups` gives: capacity, load_bound; `NaN` where it gives none."""
    rows = sheet.told.rows[GROUP]
    number = np.full(sheet.told.number, np.nan)
    number[sheet.told.group[rows]] = sheet.told.column(name, rows).to_numpy(zero_copy_only=False)
    return number[sheet.of_told]


def capacities(sheet: Sheet) -> Floats:
    """Of each group the messages a second that one member can handle; `NaN` where nothing tells.

    That is what `groups.capacity` says. Else it is what the fastest of those members reads that are behind, as only
    they do not wait for messages.
    """
    loads, owned = sheet.loads, Carried(sheet, sheet.claims)
    out_rate, lag = owned.sums(loads.out_rate), owned.sums(loads.lag)
    busy = (out_rate > 0) & (lag > BEHIND_S * out_rate)
    given = given_number(sheet, "capacity")
    return np.where(np.isnan(given), largest(sheet, np.where(busy, out_rate, np.nan)), given)


def drain_seconds(lag: Floats, in_rate: Floats, capacity: Floats) -> Floats:
    """How long members take until they have read what they are behind, each with that capacity.

    Infinite where as much is written as a member can read, or more; `NaN` where the capacity is not known.
    """
    spare = capacity - in_rate
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(spare > 0, lag / spare, np.where((lag > 0) | (spare < 0), np.inf, 0.0))
    return np.where(np.isnan(capacity), np.nan, seconds)


def load_figures(sheet: Sheet, given: Runs) -> dict[str, pa.Array]:
    """Of each group how evenly load is spread over its members; columns and units: `schemas.METRICS`."""
    loads, carried = sheet.loads, Carried(sheet, given)
    load = carried.sums(loads.in_rate)
    known = by_group(sheet, carried.known(loads.in_rate))
    total, most = by_group(sheet, load), largest(sheet, load)
    mean = total / np.maximum(np.bincount(sheet.members.group, minlength=sheet.number), 1)
    drain = drain_seconds(carried.sums(loads.lag), load, capacities(sheet)[sheet.members.group])
    lags = by_group(sheet, carried.known(loads.lag))
    slowest = largest(sheet, drain)
    silent = (known == 0) | np.isin(np.arange(sheet.number), list(loads.faults))
    uneven = np.divide(most, mean, out=np.zeros(sheet.number), where=total > 0)
    unknown = by_group(sheet, carried.partitions()) - known
    return {
        "load": pa.array(total, mask=silent),
        "max_load_per_member": pa.array(most, mask=silent),
        "load_max_over_mean": pa.array(uneven, mask=silent | (total <= 0)),
        "load_unknown": pa.array(unknown.astype(np.int64), mask=silent),
        "drain_seconds": pa.array(slowest, mask=silent | np.isnan(slowest) | (lags == 0)),
    }
