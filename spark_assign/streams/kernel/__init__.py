"""Streams groups (KIP-1071), whose tasks the broker assigns: whole groups in plain Python."""
