"""The sticky balancers of franz-go, and which parts of their results depend on an order.

franz-go numbers the topics of a group in the iteration order of a Go map, which differs each time, and returns
partitions that two members own in such an order. So two leaders can compute different assignments, and one leader, too.
The kernels here plan with one possible order, and find the partitions with the same owner in all others
(`order_dependence`).
"""
