"""Who may ask the gateway."""
