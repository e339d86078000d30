"""Client settings, secrets, and TLS for connections to Kafka and Kafka Connect."""
