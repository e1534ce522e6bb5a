"""What became of all payloads, as the keeper of the ledger last told it."""
