"""The assignors of librdkafka (confluent-kafka, node-rdkafka, rust-rdkafka, …), one group at a time, in plain Python.

They follow librdkafka 2.15.1, and are compared with recorded results of its C code (`tests/kafka/c`) and with live
clients of 2.16.1. All releases from 2.6.1 on behave the same. Earlier releases differ in cases that aren't modeled:
up to 2.5.3, cooperative-sticky considers some heterogeneous groups balanced, or never ends; before 2.2 there are no
racks, and conflicts between owners are resolved differently.
"""
