"""Where the event of a receipt is, and what became of its payload."""
