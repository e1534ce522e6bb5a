"""Spark plans, and its workers read and write Kafka themselves."""
