"""How Kafka Connect shares connectors and tasks among the workers of one Connect cluster.

Principle: a rebalance is a function of what is configured, of what each worker reports that it runs, and of what the
leader remembers of the round before. Names are numbers here (`connector_task_ids`), so that sets of them are cheap;
`indexed_facts` turns the tables of many Connect clusters into such rounds and back.

Example: worker A runs [c0, c0-0, c0-1] and worker B joins. `eager` deals everything anew; `incremental` first takes
c0-0 from A, and gives it to B in the round after, once A has stopped it.

    items            connectors and tasks as whole numbers whose order is Kafka's
    orders, wire     in which order Java walks over workers, and a worker lists what it runs
    memory           what the leader remembers
    round            one rebalance: what it is told, and what comes out
    loads            what each worker has, and how new items are spread over them
    eager            Kafka's `EagerAssignor`
    incremental      Kafka's `IncrementalCooperativeAssignor` of Kafka 4.x, with lost, balance and backoff
    incremental_2_6  the same of Kafka 2.6.2 to 3.2
    indexed_facts, faults    the facts of many clusters, and what can be wrong with them
    rounds, answers  from facts to rounds, and from results to one row per cluster
    simulation       one cluster played through time, with costs; plays: many of them
"""
