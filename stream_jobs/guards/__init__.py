"""That a job is alone, on the right log, and asks no store that is away."""
