"""Payloads on this node's disk while Kafka takes none, and their way back."""
