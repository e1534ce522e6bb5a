"""Kafka's records, topics, offsets and groups, as the jobs see them."""
