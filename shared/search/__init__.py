"""States as documents of a search index: rows, mappings, documents. Pure."""
