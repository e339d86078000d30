"""How many consumers each group needs."""
