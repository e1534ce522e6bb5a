"""The views of the flow: how far they are, and their rows, out of the gateway's copy."""
