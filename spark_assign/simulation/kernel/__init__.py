"""The group protocol without Spark: coordinator, members, leader, and what they cost."""
