"""Classic groups on their way to another release of Kafka's clients: who leads, by whose rules, and what that moves."""
