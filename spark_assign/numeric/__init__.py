"""Array tools that know nothing of Kafka: slices of partitions, rows by key, progressions, rates. NumPy only."""
