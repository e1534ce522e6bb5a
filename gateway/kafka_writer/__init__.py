"""The way into Kafka: a queue for each partition, and what became of each record."""
