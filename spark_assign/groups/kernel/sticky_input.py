"""The groups of specs as the sticky assignors read them: of which generation claims are, and in what order told.

Sticky is eager: its members have given up all before they join, and tell what they owned, and in which generation, in
the assignor's user data. Cooperative-sticky reads the subscription, which tells what is owned by topic and partition;
its generation came with 3.4, until then it was in the user data, and until 2.8.0 nowhere.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch
from spark_assign.groups.assignors.sticky.sticky_types import StickyGroups
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.owned_order import read_owned_order
from spark_assign.java.hash_map import string_hashes
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


def sticky_batch(specs: GroupSpecs, *, cooperative: bool, rules: ReleaseRules = LATEST_RULES) -> StickyBatch:
    """The groups of specs; topics are numbered as in `Topics.known`.

    Args:
        specs: the groups.
        cooperative: whether it is cooperative-sticky, which withholds what changes hands.
        rules: of which release.
    """
    members, topics, known = specs.members, specs.topics, specs.topics.with_metadata
    claims, is_known = _known(specs, specs.owned)
    nameless = topics.is_subscribed & (topics.partitions <= 0)
    in_order = rules.keeps_as_told and not cooperative
    hashed = rules.tells_by_hash and cooperative
    return StickyBatch(
        groups=StickyGroups(
            members.group,
            members.hash_order,
            topics.group[known],
            topics.partitions[known],
            cooperative,
            members.treeified,
        ),
        claimed_in=_claimed_in(specs, cooperative, rules),
        generation=members.generation,
        claims=claims,
        topic_class=topics.subscriber_set[known],
        topic_hash=string_hashes(specs.facts.topic_names.to_pylist())[topics.name[known]],
        other_classes=list(zip(topics.group[nameless].tolist(), topics.subscriber_set[nameless].tolist(), strict=True)),
        classes=dict(enumerate(specs.subscriber_sets)),
        rack=members.rack,
        rack_sets=specs.rack_sets,
        rack_set={at: specs.rack_set[topic] for at, topic in enumerate(known.tolist()) if topic in specs.rack_set},
        told=_known(specs, read_owned_order(specs))[0] if in_order else EMPTY_SLICES,
        gone=specs.owned.take(~is_known) if rules.general_only or hashed else EMPTY_SLICES,
        rules=rules,
    )


def _known(specs: GroupSpecs, runs: PartitionSlices) -> tuple[PartitionSlices, IntArray]:
    """Those of topics with metadata, in their numbers; and which they are."""
    known = specs.topics.with_metadata
    topic = np.searchsorted(known, runs.topic)
    here = np.append(known, -1)[topic] == runs.topic
    return PartitionSlices(runs.member, topic, *runs.columns[2:]).take(here), here


def _claimed_in(specs: GroupSpecs, cooperative: bool, rules: ReleaseRules) -> IntArray:
    """Of each member the generation that its claims are of; -1 for none."""
    members = specs.members
    if cooperative and rules.blind_to_generations:
        return np.full(len(members), -1, np.int64)
    if not cooperative or rules.generation_in_user_data:
        return np.where(members.has_user_data, members.user_data_generation, members.generation)
    return np.where(members.generation >= 0, members.generation, members.user_data_generation)
