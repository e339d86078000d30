"""Consumer groups: planned assignments, moves and their reasons, and rounds until a group is stable."""
