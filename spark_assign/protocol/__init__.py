"""The group protocol in time."""

from spark_assign.protocol.replay import replay

__all__ = ["replay"]
