"""Kafka Connect's assignors: which worker of a Connect cluster runs which connectors and tasks.

A rebalance is a function of the configuration, of the workers' reports, and of the leader's state from the previous
rebalance. Connectors, tasks, and workers are integers here.

Example: worker A runs [c0, c0-0, c0-1] and worker B joins. `eager_assignor` assigns everything again;
`incremental_cooperative_assignor` first revokes c0-0 from A, and assigns it to B in the next rebalance.

    connectors_and_tasks                  connectors and tasks as integers, and Java's and the protocol's orders of them
    rebalance_input                       input, result, and leader's state of one rebalance
    eager_assignor                        Kafka's `EagerAssignor`
    incremental_cooperative_assignor      Kafka's `IncrementalCooperativeAssignor` of Kafka 4.x
    incremental_cooperative_assignor_2_6  Kafka's `IncrementalCooperativeAssignor` of Kafka 2.6.2 to 3.2
    release_rules                         which releases and protocols assign alike
"""
