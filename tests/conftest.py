"""What every test starts with."""

import atexit
import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

from tests.servers import (
    another_kafka,
    connection,
    empty_kafka,
    job_settings,
    migrated,
    parts,
    postgres_url,
    spark_environment,
)

__all__ = [  # fixtures
    "another_kafka",
    "connection",
    "empty_kafka",
    "job_settings",
    "migrated",
    "parts",
    "postgres_url",
    "spark_environment",
]

# a busy machine is no finding
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# a JVM of Spark's lives here for seconds: what it compiled for a long life, nobody would use
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ[name] = (
        f"{os.environ.get(name, '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC".strip()
    )

# no test leaves anything in the checkout's own state folder, which `./headrace up` works on
os.environ["HEADRACE_STATE_DIR"] = tempfile.mkdtemp(prefix="headrace-tests-")
atexit.register(shutil.rmtree, os.environ["HEADRACE_STATE_DIR"], ignore_errors=True)
