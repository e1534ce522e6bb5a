"""Spark's own page: off, or for this machine alone. It knows no passwords, and asks for none."""

import os


def own_page(port: int | None) -> dict[str, str]:
    if port is None:
        return {"spark.ui.enabled": "false"}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # else it listens to everybody
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.killEnabled": "false",
        "spark.sql.streaming.metricsEnabled": "true",
        # of batches without end it keeps what a person looks at
        "spark.ui.retainedJobs": "200",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "2000",
        "spark.sql.ui.retainedExecutions": "200",
        "spark.sql.streaming.ui.retainedProgressUpdates": "100",
    }
