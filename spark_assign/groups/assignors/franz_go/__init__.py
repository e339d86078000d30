"""The sticky balancers of franz-go (1.22), and what of their answers is sure.

franz-go numbers the topics of a group by walking a Go map, which Go walks in another order each time; and in such an
order it gives partitions back that two members claim. So two leaders may answer otherwise, and one leader twice. The
kernels here plan by one order of many, and say which partitions have the same owner in every other one
(`order_dependence`).
"""
