"""The streaming jobs: `python -m stream_jobs NAME`, one room a job."""
