"""Webhooks: added, changed and looked at, for the terminal and for programs."""
