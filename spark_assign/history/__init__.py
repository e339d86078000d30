"""The past of a cluster's groups, according to the records in `__consumer_offsets`.

`records` brings raw records from any place (a topic, log segments, a stored table) into one schema, `record_facts`
reduces them to facts batch by batch, and `history` has the tables that one pass over complete groups builds.
`fleet_as_of` builds the Fleet of any moment, and `replay` computes what past rebalances would have cost in other
variants.
"""
