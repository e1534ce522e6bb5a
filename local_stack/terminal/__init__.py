"""What the launcher says, and how."""
