"""The past of groups replayed: every rebalance on record, by other assignors and protocols, static or not."""
