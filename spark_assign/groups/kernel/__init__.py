"""Consumer groups as NumPy arrays, many at once: from facts to tagged rows.

    facts ─ faults ─ specs ─ assign ─ ownership changes ─ tagged rows

`facts` replaces names by indexes and finds groups that can't be planned, `group_specs` holds the input of assignors,
`ownership_changes` compares assignments with current ownership, and `plan_groups` drives the pass, runs each group's
assignor, and writes rows.
"""
