"""Drivers: the only modules that construct clients of Kafka and of PostgreSQL."""
