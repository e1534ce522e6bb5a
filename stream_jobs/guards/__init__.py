"""That a job is alone, on the right log, asks no store that is away, and does not stand still."""
