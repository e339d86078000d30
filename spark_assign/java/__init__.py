"""The orders of the Java runtime that Kafka's assignors depend on: hash codes, hash maps, tree bins, heaps."""
