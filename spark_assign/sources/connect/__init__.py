"""Reads Kafka Connect clusters through the REST API and the group of their workers."""
