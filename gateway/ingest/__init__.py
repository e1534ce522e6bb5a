"""A POST's way from its body to the log, and the answer to it."""
