"""Who sent a request, and what that one may do."""
