"""`./headrace demo`: a simulated fleet, and an account of what became of all that it sent."""
