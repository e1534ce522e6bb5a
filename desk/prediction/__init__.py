"""What would become of a payload or of events, as the jobs' own pure functions say."""
