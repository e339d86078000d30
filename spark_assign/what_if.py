"""Named changes of a fleet, by the name under which scripts import them; they are made in `comparison.what_if`."""

from spark_assign.comparison.what_if import AS_IS, Change, members_joined, members_left, partitions_added, read_change

__all__ = ["AS_IS", "Change", "members_joined", "members_left", "partitions_added", "read_change"]
