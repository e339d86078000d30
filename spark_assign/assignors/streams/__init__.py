"""Kafka's assignors of Streams, one group at a time.

task_assignor_api, sticky_task_assignor     the broker's assignor (KIP-1071)
classic_application                         the leader's input and state: members, clients, tasks, and releases
streams_partition_assignor                  the leader's assignment: it runs one of the two below
high_availability_task_assignor             Kafka's default
classic_sticky_task_assignor                the former default, and the public class of KIP-924
rack_aware_task_assignor                    exchanges of tasks that save traffic between racks (KIP-925)
member_tasks                                tasks of a client to its threads
leader_releases                             which releases assign alike
"""
