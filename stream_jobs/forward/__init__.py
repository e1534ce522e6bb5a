"""The job forward: events and completions reach webhooks, each entity's in their order."""
