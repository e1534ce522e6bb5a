"""GET /v1/events: events of the log as server-sent events, for those who have no Kafka client."""
