"""States and credentials on this node's disk, followed from their topics."""
