"""Checks and tests of the project itself."""
