"""Replays every recorded rebalance with other assignors and protocols, static or dynamic members."""
