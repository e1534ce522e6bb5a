"""The desk's pages, and who may come in."""
