"""What is known of consumer groups, a row per fact; its `kind` says which of the columns it uses.

MEMBER   member_id, listed (how often `members` has it), asks (whether `subscriptions` names it), instances (its
         group_instance_ids), rack_id, generation_id, user_data_generation_id, position, user_data, nameless (whether
         it subscribes to null), topics: what it subscribes to, each once, with its number of partitions (null: no
         such topic)
GROUP    listed (how often `groups` has it), assignor, group_type: what it is configured with
OWNED    member_id, topic, partitions (of the topic; null: no such topic), first, step, count: a run
BLOCK    the same as a block of single partitions: block, bits, twice, count (`kernels.group.blocks`)
LEFT     as OWNED: a run that a member owned which has left
PLANNED  member_id, topic, first, step, count, assignor: a run that was laid out already
LAYOUT   topic, at (partitions), racks (those of each one's replicas)
"""

from __future__ import annotations

import pyarrow as pa

MEMBER, GROUP, OWNED, BLOCK, LEFT, PLANNED, LAYOUT = range(7)

_TEXT, _INT = pa.string(), pa.int32()

TOPICS = pa.list_(pa.struct([("topic", _TEXT), ("partitions", _INT)]))

FACTS: dict[str, pa.DataType] = {
    "cluster": _TEXT,
    "group_id": _TEXT,
    "kind": pa.int8(),
    "member_id": _TEXT,
    "topic": _TEXT,
    "assignor": _TEXT,
    "group_type": _TEXT,
    "rack_id": _TEXT,
    "instances": pa.list_(_TEXT),
    "topics": TOPICS,
    "nameless": pa.bool_(),
    "asks": pa.bool_(),
    "listed": _INT,
    "generation_id": _INT,
    "user_data_generation_id": _INT,
    "position": _INT,
    "partitions": _INT,
    "first": _INT,
    "step": _INT,
    "count": _INT,
    "block": _INT,
    "bits": pa.list_(pa.int64()),
    "twice": pa.list_(pa.int64()),
    "at": pa.list_(_INT),
    "racks": pa.list_(pa.list_(_TEXT)),
    "user_data": pa.binary(),
}
"""Every column of a fact and its type. What no fact of a fleet uses may be left out."""


def column(facts: pa.Table, name: str) -> pa.Array:
    """A column of the facts, all null where it was left out."""
    if name in facts.column_names:
        return facts[name].combine_chunks()
    return pa.nulls(len(facts), FACTS[name])
