"""States of a fleet held against each other.

`compare` asks several assignors, under changes that `what_if` names and `fleet_changes` makes. `drift` says what has
changed between two states (`drift_inputs`) that were there or were planned. `migrate` says what becomes of classic
groups that go over to the broker's protocol.
"""
