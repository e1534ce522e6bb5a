"""Kafka and PostgreSQL as the launcher runs them, or finds them."""
