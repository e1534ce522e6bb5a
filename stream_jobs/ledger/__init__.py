"""The ledger: what became of every payload that was received."""
