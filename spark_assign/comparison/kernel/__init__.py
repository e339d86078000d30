"""Comparison of assignors and of two states of a fleet, as pure functions over whole groups."""
