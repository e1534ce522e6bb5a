"""Kafka's records, topics, offsets and groups."""
