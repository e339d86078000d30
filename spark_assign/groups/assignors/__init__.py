"""The assignors of Kafka, of other client libraries, and of users, as pure kernels over groups."""
