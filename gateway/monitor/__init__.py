"""What operators see: health, metrics, the ledger's and the dead letters' numbers."""
