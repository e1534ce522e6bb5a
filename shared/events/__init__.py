"""The records of the topics: how an event is written and read."""
