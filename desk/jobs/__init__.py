"""The jobs, and what an operator wants of each."""
