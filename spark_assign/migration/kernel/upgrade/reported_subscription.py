"""What a member tells the leader when it joins again, by its release: what it owns, in which generation, and its rack.

    generation   sticky: in its user data. Cooperative-sticky: nowhere up to 2.8.0, in its user data up to 3.3, in the
                 subscription from 3.4 on (where it then is with every assignor)
    rack         from 3.5 on (KIP-881)
    owned        sticky remembers what it was assigned as sticky; cooperative-sticky reads the subscription, where an
                 eager member (one whose list has an eager assignor, too) has nothing, as it has given up everything
    in order     sticky: topic after topic as a `HashMap` has them, of each what was kept first, then what is new

A member that has just restarted tells none of this but its rack.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.release_rules import (
    CLIENT_ASSIGNORS,
    LATEST_RULES,
    ReleaseRules,
    parse_release_assignor,
)
from spark_assign.groups.assignors.sticky.retained_partitions import hash_owned_order, sort_by_owned_order
from spark_assign.java.key_index import KeyIndex
from spark_assign.migration.kernel.upgrade.group_membership import Assignors
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices

COOPERATIVE = "cooperative-sticky"

SETTLED = 1
"""The generation that is over: all that a group remembers is of one."""


def rules_of(release: str) -> ReleaseRules:
    """What the assignors of a release do."""
    found = parse_release_assignor(f"{CLIENT_ASSIGNORS[-1]}@{release}")
    return LATEST_RULES if found is None else found[1]


def profile_rules(name: str) -> tuple[str, object]:
    """What tells two profiles apart: range knows racks or not, round robin is as ever."""
    elected, _, release = name.partition("@")
    rules = rules_of(release)
    return elected, {"roundrobin": None, "range": rules.uses_racks}.get(elected, rules)


def is_eager(assignors: Assignors) -> bool:
    """Whether a member gives up everything before it joins: it has an assignor that knows nothing else."""
    return any(name != COOPERATIVE for name in assignors)


def generation_told(release: str, elected: str) -> tuple[int, int]:
    """The generation in the subscription, and in the user data, of a member that was there in the last one; -1: none.

    Args:
        release: of the member.
        elected: the assignor by which the last generation was assigned.
    """
    rules = rules_of(release)
    in_subscription = -1 if rules.generation_in_user_data else SETTLED
    if elected == COOPERATIVE:
        return in_subscription, -1 if rules.ignores_generations else SETTLED
    return in_subscription, SETTLED if elected == "sticky" else -1


def tells_owned(elected: str, remembered: str, assignors: Assignors) -> bool:
    """Whether the leader hears what a member owns.

    Args:
        elected: the assignor that is asked.
        remembered: the assignor that gave the member what it has.
        assignors: its list.
    """
    if elected == COOPERATIVE:
        return not is_eager(assignors)
    return elected != "sticky" or remembered == "sticky"


def order_after(before: PartitionSlices, given: PartitionSlices, topic_hash: IntArray, members: int) -> PartitionSlices:
    """Single partitions in the order in which sticky's members will tell that they own them.

    Args:
        before: the same of the generation before.
        given: what everybody has now.
        topic_hash: of each topic its `String.hashCode`.
        members: how many.
    """
    rows = sort_by_owned_order(given.expand(), hash_owned_order(given, EMPTY_SLICES, topic_hash, members))
    if not len(rows):
        return rows
    topics = np.append(0, np.cumsum((np.diff(rows.member) != 0) | (np.diff(rows.topic) != 0)))
    keys = KeyIndex(before.partition_keys)
    one = keys.lookup(before.partition_keys) * members + before.member
    other = keys.lookup(rows.partition_keys) * members + rows.member
    other[keys.lookup(rows.partition_keys) < 0] = -1
    order = np.argsort(one, kind="stable")
    at = np.minimum(np.searchsorted(one[order], other), max(len(one) - 1, 0))
    kept = one[order][at] == other if len(one) else np.zeros(len(rows), bool)
    place = np.where(kept, order[at] if len(one) else 0, len(one) + np.arange(len(rows)))
    return rows.take(np.lexsort((place, topics)))
