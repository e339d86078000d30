"""Reads topics, groups, offsets and records from Kafka clusters and from the output of its tools."""
