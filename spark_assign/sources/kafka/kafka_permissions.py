"""Where a permission is missing: what is said about it.

Kafka leaves out of its lists what the user may not describe, without an error. Whether groups are missing from the list
is known all the same: with DESCRIBE on the cluster every group is listed (KafkaApis.handleListGroupsRequest), and
DescribeCluster tells whether the user has that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeClusterRequest

from spark_assign.sources.kafka.kafka_connection import ClusterConnection

_SHOWN = 5

NO_SIZES = "bytes are not known of what these brokers lead"


def missing(connection: ClusterConnection) -> str | None:
    """What is said where the user may not describe the cluster; None if he may, or the brokers are before 2.8."""
    try:
        connection.newest(DescribeClusterRequest)
    except errors.IncompatibleBrokerVersion:
        return None
    answer = connection.ask_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
    if answer.error_code == 0 and answer.authorized_operations:
        return None
    return (
        "no permission DESCRIBE on the cluster: groups that this user may not describe are missing without a trace. "
        "Grant DESCRIBE on the cluster"
    )


def unseen(topics: Collection[str]) -> str:
    """What is said about topics that groups own, and that are not among those shown to the user."""
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    some = ", ".join(sorted(topics)[:_SHOWN]) + more
    return (
        f"topics that groups own are not shown to this user, and plans will lack them: {some}. "
        "Grant DESCRIBE on topics (or they are just deleted)"
    )


def fault(error: Exception) -> str:
    """An error of one group, and the permission that it lacks if that is what it says."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return f"{text}. Grant DESCRIBE on this group"
    return text


def no_sizes(answer: Any) -> str | None:
    """Why a broker does not tell the sizes of its logs; None if it does.

    Without DESCRIBE on the cluster brokers before 3.2 (DescribeLogDirs v3) answer with no folder and no error.
    """
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {answer}"
    code = getattr(answer, "error_code", 0) or 0
    if code == errors.ClusterAuthorizationFailedError.errno or (not code and not answer.results):
        return "no permission DESCRIBE on the cluster. Grant DESCRIBE on the cluster"
    return errors.for_code(code).__name__ if code else None
