"""How records go through the flow right now: where they are, and who is behind."""
