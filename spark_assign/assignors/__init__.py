"""Assignors of all protocols, as pure kernels: Kafka's, those of other client libraries, and those of users.

Consumer groups, many at once. `group_facts` replaces names by indexes and finds groups that can't be planned;
`group_specs` holds what each assignor gets and returns:

    range, roundrobin, sticky/    Kafka's assignors of clients
    server/                       the broker's assignors range and uniform (KIP-848)
    librdkafka/, franz_go/        the assignors of these libraries
    weighted/                     our own, by load
    custom                        assignors of users, one group at a time
    release_rules                 which releases of a library assign alike

Other groups, one at a time:

    share/      share groups (KIP-932): `SimpleAssignor`
    streams/    Streams: the broker's sticky assignor (KIP-1071), and the assignors of the classic protocol
    connect/    connectors and tasks of Connect
"""

from spark_assign.assignors.custom import GroupAssignor, GroupSpec, MemberSubscription

__all__ = ["GroupAssignor", "GroupSpec", "MemberSubscription"]
