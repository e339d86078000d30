"""Comparisons of assignors, and of two states of a fleet.

`compare` compares assignors, under what-if changes (`what_if`). `find_drift` finds what changed between two states,
each a fleet, a plan, or a stored plan.
"""
