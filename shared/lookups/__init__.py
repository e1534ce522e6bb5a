"""What an enrichment may ask of a service by HTTP: its row, its rules, and answers for tests."""

from shared.lookups.http_lookup import HttpLookup

__all__ = ["HttpLookup"]
