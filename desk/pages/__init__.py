"""The desk for people: a module for each thing that an operator sees."""
