"""Everything Headrace needs on one machine: Kafka, PostgreSQL, the gateway and the jobs."""
