"""Moving groups to the consumer protocol, to another client release, or from eager to cooperative rebalancing."""
