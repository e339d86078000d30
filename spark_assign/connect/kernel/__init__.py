"""Connect clusters without Spark (`assignors.connect` has the assignors).

indexed_facts, faults    the facts of many clusters as arrays, and their faults
plan_clusters            facts to rebalances, and results to tagged rows
simulated_cluster        events, rebalances, and costs of one cluster
simulate_clusters        facts to simulations
"""
