"""The job fold: events become states, also anew where they have to."""
