"""What is told of the past of groups: one table of tagged rows, of which every table of the history is a projection."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_assign.history.kernel.commit_intervals import LISTS

KINDS = (
    "group",
    "rebalance",
    "membership",
    "subscribed",
    "owned",
    "commits",
    "pause",
    "deploy",
    "unread",
    "rejected",
)
GROUP, REBALANCE, MEMBERSHIP, SUBSCRIBED, OWNED, COMMITS, PAUSE, DEPLOY, UNREAD, REJECTED = KINDS

_TEXT, _LONG, _INT, _TIME = pa.string(), pa.int64(), pa.int32(), pa.timestamp("us", tz="UTC")
_MILLIS = pa.timestamp("ms", tz="UTC")
_AGAIN = {
    "partition": _INT,
    **dict.fromkeys(("since_ms", "first_offset", "commits", "until_ms", "last_offset"), _LONG),
    "rate": pa.float64(),
    **dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), _LONG),
}
COMMITTED = {"once": LISTS["once"], "again": pa.list_(pa.struct(_AGAIN))}
"""What is committed of partitions: once and never deleted, and all others. There are more of these than of all else
that is told, so they come as lists, a row for each topic and column, and with as few numbers as will do."""

TOLD = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind"), _TEXT),
        **dict.fromkeys(("group_type", "protocol_type", "assignor", "state", "leader", "why", "what"), _TEXT),
        **dict.fromkeys(("member_id", "group_instance_id", "client_id", "client_host", "rack_id"), _TEXT),
        **dict.fromkeys(("came", "went", "certainty", "topic", "role", "code", "detail"), _TEXT),
        **dict.fromkeys(("since", "until", "at", "settled", "timestamp"), _TIME),
        **dict.fromkeys(("generation", "first_generation", "last_generation"), _INT),
        **dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), _INT),
        **dict.fromkeys(("members", "members_before", "members_after"), _LONG),
        **dict.fromkeys(("joined", "left", "crashed", "restarted", "missing"), _LONG),
        **dict.fromkeys(("records", "rebalances", "most_in_a_day", "deploys", "crashes"), _LONG),
        **dict.fromkeys(("partitions", "moved", "stopped_ms", "longest_ms"), _LONG),
        **dict.fromkeys(("partition", "first", "step", "count"), _INT),
        "offset": _LONG,
        **COMMITTED,
        "flapping": pa.bool_(),
        **dict.fromkeys(("key", "value"), pa.binary()),
    }
)


def table_of(columns: Mapping[str, pa.Array], rows: int) -> pa.Table:
    """Rows that have some columns, as TOLD; what is no column of it is left out. Times are given in milliseconds."""
    return pa.table([_column(field, columns.get(field.name), rows) for field in TOLD], schema=TOLD)


def _column(field: pa.Field, given: pa.Array | None, rows: int) -> pa.Array:
    if given is None:
        return pa.nulls(rows, field.type)
    if pa.types.is_timestamp(field.type):
        return given.cast(_MILLIS).cast(field.type)
    return given.cast(field.type)
