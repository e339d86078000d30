"""What there is to size: groups, what their members can handle, and what is written to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.advice.kernel.size.sweep import SizingCriteria, high_rates
from spark_assign.groups.kernel.group_metrics import configured_value, count_subscribed_partitions, member_capacity
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import expand_slices


@dataclass(frozen=True)
class SizingInput:
    """One group and assignor.

    Attributes:
        assignor: by its name.
        now: how many members there are.
        partitions: that it subscribes to.
        capacity: what a member can handle, messages a second; `NaN`: not known.
        given: whether that is given, and not measured.
        load, load_high: of all its partitions, on average and at the quantile.
        hot: of its hottest partition the topic, the partition, and its load on average and at the quantile.
    """

    assignor: str
    now: int
    partitions: int
    capacity: float
    given: bool
    load: float
    load_high: float
    hot: tuple[str, int, float, float]


def read_cases(specs: GroupSpecs, assignor: str, groups: IntArray, terms: SizingCriteria) -> dict[int, SizingInput]:
    """By group what there is to size; each has a partition whose rate is known."""
    loads, topics = specs.loads, specs.topics
    topic, partition = expand_slices(
        np.zeros(len(topics.with_metadata), np.int64),
        np.ones(len(topics.with_metadata), np.int64),
        topics.partitions[topics.with_metadata],
    )
    topic = topics.with_metadata[topic]
    at = loads.position_of(topic, partition)
    rate, high = (np.nan_to_num(each[at]) for each in (loads.in_rate, high_rates(specs, terms)))
    group = topics.group[topic]
    load, load_high = (np.bincount(group, each, specs.num_groups) for each in (rate, high))
    hottest = np.lexsort((-np.arange(len(rate)), rate, group))  # of equals the first by topic and partition comes last
    last = hottest[np.searchsorted(group[hottest], np.arange(specs.num_groups), "right") - 1]
    now, partitions = np.bincount(specs.members.group, minlength=specs.num_groups), count_subscribed_partitions(specs)
    capacity, given = member_capacity(specs), ~np.isnan(configured_value(specs, "capacity"))
    return {
        each: SizingInput(
            assignor=assignor,
            now=int(now[each]),
            partitions=int(partitions[each]),
            capacity=float(capacity[each]),
            given=bool(given[each]),
            load=float(load[each]),
            load_high=float(load_high[each]),
            hot=(
                specs.topic[int(topic[last[each]])].as_py(),
                int(partition[last[each]]),
                float(rate[last[each]]),
                float(high[last[each]]),
            ),
        )
        for each in groups.tolist()
    }
