"""Migrations of groups: to the consumer protocol, to another client release, and from eager to cooperative
rebalancing.
"""
