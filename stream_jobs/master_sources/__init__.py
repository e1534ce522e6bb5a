"""Rows of master data that stores of the user's hold: read, checked, and kept with all others."""
