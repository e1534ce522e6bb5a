"""Traces of payloads, from the POST's span on: told to a collector from what the topics have."""
