"""The job persist: events and states become rows, with their completions."""
