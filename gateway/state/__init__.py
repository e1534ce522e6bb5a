"""GET /state, also with what has not been folded yet."""
