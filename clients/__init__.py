"""Clients of Kafka and of PostgreSQL, for the gateway, the jobs, the desk and the launcher."""
