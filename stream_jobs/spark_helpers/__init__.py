"""Forks the Python processes that Spark's planner asks for, on the driver's machine."""
