"""What operators do with a stack, whatever runs it."""
