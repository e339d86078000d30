"""Consumer groups as NumPy arrays, many at once: from facts to tagged rows.

    facts ─ faults ─ specs ─ assign ─ ownership changes ─ tagged rows

`assignors.group_facts` has facts and faults, and `assignors.group_specs` the specs. `ownership_changes` compares
assignments with current ownership. `plan_groups` drives the pass: it runs each group's assignor, and writes rows.
"""
