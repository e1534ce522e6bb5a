"""The job aggregate: states of members add up to one of their group."""
