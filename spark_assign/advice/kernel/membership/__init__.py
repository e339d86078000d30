"""Static membership, and how long a session: what a rolling restart and a crash stop in each group, played."""
