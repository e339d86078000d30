"""What is known of consumer groups, a row per fact; its `kind` says which of the columns it uses.

MEMBER   member_id, group_instance_id, rack_id, generation_id, user_data_generation_id, position, user_data, client_id:
         a row of `members`
ASKS     member_id, topic, partitions (null: no such topic), topic_id: a row of `subscriptions`; and, where windows of
         an assignor have laid it out, the run that it gets: `<assignor>_first`, `_step`, `_count`
ALIKE    topic, topic_id, like: a topic with the same subscribers and as many partitions as `like`; where topics are
         told so, only the subscriptions to those that others are like are told of, and a topic is like itself
GROUP    assignor, group_type, subscription_type, client_library, client_version, certainty: a row of `groups`, what it
         is configured with and who leads it
OWNED    member_id, topic, partitions (of the topic; null: no such topic), first, step, count: a run
BLOCK    the same as a block of single partitions: block, bits, twice, count (`numeric.ownership_bitmaps`)
LEFT     as OWNED: a run that a member owned which has left
IN_ORDER member_id, topic, position, at: partitions of a topic in the order in which a member tells that it owns them;
         its topics come by position
LAYOUT   topic, at (partitions), racks (those of each one's replicas), leader_racks (that of its preferred leader)
INITIALIZED
         topic, first, step, count: a row of `initialized`
LOAD     topic, at (partitions), and side by side with them what goes through each, null where that is not known:
         in_rates, in_rate_stddevs, out_rates, lags, byte_rates: rows of `partition_loads` that hold for all groups
OWN_LOAD the same of rows that are of this group alone
TOPOLOGY nothing more: a row of `subtopologies`
"""

from __future__ import annotations

import pyarrow as pa

(
    MEMBER,
    SUBSCRIPTION,
    GROUP,
    OWNED_SLICE,
    OWNED_BITMAP,
    DEPARTED_SLICE,
    REPLICA_RACKS,
    DUPLICATE_TOPIC,
    OWNED_ORDER,
    SUBTOPOLOGY,
    INITIALIZED,
    LOAD,
    GROUP_LOAD,
) = range(13)

LEADER_COLUMNS = ("client_library", "client_version", "certainty")
"""What is known of a group's leader (`groups.kernel.leader_fingerprint`)."""

LOAD_COLUMNS = {
    "in_rate": "in_rates",
    "in_rate_stddev": "in_rate_stddevs",
    "out_rate": "out_rates",
    "lag": "lags",
    "bytes": "byte_rates",
}
"""Columns of `loads`, and those of a fact that have a list of each."""

LOAD_SETTINGS = ("capacity", "load_bound")
"""Columns of `groups` that say something of load."""

WINDOW_ASSIGNORS = ("range", "roundrobin")
"""Assignors whose runs windows lay out, wherever windows can say it."""

_TEXT, _INT = pa.string(), pa.int32()

FACT_TYPES: dict[str, pa.DataType] = {
    "cluster": _TEXT,
    "group_id": _TEXT,
    "kind": pa.int8(),
    "member_id": _TEXT,
    "topic": _TEXT,
    "like": _TEXT,
    "assignor": _TEXT,
    "group_type": _TEXT,
    "group_instance_id": _TEXT,
    "rack_id": _TEXT,
    "generation_id": _INT,
    "user_data_generation_id": _INT,
    "position": _INT,
    "partitions": _INT,
    "topic_id": _TEXT,
    "first": _INT,
    "step": _INT,
    "count": _INT,
    "block": _INT,
    "bits": pa.list_(pa.int64()),
    "twice": pa.list_(pa.int64()),
    "at": pa.list_(_INT),
    "racks": pa.list_(pa.list_(_TEXT)),
    "leader_racks": pa.list_(_TEXT),
    **dict.fromkeys(LOAD_COLUMNS.values(), pa.list_(pa.float64())),
    **dict.fromkeys(LOAD_SETTINGS, pa.float64()),
    "user_data": pa.binary(),
    "client_id": _TEXT,
    **dict.fromkeys(("subscription_type", *LEADER_COLUMNS), _TEXT),
    **{f"{name}_{part}": _INT for name in WINDOW_ASSIGNORS for part in ("first", "step", "count")},
}
"""Every column of a fact and its type. What no fact of a fleet uses may be left out."""


def column(facts: pa.Table, name: str) -> pa.Array:
    """A column of the facts, all null where it was left out."""
    if name in facts.column_names:
        return facts[name].combine_chunks()
    return pa.nulls(len(facts), FACT_TYPES[name])
