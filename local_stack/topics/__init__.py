"""`./headrace topics widen`: more partitions for a topic, with the order of each entity kept."""
