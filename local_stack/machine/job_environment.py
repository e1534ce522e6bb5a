"""What `up` gives the jobs: Java, Spark's jars, and this Python for Spark's workers."""

import sys

from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java


def job_environment() -> dict[str, str]:
    java = find_java()
    return {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "HEADRACE_SPARK_JARS": str(fetch_downloads(java).spark_jars),
    }
