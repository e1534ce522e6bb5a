"""Runs the queries of a process, and restarts what may go on."""
