"""Kafka and PostgreSQL as the launcher runs them, or finds them; a Spark cluster, and several
gateways behind a balancer."""
