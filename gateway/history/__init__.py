"""What states were, and which events made them so: /state at a version or time, /history, /why."""
