"""What the gateway asks Kafka: where topics end, and how many partitions they have."""
