"""The job forward: events, completions and states reach webhooks, each entity's in their order."""
