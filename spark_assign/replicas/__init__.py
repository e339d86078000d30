"""Where partitions live: place new ones as Kafka does, and move as few as possible when brokers change."""

from spark_assign.replicas.place import Placements, place

__all__ = ["Placements", "place"]
