"""Webhooks: what a hook asks for, the request that it gets, and what its answer means."""
