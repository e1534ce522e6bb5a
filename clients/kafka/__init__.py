"""Kafka's records, topics, offsets and groups, as clients see them."""
