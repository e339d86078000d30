"""Streams groups without Spark, one at a time: facts to tasks, restores, rounds, and simulations."""
