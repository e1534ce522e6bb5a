"""The process: where all rooms are put together, and its connections are read."""
