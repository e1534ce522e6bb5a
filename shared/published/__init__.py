"""What others may rely on: schemas, rights in Kafka, dead letters, the ledger."""
