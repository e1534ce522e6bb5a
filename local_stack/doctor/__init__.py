"""`./headrace doctor`: everything that the stack depends on, green or with its fix."""
