"""Consumer groups as NumPy arrays, many at once: from facts to tagged rows.

    facts ─ faults ─ specs ─ assign ─ ownership changes ─ tagged rows

`facts` replaces names by indexes, `faults` finds groups that can't be planned, `group_specs` holds the input of the
assignors, `assign` runs each group's assignor, `ownership_changes` compares assignments with current ownership, and
`plan_groups` drives the pass and writes rows.
"""
