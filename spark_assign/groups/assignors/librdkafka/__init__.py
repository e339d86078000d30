"""librdkafka's assignors (confluent-kafka, node-rdkafka, rust-rdkafka, …), one group at a time, in plain Python.

They were read from librdkafka 2.15.1 and are held against it, called in C (`tests/kafka/c`), and live against 2.16.1.
From 2.6.1 on they are one line. Releases before answer otherwise in these cases, which are not modelled: until 2.5.3
cooperative-sticky takes some groups with differing subscriptions for balanced, or never ends; before 2.2 there are no
racks, and claims of two members count otherwise.
"""
