"""How many members a group needs, read from figures of many numbers, and why, in a sentence.

enough      it has as many as it needs
too-few     it needs more
too-many    fewer would do
cannot      no number of members keeps up: one partition is too much for a member, or there are too few partitions
unknown     nobody knows how much a member can handle: the curve is there, and no number is needed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_assign.advice.kernel.size.candidate_counts import SAME, knee, of_no_more_use
from spark_assign.advice.kernel.size.sizing_inputs import SizingInput
from spark_assign.advice.kernel.size.sweep import LoadByMemberCount, SizingCriteria
from spark_assign.numeric.array_types import BoolArray

ENOUGH, TOO_FEW, TOO_MANY, CANNOT, UNKNOWN = "enough", "too-few", "too-many", "cannot", "unknown"

GIVEN, MEASURED = "given", "measured"

PARTITIONS, HOT_PARTITION, ASSIGNOR = "partitions", "hot-partition", "assignor"
"""What bounds how much more members help: each has one partition; one partition is more than the mean; the assignor
leaves some without any (range in each topic for itself)."""


def keeps_up(swept: LoadByMemberCount, capacity: float, terms: SizingCriteria) -> BoolArray:
    """Whether everything is read, and the most loaded member can read what it has, and the headroom beside it."""
    read = ~swept.refused & (swept.unassigned <= 0)
    return np.asarray(read & (swept.max_load_high * (1 + terms.headroom) <= capacity), bool)


def answer(case: SizingInput, swept: LoadByMemberCount, terms: SizingCriteria) -> dict[str, Any]:
    """A row of `tables.advice.SIZES` but for cluster and group_id, from the figures of one group."""
    fine = ~swept.refused
    members, most = swept.members[fine], swept.max_load[fine]
    fits = keeps_up(swept, case.capacity, terms)
    now = int(np.argmax(swept.members == case.now))
    needed = int(swept.members[np.argmax(fits)]) if fits.any() else None
    topic, partition, hot, hot_high = case.hot
    row = {
        "assignor": case.assignor,
        "members": case.now,
        "partitions": case.partitions,
        "needed": needed,
        "knee": knee(members, most),
        "no_more_use": of_no_more_use(members, most),
        "load": case.load,
        "load_high": case.load_high,
        "max_load": float(swept.max_load[now]),
        "hot_topic": topic,
        "hot_partition": partition,
        "hot_load": hot,
        "capacity": None if np.isnan(case.capacity) else case.capacity,
        "capacity_is": None if np.isnan(case.capacity) else GIVEN if case.given else MEASURED,
        "drain_seconds": _known(swept.drain_seconds[now]),
        "bound_by": _bound(case, members, most),
    }
    verdict = _verdict(case, needed)
    wanted = case.load_high * (1 + terms.headroom) / case.capacity
    row |= {"verdict": verdict, "partitions_needed": int(np.ceil(wanted)) if verdict == CANNOT else None}
    if needed is not None:
        at = int(np.argmax(swept.members == needed))
        row |= {
            "max_load_needed": float(swept.max_load[at]),
            "drain_seconds_needed": _known(swept.drain_seconds[at]),
            "moved": int(swept.moved[at]),
            "partition_seconds_paused": float(swept.paused[at]),
        }
    row["reason"] = _reason(case, row, hot_high, terms)
    return row


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _bound(case: SizingInput, members: Any, most: Any) -> str:
    if most.min() <= case.hot[2] * (1 + SAME):
        return HOT_PARTITION if members[int(np.argmin(most))] < case.partitions else PARTITIONS
    return ASSIGNOR


def _verdict(case: SizingInput, needed: int | None) -> str:
    if np.isnan(case.capacity):
        return UNKNOWN
    if needed is None:
        return CANNOT
    return ENOUGH if needed == case.now else TOO_FEW if needed > case.now else TOO_MANY


def _reason(case: SizingInput, row: Mapping[str, Any], hot_high: float, terms: SizingCriteria) -> str:
    """Why, with figures."""
    beside = f" with {terms.headroom:.0%} headroom" if terms.headroom else ""
    if row["verdict"] == UNKNOWN:
        return (
            f"Nobody knows how much a member can handle: none of them is behind. Say so (capacity). The curve bends at "
            f"{row['knee']} members; more than {row['no_more_use']} carry no less each."
        )
    limit = f"{case.capacity:,.0f} messages a second"
    key_note = "Keys then change their partition, and the order of a key's messages is lost across that moment."
    if row["verdict"] == CANNOT and hot_high * (1 + terms.headroom) > case.capacity:
        return (
            f"{row['hot_topic']}-{row['hot_partition']} alone gets {hot_high:,.0f} messages a second at its peak, and "
            f"a member handles {limit}{beside}: only faster members help, or more partitions, if these are messages of "
            f"many keys. {key_note}"
        )
    if row["verdict"] == CANNOT:
        return (
            f"Its {case.partitions} partitions are too few, or {case.assignor} spreads them too unevenly: at their "
            f"peaks {row['partitions_needed']} members would have to share {case.load_high:,.0f} messages a second "
            f"evenly. With more partitions they can. {key_note}"
        )
    what = f"With {row['needed']} members the most loaded one gets {row['max_load_needed']:,.0f} messages a second"
    why = f"{what}; at its peak{beside} that is within the {limit} that a member handles"
    if row["verdict"] == ENOUGH:
        return f"{why}."
    if row["verdict"] == TOO_MANY:
        return f"{why}. It has {case.now}."
    return f"{why}. With the {case.now} of today it gets {row['max_load']:,.0f}, which is too much at its peak."
