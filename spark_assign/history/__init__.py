"""The past of a cluster's groups, according to the records in `__consumer_offsets`.

`records` brings raw records from any source (a topic, log segments, a stored table) into one schema and reduces them to
facts, batch by batch. `history` has the tables that one pass over complete groups builds. `fleet_as_of` builds the
fleet as of a past time, and `replay` computes what past rebalances would have cost in other variants.
"""
