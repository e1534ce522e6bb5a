"""Other gateways, among which states are divided: one asks them, and they ask it."""
