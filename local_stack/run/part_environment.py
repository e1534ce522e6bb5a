"""What the parts of the stack get as their environment."""

import sys
from collections.abc import Mapping
from pathlib import Path

from local_stack.machine.class_archives import ClassArchives
from local_stack.machine.downloads import Downloads, fetch_for_object_stores
from local_stack.machine.java import Java
from local_stack.machine.paths import python_path
from local_stack.servers.addresses import Addresses


def part_environment(
    settings: Mapping[str, str],
    addresses: Addresses,
    state_dir: Path,
    java: Java,
    downloads: Downloads,
) -> dict[str, str]:
    return {
        "HEADRACE_GATEWAY_HOST": "127.0.0.1",
        **settings,
        **ClassArchives(java, downloads).spark_submit_opts(settings),
        **addresses.environment(),
        "HEADRACE_STATE_DIR": str(state_dir),
        "HEADRACE_SPARK_JARS": _spark_jars(settings, java, downloads),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": python_path(settings),
    }


def _spark_jars(settings: Mapping[str, str], java: Java, downloads: Downloads) -> str:
    folders = [downloads.spark_jars]
    if settings.get("HEADRACE_CHECKPOINT_STORE"):
        folders.append(fetch_for_object_stores(java))
    return ":".join(map(str, folders))
