"""What the workers of one node share: counts, rate limits, one parent."""
