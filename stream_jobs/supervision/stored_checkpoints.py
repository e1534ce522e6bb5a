"""What Spark is told where the checkpoints are in an object store."""

from stream_jobs.guards.checkpoint_folder import endpoint, region


def stored_checkpoints() -> dict[str, str]:
    """The settings of stored checkpoints. Spark itself takes care of the keys: it gives executors
    those that the driver has in its environment."""
    config = {
        # a store that is away is asked for about as long as a lease lasts: then the job says so
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
        "spark.hadoop.fs.s3a.retry.limit": "3",
        "spark.hadoop.fs.s3a.connection.timeout": "20s",
    }
    if its := region():
        config["spark.hadoop.fs.s3a.endpoint.region"] = its
    if server := endpoint():
        config |= {
            "spark.hadoop.fs.s3a.endpoint": server,
            "spark.hadoop.fs.s3a.endpoint.region": region() or "us-east-1",
            # its buckets have no names of their own in DNS
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
    return config
