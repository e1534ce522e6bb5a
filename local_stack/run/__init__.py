"""The stack while it runs: started, watched, asked and ended."""
