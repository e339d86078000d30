"""Whole consumer groups, many at once: from facts to what is decided, as Arrow tables and NumPy columns.

    facts ─ told ─ faults ─ specs ─ assign ─ changes ─ decided

`indexed_facts` numbers the names, `faults` sets groups aside that cannot be planned, `specs` is what the kernels read,
`assign` finds each group's assignor and asks it, `ownership_changes` holds what is planned against what is owned,
`decided` writes rows.
"""
