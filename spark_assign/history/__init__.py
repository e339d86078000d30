"""What `__consumer_offsets` remembers of a cluster's groups.

`records` brings whatever has the raw records into one shape (a topic, log segments, a table that somebody keeps),
`record_facts` makes facts of them batch by batch, and `history` has the tables that one pass over whole groups tells.
`fleet_as_of` makes a Fleet of any moment, `replay` asks what the past would have cost otherwise.
"""
